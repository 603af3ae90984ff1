"""A small world for tests of the command line: text, prepared data, a trained run, its averages."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from hmt import toy
from hmt.cli import run

RECIPE = """\
output = "run"
data.directory = "data"
model.system = "hmt"
model.config.lower = [1, 3]
model.config.states = 4
model.config.dims = {width = 16, ffn = 16, heads = 2, encoder_layers = 1, decoder_layers = 1, \
share_embeddings = false}

[training]
updates = 6
batch_tokens = 400
warmup = 2
save_every = 2
validate_every = 6
validation_sentences = 5
"""
TEXT = ["--source", "train.source", "--target", "train.target"]
VALID = ["--valid-source", "valid.source", "--valid-target", "valid.target"]
TEST = ["--source", "test.source", "--target", "test.target"]
WORDS = ["--vocabulary", "words", "--min-count", "1"]


@dataclass(frozen=True)
class Answer:
    """How a command ended."""

    code: int
    out: str
    err: str


Call = Callable[..., Answer]


def build(folder: Path) -> None:
    """Make the world by the commands themselves."""
    for name, count, seed in (("train", 300, 1), ("valid", 20, 2), ("test", 6, 3)):
        toy.write(folder, name, count, seed)
    (folder / "recipe.toml").write_text(RECIPE)
    with contextlib.chdir(folder):
        assert run(["prepare", *TEXT, *VALID, "--output", "data", *WORDS]) == 0
        assert run(["train", "recipe.toml"]) == 0


def contents(folder: Path) -> dict[str, Any]:
    """All files below a folder, locks excepted, with what changes if one is touched."""
    files = (p for p in sorted(folder.rglob("*")) if p.is_file() and p.name != "lock")
    return {str(p.relative_to(folder)): (p.stat().st_size, p.stat().st_mtime_ns) for p in files}


def call(
    arguments: list[str],
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    given: bytes = b"",
) -> Answer:
    """Run a command in this process, with `given` on its standard input."""
    reading, writing = os.pipe()
    # the pipe holds what tests give; a larger input would block here
    assert len(given) < 60_000
    os.write(writing, given)
    os.close(writing)
    capfd.readouterr()
    with os.fdopen(reading) as stdin, monkeypatch.context() as patch:
        patch.setattr(sys, "stdin", stdin)
        code = run(arguments)
    out, err = capfd.readouterr()
    return Answer(code, out, err)


def start(arguments: list[str], **options: Any) -> "subprocess.Popen[bytes]":
    """Start a command in a process of its own."""
    command = [sys.executable, "-m", "hmt", *arguments]
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    return subprocess.Popen(command, **{**pipes, **options})
