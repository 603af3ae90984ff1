"""What a run directory records about its training: whether it is finished, its cost, its origin."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hmt.errors import UserError
from hmt.models.directory import read_config
from hmt.training.journal import LOG
from hmt.training.place import RECIPE
from hmt.training.recipe import Recipe, load_recipe, parse_recipe

UNITS = {"second": 1, "minute": 60, "hour": 3600}
COST = re.compile(r"# Cost: .*?([\d][\d.,]*) (?:processor )?(second|minute|hour)s?\b")


def is_finished(run: Path, recipe: Path, overrides: Sequence[str]) -> bool:
    """Whether a run of this recipe has made its last update and averaged its snapshots."""
    facts, resolved = run_facts(run), load_recipe(recipe, list(overrides))
    made = run_recipe(run)
    if facts is None or made is None or _learned(made) != _learned(resolved):
        return False
    if facts.get("weights") == "composed":
        return True
    last = resolved.stages[-1].training
    updates = sum(stage.training.updates for stage in resolved.stages)
    is_averaged = last.average_last == 1 or facts.get("weights") == "average"
    reached = (facts.get("steps") or [0])[-1]
    return reached == updates and is_averaged


def run_recipe(run: Path) -> Recipe | None:
    """The resolved recipe of a run; None if it has none that can be read."""
    try:
        return load_recipe(run / "training" / RECIPE)
    except UserError:
        return None


def made_by(recipe: dict[str, Any], command: Sequence[str]) -> bool:
    """Whether a recipe gives the weights that a command (train RECIPE --set A=B ...) gives."""
    try:
        return _learned(parse_recipe(recipe)) == _learned(load_recipe(command[1], command[3::2]))
    except UserError:
        return False


def run_facts(run: Path) -> dict[str, Any] | None:
    """What the model directory of a run records about its weights; None if there is none yet."""
    try:
        return read_config(run).facts
    except UserError:
        return None


@dataclass(frozen=True)
class Progress:
    """How far a training run has come, by the last line of its log."""

    step: int
    seconds_left: float


def progress(run: Path) -> Progress | None:
    """The progress of a run; None if its log does not show it, or if it has ended."""
    steps = [line for line in _log(run) if line.get("kind") == "train"]
    last = steps[-1] if steps else {}
    return Progress(last["step"], last["seconds_left"]) if last.get("seconds_left") else None


def training_seconds(run: Path) -> float | None:
    """Wall-clock seconds of a whole run, at the pace that its log shows; None if unknown."""
    lines = _log(run)
    steps = [line for line in lines if line.get("kind") == "train" and line.get("seconds_left")]
    if not steps:
        return None
    total = max(line["step"] for line in lines)
    last = steps[-1]
    if total <= last["step"]:
        return None
    return float(last["seconds_left"] / (total - last["step"]) * total)


def planned_updates(command: Sequence[str]) -> int:
    """Updates that a command (train RECIPE --set A=B ...) makes."""
    stages = load_recipe(command[1], command[3::2]).stages
    return sum(stage.training.updates for stage in stages)


def set_updates(command: Sequence[str]) -> int | None:
    """The number of updates that a command sets; None if it keeps that of its recipe."""
    key = "training.updates="
    found = [word.removeprefix(key) for word in command if word.startswith(key)]
    return int(found[-1]) if found else None


def _log(run: Path) -> list[dict[str, Any]]:
    try:
        return [json.loads(x) for x in (run / LOG).read_text(encoding="utf-8").splitlines()]
    except (OSError, ValueError):
        return []


def stated_seconds(recipe: Path) -> float | None:
    """The cost stated at the head of a recipe."""
    found = COST.search(recipe.read_text(encoding="utf-8")) if recipe.is_file() else None
    return float(found[1].replace(",", "")) * UNITS[found[2]] if found else None


def checked_recipe(path: Path) -> Path:
    """The recipe's path, if it exists."""
    if not path.is_file():
        raise UserError(
            f"There is no recipe {path}; run this in a checkout of hmt, or name the folder of the "
            "recipes with --recipes."
        )
    return path


def _learned(recipe: Recipe) -> tuple[object, ...]:
    """What determines the weights: a recipe without paths and what only affects reports."""
    stages = [
        replace(
            stage,
            model=replace(stage.model, models=[Path(m).name for m in stage.model.models]),
            training=replace(stage.training, warm_start="", threads=0, log_every=1),
        )
        for stage in recipe.stages
    ]
    return (recipe.seed, *stages)
