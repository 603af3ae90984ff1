"""What a report is made of, the same for Markdown and HTML."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Text:
    """A paragraph."""

    text: str


@dataclass(frozen=True)
class Table:
    """A head and rows of cells."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    fold: str = ""  # the line that unfolds a long table; empty: always open


@dataclass(frozen=True)
class Picture:
    """A figure that exists as a file, .svg or .png."""

    path: Path
    caption: str


Block = Text | Table | Picture


@dataclass(frozen=True)
class Section:
    """What the report shows of one part."""

    blocks: Sequence[Block]
    verdict: str  # one sentence on what agrees with the paper and what does not
    missing: Sequence[str] = ()  # names of what is still missing
