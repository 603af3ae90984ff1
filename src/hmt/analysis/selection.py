"""Is confidence calibrated?  Accuracy by confidence, BLEU by probability of the selection.

Forced pairs are the lines of `hmt score`; per target token they have the moments, the confidences
and the correctness of all its states.  Records are translations.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from hmt.errors import UserError
from hmt.metrics.bootstrap import SEED, Array, Statistic, interval, resample
from hmt.metrics.scores import score
from hmt.streaming.record import Record

Forced = Mapping[str, Any]


@dataclass(frozen=True)
class Group:
    """A group of similar states or sentences: its range of values, its size, its score."""

    low: float
    high: float
    count: int
    value: float | None  # percent correct, or BLEU; None if there are none
    interval: list[float] | None = None


def accuracy_by_confidence(
    pairs: Sequence[Forced], groups: int = 10, resamples: int = 1000
) -> list[Group]:
    """Percent of correct states per band of confidence; intervals by bootstrap over sentences.

    A token's last state, whose confidence is set to 1 and not predicted, does not count.
    """

    def band(place: int, confidence: float, is_last: bool) -> int | None:
        return None if is_last else min(int(confidence * groups), groups - 1)

    edges = [(n / groups, (n + 1) / groups) for n in range(groups)]
    return _accuracy(pairs, band, edges, resamples)


def accuracy_by_place(pairs: Sequence[Forced], resamples: int = 1000) -> list[Group]:
    """Percent of correct states per place among a token's states, from the earliest (1) on."""
    most = max((len(own) for pair in pairs for own in pair["moments"]), default=0)
    edges = [(k + 1.0, k + 1.0) for k in range(most)]
    return _accuracy(pairs, lambda place, confidence, is_last: place, edges, resamples)


def _accuracy(
    pairs: Sequence[Forced],
    group_of: Callable[[int, float, bool], int | None],
    edges: Sequence[tuple[float, float]],
    resamples: int,
) -> list[Group]:
    if not pairs:
        raise UserError("There is no forced pair to analyse; `hmt score` prints one per line.")
    # (N, G, 2): per sentence and group how many states there are and how many are correct
    counts = np.zeros((len(pairs), len(edges), 2))
    for n, pair in enumerate(pairs):
        for place, confidence, is_last, is_correct in _states(pair):
            if (group := group_of(place, confidence, is_last)) is not None:
                counts[n, group] += 1, is_correct
    statistics = {str(g): Statistic(counts[:, g], _percent) for g in range(len(edges))}
    drawn = resample(statistics, resamples, SEED) if resamples else {}
    found = []
    for g, (low, high) in enumerate(edges):
        total = int(counts[:, g, 0].sum())
        value = statistics[str(g)].corpus() if total else None
        ends = interval(drawn[str(g)]) if total and resamples else None
        found.append(Group(low, high, total, value, ends))
    return found


def _percent(sums: Array) -> float:
    return float(100 * sums[1] / sums[0]) if sums[0] else math.nan


def _states(pair: Forced) -> Iterator[tuple[int, float, bool, int]]:
    """Place among its token's states, confidence, whether it had to write, whether correct."""
    if not all(name in pair for name in ("moments", "confidence", "correct")):
        raise UserError(
            "The model shows no confidence of its states; this analysis is for systems that do, "
            "such as HMT, and for output of this version of `hmt score`."
        )
    for confidences, corrects in zip(pair["confidence"], pair["correct"], strict=True):
        for place, (confidence, is_correct) in enumerate(zip(confidences, corrects, strict=True)):
            is_last = place == len(confidences) - 1 and confidence == 1.0
            yield place, confidence, is_last, is_correct


def selection_probability(record: Record) -> float:
    """p(z)^(1/|z|): how probable the moments of a translation were, per token.

    Each factor is the confidence of the state that wrote, times that of not writing in the states
    before it from the last write on (Eq. 6 of the paper).
    """
    if not record.reads or len(record.confidences) != len(record.reads):
        raise UserError(
            f"Record {record.index} has no confidences, or no token; give records of a system with "
            "confidences, such as HMT."
        )
    total = 0.0
    before = 0
    for read, moments, confidences in zip(
        record.reads, record.moments, record.confidences, strict=True
    ):
        known = dict(zip(moments, confidences, strict=True))
        for moment in sorted(known):
            if before <= moment < read:
                total += _log(1.0 - known[moment])
        total += _log(known.get(read, 1.0))
        before = read
    return math.exp(total / len(record.reads))


def _log(probability: float) -> float:
    return math.log(probability) if probability > 0 else -1e3


def bleu_by_selection(
    records: Sequence[Record], groups: int = 4, resamples: int = 1000
) -> list[Group]:
    """BLEU of groups of equal size, from the least to the most probable selections."""
    if len(records) < groups:
        raise UserError(f"There are {len(records)} records; {groups} groups need as many.")
    if any(record.reference is None for record in records):
        raise UserError("Some records have no reference; evaluate again with --target.")
    known = sorted(((selection_probability(r), r) for r in records), key=lambda pair: pair[0])
    borders = [round(n * len(known) / groups) for n in range(groups + 1)]
    found = []
    for start, stop in pairwise(borders):
        some = known[start:stop]
        point = score([record for _, record in some], resamples=resamples)
        ends = point["intervals"]["quality"]["bleu"] if resamples else None
        found.append(Group(some[0][0], some[-1][0], len(some), point["quality"]["bleu"], ends))
    return found
