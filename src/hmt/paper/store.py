"""Results that outlive the disk they were made on: a folder with one small JSON file per step.

An entry holds scores and outcomes of analyses, what they cost, and where they come from.  It has no
sentences and no weights, so it may be published whatever the licence of the text.
"""

import json
import os
import platform
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hmt.errors import UserError
from hmt.files import refuse_special, write_atomically
from hmt.plain import from_plain, json_object, to_plain

FORMAT = 1


@dataclass(frozen=True)
class Entry:
    """A finished step; its command calls folders DATA, RUNS, RESULTS and so on."""

    step: str
    command: str
    commit: str = "unknown"
    machine: str = "unknown"
    finished: str = ""  # date and time
    seconds: float | None = None  # wall-clock time
    seed: int | None = None  # of the model
    updates: int | None = None  # of a training run; 0 if it only composed other models
    inputs: dict[str, str] = field(default_factory=dict)  # checksums of text
    recipe: dict[str, Any] = field(default_factory=dict)  # of a training run, resolved
    result: dict[str, Any] | None = None  # what an evaluation or analysis found
    format: int = FORMAT

    @property
    def file(self) -> str:
        return f"{self.step.replace('/', '-').replace(' ', '-')}.json"


def read_store(folder: Path) -> dict[str, Entry]:
    """All entries by the names of their steps; none if there is no folder yet."""
    if not folder.exists():
        return {}
    if not folder.is_dir():
        raise UserError(f"{folder} is not a folder; name a folder of results with --store.")
    entries = (_read(path) for path in sorted(folder.glob("*.json")))
    return {entry.step: entry for entry in entries}


def write_store(folder: Path, entries: Iterable[Entry]) -> None:
    """Add entries, each replacing an older one of its step."""
    for entry in entries:
        folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps(to_plain(entry), indent=1, ensure_ascii=False)
        write_atomically(folder / entry.file, text + "\n")


def _read(path: Path) -> Entry:
    refuse_special(path)
    try:
        values = json_object(path.read_text(encoding="utf-8"))
        if values.get("format") != FORMAT:
            raise UserError(f'its "format" is not {FORMAT}.')
        entry = from_plain(Entry, values)
        if entry.file != path.name:
            raise UserError(f'a file of this name cannot hold the step "{entry.step}".')
    except (OSError, UnicodeDecodeError, UserError) as error:
        reason = str(error).rstrip(".")
        raise UserError(
            f"{path} is no result of hmt paper ({reason}); move it away, or name another folder "
            "with --store."
        ) from None
    return entry


def machine() -> str:
    """As in "AMD EPYC, 2 cores"."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{names[0] if names else platform.machine()}, {os.cpu_count()} cores"
