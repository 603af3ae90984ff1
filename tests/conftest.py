"""What all tests share: one torch thread each, and the reference folder if there is one."""

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def pytest_configure() -> None:
    """Set one thread before torch starts: two workers share two cores."""
    os.environ["OMP_NUM_THREADS"] = "1"


@pytest.fixture(autouse=True, scope="session")
def _one_torch_thread() -> None:
    import torch

    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def shared() -> Path:
    """Folder of reference data (golden numbers, corpora): $HMT_SHARED or ../shared."""
    folder = Path(os.environ.get("HMT_SHARED", ROOT.parent / "shared"))
    if not folder.is_dir():
        pytest.skip(f"no reference folder at {folder}; name one with HMT_SHARED")
    return folder
