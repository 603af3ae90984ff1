"""Policy quality over a sweep: had the aligned source been read when each word was written?

One point of scores.json per setting, from forced decoding of pairs with gold word alignments.
"""

import dataclasses
import hashlib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hmt.evaluation.evaluate import ParallelText, claim
from hmt.evaluation.forced import forced
from hmt.evaluation.points import add_point, read_points
from hmt.metrics.alignment import Alignment, PolicyQuality, read_alignments
from hmt.metrics.bootstrap import (
    LEVEL,
    RESAMPLES,
    SEED,
    Array,
    Statistic,
    interval,
    mean_of,
    resample,
)
from hmt.metrics.scores import Point
from hmt.models.model import Model

KINDS = {"aligned_sure": "sure", "aligned_possible": "possible"}


def policy_sweep(
    model: Model,
    text: ParallelText,
    alignment: Path,
    output: Path,
    settings: Iterable[dict[str, Any]] = ({},),
    *,
    base: int | None = None,
    batch: int = 16,
    resamples: int = RESAMPLES,
    progress: Callable[[str, int, int], None] = lambda task, done, total: None,
) -> list[Point]:
    """Measure every setting that is not yet in scores.json of the output. -> all its points"""
    gold = read_alignments(alignment, text.sources, text.references or (), base)
    digest = hashlib.sha256(alignment.read_bytes()).hexdigest()
    claim(output, model, dataclasses.replace(text, checksum=f"{text.checksum} {digest}"))
    path = output / "scores.json"
    chosen = list(dict.fromkeys(model.knobs(**each) for each in settings))
    for n, knobs in enumerate(chosen):
        known = [point["settings"] for point in read_points(path)]
        if dataclasses.asdict(knobs) not in known:
            add_point(path, _point(model, text, gold, knobs, batch, resamples))
        progress("settings", n + 1, len(chosen))
    return read_points(path)


def _point(
    model: Model,
    text: ParallelText,
    gold: Sequence[Alignment],
    knobs: Any,
    batch: int,
    resamples: int,
) -> Point:
    policy = PolicyQuality(model.tokenizers, text.sources, text.references or (), gold)
    pairs = forced(model, text.sources, text.references or (), knobs, batch)
    rows = [policy.add(found["index"], found["reads"]) for found in pairs]
    statistics = {
        name: Statistic(np.array([[r[kind]["words"], r[kind]["read"]] for r in rows]), _percent)
        for name, kind in KINDS.items()
    }
    statistics["AL"] = mean_of(policy.lags)
    drawn = resample(statistics, resamples, SEED) if resamples else {}
    values = {name: statistic.corpus() for name, statistic in statistics.items()}
    ends = {name: interval(scores) for name, scores in drawn.items()}
    return {
        "settings": dataclasses.asdict(knobs),
        "sentences": len(rows),
        "quality": {name: values[name] for name in KINDS},
        "latency": {"token": {"AL": values["AL"]}, "word": None},
        "intervals": {
            "method": "percentile bootstrap over sentences",
            "level": LEVEL,
            "resamples": resamples,
            "seed": SEED,
            "quality": {name: ends[name] for name in KINDS},
            "latency": {"token": {"AL": ends["AL"]}},
        }
        if resamples
        else None,
        "conventions": {
            "quality": {
                name: f"percent of target words with {what} links whose last source word had been "
                "read when their first token was written, targets forced"
                for name, what in zip(KINDS, ("sure", "sure or possible"), strict=True)
            },
            "latency": {
                "token": {
                    "unit": "tokens of the model's vocabulary on both sides",
                    "end_tokens": "counted on both sides",
                    "target_length": "given tokens",
                }
            },
        },
    }


def _percent(sums: Array) -> float:
    return float(100 * sums[1] / sums[0]) if sums[0] else float("nan")
