"""`hmt compare`: whether two systems differ on the same sentences."""

import json
import logging
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from hmt.cli._app import app
from hmt.cli._scores import (
    MAX_RESAMPLES,
    QUALITY_HELP,
    SECONDS_PER_WORD,
    TOKENIZE_HELP,
    checked_scoring,
)
from hmt.errors import UserError

if TYPE_CHECKING:
    from hmt.evaluation.translations import Translations

logger = logging.getLogger(__name__)

SURE = 0.05  # a smaller p counts as a difference
NAMES = {
    "quality.bleu": "BLEU",
    "quality.chrf": "chrF2",
    "quality.bleu_tokenised_lc": "BLEU (tokenised, lower-cased)",
}
SHOWN = [
    *("quality.bleu", "quality.chrf", "latency.token.AL", "latency.word.AL", "latency.word.LAAL"),
    *("latency.word.DAL", "latency.word.AL_CA", "latency.word.LAAL_CA", "latency.word.DAL_CA"),
]


class Format(StrEnum):
    """How to print the result."""

    text = "text"
    json = "json"


@app.command()
def compare(
    first: Path = typer.Argument(
        ...,
        metavar="A",
        help="A directory that `hmt evaluate --output` wrote, the folder of one of its points, "
        "or a log.",
    ),
    second: Path = typer.Argument(..., metavar="B", help="The same for the other system."),
    at: float | None = typer.Option(
        None,
        help="Latency at which to compare two curves. "
        "Default: the mean over the latencies that both reach.",
    ),
    quality: str = typer.Option("bleu", help=f"{QUALITY_HELP} For curves."),
    latency: str = typer.Option(
        "word.LAAL", help="Measure of latency, as in token.AL or word.LAAL. For curves."
    ),
    tokenize: str | None = typer.Option(
        None, help=f"{TOKENIZE_HELP} Default: that of the existing scores."
    ),
    resamples: int = typer.Option(
        1000, min=1, max=MAX_RESAMPLES, help="Resamples of the paired bootstrap."
    ),
    seconds_per_word: float | None = SECONDS_PER_WORD,
    format: Format = typer.Option(Format.text, help="text, or json with all scores."),
) -> None:
    """Test whether two systems differ, by a paired bootstrap.

    Two points are compared in every score. Two curves are compared in quality, on average over the
    latencies that both reach or at one of them; a point and a curve at the latency of the point.

    \b
    Examples:
      hmt compare curves/hmt curves/wait-k
      hmt compare curves/hmt curves/wait-k --at 4 --quality chrf
    """
    from dataclasses import asdict

    from hmt.evaluation.translations import read_curve
    from hmt.metrics import compare as bootstrap

    (one, other), scorings = zip(*(read_curve(path) for path in (first, second)), strict=True)
    _check_units([*one, *other], first, second)
    tokenize = tokenize or _tokenizer([*scorings[0], *scorings[1]])
    scoring = asdict(checked_scoring(tokenize, seconds_per_word, resamples))
    if len(one) == len(other) == 1 and at is None:
        found = bootstrap.compare(one[0], other[0], **scoring)
    else:
        found = bootstrap.compare_curves(
            one, other, quality=quality, latency=latency, at=at, **scoring
        )
    found = {"A": str(first), "B": str(second), "tokenize": tokenize, **found}
    if format == Format.json:
        typer.echo(json.dumps(found, indent=1))
    else:
        typer.echo("\n".join(_sentences(found)))


def _tokenizer(scorings: Sequence[Mapping[str, Any]]) -> str:
    """The tokenizer of the existing BLEU scores."""
    used = {scoring["tokenize"] for scoring in scorings if "tokenize" in scoring}
    if len(used) > 1:
        raise UserError(
            f"BLEU was computed with the tokenizers {' and '.join(sorted(used))}; choose one with "
            "--tokenize."
        )
    return used.pop() if used else "13a"


def _check_units(points: "list[Translations]", first: Path, second: Path) -> None:
    units = {getattr(point[0], "unit", "word") for point in points if point}
    if len(units) > 1:
        raise UserError(
            f"{first} and {second} count delays by different units ({', '.join(sorted(units))}) "
            "and cannot be compared."
        )


def _sentences(found: dict[str, Any]) -> list[str]:
    """The result in words: first the verdicts, then the method."""
    if "scores" in found:
        lines = [
            f"{_name(key, found['tokenize'])}: {_verdict(found['scores'][key], key)}"
            for key in SHOWN
            if key in found["scores"]
        ]
    else:
        low, high = found["range"]
        key = f"quality.{found['quality']}"
        where = f"At {found['latency']} {low:.2f}"
        if low < high:
            where = f"On average over {found['latency']} from {low:.2f} to {high:.2f}"
        lines = [f"{where}, {_name(key, found['tokenize'])}: {_verdict(found, key)}"]
    return [
        f"A is {found['A']}, B is {found['B']}.",
        *lines,
        f"Paired bootstrap, two-sided, {found['resamples']:,} resamples of the same "
        f"{found['sentences']:,} sentences; [ ] are {found['level']:.0%} intervals of B minus A.",
    ]


def _name(key: str, tokenize: str) -> str:
    if key == "quality.bleu":
        return f"BLEU ({tokenize})"
    if key in NAMES:
        return NAMES[key]
    _, convention, metric = key.split(".")
    return f"{metric} ({convention})"


def _verdict(score: dict[str, Any], key: str) -> str:
    if score["difference"] is None:
        return "not defined for both."
    values = f"A {score['first']:.2f}, B {score['second']:.2f}"
    low, high = score["interval"]
    tested = f"{score['difference']:+.2f} [{low:+.2f}, {high:+.2f}], p = {score['p']:.3f}"
    if score["p"] >= SURE:
        return f"{values}; no difference can be shown ({tested})."
    more, less = ("higher", "lower") if key.startswith("quality") else ("later", "earlier")
    return f"{values}; B is {more if score['difference'] > 0 else less} ({tested})."
