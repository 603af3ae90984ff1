"""Tiny runs for the tests of training; a module of its own because child processes import it."""

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

from hmt import toy
from hmt.text.prepare import Prepare, prepare
from hmt.training import Recipe, parse_recipe

DIMS = {"width": 16, "ffn": 32, "heads": 2, "encoder_layers": 1, "decoder_layers": 1}
MODEL: dict[str, Any] = {
    "system": "hmt",
    "config": {"lower": [1, 3], "states": 3, "dims": {**DIMS, "share_embeddings": False}},
}
TRAINING = {
    "updates": 24,
    "batch_tokens": 120,
    "warmup": 10,
    "learning_rate": 5e-3,
    "weight_decay": 1e-4,
    "save_every": 4,
    "keep": 3,
    "average_last": 3,
    "log_every": 3,
    "threads": 1,
}


def prepare_toy(folder: Path) -> Path:
    """A prepared directory of the invented language."""
    train = toy.write(folder / "text", "train", 120, 1)
    valid = toy.write(folder / "text", "valid", 20, 2)
    prepare(Prepare(*train, *valid, folder / "data", vocabulary="words", min_count=1))
    return folder / "data"


def recipe(
    data: Path, output: Path, *, model: Any = None, stage: Any = None, **training: Any
) -> Recipe:
    """The tiny recipe with some settings changed."""
    table = {
        "output": str(output),
        "seed": 5,
        "data": {"directory": str(data)},
        "model": model or MODEL,
        "training": {**TRAINING, **training},
    }
    return parse_recipe({**table, "stage": stage} if stage else table)


def log(output: Path, kind: str = "train") -> list[dict[str, Any]]:
    """Records of one kind from a run's log."""
    records = [json.loads(line) for line in (output / "log.jsonl").read_text().splitlines()]
    return [record for record in records if record["kind"] == kind]


def run(recipe: Recipe, pause: float = 0.0) -> None:
    """Train in a child process, resting after each update; exits as the command line would."""
    from hmt.training import train

    result = train(recipe, report=lambda progress: time.sleep(pause))
    os._exit(128 + result.signal if result.signal else 0)


def run_and_die(recipe: Recipe, moment: int, when: str) -> None:
    """Train, and be killed before or after the n-th file is put in its place."""
    from hmt.training import checkpoint

    count = 0
    real = Path.replace

    def replace(self: Path, target: Any) -> Path:
        nonlocal count
        count += 1
        if count == moment and when == "torn":
            half = self.read_bytes()[:40]
            self.unlink()  # it may be a link to a finished file
            self.write_bytes(half)
        if count == moment and when != "after":
            os.kill(os.getpid(), signal.SIGKILL)
        done = real(self, target)
        if count == moment:
            os.kill(os.getpid(), signal.SIGKILL)
        return done

    checkpoint.Path.replace = replace  # type: ignore[method-assign, assignment]
    run(recipe)
