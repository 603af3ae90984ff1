"""What a run is resumed from: its state on disk, and the lock that keeps a second run out.

Every file is written beside its place, forced to disk and renamed, so that at any instant there
is either the old one or the new one.  Nothing is read by executing a pickle.
"""

import fcntl
import os
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from hmt.errors import UserError
from hmt.files import replacing
from hmt.models.weights import Tensors

FORMAT = 1


@dataclass
class Position:
    """Where a run stands between two updates; with weights and optimizer, all that it is."""

    stage: int = 0  # from 0
    stage_start: int = 0  # updates made by earlier stages
    step: int = 0  # updates made in all
    epoch: int = 0
    batch: int = 0  # of the epoch, the next one
    best: float | None = None
    stale: int = 0  # validations since the best
    tokens: int = 0  # since the last log line
    sums: dict[str, float] = field(default_factory=dict)  # of losses, since the last log line

    @property
    def stage_step(self) -> int:
        return self.step - self.stage_start


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Keep a second run out of the directory; the lock dies with the process, however it dies."""
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / "lock").open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.seek(0)
            raise UserError(
                f"{directory.parent} is being trained by another run (process "
                f"{file.read().strip() or 'unknown'}): wait for it, stop it, or set another output."
            ) from None
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        yield


def save_state(
    path: Path,
    position: Position,
    recipe: dict[str, Any],
    data: str,
    learned: tuple[Tensors, dict[str, Any]],
) -> None:
    """Write everything that a resumed run needs; `learned` are the weights and the optimizer's."""
    system, optimizer = learned
    content = {
        "format": FORMAT,
        "position": asdict(position),
        "recipe": recipe,
        "data": data,
        # plain tensors: the pickle of a Parameter would name one more class
        "system": {name: tensor.detach() for name, tensor in system.items()},
        "optimizer": optimizer,
    }
    with replacing(path) as temporary:
        torch.save(content, temporary)


def load_state(path: Path) -> dict[str, Any]:
    """Read a state; a damaged one is named and left as it is."""
    try:
        # torch reads past flipped bits without a word, the archive's checksums do not
        with zipfile.ZipFile(path) as archive:
            damaged = archive.testzip()
        if damaged is not None:
            raise ValueError(f"checksum of {damaged}")
        content = torch.load(path, map_location="cpu", weights_only=True)
        if content["format"] != FORMAT:
            raise ValueError(f"format {content['format']}")
        content["position"] = Position(**content["position"])
    except Exception as error:  # torch and zipfile raise many kinds for a broken file
        snapshots = path.parent / "snapshots"
        raise UserError(
            f"{path} is damaged ({type(error).__name__}) and was left untouched: restore it from a "
            f"copy, or remove it to begin anew (weights of earlier steps are in {snapshots})."
        ) from error
    return dict(content)
