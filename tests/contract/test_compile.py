"""A compiled run computes what a plain one does."""

import shutil
from pathlib import Path

import pytest
from training_runs import DIMS, log, prepare_toy, recipe

from hmt.training import train


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # the compiler raises warnings of its own while it traces
@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs a C++ compiler")
def test_a_compiled_run_has_the_losses_of_a_plain_one(tmp_path: Path) -> None:
    """Batches differ in shape, so that layers compiled for the first one alone would not do."""
    data = prepare_toy(tmp_path)
    # without dropout: compiled code draws its random numbers in another order
    dims = {**DIMS, "dropout": 0.0}
    model = {"system": "hmt", "config": {"lower": [1, 3], "states": 3, "dims": dims}}
    settings = {"updates": 4, "log_every": 1, "validate_every": 4}
    for name, is_compiled in (("plain", False), ("compiled", True)):
        train(recipe(data, tmp_path / name, model=model, compile=is_compiled, **settings))
    for kind in ("train", "valid"):
        plain, compiled = (log(tmp_path / name, kind) for name in ("plain", "compiled"))
        losses = [row["loss"] for row in compiled]
        assert losses == pytest.approx([row["loss"] for row in plain], rel=1e-4)
