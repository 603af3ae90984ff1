"""What a run leaves on disk: a state to resume from, snapshots to average, a lock.

Every file is written beside its place, forced to disk and renamed, so that at any instant there
is either the old one or the new one.  Nothing is read by executing a pickle.
"""

import fcntl
import json
import os
import shutil
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from hmt.errors import UserError
from hmt.systems.directory import replacing, unshared, write_atomically
from hmt.systems.system import System

FORMAT = 1
Tensors = dict[str, Tensor]


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


def write_bytes(path: Path, content: bytes) -> None:
    """Write a small file, all or nothing, unless it is so already."""
    if not (path.is_file() and path.read_bytes() == content):
        write_atomically(path, content)


def link(path: Path, existing: Path) -> None:
    """Let `path` be the same file as `existing`; a copy where the file system has no links."""
    with replacing(path) as temporary:
        try:
            temporary.hardlink_to(existing)
        except OSError:
            shutil.copyfile(existing, temporary)


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


def take_over(system: System, tensors: Tensors) -> tuple[list[str], list[str]]:
    """Copy tensors in by name. -> names that stay as they were, names that found no place"""
    own = unshared(system)
    for name in own.keys() & tensors.keys():
        if own[name].shape != tensors[name].shape:
            raise UserError(
                f"The weights {name} have the shape {tuple(tensors[name].shape)}, but this model "
                f"needs {tuple(own[name].shape)}: use the same sizes and the same vocabulary."
            )
    with torch.no_grad():
        for name in own.keys() & tensors.keys():
            own[name].copy_(tensors[name])
    return [n for n in own if n not in tensors], [n for n in tensors if n not in own]


def write_weights(path: Path, tensors: Tensors, told: dict[str, str]) -> None:
    """Write a .safetensors file; `told` goes into its header, as one entry.

    Of several entries the order in the file is random, and equal weights would not be equal files.
    """
    ready = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    with replacing(path) as temporary:
        save_file(ready, temporary, metadata={"hmt": json.dumps(told, sort_keys=True)})


def read_weights(path: Path) -> Tensors:
    """Read a .safetensors file."""
    try:
        with safe_open(path, framework="pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except FileNotFoundError:
        raise UserError(f"There are no weights at {path}: name a model directory.") from None
    except (SafetensorError, OSError) as error:
        raise UserError(f"{path} is not a readable .safetensors file ({error}).") from None


def snapshot_path(directory: Path, position: Position) -> Path:
    """Where the snapshot of this position belongs."""
    name = f"stage{position.stage + 1}-step{position.step:09d}.safetensors"
    return directory / "snapshots" / name


def snapshots(directory: Path, stage: int | None = None) -> list[Path]:
    """Snapshots of a stage (from 0; None = the last that has any), in order of their steps."""
    paths = _all_snapshots(directory)
    if stage is None and paths:
        stage = _stage_and_step(paths[-1])[0] - 1
    return [p for p in paths if _stage_and_step(p)[0] - 1 == stage]


def _all_snapshots(directory: Path) -> list[Path]:
    found = (directory / "snapshots").glob("stage*-step*.safetensors")
    return sorted(found, key=_stage_and_step)


def _stage_and_step(path: Path) -> tuple[int, int]:
    stage, step = path.stem.split("-")
    return int(stage.removeprefix("stage")), int(step.removeprefix("step"))


def step_of(path: Path) -> int:
    """The step at which a snapshot was taken."""
    return _stage_and_step(path)[1]


def forget_snapshots(directory: Path, unwanted: Callable[[int], bool]) -> None:
    """Delete the snapshots at unwanted steps."""
    for path in _all_snapshots(directory):
        if unwanted(step_of(path)):
            path.unlink()


def rotate(directory: Path, keep: int) -> None:
    """Delete all but the last `keep` snapshots, whatever stage they are of."""
    for path in _all_snapshots(directory)[:-keep]:
        path.unlink()


def average(where: Path | str | Sequence[Path | str], last: int = 0) -> Tensors:
    """Mean of weights: of several files or model directories, or of a run's last snapshots.

    Summed in double precision, one file in memory at a time; given back in their own precision.
    """
    paths = [_weights_file(Path(p)) for p in _sources(where)]
    if last:
        if len(paths) < last:
            raise UserError(
                f"The average of {last} snapshots was asked for, but there are {len(paths)}."
            )
        paths = paths[-last:]
    total: Tensors = {}
    kinds: dict[str, torch.dtype] = {}
    for path in paths:
        tensors = read_weights(path)
        shapes = {name: t.shape for name, t in tensors.items()}
        if total and shapes != {name: t.shape for name, t in total.items()}:
            raise UserError(f"{path} holds another model than {paths[0]}: average one model's.")
        for name, tensor in tensors.items():
            kinds[name] = tensor.dtype
            if name in total:
                total[name] += tensor.double()
            else:
                total[name] = tensor.double()
    return {name: (t / len(paths)).to(kinds[name]) for name, t in total.items()}


def _sources(where: Path | str | Sequence[Path | str]) -> list[Path | str]:
    if not isinstance(where, Path | str):
        if not where:
            raise UserError("Nothing to average: name a run directory or .safetensors files.")
        return list(where)
    found = snapshots(Path(where) / "training")
    if not found:
        raise UserError(f"{where} has no training/snapshots: name a run directory or files.")
    return list(found)


def _weights_file(path: Path) -> Path:
    return path / "model.safetensors" if path.is_dir() else path
