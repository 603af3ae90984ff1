"""What is to be done: parts (figures and tables of the paper) that need steps (commands of hmt).

A step is done when its output exists and its stamp agrees: the stamp holds the command and the
digests of all inputs at the time.  A finished training run needs no stamp: its folder records it.
"""

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from hmt.errors import UserError
from hmt.files import write_atomically
from hmt.paper.blocks import Section

DONE, STORED, OPEN, STALE = "done", "stored", "to do", "out of date"


@dataclass(frozen=True)
class Place:
    """Where everything is."""

    runs: Path  # trained runs, by name, and the prepared data
    data: Path  # the raw text of the benchmark
    output: Path  # evaluations, analyses, stamps, logs
    recipes: Path  # those of Multi30k; those of other corpora are in folders beside it
    texts: Mapping[str, Path] = field(default_factory=dict)  # folders of other text, by option
    seeds: tuple[int, ...] = (1,)
    pieces: int = 6000  # joint BPE pieces
    size: str = "tiny"  # of the models whose speed is measured
    updates: int = 1000  # of every system after the start that all share
    seen: Path | None = None  # local and stored results together, see known.py

    @property
    def found(self) -> Path:
        """Where results are looked for; steps write theirs to `output`."""
        return self.seen or self.output


@dataclass(frozen=True)
class Step:
    """One command of hmt: what it needs, what it makes, about how long it takes."""

    name: str
    command: tuple[str, ...]  # words after `hmt`
    inputs: tuple[Path, ...]
    output: Path  # the file that exists once the step is done
    seconds: float | None = None  # estimate for one core; None if unknown
    is_training: bool = False
    needs: "tuple[Step, ...]" = ()
    # tells whether an output without a stamp is finished, such as that of an earlier training run
    is_finished: Callable[[], bool] | None = None
    private: tuple[str, ...] = ()  # keys of its output that hold sentences of the test set

    @property
    def file(self) -> str:
        """Its name as a file name."""
        return self.name.replace("/", "-").replace(" ", "-")

    @property
    def shown(self) -> str:
        """The command as a person would type it."""
        quoted = [f"'{w}'" if set(w) & set(" []\"'*") else w for w in self.command]
        return " ".join(["hmt", *quoted])


@dataclass(frozen=True)
class Part:
    """One figure or table of the paper."""

    name: str
    title: str
    theirs: str  # what the paper shows
    steps: Callable[[Place], Sequence[Step]]
    section: Callable[[Place], Section]  # the results so far
    groups: tuple[str, ...] = ()
    # enough to show the point; made before the rest of any part
    core: Callable[[Place], Sequence[Step]] | None = None
    texts: tuple[str, ...] = ()  # options that name text without which it cannot be made

    def lacks(self, place: Place) -> list[str]:
        """Options that this part needs for its text and that were not given."""
        return [name for name in self.texts if name not in place.texts]


@dataclass(frozen=True)
class Ledger:
    """Stamps of the steps done, one file each."""

    folder: Path

    def path(self, step: Step) -> Path:
        return self.folder / f"{step.file}.json"

    def stamp(self, step: Step) -> dict[str, Any] | None:
        """The stamp of a step; None if it was never done."""
        try:
            found = json.loads(self.path(step).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return found if isinstance(found, dict) else None

    def note(self, step: Step, **more: Any) -> None:
        """Record that a step is done, with its inputs."""
        content = {**identity(step), **more}
        self.folder.mkdir(parents=True, exist_ok=True)
        write_atomically(self.path(step), json.dumps(content, indent=1) + "\n")

    def begin(self, step: Step) -> None:
        """Record the inputs of a step as it begins, so that resuming it can check them."""
        self.folder.mkdir(parents=True, exist_ok=True)
        write_atomically(self.path(step), json.dumps({**identity(step), "begun": True}) + "\n")

    def state(self, step: Step) -> str:
        """DONE, OPEN, or STALE: done or begun by another command or with other inputs."""
        if step.is_finished is not None:
            return DONE if step.output.exists() and step.is_finished() else OPEN
        stamp = self.stamp(step)
        if stamp is None:
            return OPEN
        if any(stamp.get(key) != value for key, value in identity(step).items()):
            return STALE
        return DONE if step.output.exists() and not stamp.get("begun") else OPEN


def identity(step: Step) -> dict[str, Any]:
    """What a step's result depends on: its command and the content of its inputs."""
    return {
        "command": list(step.command),
        "inputs": {str(path): digest(path) for path in step.inputs},
    }


def digest(path: Path) -> str | None:
    """A checksum of a file; None if there is none."""
    try:
        seen = path.stat()
    except OSError:
        return None
    return _digest(path, seen.st_mtime_ns, seen.st_size)


@cache
def _digest(path: Path, modified: int, size: int) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def portable(text: str, place: Place) -> str:
    """A command, or JSON, without the folders of this machine."""
    names = {place.output: "RESULTS", place.runs: "RUNS", place.data: "DATA"}
    names |= {path: option.upper() for option, path in place.texts.items()}
    names[place.recipes] = "recipes/multi30k"
    if place.recipes.parent.name:  # not the working directory
        names[place.recipes.parent] = "recipes"
    # inner folders before those that contain them; only whole names, with what is inside
    for folder in sorted(names, key=lambda path: -len(str(path))):
        whole = rf"(?<![\w./-]){re.escape(str(folder))}(?![\w.-])"
        text = re.sub(whole, names[folder], text)
    return text


def ordered(steps: Iterable[Step]) -> list[Step]:
    """Every step once, after those that it needs."""
    found: dict[str, Step] = {}

    def visit(step: Step) -> None:
        if step.name in found:
            return
        for other in step.needs:
            visit(other)
        found[step.name] = step

    for step in steps:
        visit(step)
    return list(found.values())


def with_all_texts(place: Place, parts: Sequence[Part]) -> Place:
    """The same place for viewing a plan: a folder that was not given gets its option's name."""
    unknown = {option: Path(option.upper()) for part in parts for option in part.lacks(place)}
    return replace(place, texts={**unknown, **place.texts})


def planned(parts: Sequence[Part], place: Place) -> list[Step]:
    """All steps of some parts, ordered so that a plan stopped early shows the most.

    First the core of every part, then the rest with the first seed, then the other seeds.
    """
    parts = [part for part in parts if not part.lacks(place)]
    first = replace(place, seeds=place.seeds[:1])
    core = [step for part in parts for step in (part.core or part.steps)(first)]
    rest = [step for at in (first, place) for part in parts for step in part.steps(at)]
    return ordered([*core, *rest])


def chosen(parts: Sequence[Part], names: Sequence[str]) -> list[Part]:
    """The parts with these names or in these groups; all parts if no name is given."""
    if not names:
        return list(parts)
    known = {part.name for part in parts} | {group for part in parts for group in part.groups}
    for name in names:
        if name not in known:
            allowed = ", ".join(sorted(known))
            raise UserError(f'"{name}" is no part of the plan; choose from {allowed}.')
    return [part for part in parts if {part.name, *part.groups} & set(names)]
