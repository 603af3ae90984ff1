"""Quality-latency curves read from scores.json, one directory per system."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hmt.errors import UserError
from hmt.evaluation.points import read_points
from hmt.metrics.latency import COMPUTATION_AWARE, METRICS
from hmt.metrics.longform import LONG_COMPUTATION_AWARE, LONG_METRICS
from hmt.metrics.scores import Point

CONVENTIONS = ("token", "word")
LATENCIES = (*METRICS, *COMPUTATION_AWARE, *LONG_METRICS, *LONG_COMPUTATION_AWARE)
QUALITY_NAMES = {
    "bleu": "sacreBLEU",
    "chrf": "chrF2",
    "bleu_tokenised_lc": "BLEU (tokenised, lower-cased)",
    "aligned_sure": "source read, sure links (%)",
    "aligned_possible": "source read, all links (%)",
}

Interval = tuple[float, float]


@dataclass(frozen=True)
class Axes:
    """The two axes: a quality, and a latency metric in one of the conventions."""

    quality: str
    convention: str
    metric: str

    @classmethod
    def named(cls, quality: str, latency: str) -> "Axes":
        """From names as in scores.json: bleu, token.AL."""
        if quality not in QUALITY_NAMES:
            raise UserError(
                f"The quality {quality!r} is unknown; it is one of {', '.join(QUALITY_NAMES)}."
            )
        convention, _, metric = latency.partition(".")
        if convention not in CONVENTIONS or metric not in LATENCIES:
            raise UserError(
                f"The latency {latency!r} is unknown; it is token. or word. followed by one of "
                f"{', '.join(LATENCIES)}, as in token.AL."
            )
        return cls(quality, convention, metric)

    @property
    def latency(self) -> str:
        return f"{self.convention}.{self.metric}"

    @property
    def quality_name(self) -> str:
        return QUALITY_NAMES[self.quality]

    @property
    def latency_name(self) -> str:
        """The label of the axis of a figure."""
        if self.metric in ("AP", "LongAP"):
            return f"{self.metric} (share of the source, {self.convention}s)"
        return f"{self.metric} ({self.convention}s)"


@dataclass(frozen=True)
class CurvePoint:
    """One setting of one system; the intervals are None where none were computed."""

    latency: float
    quality: float
    latency_interval: Interval | None = None
    quality_interval: Interval | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    values: dict[str, float] = field(default_factory=dict)  # all its numbers: bleu, token.AL, ...


@dataclass(frozen=True)
class Curve:
    """One system: its points from low to high latency, and what its numbers mean."""

    label: str
    points: tuple[CurvePoint, ...]
    notes: tuple[str, ...] = ()
    is_published: bool = False


def read_curves(directories: Sequence[Path], axes: Axes, labels: Sequence[str] = ()) -> list[Curve]:
    """The curve of each directory, labelled by its folder's name or by the given labels."""
    if labels and len(labels) != len(directories):
        raise UserError(
            f"There are {len(labels)} labels for {len(directories)} directories; give one per "
            "directory, in their order, or none."
        )
    names = list(labels) or _folder_names(directories)
    return [read_curve([path], axes, name) for path, name in zip(directories, names, strict=True)]


def read_curve(directories: Sequence[Path], axes: Axes, label: str) -> Curve:
    """One curve through the points of all directories, from low to high latency.

    Several directories are several models, as with systems that are trained once per latency.
    """
    read = [_read(path, axes) for path in directories]
    points = sorted((p for found, _ in read for p in found), key=lambda point: point.latency)
    notes = dict.fromkeys(note for _, notes in read for note in notes)
    return Curve(label, tuple(points), tuple(notes))


