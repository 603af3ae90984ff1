"""The log of a run: one aligned line per interval, and the same figures as JSON lines."""

import json
import logging
import math
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hmt.errors import UserError
from hmt.files import append, open_own, write_atomically

LOG = "log.jsonl"

logger = logging.getLogger("hmt.training")


class Journal:
    """Writes log.jsonl, TensorBoard if requested, and readable log lines."""

    def __init__(self, directory: Path, step: int, *, tensorboard: bool):
        self.path = directory / LOG
        self.file = open_own(self.path, os.O_APPEND)
        try:
            _forget_after(self.path, self.file, step)
            # the file may have been replaced
            os.close(self.file)
            self.file = open_own(self.path, os.O_APPEND)
            board = directory / "training" / "tensorboard"
            self.board = _open_board(board, step) if tensorboard else None
        except BaseException:
            os.close(self.file)
            raise

    def close(self) -> None:
        os.close(self.file)
        if self.board is not None:
            self.board.close()

    def write(self, kind: str, step: int, figures: Mapping[str, Any]) -> None:
        """Write the figures of one step as "train" or "valid"."""
        record = {"kind": kind, "step": step, **figures}
        append(self.file, json.dumps(_plain(record)), self.path)
        for name, value in figures.items():
            if self.board is not None and isinstance(value, int | float):
                self.board.add_scalar(f"{kind}/{name}", value, step)


def _plain(record: Any) -> Any:
    """Replace non-finite numbers by None: JSON has no infinity."""
    return {
        key: None if isinstance(value, float) and not math.isfinite(value) else value
        for key, value in record.items()
    }


def _forget_after(path: Path, file: int, step: int) -> None:
    """Remove what a killed run logged after the step that it is resumed from.

    A line that cannot be parsed is kept, unless it is among those removed.
    """
    with os.fdopen(os.dup(file), "rb") as content:
        content.seek(0)
        lines = content.readlines()
    kept, is_beyond = [], False
    for number, line in enumerate(lines, 1):
        made = _step_of(line)
        is_torn = number == len(lines) and not line.endswith(b"\n")
        if made is None and (is_beyond or is_torn):
            continue
        if made is not None and made > step:
            is_beyond = True
            continue
        kept.append(line + b"\n" if is_torn else line)
    if kept != lines:
        write_atomically(path, b"".join(kept))


def _step_of(line: bytes) -> int | None:
    """The step of a line, if it can be read."""
    try:
        step = json.loads(line)["step"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return step if type(step) is int else None


def _open_board(directory: Path, step: int) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise UserError(
            "training.tensorboard = true needs the extra: pip install 'hmt[tensorboard]'."
        ) from None
    return SummaryWriter(str(directory), purge_step=step + 1)


class Clock:
    """Speed of the updates alone, and remaining wall-clock time."""

    def __init__(self) -> None:
        self.start = time.monotonic()
        self.updates = 0
        self.busy = 0.0  # seconds spent in updates since the last lap
        self.began = self.start

    def begin(self) -> None:
        self.began = time.monotonic()

    def end(self) -> None:
        self.updates += 1
        self.busy += time.monotonic() - self.began

    def lap(self) -> float:
        """Seconds spent in updates since the last lap."""
        seconds, self.busy = self.busy, 0.0
        return max(seconds, 1e-9)

    def seconds_left(self, updates: int) -> float:
        """Estimate for this many more updates, including what happens between them."""
        return max(0.0, time.monotonic() - self.start) / max(1, self.updates) * updates


def train_line(
    step: int, total: int, losses: Mapping[str, float], pace: Mapping[str, float]
) -> str:
    """One log line of training, aligned with the others."""
    return (
        f"{_place(step, total)}  epoch {pace['epoch']:6.2f}  {_columns(losses)}  "
        f"norm {pace['gradient_norm']:7.3f}  rate {pace['learning_rate']:.2e}  "
        f"{pace['tokens_per_second']:7,.0f} tokens/s  left {duration(pace['seconds_left'])}"
    )


def valid_line(step: int, total: int, figures: Mapping[str, float]) -> str:
    """One log line of validation, its losses aligned with those of the training lines."""
    return f"{_place(step, total)}  validation    {_columns(figures)}"


def _place(step: int, total: int) -> str:
    return f"step {step:{len(f'{total:,}')},}/{total:,}"


def _columns(figures: Mapping[str, float]) -> str:
    return "  ".join(f"{name} {value:7.3f}" for name, value in figures.items())


def duration(seconds: float) -> str:
    """Hours, minutes, seconds."""
    minutes, second = divmod(round(seconds), 60)
    hour, minute = divmod(minutes, 60)
    return f"{hour}:{minute:02d}:{second:02d}"
