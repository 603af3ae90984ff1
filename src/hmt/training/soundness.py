"""Whether a state can have been written by a run: every entry is present and of the right kind.

Checksums guard against accidents; these checks guard against forged files.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from hmt.errors import UserError, is_out_of_memory
from hmt.training.optimizer import Optimizer

COUNTS = ("stage", "stage_start", "step", "epoch", "batch", "stale", "tokens")
MOMENTS = ("exp_avg", "exp_avg_sq")  # what AdamW keeps per weight, besides the number of steps


def check_sound(content: dict[str, Any], file_bytes: int) -> None:
    """Raise any error for what no run writes; `file_bytes` is the size of the whole file."""
    position, recipe, system = content["position"], content["recipe"], content["system"]
    counts = {name: position.get(name, 0) for name in COUNTS}
    _require(all(type(count) is int and 0 <= count < 2**53 for count in counts.values()))
    _require(counts["stage_start"] <= counts["step"])
    _require(type(position.get("best")) in (int, float, type(None)))
    _require(all(type(value) in (int, float) for value in position.get("sums", {}).values()))
    json.dumps(recipe)  # plain values only, so that they can be compared
    _require(type(recipe["seed"]) is int and counts["stage"] < len(recipe["stage"]))
    _require(all(isinstance(stage, dict) for stage in recipe["stage"]))
    _require(isinstance(content["data"], str) and isinstance(content.get("digests", {}), dict))
    _require(isinstance(content["optimizer"], dict))
    _require(all(isinstance(tensor, Tensor) for tensor in system.values()))
    # one number repeated a billion times costs nothing until it is copied
    _require(sum(tensor.nbytes for tensor in _tensors(content)) <= file_bytes)


def _tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, dict | list | tuple):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _tensors(item)


def restore(optimizer: Optimizer, state: dict[str, Any], where: Path) -> None:
    """Restore an optimizer's state; its settings are the recipe's, whatever the state says."""
    own = [
        {name: value for name, value in group.items() if name != "params"}
        for group in optimizer.adam.param_groups
    ]
    try:
        optimizer.restore(state)
        for group, settings in zip(optimizer.adam.param_groups, own, strict=True):
            group.update(settings)
        known = optimizer.adam.state
        _require(known.keys() <= {*optimizer.parameters})
        _require(all(_fits(known[p], p) for p in optimizer.parameters if p in known))
    except Exception as error:  # torch may raise anything for an odd value
        if is_out_of_memory(error):
            raise
        raise UserError(
            f"{where} is damaged: its optimizer is not that of this run. Restore a copy, or set "
            "another output (a weights file can begin another run: training.warm_start)."
        ) from error


def _fits(known: Any, weight: Tensor) -> bool:
    """Whether this is an AdamW state for a weight."""
    if known.keys() != {"step", *MOMENTS} or known["step"].shape != ():
        return False
    moments = [known[name] for name in MOMENTS]
    return bool(torch.isfinite(known["step"])) and all(
        (m.shape, m.stride(), m.dtype) == (weight.shape, weight.stride(), weight.dtype)
        for m in moments
    )


def _require(is_so: bool) -> None:
    if not is_so:
        raise ValueError("this is not what a run writes")