def by_setting(curve: Curve, knob: str) -> list[Curve]:
    """A curve for each value of a setting, in the order of the values."""
    values = {point.settings.get(knob) for point in curve.points}
    if None in values:
        raise UserError(
            f"Some points of {curve.label} have no setting {knob!r}; evaluate with --{knob}."
        )
    return [
        Curve(
            f"{knob} = {value}",
            tuple(p for p in curve.points if p.settings[knob] == value),
            curve.notes,
        )
        for value in sorted(values, key=str)
    ]


def _folder_names(directories: Sequence[Path]) -> list[str]:
    # a name that is not UTF-8 could be neither drawn nor written
    names = [path.resolve().name.encode("utf-8", "replace").decode() for path in directories]
    return [
        name if names.count(name) == 1 else str(path)
        for name, path in zip(names, directories, strict=True)
    ]


def _read(directory: Path, axes: Axes) -> tuple[list[CurvePoint], list[str]]:
    path = directory / "scores.json"
    if not path.is_file():
        raise UserError(
            f"{directory} has no scores.json; name a directory that `hmt evaluate --output` wrote."
        )
    raw = read_points(path)
    found = [point for each in raw if (point := _point(each, axes)) is not None]
    if not found:
        raise UserError(
            f"{path} has no point with both {axes.quality} and {axes.latency}; it has "
            f"{', '.join(_names(raw)) or 'no points'}."
        )
    return found, list(dict.fromkeys(note for each in raw for note in _notes(each, axes)))


def _point(point: Point, axes: Axes) -> CurvePoint | None:
    values = _values(point)
    if axes.quality not in values or axes.latency not in values:
        return None
    return CurvePoint(
        values[axes.latency],
        values[axes.quality],
        _interval(point, "latency", axes.convention, axes.metric),
        _interval(point, "quality", axes.quality),
        point["settings"],
        values,
    )


def _values(point: Point) -> dict[str, float]:
    """Every number of a point by its name: bleu, token.AL."""
    values = {name: _at(point, "quality", name) for name in QUALITY_NAMES}
    for convention in CONVENTIONS:
        for metric in LATENCIES:
            values[f"{convention}.{metric}"] = _at(point, "latency", convention, metric)
    return {name: float(v) for name, v in values.items() if isinstance(v, int | float)}


def _names(points: Sequence[Point]) -> list[str]:
    return list(dict.fromkeys(name for point in points for name in _values(point)))


def _at(table: Any, *keys: str) -> Any:
    """The value at nested keys; None if a key is missing."""
    for key in keys:
        table = table.get(key) if isinstance(table, dict) else None
    return table


def _interval(point: Point, *keys: str) -> Interval | None:
    ends = _at(point, "intervals", *keys)
    if isinstance(ends, list) and len(ends) == 2:
        return float(ends[0]), float(ends[1])
    return None


def _notes(point: Point, axes: Axes) -> list[str]:
    """What the numbers of a point mean, one sentence each, quoted from scores.json."""
    notes = []
    if text := _at(point, "conventions", "quality", axes.quality):
        signature = _at(point, "signatures", axes.quality)
        notes.append(f"{axes.quality_name}: {text}" + (f" ({signature})" if signature else ""))
    latency = _at(point, "conventions", "latency", axes.convention)
    if isinstance(latency, dict):
        length = latency.get("target_length")
        if isinstance(length, dict):
            length = length.get(axes.metric.removesuffix("_CA"), "written")
        facts = {
            "in": latency.get("unit"),
            "end tokens": latency.get("end_tokens"),
            "target length": length,
            "computation-aware": axes.metric.endswith("_CA") and latency.get("computation_aware"),
        }
        notes.append(
            f"{axes.metric} ({axes.convention}): "
            + "; ".join(f"{key} {value}" for key, value in facts.items() if value)
        )
    method, level = (_at(point, "intervals", key) for key in ("method", "level"))
    if method and isinstance(level, float):
        notes.append(f"Intervals: {level:.0%}, {method}")
    if sentences := point.get("sentences"):
        notes.append(f"Sentences: {sentences:,}")
    return notes
