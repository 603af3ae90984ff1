"""Scores on the command line: the options of all commands that score, and the table of points."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

from hmt.errors import UserError

if TYPE_CHECKING:
    from hmt.metrics.scores import Point, Scoring

Place = tuple[str, ...]  # keys inside a point

MAX_RESAMPLES = 1_000_000
QUALITY_HELP = "Measure of quality: bleu, chrf or bleu_tokenised_lc."
TOKENIZE_HELP = "sacreBLEU's tokenizer for BLEU: 13a, intl, zh, ja-mecab, ko-mecab, char, none ..."
SECONDS_PER_WORD = typer.Option(
    None,
    help="Speaking rate in seconds per word (0.4 is typical): adds latencies that include "
    "computing time, which are meaningful only with --batch 1. Default: not computed.",
)


def checked_scoring(tokenize: str, seconds_per_word: float | None, resamples: int) -> "Scoring":
    """How to score; a mistake is reported now and not after hours of translating."""
    from hmt.metrics.quality import scorers
    from hmt.metrics.scores import Scoring

    if seconds_per_word is not None and not 0 < seconds_per_word < math.inf:
        raise UserError(
            f"The option --seconds-per-word was given as {seconds_per_word}; it must be a number "
            "of seconds above 0, as in --seconds-per-word 0.4."
        )
    scorers(tokenize)
    return Scoring(tokenize, seconds_per_word, resamples)


def score_table(points: "Sequence[Point]") -> str:
    """One row per point, intervals under the numbers; settings common to all are printed above."""
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
    """Column names, which include the convention, and the keys of their numbers."""
    tokenize = points[0]["scoring"]["tokenize"]
    columns: dict[str, Place] = {
        f"BLEU {tokenize}": ("quality", "bleu"),
        "chrF2": ("quality", "chrf"),
        # with the written length, the two are the same number
        "AL=LAAL token": ("latency", "token", "AL"),
        "DAL token": ("latency", "token", "DAL"),
    }
    unit = points[0]["scoring"].get("unit", "word")
    for metric in ("AL", "LAAL", "DAL", "AL_CA", "LAAL_CA", "DAL_CA"):
        columns[f"{metric} {unit}"] = ("latency", "word", metric)
    always = f"AL {unit}"
    return {
        name: place
        for name, place in columns.items()
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
    """Rows of cells as lines with aligned columns."""
    widths = [max(len(row[n]) for row in rows) for n in range(len(rows[0]))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def _notes(points: "Sequence[Point]") -> list[str]:
    """What the columns mean, as stored in the points."""
    first = points[0]
    notes = [""]
    if first["signatures"]:
        notes.append(f"BLEU   {first['signatures']['bleu']}")
    for convention, wording in first["conventions"]["latency"].items():
        length = wording["target_length"]
        if isinstance(length, dict):
            length = ", ".join(f"{name}: {length[name]}" for name in ("AL", "LAAL", "DAL"))
        name = first["scoring"].get("unit", convention) if convention == "word" else convention
        notes += [
            f"{name:5}  {wording['unit']}; end tokens {wording['end_tokens']};",
            f"       target length {length}",
        ]
        if "clipped" in wording:
            notes.append(f"       {wording['clipped']}")
        if "computation_aware" in wording:
            notes.append(f"_CA    {wording['computation_aware'].removeprefix('*_CA ')}")
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
