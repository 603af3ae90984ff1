"""Resampling of sentences: how certain a corpus score is, and whether two systems differ.

N sentences, S sufficient statistics per sentence, B resamples. Every corpus score here is a
function of sums over sentences, so resampling is a matrix product of draws and a table.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hmt.errors import UserError

Array = NDArray[np.float64]

RESAMPLES = 1000
LEVEL = 0.95
SEED = 12345
CELLS = 1_000_000  # in a block of draws: 8 MB


@dataclass(frozen=True)
class Statistic:
    """A corpus score as a function of sums: table (N,S), value of a sum (S)."""

    table: Array
    value: Callable[[Array], float]

    def corpus(self) -> float:
        """The score of all sentences."""
        return self.value(self.table.sum(axis=0))


def mean_of(values: Sequence[float | None]) -> Statistic:
    """The unweighted mean over the sentences that have a value; nan if none has."""
    table = [(0.0, 0.0) if value is None else (value, 1.0) for value in values]
    return Statistic(np.array(table, dtype=np.float64).reshape(-1, 2), _mean)


def _mean(sums: Array) -> float:
    return float(sums[0] / sums[1]) if sums[1] else float("nan")


def draws(sentences: int, resamples: int, seed: int) -> Iterator[Array]:
    """How often each sentence is drawn in each resample, in blocks (<=B,N)."""
    generator = np.random.default_rng(seed)
    block = max(1, CELLS // sentences)
    for start in range(0, resamples, block):
        rows = min(block, resamples - start)
        picked = generator.integers(sentences, size=(rows, sentences))
        picked += np.arange(rows)[:, None] * sentences
        counts = np.bincount(picked.ravel(), minlength=rows * sentences)
        yield counts.reshape(rows, sentences).astype(np.float64)


def resample(
    statistics: Mapping[str, Statistic], resamples: int = RESAMPLES, seed: int = SEED
) -> dict[str, Array]:
    """Each score on the same resampled sentences (B); equal seeds draw equal sentences."""
    sizes = {len(statistic.table) for statistic in statistics.values()}
    if len(sizes) != 1 or sizes == {0}:
        raise UserError(f"sets of {sorted(sizes)} sentences cannot be resampled together.")
    scores: dict[str, list[float]] = {name: [] for name in statistics}
    for counts in draws(sizes.pop(), resamples, seed):
        for name, statistic in statistics.items():
            scores[name] += [statistic.value(sums) for sums in counts @ statistic.table]
    return {name: np.array(values) for name, values in scores.items()}


def interval(scores: Array, level: float = LEVEL) -> list[float] | None:
    """Percentile interval [low, high] of resampled scores; None if all are undefined."""
    defined = scores[~np.isnan(scores)]
    if not len(defined):
        return None
    low, high = np.quantile(defined, [(1 - level) / 2, (1 + level) / 2])
    return [float(low), float(high)]


def difference(
    first: float, second: float, scores: Array, level: float = LEVEL
) -> dict[str, object]:
    """Test of second - first, given the resampled differences (B).

    p is the share of resamples that lie at least as far from their mean as the difference lies from
    zero, as in sacreBLEU's paired bootstrap; but ties count, so that a system compared with itself
    gets p = 1.
    """
    found = second - first
    defined = scores[~np.isnan(scores)]
    if np.isnan(found) or not len(defined):
        known = [None if np.isnan(value) else value for value in (first, second)]
        nothing = dict.fromkeys(("difference", "interval", "p"))
        return {"first": known[0], "second": known[1], **nothing}
    # Equal systems differ only by rounding.
    far = np.abs(defined - defined.mean()) >= abs(found) - 1e-12
    return {
        "first": first,
        "second": second,
        "difference": found,
        "interval": interval(defined, level),
        "p": float((far.sum() + 1) / (len(defined) + 1)),
    }
