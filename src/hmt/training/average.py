"""`hmt average`: the mean of a run's last snapshots, or of several models, as a model directory."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from hmt.errors import UserError
from hmt.files import drafting, refuse_occupied
from hmt.models.directory import CONFIG, WEIGHTS, Card, read_config, system_of, write_model
from hmt.models.weights import average, fill
from hmt.text.language_pair import tokenizer_files
from hmt.training.snapshots import snapshots, step_of


def average_models(
    paths: Sequence[Path], output: Path, last: int, *, is_half: bool = False, trust: bool = False
) -> list[str]:
    """Average a run's last snapshots, or several model directories; return what was averaged.

    In half precision the file is half as large; models still compute in single precision.
    """
    refuse_occupied(output)
    configs = [read_config(path) for path in paths]
    config, tokenizers = configs[0], tokenizer_files(paths[0])
    for path, other in zip(paths, configs, strict=True):
        is_same = (other.system, other.config) == (config.system, config.config)
        if not is_same or tokenizer_files(path) != tokenizers:
            raise UserError(f"{path} and {paths[0]} are different models: average one run.")
    files = _snapshots(paths[0], last) if len(paths) == 1 else [path / WEIGHTS for path in paths]
    system = system_of(paths[0], config, trust, files)
    fill(system, average(files), str(paths[0]))
    # the path of a run is private to its owner
    names = [path.stem if len(paths) == 1 else path.parent.resolve().name for path in files]
    facts: dict[str, Any] = {**config.facts, "weights": "average", "averaged": names, "steps": []}
    if len(paths) == 1:
        facts["steps"] = [step_of(path) for path in files]
    card = Card(output, "average of " + ", ".join(f"`{name}`" for name in names))
    with drafting(output, last=CONFIG) as draft:
        write_model(draft, system, replace(config, facts=facts), tokenizers, card, is_half=is_half)
    return names


def _snapshots(run: Path, last: int) -> list[Path]:
    found = snapshots(run / "training")
    if len(found) < last:
        raise UserError(
            f"{run} has {len(found)} snapshots, not {last}: lower --last, name a run directory, or "
            "name several model directories."
        )
    return found[-last:]
