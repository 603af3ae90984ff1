"""What a run is resumed from: its last state on disk, and the one before it.

Every file is written beside its place, forced to disk and renamed, so that at any instant there
is either the old one or the new one.  Nothing is read by executing a pickle.
"""

import zipfile
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from hmt.errors import UserError, is_out_of_memory
from hmt.files import link, refuse_special, replacing
from hmt.models.weights import Tensors
from hmt.training.soundness import check_sound

FORMAT = 1
PARTS = {"format", "position", "recipe", "data", "system", "optimizer"}
STATE, PREVIOUS, DAMAGED = "state.pt", "state-previous.pt", "state-damaged.pt"


class DamageError(UserError):
    """A state file that is damaged."""


@dataclass
class Position:
    """Position of a run between two updates; with weights and optimizer, its complete state."""

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


def save_state(
    folder: Path,
    position: Position,
    recipe: dict[str, Any],
    data: tuple[str, dict[str, str]],
    learned: tuple[Tensors, dict[str, Any]],
) -> None:
    """Write everything that a resumed run needs, and keep the previous state.

    `data` is the fingerprint and the digests; `learned` is the weights and the optimizer's state.
    """
    system, optimizer = learned
    content = {
        "format": FORMAT,
        "position": asdict(position),
        "recipe": recipe,
        "data": data[0],
        "digests": data[1],
        # plain tensors: the pickle of a Parameter would name one more class
        "system": {name: tensor.detach() for name, tensor in system.items()},
        "optimizer": optimizer,
    }
    with replacing(folder / STATE) as temporary:
        try:
            torch.save(content, temporary)
        except RuntimeError as error:  # torch has no OSError for a full disk
            raise OSError("No space left, or the file grew too large") from error
        if (folder / STATE).exists():
            link(folder / PREVIOUS, folder / STATE)


def find_state(folder: Path) -> tuple[Path, dict[str, Any]] | None:
    """The state to resume from, and its file: the last, or the previous one if that is damaged.

    None if there is none. If all are damaged, nothing is touched.
    """
    problems = []
    for path in (folder / STATE, folder / PREVIOUS):
        try:
            return path, load_state(path)
        except FileNotFoundError:
            continue
        except DamageError as error:
            problems.append(str(error))
    if problems:
        raise UserError(
            " ".join(problems) + " Nothing was changed: restore a copy, or set another output "
            f"(weights of earlier steps are in {folder / 'snapshots'})."
        )
    return None


def load_state(path: Path) -> dict[str, Any]:
    """Read a state; a damaged one is reported and left unchanged."""
    refuse_special(path)
    try:
        # torch silently reads flipped bits; the archive's checksums detect them
        with zipfile.ZipFile(path) as archive:
            # torch does not compress: it did not write what decompresses to more than its size
            if sum(entry.file_size for entry in archive.infolist()) > path.stat().st_size:
                raise ValueError("compressed")
            damaged = archive.testzip()
        if damaged is not None:
            raise ValueError(f"checksum of {damaged}")
        content = torch.load(path, map_location="cpu", weights_only=True)
        if missing := sorted(PARTS - content.keys()):
            raise ValueError(f"no {missing[0]}")
        if content["format"] != FORMAT:
            raise ValueError(f"format {content['format']}")
        check_sound(content, path.stat().st_size)
        content["position"] = Position(**content["position"])
    except FileNotFoundError:
        raise
    except PermissionError as error:
        raise UserError(
            f"{path} cannot be read ({error.strerror}); check its permissions."
        ) from None
    except Exception as error:  # torch and zipfile raise many kinds for a broken file
        if is_out_of_memory(error):
            raise
        raise DamageError(f"{path} is damaged ({type(error).__name__}).") from error
    return dict(content)


def put_back(folder: Path) -> None:
    """Restore the previous state as the last one; a damaged one is set aside, not deleted."""
    if (folder / STATE).exists():
        (folder / STATE).replace(folder / DAMAGED)
    link(folder / STATE, folder / PREVIOUS)
