"""`scores.json`: the points of a quality-latency curve, collected in one file."""

import json
from pathlib import Path

from hmt.errors import UserError
from hmt.files import write_atomically
from hmt.metrics.scores import Point

FORMAT = 1


def read_points(path: str | Path) -> list[Point]:
    """The points of a scores.json; none if there is no such file yet."""
    if not Path(path).exists():
        return []
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except (ValueError, OSError) as error:
        raise UserError(f"{path} cannot be read as JSON: {error}.") from None
    points = content.get("points") if isinstance(content, dict) else None
    if not isinstance(points, list) or not all(
        isinstance(point, dict) and isinstance(point.get("settings"), dict) for point in points
    ):
        raise UserError(
            f"{path} must be an object with a list 'points' whose members have 'settings'; "
            "move the file away to start a new one."
        )
    return points


def add_point(path: str | Path, point: Point) -> None:
    """Put a point into scores.json, in the place of one with equal settings if there is one.

    The file is replaced in one step: an interrupted sweep leaves the old one.
    """
    points = read_points(path)
    # as JSON would give them back: tuples become lists, keys become text
    settings = json.loads(json.dumps(point["settings"]))
    places = [i for i, old in enumerate(points) if old["settings"] == settings]
    if places:
        points[places[0]] = point
    else:
        points.append(point)
    text = json.dumps({"format": FORMAT, "points": points}, indent=1, allow_nan=False)
    write_atomically(Path(path), (text + "\n").encode())
