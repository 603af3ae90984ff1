"""What all tests share: one torch thread each, and the reference folder if there is one."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from command_line import Answer, Call

ROOT = Path(__file__).resolve().parents[1]


def pytest_configure() -> None:
    """One thread, read by torch when it is first imported: two workers share two cores."""
    os.environ["OMP_NUM_THREADS"] = "1"


@pytest.fixture(scope="session")
def shared() -> Path:
    """Folder of reference data (golden numbers, corpora): $HMT_SHARED or ../shared."""
    folder = Path(os.environ.get("HMT_SHARED", ROOT.parent / "shared"))
    if not folder.is_dir():
        pytest.skip(f"no reference folder at {folder}; name one with HMT_SHARED")
    return folder


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with toy text, prepared data and a trained run, made by the commands themselves."""
    from command_line import build

    folder = tmp_path_factory.mktemp("world")
    build(folder)
    return folder


@pytest.fixture
def hmt(world: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> "Call":
    """Runs a command inside the world."""
    from command_line import call

    monkeypatch.chdir(world)

    def run(*arguments: str, given: str | bytes = "") -> "Answer":
        stdin = given if isinstance(given, bytes) else given.encode()
        return call(list(arguments), capfd, monkeypatch, stdin)

    return run
