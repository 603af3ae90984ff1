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
# What each rule keeps per weight, all of them shaped as the weight but for the number of steps.
KEPT = {"adam": ("step", "exp_avg", "exp_avg_sq"), "muon": ("momentum",)}


def check_sound(content: dict[str, Any], file_bytes: int) -> None:
    """Raise an error of any kind for what no run writes; `file_bytes` is the size of the file."""
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
    """Restore an optimizer's state; its settings are the recipe's, whatever the state holds."""
    own = {
        name: [{k: v for k, v in group.items() if k != "params"} for group in rule.param_groups]
        for name, rule in optimizer.rules.items()
    }
    try:
        optimizer.restore(state)
        for name, rule in optimizer.rules.items():
            for group, settings in zip(rule.param_groups, own[name], strict=True):
                group.update(settings)
            weights = {p for group in rule.param_groups for p in group["params"]}
            _require(rule.state.keys() <= weights)
            _require(all(_fits(known, p, KEPT[name]) for p, known in rule.state.items()))
    except Exception as error:  # torch may raise anything for an odd value
        if is_out_of_memory(error):
            raise
        raise UserError(
            f"{where} is damaged: its optimizer is not that of this run. Restore a copy, or set "
            "another output (a weights file can begin another run: training.warm_start)."
        ) from error


def _fits(known: Any, weight: Tensor, names: tuple[str, ...]) -> bool:
    """Whether this is what a rule keeps for a weight."""
    if known.keys() != set(names):
        return False
    step = known.get("step", torch.zeros(()))
    return (
        step.shape == ()
        and bool(torch.isfinite(step))
        and all(
            (m.shape, m.stride(), m.dtype) == (weight.shape, weight.stride(), weight.dtype)
            for m in (known[name] for name in names if name != "step")
        )
    )


def _require(is_so: bool) -> None:
    if not is_so:
        raise ValueError("this is not what a run writes")
