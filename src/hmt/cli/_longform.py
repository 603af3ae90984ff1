"""`hmt evaluate --longform`: the options, and the table that it prints."""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from hmt.cli._progress import bars
from hmt.cli._scores import aligned
from hmt.errors import UserError

if TYPE_CHECKING:
    from hmt.evaluation.evaluate import ParallelText
    from hmt.evaluation.longform import LongForm
    from hmt.metrics.scores import Point, Scoring
    from hmt.models.model import Model

logger = logging.getLogger(__name__)

# Beyond these shares of early words or empty sentences, re-segmentation has failed.
EARLY, EMPTY = 0.05, 0.1

LONGFORM = typer.Option(
    False, "--longform", help="Join the lines into talks of running text, and score those."
)
TALK_SENTENCES = typer.Option(None, min=1, help="With --longform: sentences per talk (100).")
TALKS = typer.Option(
    None, help="With --longform: a file that names, line by line, the talk of each pair."
)
UNPUNCTUATED = typer.Option(
    False, "--unpunctuated", help="With --longform: lower-case and without punctuation."
)
OPTIONS = ("talk_sentences", "talks", "unpunctuated")


def refuse(options: dict[str, Any]) -> None:
    """Report options that would have no effect."""
    given = [name for name in OPTIONS if options[name] not in (None, False)]
    if given and not options["is_longform"]:
        option = "--" + given[0].replace("_", "-")
        raise UserError(f"The option {option} is for running text; add --longform or leave it out.")
    if options["is_longform"]:
        for name in ("log", "comet"):
            if options[name] is not None:
                raise UserError(f"--longform and --{name} exclude each other; leave out one.")
        if options["target"] is None:
            raise UserError("--longform assigns text to references; give them with --target.")


def form_of(
    lines: int, talk_sentences: int | None, talks: Path | None, unpunctuated: bool
) -> "LongForm":
    """How this many lines become running text."""
    from hmt.evaluation import longform
    from hmt.evaluation.talks import TALK_SENTENCES, equal_talks, read_talks

    if talks is not None and talk_sentences is not None:
        raise UserError("Give --talk-sentences or --talks, not both.")
    if talks is not None:
        sizes = read_talks(talks, lines)
    else:
        sizes = equal_talks(lines, talk_sentences or TALK_SENTENCES)
    text = longform.UNPUNCTUATED if unpunctuated else longform.AS_WRITTEN
    return longform.LongForm(tuple(sizes), text)


def run(
    model: "Model",
    text: "ParallelText",
    output: Path,
    form: "LongForm",
    settings: Sequence[dict[str, Any]],
    scoring: "Scoring",
) -> None:
    """Translate the talks, print the table, and warn where its numbers cannot be trusted."""
    from hmt.evaluation.longform import evaluate_longform

    with bars() as progress:
        points = evaluate_longform(
            model, text, output, form, settings, scoring=scoring, progress=progress
        )
    typer.echo(longform_table(points), nl=False)
    for point in points:
        _warn(point)
    logger.info("Scores: %s", output / "scores.json")


def longform_table(points: "Sequence[Point]") -> str:
    """One row per text and setting, sentence by sentence first; losses in the last columns."""
    names = list(points[0]["latency"]["word"])
    head = ["", f"BLEU {points[0]['scoring']['tokenize']}", "chrF2", *names]
    rows = [[*head, "translated", "sentences", "borders right"]]
    first = points[0]["settings"]
    varying = [
        key
        for key in first
        if key != "text" and any(point["settings"][key] != first[key] for point in points)
    ]
    for point in points:
        setting = " ".join(f"{name}={point['settings'][name]}" for name in varying)
        for text, scores in point["sentence_by_sentence"].items():
            rows.append([f"{setting} sentences, {text}", *_numbers(scores, names), "", "", ""])
        found = point["longform"]
        share, ends = found["translated_share"], found["borders"]
        rows.append(
            [
                f"{setting} running text, {point['settings']['text']}",
                *_numbers(point, names),
                f"{share:.4f}",
                f"{found['sentences_found']} of {found['sentences_true']}",
                f"{ends['right']} of {ends['true']}",
            ]
        )
    shared = [f"{name}={v}" for name, v in first.items() if name not in (*varying, "text")]
    rows = [[row[0].strip(), *row[1:]] for row in rows]
    return "\n".join([" ".join(shared), *aligned(rows), *_notes(points[0]), ""])


def _numbers(point: dict[str, Any], names: Sequence[str]) -> list[str]:
    values = [point["quality"]["bleu"], point["quality"]["chrf"]]
    values += [point["latency"]["word"].get(name) for name in names]
    return ["-" if value is None else f"{value:.2f}" for value in values]


def _notes(point: "Point") -> list[str]:
    found = point["longform"]
    return [
        "",
        f"{found['talks']} talks, {found['source_words']:,} source words; latency in source words",
        "translated     share of source words in a sentence with a translation (1: none is lost)",
        "borders right  sentence ends found after exactly the word where the file has one",
    ]


def _warn(point: "Point") -> None:
    found = point["longform"]
    health = found["resegmentation"]
    if found["translated_share"] < 1:
        lost = 1 - found["translated_share"]
        logger.warning("%.2f %% of the source words have no translation.", 100 * lost)
    if health["early"] > EARLY or health["empty"] > EMPTY * point["sentences"]:
        logger.warning(
            "Re-segmentation failed: %.1f %% of the words were written before their assigned "
            "sentence began, and %d of %d sentences got none; neither quality nor latency of this "
            "point can be trusted.",
            100 * health["early"],
            health["empty"],
            point["sentences"],
        )
