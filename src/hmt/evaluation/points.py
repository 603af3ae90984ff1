"""`scores.json`: the points of a quality-latency curve, collected in one file."""

import json
from pathlib import Path

from hmt.errors import UserError
from hmt.files import locked, refuse_special, write_atomically
from hmt.metrics.scores import Point
from hmt.plain import json_object

FORMAT = 1


def read_points(path: str | Path) -> list[Point]:
    """The points of a scores.json; none if there is no such file yet."""
    if not Path(path).exists():
        return []
    refuse_special(Path(path))
    try:
        points = json_object(Path(path).read_text(encoding="utf-8")).get("points")
    except (ValueError, OSError, UserError) as error:
        raise UserError(f"{path} cannot be read as JSON: {str(error).rstrip('.')}.") from None
    if not isinstance(points, list) or not all(
        isinstance(point, dict) and isinstance(point.get("settings"), dict) for point in points
    ):
        raise UserError(
            f"{path} must be an object with a list 'points' whose members have 'settings'; "
            "move the file away to start a new one."
        )
    return points


def add_point(path: str | Path, point: Point) -> None:
    """Add a point to scores.json, replacing one with equal settings if there is one.

    The file is replaced in one step: an interrupted sweep leaves the old one. Processes that add
    points at the same time take turns, or one point would be lost.
    """
    with locked(Path(path).parent / "lock", "", waits=True):
        _add_point(Path(path), point)


def _add_point(path: Path, point: Point) -> None:
    points = read_points(path)
    # as JSON would give them back: tuples become lists, keys become text
    settings = json.loads(json.dumps(point["settings"]))
    places = [i for i, old in enumerate(points) if old["settings"] == settings]
    if places:
        points[places[0]] = point
    else:
        points.append(point)
    text = json.dumps({"format": FORMAT, "points": points}, indent=1, allow_nan=False)
    write_atomically(path, text + "\n")
