"""Whether a run may resume where an earlier one stopped: what differs, and the remedy."""

from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

from hmt.errors import UserError
from hmt.training.checkpoint import Position
from hmt.training.recipe import Training

# Settings that may change on resuming: the result is still that of the same run.
FREE = {
    *("updates", "save_every", "keep", "average_last", "validate_every", "validation_sentences"),
    *("metric", "patience", "log_every", "threads", "tensorboard", "compile"),
    *("model.languages", "model.avoids_loops", "model.end_penalty"),
}

# What a setting was in a state written before the setting existed.
DEFAULTS = {
    f"training.{field.name}": field.default
    for field in fields(Training)
    if field.default is not MISSING
}


def check_resumable(
    directory: Path,
    state: dict[str, Any],
    recipe: dict[str, Any],
    data: tuple[str, dict[str, str]],
) -> None:
    """Refuse to resume with a recipe or data that differ from those of the state."""
    old, position = state["recipe"], state["position"]
    difference = _difference(old, recipe, position)
    if difference is None and not _is_same_data(state, *data):
        difference = f"other data than {recipe['data']['directory']} holds now"
    if difference is not None:
        raise UserError(
            f"{directory} was trained up to step {position.step} with {difference}: restore it to "
            "continue, or set another output."
        )
    limit = recipe["stage"][position.stage]["training"]["updates"]
    if position.stage_step > limit:
        raise UserError(
            f"{directory} has already made {position.stage_step} updates of stage "
            f"{position.stage + 1}, more than training.updates = {limit}: raise it, or set another "
            "output."
        )


def _is_same_data(state: dict[str, Any], fingerprint: str, digests: dict[str, str]) -> bool:
    """Whether tokenizers, lengths and tokens match those that the state recorded.

    States of earlier versions have no digests; the held-out split may not have been opened.
    """
    known = state.get("digests", {})
    return state["data"] == fingerprint and all(
        known.get(name, digest) == digest for name, digest in digests.items()
    )


def _difference(old: dict[str, Any], new: dict[str, Any], position: Position) -> str | None:
    """Name the first setting of begun stages that differs and matters."""
    if old["seed"] != new["seed"]:
        return f"seed = {old['seed']}, not {new['seed']}"
    if len(new["stage"]) <= position.stage:
        return f"{len(old['stage'])} stages, not {len(new['stage'])}"
    several = len(old["stage"]) > 1
    for number in range(position.stage + 1):
        free = FREE if number == position.stage else FREE - {"updates"}
        before = DEFAULTS | _flat(old["stage"][number])
        after = _flat(new["stage"][number])
        for key in sorted({*before, *after}):
            if key.startswith("model.knobs.") or key.removeprefix("training.") in free:
                continue
            if before.get(key) != after.get(key):
                name = f"stage.{number + 1}.{key}" if several else key
                return f"{name} = {before.get(key, 'unset')}, not {after.get(key, 'unset')}"
    return None


def _flat(table: dict[str, Any], where: str = "") -> dict[str, Any]:
    """Nested tables as one, with dotted keys."""
    flat: dict[str, Any] = {}
    for key, value in table.items():
        if isinstance(value, dict):
            flat |= _flat(value, f"{where}{key}.")
        else:
            flat[f"{where}{key}"] = value
    return flat
