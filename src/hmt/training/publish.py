"""The model directory that a run keeps usable from its first save on."""

import dataclasses
import json
import subprocess
import sys
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from hmt.models.directory import CONFIG, WEIGHTS, describe, unshared
from hmt.models.weights import Tensors, write_weights
from hmt.systems.contract import System
from hmt.training import checkpoint
from hmt.training.recipe import Recipe

PACKAGES = ("hmt", "torch", "numpy", "tokenizers", "safetensors")

CARD = """\
# {name}

A model of the system *{system}* for simultaneous translation, made with `hmt`: {parameters:,}
parameters, {source:,} source and {target:,} target symbols.

- weights: {weights}
- training data: `{data}`, seed {seed}
- recipe, versions of all packages and source commit: `training/recipe.json`; log: `log.jsonl`
- inference settings unless others are chosen: `{knobs}`

```
echo "words to translate" | hmt translate {name}
```
"""


def provenance(recipe: Recipe) -> dict[str, Any]:
    """The resolved recipe with everything else that decided the run."""
    return {
        "recipe": recipe.as_dict(),
        "seed": recipe.seed,
        "versions": {"python": sys.version.split()[0], **{p: _version(p) for p in PACKAGES}},
        "commit": _commit(),
    }


def publish(
    directory: Path,
    system: System,
    recipe: Recipe,
    files: dict[str, bytes],
    steps: list[int],
    weights: Path | Tensors,
) -> None:
    """Write config.json, weights, tokenizers and model card; `weights` may be a file to link."""
    models = recipe.stages[-1].model.models
    kind = "composed" if models else "average" if len(steps) > 1 else "latest"
    facts = {"weights": kind, "steps": steps, "seed": recipe.seed, "commit": _commit()}
    if models:
        facts["models"] = models
    config = describe(system, facts)
    config["knobs"] = dataclasses.asdict(system.knobs(**_stage_knobs(recipe, system)))
    config = json.loads(json.dumps(config))
    # weights of another architecture must at no instant stand beside this configuration
    if _architecture(directory / CONFIG) != (config["system"], config["config"]):
        (directory / WEIGHTS).unlink(missing_ok=True)
    for name, content in files.items():
        checkpoint.write_bytes(directory / name, content)
    checkpoint.write_bytes(
        directory / "README.md", _card(directory, system, recipe, config).encode()
    )
    text = json.dumps(config, indent=1, ensure_ascii=False) + "\n"
    checkpoint.write_bytes(directory / CONFIG, text.encode())
    if isinstance(weights, Path):
        checkpoint.link(directory / WEIGHTS, weights)
    else:
        told = {"weights": kind, "steps": ",".join(map(str, steps))}
        write_weights(directory / WEIGHTS, weights, told)


def _stage_knobs(recipe: Recipe, system: System) -> dict[str, Any]:
    """Settings chosen by the last stage of this system."""
    return [s.model.knobs for s in recipe.stages if s.model.system == system.name][-1]


def _architecture(path: Path) -> tuple[Any, Any]:
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
        return config["system"], config["config"]
    except (OSError, ValueError, KeyError, TypeError):
        return None, None


def _card(directory: Path, system: System, recipe: Recipe, config: dict[str, Any]) -> str:
    steps = config["facts"]["steps"]
    shown = ", ".join(f"{step:,}" for step in steps)
    weights = f"after {shown} updates"
    if len(steps) > 1:
        weights = f"average of the snapshots at the updates {shown}"
    if models := config["facts"].get("models"):
        weights = "those of " + ", ".join(f"`{model}`" for model in models)
    return CARD.format(
        name=directory.name,
        system=system.name,
        parameters=sum(t.numel() for t in unshared(system).values()),
        source=config["config"]["dims"]["source_vocabulary"],
        target=config["config"]["dims"]["target_vocabulary"],
        weights=weights,
        data=recipe.data.directory,
        seed=recipe.seed,
        knobs=json.dumps(config["knobs"]),
    )


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"


@cache
def _commit() -> str | None:
    """Commit of this source if it is a checkout, marked when files were changed since."""
    here = Path(__file__)
    # an installed package may lie inside somebody else's repository, which does not track it
    tracked = _git(here.parent, "ls-files", "--error-unmatch", here.name)
    return (
        _git(here.parent, "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*")
        if (tracked)
        else None
    )


def _git(directory: Path, *words: str) -> str | None:
    command = ["git", "-C", str(directory), *words]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() or None
