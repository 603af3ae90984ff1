"""One translated sentence as the metrics need it: its text, and a delay for each of its units.

A delay is the number of source words that had been read when a unit of the prediction was written.
The unit is the word, or the character for text without spaces.
"""

import re
from dataclasses import dataclass

from hmt.errors import UserError
from hmt.metrics.latency import (
    checked_reads,
    computing_seconds,
    elapsed_words,
    word_reads,
    words_read,
)
from hmt.streaming.record import Record

# word: what whitespace of any kind separates. space: what plain spaces separate, so that a number
# like 10 000 with its non-breaking space is one. char: every character but the plain space.
UNITS = ("word", "space", "char")


def count_units(text: str, unit: str) -> int:
    """Length of a text in one of UNITS."""
    if unit == "word":
        return len(text.split())
    if unit == "space":
        return len(re.findall(r"[^ \t\r\n]+", text))
    return len(re.findall(r"[^ \r\n]", text))


@dataclass(frozen=True)
class Instance:
    """One sentence with its delays. Y units of the prediction."""

    index: int
    prediction: str
    delays: list[int]  # (Y) source words read
    source_length: int
    source: str | None = None
    reference: str | None = None
    elapsed: list[float] | None = None  # (Y) delays with computing time, in source words
    unit: str = "word"

    @property
    def reference_length(self) -> int | None:
        """Units of the reference; None if there is no reference or nothing in it."""
        return (count_units(self.reference, self.unit) or None) if self.reference else None


def instance_of(record: Record, seconds_per_word: float | None = None) -> Instance:
    """A record at word level; with a speaking rate and clock times also computation-aware."""
    try:
        reads = checked_reads(record.reads, len(record.source_tokens))
    except UserError as error:
        raise UserError(f"sentence {record.index}: {error}") from None
    outs = record.target_word_outs or record.target_word_ends
    elapsed = None
    if seconds_per_word is not None and record.times:
        work = computing_seconds(record.times, reads, record.arrivals)
        out = elapsed_words(words_read(reads, record.source_word_ends), work, seconds_per_word)
        elapsed = [out[min(at, len(out) - 1)] for at in outs]
    return Instance(
        index=record.index,
        prediction=record.prediction,
        delays=word_reads(reads, record.source_word_ends, outs),
        source_length=len(record.source_word_ends),
        source=record.source,
        reference=record.reference,
        elapsed=elapsed,
    )
