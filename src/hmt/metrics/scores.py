"""One point of a quality-latency curve, and the file `scores.json` that collects them."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from hmt.errors import UserError
from hmt.metrics.bootstrap import LEVEL, RESAMPLES, SEED, Statistic, interval, mean_of, resample
from hmt.metrics.conventions import latency_conventions, metric_definitions, quality_conventions
from hmt.metrics.instance import Instance, instance_of
from hmt.metrics.latency import COMPUTATION_AWARE, METRICS, latency
from hmt.metrics.quality import QUALITIES, quality
from hmt.streaming.record import Record

Point = dict[str, Any]
PerSentence = list[dict[str, float | None] | None]


@dataclass(frozen=True)
class Scoring:
    """The options of a scoring; every point stores them, so that it can be scored again."""

    tokenize: str = "13a"
    seconds_per_word: float | None = None
    resamples: int = RESAMPLES
    seed: int = SEED


STANDARD = Scoring()


def token_latency(records: Sequence[Record]) -> PerSentence:
    """Latency per sentence in tokens, end tokens counted, with the written length (N)."""
    return [_latency(record.index, record.reads, len(record.source_tokens)) for record in records]


def word_latency(instances: Sequence[Instance]) -> PerSentence:
    """Latency per sentence in words (or the unit of the log), without end tokens (N)."""
    # Means over the timed sentences only would be comparable to nothing: all must be timed.
    timed = all(instance.elapsed is not None or not instance.delays for instance in instances)
    return [
        _latency(
            instance.index,
            instance.delays,
            instance.source_length,
            instance.reference_length,
            instance.elapsed if timed else None,
        )
        for instance in instances
    ]


def _latency(
    index: int,
    reads: Sequence[int],
    source_length: int,
    reference_length: int | None = None,
    elapsed: Sequence[float] | None = None,
) -> dict[str, float | None] | None:
    try:
        return latency(reads, source_length, reference_length, elapsed=elapsed)
    except UserError as error:
        raise UserError(f"sentence {index}: {error}") from None


class Sentences:
    """Sentences to be scored: all their corpus scores as statistics, by dotted name.

    Names are quality.bleu, latency.word.AL, latency.token.AL and so on.
    """

    def __init__(
        self,
        sentences: Sequence[Record] | Sequence[Instance],
        *,
        tokenize: str = "13a",
        seconds_per_word: float | None = None,
    ) -> None:
        if not sentences:
            raise UserError("there is no sentence to score; give at least one.")
        records = [sentence for sentence in sentences if isinstance(sentence, Record)]
        self.instances = [
            instance_of(sentence, seconds_per_word) if isinstance(sentence, Record) else sentence
            for sentence in sentences
        ]
        self.seconds_per_word = seconds_per_word
        self.latency: dict[str, PerSentence] = {"word": word_latency(self.instances)}
        if len(records) == len(sentences):
            self.latency["token"] = token_latency(records)
        self.statistics: dict[str, Statistic] = {}
        self.signatures: dict[str, str] = {}
        references = [
            instance.reference for instance in self.instances if instance.reference is not None
        ]
        if len(references) == len(self.instances):
            predictions = [instance.prediction for instance in self.instances]
            found, self.signatures = quality(predictions, references, tokenize)
            self.statistics |= {f"quality.{name}": statistic for name, statistic in found.items()}
        elif references:
            raise UserError(
                "some sentences have a reference and some have none; give it for all or for none."
            )
        for convention, values in self.latency.items():
            for metric in _metrics(values):
                column = [value[metric] if value else None for value in values]
                self.statistics[f"latency.{convention}.{metric}"] = mean_of(column)


def _metrics(values: PerSentence) -> list[str]:
    aware = any(value and COMPUTATION_AWARE[0] in value for value in values)
    return [*METRICS, *(COMPUTATION_AWARE if aware else ())]


def score(
    sentences: Sequence[Record] | Sequence[Instance],
    *,
    settings: Mapping[str, Any] | None = None,
    tokenize: str = "13a",
    seconds_per_word: float | None = None,
    resamples: int = RESAMPLES,
    seed: int = SEED,
) -> Point:
    """A point of scores.json: quality, latency, their intervals and what the numbers mean.

    `seconds_per_word` is the speaking rate for computation-aware latency from records with times.
    With zero resamples there are no intervals.
    """
    scored = Sentences(sentences, tokenize=tokenize, seconds_per_word=seconds_per_word)
    values = {name: _number(s.corpus()) for name, s in scored.statistics.items()}
    drawn = resample(scored.statistics, resamples, seed) if resamples else {}
    intervals = {name: interval(found) for name, found in drawn.items()}
    point: Point = {
        "settings": dict(settings or {}),
        "sentences": len(scored.instances),
        "quality": _quality_part(values),
        "latency": _latency_part(scored, values),
        "skipped": {name: _skipped(found) for name, found in scored.latency.items()},
        "intervals": None,
        "signatures": scored.signatures,
        "scoring": asdict(Scoring(tokenize, seconds_per_word, resamples, seed)),
        "conventions": {
            "quality": quality_conventions(tokenize),
            "latency": latency_conventions(
                scored.instances,
                tokens="token" in scored.latency,
                timed=COMPUTATION_AWARE[0] in _metrics(scored.latency["word"]),
                seconds_per_word=seconds_per_word,
            ),
            "metrics": metric_definitions(),
        },
    }
    if resamples:
        point["intervals"] = {
            "method": "percentile bootstrap over sentences",
            "level": LEVEL,
            "resamples": resamples,
            "seed": seed,
            "quality": _quality_part(intervals),
            "latency": _latency_part(scored, intervals),
        }
    return point


def _number(value: float) -> float | None:
    return None if math.isnan(value) else value


def _quality_part(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: values.get(f"quality.{name}") for name in QUALITIES}


def _latency_part(scored: Sentences, values: Mapping[str, Any]) -> dict[str, Any]:
    return {
        convention: {
            metric: values[f"latency.{convention}.{metric}"]
            for metric in _metrics(scored.latency[convention])
        }
        if convention in scored.latency
        else None
        for convention in ("token", "word")
    }


def _skipped(values: PerSentence) -> dict[str, int]:
    """Sentences without a value: nothing written or no source; for YAAL, all written too late."""
    return {
        "sentences": sum(value is None for value in values),
        "YAAL": sum(value is None or value["YAAL"] is None for value in values),
    }
