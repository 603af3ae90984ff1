"""The model directory that a run keeps usable from its first save on."""

import subprocess
import sys
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from hmt.models.directory import Card, describe, write_model
from hmt.systems.contract import System
from hmt.training.recipe import Model, Recipe

PACKAGES = ("hmt", "torch", "numpy", "tokenizers", "safetensors")


def provenance(recipe: Recipe) -> dict[str, Any]:
    """The resolved recipe and everything else that determined the run."""
    return {
        "recipe": recipe.as_dict(),
        "seed": recipe.seed,
        "versions": {"python": sys.version.split()[0], **{p: _version(p) for p in PACKAGES}},
        "commit": source_commit(),
    }


def publish(
    directory: Path,
    system: System,
    recipe: Recipe,
    model: Model,
    tokenizers: dict[str, bytes],
    steps: list[int],
    weights: Path | None,
) -> None:
    """Write the model that a stage's `model` section describes; `weights` may be a file to link."""
    composed = [Path(name).name for name in model.models]
    kind = "composed" if composed else "average" if len(steps) > 1 else "latest"
    facts = {"weights": kind, "steps": steps, "seed": recipe.seed, "commit": source_commit()}
    if composed:
        facts["models"] = composed
    config = describe(
        system,
        model.system,
        knobs=system.knobs(**_knobs(recipe, model.system)),
        languages=model.languages,
        avoids_loops=model.avoids_loops,
        end_penalty=model.end_penalty,
        facts=facts,
    )
    notes = (
        f"training data: `{recipe.data.directory}`, seed {recipe.seed}",
        "recipe, versions of all packages and source commit: `training/recipe.json`; log: "
        "`log.jsonl`",
    )
    card = Card(Path(recipe.output), _origin(steps, composed), notes)
    write_model(directory, system, config, tokenizers, card, weights=weights)


def _knobs(recipe: Recipe, system: str) -> dict[str, Any]:
    """Inference settings chosen by the last stage of this system."""
    return [stage.model.knobs for stage in recipe.stages if stage.model.system == system][-1]


def _origin(steps: list[int], composed: list[str]) -> str:
    """A sentence on where the weights come from."""
    if composed:
        return "those of " + ", ".join(f"`{name}`" for name in composed)
    shown = ", ".join(f"{step:,}" for step in steps)
    many = len(steps) > 1
    return f"average of the snapshots at the updates {shown}" if many else f"after {shown} updates"


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"


@cache
def source_commit() -> str | None:
    """Commit of this source if it is a checkout, marked if files have changed since."""
    here = Path(__file__)
    # an installed package may lie inside an unrelated repository, which does not track it
    tracked = _git(here.parent, "ls-files", "--error-unmatch", here.name)
    return (
        _git(here.parent, "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*")
        if tracked
        else None
    )


def _git(directory: Path, *words: str) -> str | None:
    command = ["git", "-C", str(directory), *words]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() or None
