"""Latency of running text: long-form metrics as OmniSTEval defines them, counted in source words.

A talk is a text of many sentences, given word by word.  The written words are assigned to the
reference sentences; each of these is then a segment with its own delays, counted from its first
source word.  X source words of a segment, Y words written for it, R reference words.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from hmt.errors import UserError
from hmt.metrics.latency import (
    average_lagging,
    average_proportion,
    differentiable_average_lagging,
    mean_lag,
)
from hmt.metrics.resegmentation import resegment

LONG_METRICS = ("LongYAAL", "LongAL", "LongLAAL", "LongAP", "LongDAL")
LONG_COMPUTATION_AWARE = tuple(f"{name}_CA" for name in LONG_METRICS)


@dataclass(frozen=True)
class Talk:
    """Source and translation of one talk, with the true sentences of both."""

    lengths: Sequence[int]  # source words of each sentence
    references: Sequence[str]
    written: Sequence[str]  # (Y) words
    delays: Sequence[int]  # (Y) source words of the talk that had been given
    elapsed: Sequence[float] | None = None  # (Y) the same with computing time

    def check(self) -> None:
        """Raise UserError if the parts do not match."""
        counts = [len(self.delays), *([] if self.elapsed is None else [len(self.elapsed)])]
        if any(count != len(self.written) for count in counts):
            raise UserError(
                f"There are {counts[0]} delays for {len(self.written)} written words; "
                "there must be one for each."
            )
        if len(self.lengths) != len(self.references):
            raise UserError(
                f"There are {len(self.lengths)} source sentences and {len(self.references)} "
                "references; there must be equally many."
            )


@dataclass(frozen=True)
class Segment:
    """What was written for one reference sentence; times count from its first source word."""

    reference: str
    words: list[str]  # (Y)
    delays: list[int]  # (Y); below zero where a word was written before its sentence began
    source_length: int
    to_end: int  # source words from the first of the segment to the end of the talk
    elapsed: list[float] | None = None  # (Y)

    @property
    def prediction(self) -> str:
        """The written text."""
        return " ".join(self.words)


@dataclass(frozen=True)
class Health:
    """Indicators of how reliable a re-segmentation is."""

    similarity: float  # of aligned words, per reference word: 1 for the reference itself
    early: float  # share of words written before their assigned sentence began
    empty: int  # sentences without any word
    lost: int  # words assigned to no sentence


def segments_of(talks: Sequence[Talk]) -> tuple[list[Segment], Health]:
    """All segments of all talks in order, and how reliable they are."""
    found: list[Segment] = []
    similarity, lost = 0.0, 0
    for talk in talks:
        talk.check()
        shared_out = resegment(talk.references, talk.written)
        similarity += shared_out.similarity
        lost += shared_out.sentences.count(None)
        found += _segments(talk, shared_out.sentences)
    delays = [delay for segment in found for delay in segment.delays]
    return found, Health(
        similarity=similarity / sum(len(segment.reference.split()) for segment in found),
        early=sum(delay < 0 for delay in delays) / max(1, len(delays)),
        empty=sum(not segment.words for segment in found),
        lost=lost,
    )


def _segments(talk: Talk, sentences: Sequence[int | None]) -> list[Segment]:
    ends = list(accumulate(talk.lengths))
    words: list[list[int]] = [[] for _ in talk.references]
    for n, sentence in enumerate(sentences):
        if sentence is not None:
            words[sentence].append(n)
    found = []
    for reference, own, end, length in zip(talk.references, words, ends, talk.lengths, strict=True):
        start = end - length
        elapsed = talk.elapsed
        found.append(
            Segment(
                reference=reference,
                words=[talk.written[n] for n in own],
                delays=[talk.delays[n] - start for n in own],
                source_length=length,
                to_end=ends[-1] - start,
                elapsed=None if elapsed is None else [elapsed[n] - start for n in own],
            )
        )
    return found


def long_latency(segment: Segment) -> dict[str, float | None] | None:
    """All long-form metrics of a segment; None if nothing was written for it.

    LongYAAL is None if everything was written after the talk had ended.
    """
    if not segment.words:
        return None
    found = dict(zip(LONG_METRICS, _lags(segment, segment.delays), strict=True))
    if segment.elapsed is not None:
        aware = _lags(segment, segment.elapsed)
        found |= dict(zip(LONG_COMPUTATION_AWARE, aware, strict=True))
    return found


def _lags(segment: Segment, delays: Sequence[float]) -> list[float | None]:
    X, reference = segment.source_length, len(segment.reference.split())
    longer = max(len(delays), reference)
    return [
        _long_yaal(segment, delays, longer),
        average_lagging(delays, X, reference),
        average_lagging(delays, X, longer),
        average_proportion(delays, X, reference),
        differentiable_average_lagging(delays, X),
    ]


def _long_yaal(segment: Segment, delays: Sequence[float], length: int) -> float | None:
    """Mean lag of the words written before the *talk* ended, not just their own sentence."""
    late = (n for n, delay in enumerate(delays) if delay >= segment.to_end)
    before = next(late, len(delays))
    return mean_lag(delays[:before], segment.source_length, length) if before else None


def elapsed_of_talk(
    delays: Sequence[int], seconds: Sequence[float], seconds_per_word: float
) -> list[float]:
    """When each written word was out, in source words (Y).

    `seconds` (X) are spent after each source word; work on a word starts when it was spoken and the
    work on the previous one is done. What was written after word d is out when its work is done.
    """
    out = [0.0]
    for n, work in enumerate(seconds, 1):
        out.append(max(n, out[-1]) + work / seconds_per_word)
    return [out[delay] for delay in delays]
