"""Points of scores.json as a table to be read in a terminal; below it stands what it means."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hmt.metrics.scores import Point

Place = tuple[str, ...]  # keys inside a point


def score_table(points: "Sequence[Point]") -> str:
    """One row per point, intervals under the numbers; settings that all share stand above."""
    first = points[0]
    varying = [
        name
        for name in first["settings"]
        if any(point["settings"].get(name) != first["settings"][name] for point in points)
    ]
    common = [f"{name}={v}" for name, v in first["settings"].items() if name not in varying]
    columns = _columns(points)
    rows = [["", *columns]]
    for point in points:
        rows.append(
            [
                " ".join(f"{name}={point['settings'].get(name)}" for name in varying),
                *(_number(_at(point, place)) for place in columns.values()),
            ]
        )
        if point["intervals"] is not None:
            ends = [_at(point["intervals"], place) for place in columns.values()]
            rows.append(["", *(_interval(end) for end in ends)])
    if not varying:
        rows = [row[1:] for row in rows]
    return "\n".join([*([" ".join(common)] if common else []), *aligned(rows), *_notes(points)])


def _columns(points: "Sequence[Point]") -> dict[str, Place]:
    """Column names, which say the convention, and where their numbers stand."""
    tokenize = points[0]["scoring"]["tokenize"]
    wanted: dict[str, Place] = {
        f"BLEU {tokenize}": ("quality", "bleu"),
        "chrF2": ("quality", "chrf"),
        # with the written length the two are one number
        "AL=LAAL token": ("latency", "token", "AL"),
        "DAL token": ("latency", "token", "DAL"),
    }
    unit = points[0]["scoring"].get("unit", "word")
    for metric in ("AL", "LAAL", "DAL", "AL_CA", "LAAL_CA", "DAL_CA"):
        wanted[f"{metric} {unit}"] = ("latency", "word", metric)
    always = f"AL {unit}"
    return {
        name: place
        for name, place in wanted.items()
        if name == always or any(_at(point, place) is not None for point in points)
    }


def _at(table: object, place: Place) -> object:
    for key in place:
        table = table.get(key) if isinstance(table, dict) else None
    return table


def _number(value: object) -> str:
    return f"{value:.2f}" if isinstance(value, int | float) else "-"


def _interval(ends: object) -> str:
    return f"[{ends[0]:.2f}, {ends[1]:.2f}]" if isinstance(ends, list) else ""


def aligned(rows: list[list[str]]) -> list[str]:
    """Rows of cells as lines with columns."""
    widths = [max(len(row[n]) for row in rows) for n in range(len(rows[0]))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def _notes(points: "Sequence[Point]") -> list[str]:
    """What the columns mean, as the points themselves say it."""
    first = points[0]
    notes = [""]
    if first["signatures"]:
        notes.append(f"BLEU   {first['signatures']['bleu']}")
    for convention, said in first["conventions"]["latency"].items():
        length = said["target_length"]
        if isinstance(length, dict):
            length = ", ".join(f"{name}: {length[name]}" for name in ("AL", "LAAL", "DAL"))
        name = first["scoring"].get("unit", convention) if convention == "word" else convention
        notes += [
            f"{name:5}  {said['unit']}; end tokens {said['end_tokens']};",
            f"       target length {length}",
        ]
        if "clipped" in said:
            notes.append(f"       {said['clipped']}")
        if "computation_aware" in said:
            notes.append(f"_CA    {said['computation_aware'].removeprefix('*_CA ')}")
    if drawn := first["intervals"]:
        notes.append(
            f"[ ]    {drawn['level']:.0%} intervals, {drawn['method']}, "
            f"{drawn['resamples']:,} resamples of {first['sentences']:,} sentences"
        )
    left_out = max(point["skipped"]["word"]["sentences"] for point in points)
    if left_out:
        notes.append(
            f"Latency is the mean over sentences; left out: up to {left_out} of "
            f"{first['sentences']:,} with nothing written or an empty source."
        )
    return [*notes, ""]
