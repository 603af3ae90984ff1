"""Weights as .safetensors files: read, written, averaged, taken over by name."""

import json
from collections.abc import Sequence
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from hmt.errors import UserError
from hmt.files import replacing
from hmt.models.directory import unshared
from hmt.systems.contract import System

Tensors = dict[str, Tensor]


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


def snapshots(directory: Path, stage: int | None = None) -> list[Path]:
    """Snapshots of a stage (from 0; None = the last that has any), in order of their steps."""
    paths = all_snapshots(directory)
    if stage is None and paths:
        stage = _stage_and_step(paths[-1])[0] - 1
    return [p for p in paths if _stage_and_step(p)[0] - 1 == stage]


def all_snapshots(directory: Path) -> list[Path]:
    """Snapshots of all stages, in order."""
    found = (directory / "snapshots").glob("stage*-step*.safetensors")
    return sorted(found, key=_stage_and_step)


def _stage_and_step(path: Path) -> tuple[int, int]:
    stage, step = path.stem.split("-")
    return int(stage.removeprefix("stage")), int(step.removeprefix("step"))


def step_of(path: Path) -> int:
    """The step at which a snapshot was taken."""
    return _stage_and_step(path)[1]


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
