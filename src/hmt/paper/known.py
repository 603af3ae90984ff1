"""What is known about each step: the result made here, or else the one in the store."""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from shutil import copyfile
from tempfile import TemporaryDirectory
from typing import Any

from hmt.files import write_atomically
from hmt.paper.parts.shown import TRAININGS
from hmt.paper.plan import (
    DONE,
    STORED,
    Ledger,
    Part,
    Place,
    Step,
    digest,
    ordered,
    portable,
    with_all_texts,
)
from hmt.paper.runs import made_by, run_facts, run_recipe, training_seconds
from hmt.paper.store import Entry, machine


@dataclass(frozen=True)
class Known:
    """Entries of steps: made here, or stored by the same command on the same text."""

    place: Place
    ledger: Ledger
    stored: Mapping[str, Entry] = field(default_factory=dict)
    entries: dict[str, Entry | None] = field(default_factory=dict)  # of steps already looked up

    def state(self, step: Step) -> str:
        """The state in the ledger, or STORED."""
        found = self.ledger.state(step)
        return STORED if found != DONE and self.from_store(step) else found

    def entry(self, step: Step) -> Entry | None:
        """What is known about a finished step."""
        if step.name not in self.entries:
            self.entries[step.name] = self.from_here(step) or self.from_store(step)
        return self.entries[step.name]

    def from_here(self, step: Step) -> Entry | None:
        """A step that was done on this machine."""
        if self.ledger.state(step) != DONE:
            return None
        stamp = self.ledger.stamp(step) or {}
        entry = Entry(
            step.name,
            portable(step.shown, self.place),
            stamp.get("commit") or "unknown",
            stamp.get("machine") or machine(),
            stamp.get("finished") or _modified(step.output),
            stamp.get("seconds"),
            _seed(step),
            inputs=self._texts(step),
        )
        if step.is_training:
            return self._training(step, entry)
        return entry if step.is_finished else replace(entry, result=self._result(step))

    def _training(self, step: Step, entry: Entry) -> Entry:
        run = step.output.parent
        facts, recipe = run_facts(run) or {}, run_recipe(run)
        shown = json.loads(portable(json.dumps(recipe.as_dict()), self.place)) if recipe else {}
        return replace(
            entry,
            commit=facts.get("commit") or "unknown",
            seconds=training_seconds(run) or entry.seconds,
            updates=(facts.get("steps") or [0])[-1],
            recipe=shown,
        )

    def _result(self, step: Step) -> dict[str, Any]:
        """The step's output without sentences, folders, and what is the same in all scores."""
        text = portable(step.output.read_text(encoding="utf-8"), self.place)
        return dict(lean(json.loads(text), (*step.private, "conventions")))

    def _texts(self, step: Step) -> dict[str, str]:
        """Checksums of inputs that no other step makes, without recipes, which are stored whole."""
        made = {need.output for need in step.needs}
        texts = [path for path in step.inputs if path not in made and path.suffix != ".toml"]
        return {portable(str(p), self.place): found for p in texts if (found := digest(p))}

    def from_store(self, step: Step) -> Entry | None:
        """The stored entry of a step, if it and all that it needs belong to the same plan."""
        entry = self.stored.get(step.name)
        if entry is None or entry.command != portable(step.shown, self.place):
            return None
        here = self._texts(step)
        if any(here.get(name, kept) != kept for name, kept in entry.inputs.items()):
            return None
        if step.is_training and not made_by(entry.recipe, step.command):
            return None
        return entry if all(map(self.entry, step.needs)) else None


def lean(values: Any, dropped: Collection[str]) -> Any:
    """Plain data without some keys, at any depth; numbers are rounded to six decimals."""
    if isinstance(values, dict):
        return {key: lean(value, dropped) for key, value in values.items() if key not in dropped}
    if isinstance(values, list):
        return [lean(value, dropped) for value in values]
    return round(values, 6) if isinstance(values, float) else values


def spared(steps: Sequence[Step], known: Known) -> set[str]:
    """Steps that need not run: the store has their results, and nothing that runs needs them."""
    found: set[str] = set()
    users: dict[str, list[str]] = {}
    for step in steps:
        for need in step.needs:
            users.setdefault(need.name, []).append(step.name)
    for step in reversed(steps):
        own = users.get(step.name, [])
        # a training run that nothing else uses is itself a result; others serve what uses them
        is_means = step.is_finished is not None and bool(own)
        if all(user in found for user in own) and (is_means or known.state(step) == STORED):
            found.add(step.name)
    return found


@contextmanager
def together(
    place: Place, parts: Sequence[Part], ledger: Ledger, stored: Mapping[str, Entry]
) -> Iterator[tuple[Place, Known]]:
    """The same place with a folder of all results, local and stored.

    Its seeds are the given ones and the stored ones.
    """
    whole = with_all_texts(place, parts)
    others = {entry.seed for entry in stored.values() if entry.updates and entry.seed}
    seeds = (*place.seeds, *sorted(others - set(place.seeds)))
    with TemporaryDirectory() as folder:
        known = Known(whole, ledger, stored)
        seen = replace(whole, seen=Path(folder), seeds=seeds[:1])
        # the results of the first seed decide which systems other seeds repeat
        for at in (seen, replace(seen, seeds=seeds)):
            _lay(ordered(step for part in parts for step in part.steps(at)), at, known)
        yield replace(seen, seeds=seeds), known


def _lay(steps: Sequence[Step], place: Place, known: Known) -> None:
    """Write what is known into the folder of all results."""
    costs: dict[str, float] = {}
    for step in steps:
        entry = known.entry(step)
        if step.is_training and entry and entry.seconds is not None:
            costs[step.name.removeprefix("train ")] = entry.seconds
        if step.is_finished is not None:
            continue
        folder = place.found / step.output.parent.relative_to(place.output)
        folder.mkdir(parents=True, exist_ok=True)
        if known.state(step) != STORED and step.output.parent.is_dir():
            # including a step that is still running
            for path in step.output.parent.iterdir():
                if path.suffix in (".json", ".png"):
                    copyfile(path, folder / path.name)
        elif entry:
            write_atomically(folder / step.output.name, json.dumps(entry.result))
    write_atomically(place.found / TRAININGS, json.dumps(costs))


def _seed(step: Step) -> int | None:
    """The seed of the first model that a step is about."""
    if step.is_training:
        return (run_facts(step.output.parent) or {}).get("seed")
    return next((seed for need in step.needs if (seed := _seed(need)) is not None), None)


def _modified(path: Path) -> str:
    return datetime.fromtimestamp(path.stat().st_mtime, UTC).isoformat(timespec="seconds")
