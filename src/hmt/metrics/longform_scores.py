"""A point of scores.json for running text: scores after re-segmentation, and what they mean."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from hmt.metrics.bootstrap import LEVEL, Statistic, interval, mean_of, resample
from hmt.metrics.conventions import quality_conventions
from hmt.metrics.longform import (
    LONG_COMPUTATION_AWARE,
    LONG_METRICS,
    Segment,
    long_latency,
)
from hmt.metrics.quality import QUALITIES, quality
from hmt.metrics.scores import Point, Scoring

DEFINITIONS = {
    "symbols": "g_i source words given when word i of a sentence was sure to be complete, counted "
    "from the first source word of the sentence (below zero if it was written earlier); X source "
    "words of the sentence, Y written words given to it, R reference words",
    "LongYAAL": "mean of g_i - (i-1) X/max(Y,R) over the i written before the talk ended",
    "LongAL": "mean of g_i - (i-1) X/R up to the first i with g_i >= X",
    "LongLAAL": "as LongAL, with max(Y,R) in place of R",
    "LongAP": "sum of g_i / (X R)",
    "LongDAL": "mean over all i of the largest g_r - (r-1) X/Y with r <= i",
}
CONVENTION = {
    "unit": "words (what whitespace separates) on both sides",
    "aggregation": "unweighted mean over reference sentences",
    "skipped": "sentences that got no words; for LongYAAL also those written when the talk had "
    "ended",
    "resegmentation": "OmniSTEval 0.1.10's SoftSegmenter at word level, without a tokenizer",
}


def score_segments(segments: Sequence[Segment], scoring: Scoring) -> Point:
    """Quality and latency of re-segmented talks, with intervals from resampled sentences."""
    predictions = [segment.prediction for segment in segments]
    references = [segment.reference for segment in segments]
    found, signatures = quality(predictions, references, scoring.tokenize)
    latencies = [long_latency(segment) for segment in segments]
    names: tuple[str, ...] = LONG_METRICS
    if any(segment.elapsed is not None for segment in segments):
        names += LONG_COMPUTATION_AWARE
    for name in names:
        found[name] = mean_of([None if lag is None else lag[name] for lag in latencies])
    values = {name: _number(statistic) for name, statistic in found.items()}
    drawn = resample(found, scoring.resamples, scoring.seed) if scoring.resamples else {}
    ends = {name: interval(each) for name, each in drawn.items()}
    return {
        "settings": {},
        "sentences": len(segments),
        **_parts(values, names),
        "skipped": {
            "word": {
                "sentences": latencies.count(None),
                "LongYAAL": sum(lag is None or lag["LongYAAL"] is None for lag in latencies),
            }
        },
        "intervals": {
            "method": "percentile bootstrap over sentences",
            "level": LEVEL,
            "resamples": scoring.resamples,
            "seed": scoring.seed,
            **_parts(ends, names),
        }
        if ends
        else None,
        "signatures": signatures,
        "scoring": asdict(scoring),
        "conventions": {
            "quality": quality_conventions(scoring.tokenize),
            "latency": {"word": CONVENTION},
            "metrics": DEFINITIONS,
        },
    }


def _parts(values: dict[str, Any], names: Sequence[str]) -> dict[str, Any]:
    return {
        "quality": {name: values[name] for name in QUALITIES},
        "latency": {"token": None, "word": {name: values[name] for name in names}},
    }


def _number(statistic: Statistic) -> float | None:
    value = statistic.corpus()
    return None if value != value else value
