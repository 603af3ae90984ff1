"""What is to be done: parts (figures and tables of the paper) that need steps (commands of hmt).

A step is done when its output is there and its stamp agrees: the stamp holds the command and the
digests of all inputs at the time.  A finished training needs no stamp, its run directory says so.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from hmt.errors import UserError
from hmt.files import write_atomically
from hmt.paper.blocks import Section

DONE, OPEN, STALE = "done", "to do", "out of date"


@dataclass(frozen=True)
class Place:
    """Where everything is."""

    runs: Path  # trained runs, by name, and the prepared data
    data: Path  # the raw text of the benchmark
    output: Path  # evaluations, analyses, stamps, logs
    recipes: Path
    alignments: Path | None = None  # gold word alignments: test.de, test.en, test.talp
    seeds: tuple[int, ...] = (1,)
    pieces: int = 6000  # joint BPE pieces
    size: str = "tiny"  # of the models whose speed is measured


@dataclass(frozen=True)
class Step:
    """One command of hmt: what it needs, what it makes, about how long it takes."""

    name: str
    command: tuple[str, ...]  # words after `hmt`
    inputs: tuple[Path, ...]
    output: Path  # the file that is there once the step is done
    seconds: float | None = None  # estimate for one core; None if nobody knows
    is_training: bool = False
    needs: "tuple[Step, ...]" = ()
    # says whether an output without a stamp is finished, as that of a training done before
    is_finished: Callable[[], bool] | None = None

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
    theirs: str  # what it is in the paper
    steps: Callable[[Place], Sequence[Step]]
    section: Callable[[Place], Section]  # what there is by now
    groups: tuple[str, ...] = ()


@dataclass(frozen=True)
class Ledger:
    """Stamps of the steps done, one file each."""

    folder: Path

    def path(self, step: Step) -> Path:
        return self.folder / f"{step.name.replace('/', '-').replace(' ', '-')}.json"

    def stamp(self, step: Step) -> dict[str, Any] | None:
        """What was noted when the step was done; None if it never was."""
        try:
            found = json.loads(self.path(step).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return found if isinstance(found, dict) else None

    def note(self, step: Step, **facts: Any) -> None:
        """Keep that a step is done, with what it was done from."""
        content = {**identity(step), **facts}
        self.folder.mkdir(parents=True, exist_ok=True)
        write_atomically(self.path(step), json.dumps(content, indent=1) + "\n")

    def state(self, step: Step) -> str:
        """DONE, OPEN, or STALE: done by another command or from other inputs."""
        if not step.output.exists():
            return OPEN
        if step.is_finished is not None:
            return DONE if step.is_finished() else OPEN
        stamp = self.stamp(step)
        if stamp is None:
            return OPEN
        is_same = all(stamp.get(key) == value for key, value in identity(step).items())
        return DONE if is_same else STALE


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


def chosen(parts: Sequence[Part], names: Sequence[str]) -> list[Part]:
    """The parts of these names or groups, all if there are none."""
    if not names:
        return list(parts)
    known = {part.name for part in parts} | {group for part in parts for group in part.groups}
    for name in names:
        if name not in known:
            allowed = ", ".join(sorted(known))
            raise UserError(f'"{name}" is no part of the plan; choose from {allowed}.')
    return [part for part in parts if {part.name, *part.groups} & set(names)]
