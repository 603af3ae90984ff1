"""A weights file: named tensors as .safetensors, read, written, copied into a system, averaged.

Its header has a digest of the tensors, so that one flipped bit is noticed; files of other tools,
which have none, are read as they are. Weights that are not finite are neither written nor read.
"""

import hashlib
import math
from collections.abc import Sequence
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from hmt.errors import UserError
from hmt.files import refuse_special, replacing
from hmt.systems.contract import System

Tensors = dict[str, Tensor]
DIGEST = "sha256"  # key of the header
RESTORE = "(restore it from a copy; if it is one of several snapshots, remove it)."


def unshared(system: System) -> Tensors:
    """Tensors of a system by name; one that has several names (tied embeddings) appears once."""
    seen: set[int] = set()
    kept = {}
    for name, tensor in system.state_dict(keep_vars=True).items():
        if id(tensor) not in seen:
            seen.add(id(tensor))
            kept[name] = tensor
    return kept


def count_parameters(system: System) -> int:
    """How many numbers a system's weights are."""
    return sum(tensor.numel() for tensor in unshared(system).values())


def write_weights(path: Path, tensors: Tensors, *, is_half: bool = False) -> None:
    """Write a .safetensors file, in half precision if asked to."""
    ready = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    if is_half:
        ready = {name: tensor.half() for name, tensor in ready.items()}
    if (name := not_finite(ready)) is not None:
        remedy = "leave out --half" if is_half else "nothing was written"
        raise UserError(f"{path}: the weights {name} are not all finite; {remedy}.")
    with replacing(path) as temporary:
        try:
            save_file(ready, temporary, {DIGEST: digest(ready)})
        except SafetensorError as error:  # a full disk: the library has no OSError
            raise OSError(str(error)) from error


def read_weights(path: Path) -> Tensors:
    """Read a .safetensors file; a damaged one is refused."""
    refuse_special(path)
    try:
        with safe_open(path, framework="pt") as file:
            expected = (file.metadata() or {}).get(DIGEST)
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except FileNotFoundError:
        raise UserError(f"There are no weights at {path}: name a model directory.") from None
    except (SafetensorError, OSError) as error:
        raise UserError(f"{path} is not a readable .safetensors file ({error}).") from None
    if expected is not None and expected != digest(tensors):
        raise UserError(f"{path} is damaged: its weights are not those that were written {RESTORE}")
    if (name := not_finite(tensors)) is not None:
        raise UserError(f"{path} is damaged: its weights {name} are not all finite {RESTORE}")
    return tensors


def digest(tensors: Tensors) -> str:
    """A checksum of names, kinds, shapes and values. -> 64 hexadecimal digits"""
    total = hashlib.sha256()  # twice as fast as blake2b where the processor knows it
    for name, tensor in sorted(tensors.items()):
        total.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        total.update(tensor.contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return total.hexdigest()


def not_finite(tensors: Tensors) -> str | None:
    """The name of a tensor with a value that is no finite number, if there is one."""
    for name, tensor in tensors.items():
        # the extremes take a tenth of the time of isfinite(), and NaN is both of them
        if tensor.is_floating_point() and tensor.numel():
            plain = tensor.detach()
            extremes = torch.aminmax(plain.float() if plain.itemsize == 1 else plain)
            if not all(math.isfinite(float(extreme)) for extreme in extremes):
                return name
    return None


def take_over(system: System, tensors: Tensors) -> tuple[list[str], list[str]]:
    """Copy tensors into a system by name. -> names that stay as they were, names without a place"""
    own = unshared(system)
    shared = [name for name in own if name in tensors]
    for name in shared:
        if own[name].shape != tensors[name].shape:
            raise UserError(
                f"The weights {name} have the shape {tuple(tensors[name].shape)}, but this model "
                f"needs {tuple(own[name].shape)}: use the same sizes and the same vocabulary."
            )
    with torch.no_grad():
        for name in shared:
            own[name].copy_(tensors[name])
    return [n for n in own if n not in tensors], [n for n in tensors if n not in own]


def fill(system: System, tensors: Tensors, where: str) -> None:
    """Copy all of a system's weights in; names and shapes must be exactly its own."""
    try:
        missing, extra = take_over(system, tensors)
    except UserError as error:
        raise UserError(f"{where}: {error}") from None
    if missing or extra:
        name = sorted(missing or extra)[0]
        what = "lack" if missing else "have an unknown"
        raise UserError(f"{where}: the weights do not fit the configuration: they {what} {name}.")


def average(paths: Sequence[Path]) -> Tensors:
    """The mean of several weights files of one model.

    Summed in double precision, with one file in memory at a time; returned in their own precision.
    """
    total: Tensors = {}
    kinds: dict[str, torch.dtype] = {}
    for path in paths:
        tensors = read_weights(path)
        shapes = {name: t.shape for name, t in tensors.items()}
        if total and shapes != {name: t.shape for name, t in total.items()}:
            raise UserError(f"{path} holds another model than {paths[0]}: average one model's.")
        for name, tensor in tensors.items():
            kinds[name] = tensor.dtype
            total[name] = total[name] + tensor.double() if name in total else tensor.double()
    return {name: (t / len(paths)).to(kinds[name]) for name, t in total.items()}
