"""A weights file: named tensors as .safetensors, read, written, copied into a system, averaged.

Its header has a digest of the tensors, so that a single flipped bit is noticed; files of other
tools, which have none, are read without that check. Weights that are not finite are neither
written nor read.
"""

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from hmt.errors import UserError
from hmt.files import refuse_special, replacing

Tensors = dict[str, Tensor]
Shapes = Mapping[str, tuple[int, ...]]
DIGEST = "sha256"  # key in the header
RESTORE = "(restore it from a copy; if it is one of several snapshots, remove it)."


def unshared(system: nn.Module) -> Tensors:
    """Tensors of a system by name; a tensor with several names (tied embeddings) appears once."""
    seen: set[int] = set()
    kept = {}
    for name, tensor in system.state_dict(keep_vars=True).items():
        if id(tensor) not in seen:
            seen.add(id(tensor))
            kept[name] = tensor
    return kept


def count_parameters(system: nn.Module) -> int:
    """The number of parameters of a system."""
    return sum(tensor.numel() for tensor in unshared(system).values())


def write_weights(path: Path, tensors: Tensors, *, is_half: bool = False) -> None:
    """Write a .safetensors file, in half precision if requested."""
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
    with _opened(path) as file:
        expected = (file.metadata() or {}).get(DIGEST)
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    try:
        is_other = expected is not None and expected != digest(tensors)
        name = not_finite(tensors)
    except NotImplementedError as error:  # four bits, which torch can store but not compute with
        raise UserError(
            f"{path} has weights of a type that cannot be used ({error}); convert them to 16 or 32 "
            "bits."
        ) from None
    if is_other:
        raise UserError(f"{path} is damaged: its weights are not what was written {RESTORE}")
    if name is not None:
        raise UserError(f"{path} is damaged: its weights {name} are not all finite {RESTORE}")
    return tensors


def shapes_of(path: Path) -> Shapes:
    """Names and shapes of a .safetensors file, from its header alone."""
    with _opened(path) as file:
        return {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    refuse_special(path)
    try:
        with safe_open(path, framework="pt") as file:
            yield file
    except FileNotFoundError:
        raise UserError(f"There are no weights at {path}: name a model directory.") from None
    except (SafetensorError, OSError) as error:
        raise UserError(
            f"{path} is not a readable .safetensors file ({error}); restore it from a copy."
        ) from None


def digest(tensors: Tensors) -> str:
    """A checksum of names, kinds, shapes and values. -> 64 hexadecimal digits"""
    total = hashlib.sha256()  # twice as fast as blake2b on processors with SHA instructions
    for name, tensor in sorted(tensors.items()):
        total.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        total.update(tensor.contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return total.hexdigest()


def not_finite(tensors: Tensors) -> str | None:
    """The name of a tensor with a value that is not finite, if there is one."""
    for name, tensor in tensors.items():
        # the extremes take a tenth of the time of isfinite(), and a NaN would be both of them
        if tensor.is_floating_point() and tensor.numel():
            plain = tensor.detach()
            extremes = torch.aminmax(plain.float() if plain.itemsize == 1 else plain)
            if not all(math.isfinite(float(extreme)) for extreme in extremes):
                return name
    return None


def take_over(system: nn.Module, tensors: Tensors) -> tuple[list[str], list[str]]:
    """Copy tensors into a system by name. -> names left unchanged, names that the system lacks"""
    own = unshared(system)
    shared = [name for name in own if name in tensors]
    _check_shapes(own, {name: tuple(tensors[name].shape) for name in shared})
    for name in shared:
        if not tensors[name].is_floating_point():
            kind = str(tensors[name].dtype).removeprefix("torch.")
            raise UserError(
                f"The weights {name} are {kind}, not floating-point numbers; convert them first."
            )
    with torch.no_grad():
        for name in shared:
            own[name].copy_(tensors[name])
    return [n for n in own if n not in tensors], [n for n in tensors if n not in own]


def check_fit(system: nn.Module, shapes: Shapes, where: str) -> None:
    """Refuse names and shapes that differ from the system's."""
    own = unshared(system)
    try:
        _check_shapes(own, {name: shape for name, shape in shapes.items() if name in own})
    except UserError as error:
        raise UserError(f"{where}: {error}") from None
    missing, extra = own.keys() - shapes.keys(), shapes.keys() - own.keys()
    if missing or extra:
        name = min(missing or extra)
        what = "lack" if missing else "have an unknown"
        raise UserError(f"{where}: the weights do not fit the configuration: they {what} {name}.")


def _check_shapes(own: Tensors, shapes: Shapes) -> None:
    for name, shape in shapes.items():
        if tuple(own[name].shape) != shape:
            raise UserError(
                f"The weights {name} have the shape {shape}, but this model needs "
                f"{tuple(own[name].shape)}: use the same sizes and the same vocabulary."
            )


def fill(system: nn.Module, tensors: Tensors, where: str) -> None:
    """Fill a system with weights; names and shapes must be exactly its own."""
    check_fit(system, {name: tuple(tensor.shape) for name, tensor in tensors.items()}, where)
    try:
        take_over(system, tensors)
    except UserError as error:
        raise UserError(f"{where}: {error}") from None


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
            raise UserError(f"{path} is not the same model as {paths[0]}: average one model only.")
        for name, tensor in tensors.items():
            kinds[name] = tensor.dtype
            total[name] = total[name] + tensor.double() if name in total else tensor.double()
    return {name: (t / len(paths)).to(kinds[name]) for name, t in total.items()}
