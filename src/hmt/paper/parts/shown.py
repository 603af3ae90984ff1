"""Numbers as the sections show them."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hmt.analysis.curves import Axes
from hmt.evaluation.points import read_points

AXES = Axes.named("bleu", "token.AL")
TRAININGS = "trainings.json"  # seconds of every training, by the name of its run


def read_data(path: Path) -> dict[str, Any] | None:
    """The data of an analysis; None if it has not been done."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def find_point(folder: Path, settings: Mapping[str, Any]) -> dict[str, Any] | None:
    """The first point of an evaluation that has these settings."""
    for point in read_points(folder / "scores.json"):
        if settings.items() <= point["settings"].items():
            return point
    return None


def with_interval(value: float | None, ends: list[float] | None, digits: int = 1) -> str:
    """As in 34.3 [32.8, 35.8]."""
    if value is None:
        return "–"
    if not ends:
        return f"{value:.{digits}f}"
    return f"{value:.{digits}f} [{ends[0]:.{digits}f}, {ends[1]:.{digits}f}]"


def bleu(point: Mapping[str, Any]) -> str:
    """BLEU of a point with its interval."""
    ends = (point.get("intervals") or {}).get("quality", {}).get("bleu")
    return with_interval(point["quality"]["bleu"], ends)


def lag(point: Mapping[str, Any], metric: str = "AL") -> str:
    """Latency of a point in tokens."""
    return f"{point['latency']['token'][metric]:.2f}"


def duration(seconds: float) -> str:
    """As in 45 s, 23 min, 3.1 h."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
