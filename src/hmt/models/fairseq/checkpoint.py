"""The pickle of a fairseq checkpoint, read as data: nothing that it names is ever called."""

import argparse
import pickle
import re
import warnings
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from hmt.errors import UserError
from hmt.plain import LIMIT


class Inert:
    """Stands in for an unneeded object of the training program: accepts all, does nothing."""

    def __init__(self, *ignored: Any) -> None:
        pass

    def __setstate__(self, ignored: Any) -> None:
        pass


MOST_NAMES = 4  # of one tensor
# What fairseq of 2019 to 2022 puts beside the weights: progress meters and numpy's numbers.
HARMLESS = (
    *(f"fairseq.meters.{kind}Meter" for kind in ("Average", "Time", "Stopwatch")),
    *(f"fairseq.logging.meters.{kind}Meter" for kind in ("Average", "Sum", "Time", "Stopwatch")),
    "numpy.core.multiarray.scalar",
    "numpy._core.multiarray.scalar",
    "numpy.dtype",
)


@dataclass(frozen=True)
class Checkpoint:
    """The parts of a checkpoint that are needed: tensors by fairseq's names, training arguments."""

    path: Path
    tensors: dict[str, Tensor]
    settings: dict[str, Any]
    updates: int | None

    def whole(self, name: str, least: int | None = None) -> int:
        """A setting that must be present and a whole number, not below `least`."""
        value: Any = self.settings.get(name)
        is_whole = isinstance(value, int) and not isinstance(value, bool)
        if not is_whole or (least is not None and value < least):
            raise UserError(
                f"{self.path} has {name} = {value!r} where a whole number is needed; "
                "it is not a complete checkpoint of fairseq."
            )
        return int(value)

    def fraction(self, name: str, default: float) -> float:
        """A setting from 0 up to 1."""
        value = self.settings.get(name, default)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not 0 <= value < 1:
            raise UserError(f"{self.path} has {name} = {value!r}; it must be from 0 up to 1.")
        return float(value)


def read_checkpoint(path: Path) -> Checkpoint:
    """Read a checkpoint of fairseq without running anything in it."""
    content = _unpickle(path)
    model = content.get("model") if isinstance(content, dict) else None
    if not isinstance(model, dict) or not model:
        raise UserError(
            f'{path} is not a checkpoint of fairseq: it has no weights under "model"; give a file '
            "that fairseq's training wrote."
        )
    tensors = {}
    for name, tensor in model.items():
        is_plain = isinstance(tensor, Tensor) and tensor.layout is torch.strided
        if not is_plain or tensor.is_quantized or not tensor.dim():
            raise UserError(f'{path} is damaged: its weight "{name}" is not a plain tensor.')
        tensors[str(name)] = tensor.detach()
    # shared embeddings have three names; anything many times larger is one number, repeated
    if sum(tensor.nbytes for tensor in tensors.values()) > MOST_NAMES * path.stat().st_size:
        raise UserError(f"{path} is damaged: its weights are larger than the whole file.")
    return Checkpoint(path, tensors, _settings(path, content), _updates(content))


def _unpickle(path: Path) -> Any:
    if not path.is_file():
        raise UserError(f"There is no checkpoint {path}; name a .pt file that fairseq wrote.")
    # mypy expects callables here; pairs of a class and the name it stands for are documented
    allowed: list[Any] = [argparse.Namespace, *((Inert, name) for name in HARMLESS)]
    try:
        _check_archive(path)
        with torch.serialization.safe_globals(allowed), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about old formats, which this function is for
            return torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        named = re.search(r"GLOBAL (\S+)", str(error))
        if named is None:
            raise UserError(
                f"{path} is damaged or not a checkpoint of fairseq; give a .pt file that fairseq "
                "wrote."
            ) from None
        raise UserError(
            f"{path} asks to create or call {named[1]}, which is not a harmless "
            "part of a checkpoint, and was not loaded; save it again with only "
            '"args" and "model" if you trust its origin.'
        ) from None
    except UserError:
        raise
    except Exception as error:  # a damaged file can make the unpickler raise anything
        raise UserError(
            f"{path} is damaged or not a checkpoint of fairseq ({type(error).__name__}); "
            "copy or download it again."
        ) from None


def _check_archive(path: Path) -> None:
    """Refuse an archive that decompresses to more than its size: torch does not compress."""
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            if sum(entry.file_size for entry in archive.infolist()) > path.stat().st_size:
                raise UserError(f"{path} is compressed, which no checkpoint is; it was not opened.")


def _settings(path: Path, content: dict[str, Any]) -> dict[str, Any]:
    """Training arguments: `args` of fairseq up to 0.10, the parts of `cfg` of later versions."""
    found: dict[str, Any] = {}
    config = content.get("cfg")
    if isinstance(config, dict):
        for part in ("task", "criterion", "model"):
            found.update(_plain(config.get(part)))
    found.update(_plain(content.get("args")))
    if not found:
        raise UserError(
            f'{path} holds neither "args" nor "cfg", the settings it was trained with; '
            "give a checkpoint as fairseq wrote it."
        )
    return found


def _plain(part: Any) -> dict[str, Any]:
    if isinstance(part, argparse.Namespace):
        part = vars(part)
    return dict(part) if isinstance(part, dict) else {}


def _updates(content: dict[str, Any]) -> int | None:
    """How many updates the model was trained for, if recorded."""
    history = content.get("optimizer_history")
    last = history[-1] if isinstance(history, list) and history else None
    updates = last.get("num_updates") if isinstance(last, dict) else None
    return updates if isinstance(updates, int) and 0 <= updates < LIMIT else None
