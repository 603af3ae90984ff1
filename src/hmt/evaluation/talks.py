"""Talks: the lines of a test set joined to running text, and what a model wrote while it ran."""

import json
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

from hmt.errors import UserError
from hmt.files import read_text
from hmt.models.model import Model
from hmt.plain import from_plain, json_object
from hmt.streaming.events import Ended, Event
from hmt.streaming.record import Record
from hmt.streaming.whole_words import WordAssembler
from hmt.text.spoken import unpunctuated

TALK_SENTENCES = 100
# OmniSTEval's text segmentation names the document and the sentence within it.
_DOCUMENT = re.compile(r"docid=(\d+),segid=\d+")


def equal_talks(lines: int, sentences: int = TALK_SENTENCES) -> list[int]:
    """The number of lines of each talk, all of the same length; the last talk has the rest."""
    if sentences < 1:
        raise UserError(f"A talk cannot have {sentences} sentences; give 1 or more.")
    whole, rest = divmod(lines, sentences)
    return [sentences] * whole + [rest] * bool(rest)


def read_talks(path: Path, lines: int) -> list[int]:
    """The number of lines of each talk, from a file that names the talk of each pair, line by line.

    Consecutive lines with the same name are one talk; "docid=3,segid=7" names the talk 3.
    """
    names = read_text(path).splitlines()
    if len(names) != lines:
        raise UserError(
            f"{path} has {len(names)} lines but there are {lines} pairs; line n must name the talk "
            "that pair n belongs to."
        )
    sizes: list[int] = []
    last = None
    for number, line in enumerate(names, 1):
        found = _DOCUMENT.fullmatch(line.strip())
        name = found[1] if found else line.strip()
        if not name:
            raise UserError(f"{path}, line {number}: the name of a talk is missing.")
        if name == last:
            sizes[-1] += 1
        else:
            sizes.append(1)
        last = name
    return sizes


@dataclass(frozen=True)
class Script:
    """One talk before it is delivered: its sentences and their references."""

    name: str
    sources: tuple[str, ...]
    references: tuple[str, ...]

    @property
    def words(self) -> list[str]:
        """The running text."""
        return [word for line in self.sources for word in line.split()]

    @property
    def lengths(self) -> list[int]:
        """Words of each sentence."""
        return [len(line.split()) for line in self.sources]


def scripts(
    sources: Sequence[str], references: Sequence[str], sizes: Sequence[int], *, spoken: bool
) -> list[Script]:
    """Talks of these numbers of lines; if `spoken`, as a recogniser prints them."""
    lines = [unpunctuated(line) if spoken else " ".join(line.split()) for line in sources]
    # one space between words, so that every scorer counts the same
    targets = [" ".join(line.split()) for line in references]
    for side, texts in (("source", lines), ("reference", targets)):
        if "" in texts:
            raise UserError(
                f"Line {texts.index('') + 1} of the {side} has no words; running text needs words "
                "on both sides of every pair: remove the pair."
            )
    ends = list(accumulate(sizes))
    digits = max(3, len(str(len(sizes))))
    return [
        Script(
            f"talk-{n:0{digits}}", tuple(lines[end - size : end]), tuple(targets[end - size : end])
        )
        for n, (size, end) in enumerate(zip(sizes, ends, strict=True), 1)
    ]


@dataclass(frozen=True)
class Sentence:
    """A sentence as the session delimited it."""

    source_words: int
    written_words: int
    reason: str  # why it ended


@dataclass(frozen=True)
class Delivered:
    """One talk after it was delivered: Y words were written while X arrived."""

    name: str
    written: list[str]  # (Y)
    delays: list[int]  # (Y) source words that had been given
    seconds: list[float]  # (X) computing time after each source word
    sentences: list[Sentence]

    def to_json(self) -> str:
        """One line of JSON, without its newline."""
        return json.dumps(asdict(self), ensure_ascii=False)

    @classmethod
    def from_json(cls, line: str) -> "Delivered":
        """Read one line."""
        return from_plain(cls, json_object(line))


class Listener:
    """Records each written word once it is complete, with the source words given by then."""

    def __init__(self) -> None:
        self.given = 0  # source words
        self.written: list[str] = []
        self.delays: list[int] = []
        self.sentences: list[Sentence] = []
        self._words = WordAssembler()
        self._words_before = 0  # written in earlier sentences

    def __call__(self, event: Event) -> None:
        """Handle an event of a session as it happens."""
        words = [part for word in self._words.take(event) for part in word.text.split()]
        self.written += words
        self.delays += [self.given] * len(words)
        if isinstance(event, Ended):
            written = len(self.written) - self._words_before
            self._words_before = len(self.written)
            self.sentences.append(Sentence(event.source_words, written, event.reason))


def deliver(
    model: Model,
    script: Script,
    knobs: dict[str, Any],
    heard: Callable[[], None] = lambda: None,
) -> tuple[Delivered, list[Record]]:
    """Give a talk to a session word by word; `heard` is called after each."""
    listener = Listener()
    seconds: list[float] = []
    words = script.words
    with model.session(listener=listener, keep=len(words) + 1, **knobs) as session:  # all records
        for word in words:
            listener.given += 1
            start = time.perf_counter()
            session.push(word)
            seconds.append(time.perf_counter() - start)
            heard()
        start = time.perf_counter()
        session.finish()
        # the end of the talk is reported with its last word
        seconds[-1] += time.perf_counter() - start
        records = list(session.records)
    times = [round(second, 6) for second in seconds]
    one = Delivered(script.name, listener.written, listener.delays, times, listener.sentences)
    return one, records


def borders(lengths: Sequence[int]) -> Iterator[int]:
    """Source words up to the end of each sentence but the last, which ends with the talk."""
    return accumulate(lengths[:-1])
