"""Whether two systems differ on the same sentences: at one setting each, or along their curves."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from hmt.errors import UserError
from hmt.metrics.bootstrap import LEVEL, RESAMPLES, SEED, Array, difference, resample
from hmt.metrics.instance import Instance
from hmt.metrics.scores import Sentences
from hmt.streaming.record import Record

Translations = Sequence[Record] | Sequence[Instance]


def compare(
    first: Translations,
    second: Translations,
    *,
    tokenize: str = "13a",
    seconds_per_word: float | None = None,
    resamples: int = RESAMPLES,
    seed: int = SEED,
) -> dict[str, Any]:
    """Paired bootstrap of every score that both systems have: second minus first.

    Under "scores", by names like quality.bleu and latency.word.AL: first, second, difference,
    interval, p.
    """
    both = [
        Sentences(each, tokenize=tokenize, seconds_per_word=seconds_per_word)
        for each in aligned([first, second])
    ]
    drawn = [resample(each.statistics, resamples, seed) for each in both]
    one, other = (each.statistics for each in both)
    scores = {
        name: difference(one[name].corpus(), other[name].corpus(), drawn[1][name] - drawn[0][name])
        for name in one
        if name in other
    }
    return {**_test(both[0], resamples, seed), "scores": scores}


def compare_curves(
    first: Sequence[Translations],
    second: Sequence[Translations],
    *,
    quality: str = "bleu",
    latency: str = "word.LAAL",
    at: float | None = None,
    tokenize: str = "13a",
    seconds_per_word: float | None = None,
    resamples: int = RESAMPLES,
    seed: int = SEED,
) -> dict[str, Any]:
    """Paired bootstrap of the quality between two curves, second minus first.

    Points are joined by lines, and compared at the latency `at`, or else on average over all
    latencies that both curves reach.
    """
    points = [
        Sentences(each, tokenize=tokenize, seconds_per_word=seconds_per_word)
        for each in aligned([*first, *second])
    ]
    names = f"latency.{latency}", f"quality.{quality}"
    for name in names:
        if not all(name in point.statistics for point in points):
            known = ", ".join(sorted(points[0].statistics))
            raise UserError(f"not every point has {name!r}; there is {known}.")
    drawn = [
        resample({name: point.statistics[name] for name in names}, resamples, seed)
        for point in points
    ]
    # (P, 1+B): the scores of the whole corpus, then of its resamples
    x, y = (
        np.array(
            [
                [point.statistics[name].corpus(), *draw[name]]
                for point, draw in zip(points, drawn, strict=True)
            ]
        )
        for name in names
    )
    split = len(first)
    low, high = _common_range(x[:split, 0], x[split:, 0], at)
    means = np.array(
        [
            [_mean_height(x[part, b], y[part, b], low, high) for b in range(x.shape[1])]
            for part in (slice(None, split), slice(split, None))
        ]
    )  # (2, 1+B)
    found = difference(means[0, 0], means[1, 0], means[1, 1:] - means[0, 1:])
    return {
        **_test(points[0], resamples, seed),
        "quality": quality,
        "latency": latency,
        "range": [low, high],
        **found,
    }


def aligned(systems: Sequence[Translations]) -> list[list[Any]]:
    """Each system's sentences in order of their index; all must have translated the same ones."""
    if len(systems) < 2 or not all(systems):
        raise UserError("one of the systems has no sentence or no point; evaluate it first.")
    ordered: list[list[Any]] = [sorted(each, key=lambda s: s.index) for each in systems]
    for each in ordered[1:]:
        if [s.index for s in each] != [s.index for s in ordered[0]]:
            raise UserError("the systems did not translate the same sentences: indices differ.")
        for one, other in zip(ordered[0], each, strict=True):
            for name in ("source", "reference"):
                texts = getattr(one, name), getattr(other, name)
                if None not in texts and texts[0].split() != texts[1].split():
                    raise UserError(
                        f"sentence {one.index} has another {name} in each system; compare "
                        "evaluations of one text."
                    )
    return ordered


def _test(sentences: Sentences, resamples: int, seed: int) -> dict[str, Any]:
    return {
        "test": "two-sided paired bootstrap over sentences, second minus first",
        "sentences": len(sentences.instances),
        "level": LEVEL,
        "resamples": resamples,
        "seed": seed,
    }


def _common_range(one: Array, other: Array, at: float | None) -> tuple[float, float]:
    low, high = float(max(one.min(), other.min())), float(min(one.max(), other.max()))
    if not low <= high:
        raise UserError(
            f"the curves have no latency in common: {one.min():.2f} to {one.max():.2f} "
            f"and {other.min():.2f} to {other.max():.2f}."
        )
    if at is None:
        return low, high
    if not low <= at <= high:
        raise UserError(f"latency {at} is not on both curves; they share {low:.2f} to {high:.2f}.")
    return at, at


def _mean_height(x: Array, y: Array, low: float, high: float) -> float:
    """Mean height of the line through the points (P) between two places."""
    order = np.argsort(x, kind="stable")
    x, y = x[order], y[order]
    knots = np.unique(np.concatenate([[low, high], x[(x > low) & (x < high)]]))
    heights = np.interp(knots, x, y)
    if low == high:
        return float(heights[0])
    return float(np.trapezoid(heights, knots) / (high - low))
