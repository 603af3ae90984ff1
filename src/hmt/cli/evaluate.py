"""`hmt evaluate`: how good and how late a model is, or a log of translations."""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from hmt.cli import _knobs as knobs
from hmt.cli import _longform as longform
from hmt.cli._app import app
from hmt.cli._model import DEVICE, MODEL, TRUST, open_model
from hmt.cli._progress import bars
from hmt.cli._scores import (
    MAX_RESAMPLES,
    SECONDS_PER_WORD,
    TOKENIZE_HELP,
    checked_scoring,
    score_table,
)
from hmt.errors import UserError
from hmt.limits import MOST_SLOTS

if TYPE_CHECKING:
    from hmt.evaluation.evaluate import ParallelText
    from hmt.evaluation.translations import Translations
    from hmt.metrics.scores import Point, Scoring
    from hmt.models.model import Model

logger = logging.getLogger(__name__)

LOG_ONLY = ("unit", "clip")
MODEL_ONLY = ("model", "source", "target", "batch", "device", "trust")

LOG = typer.Option(
    None,
    help="Score the translations in this instances.log (of SimulEval or any tool) or "
    "records.jsonl; nothing is translated.",
)
UNIT = typer.Option(None, help="Unit of the log's delays: word, space or char. Default: detected.")
CLIP = typer.Option(
    False, "--clip", help="Count delays past the end of a log's source as its length."
)
BATCH = typer.Option(
    None,
    min=1,
    max=MOST_SLOTS,
    help="Sentences translated side by side. Default: 64; 1 with --seconds-per-word.",
)


@app.command(
    cls=knobs.KnobCommand,
    epilog=knobs.HELP + " Several values, as in --lower 1,3,5, sweep a curve.",
)
def evaluate(
    context: typer.Context,
    model: str | None = MODEL,
    source: Path | None = typer.Option(None, help="Sentences to translate, one per line."),
    target: Path | None = typer.Option(
        None, help="Reference translations, one per line. Default: none, latency only."
    ),
    output: Path | None = typer.Option(
        None, help="Directory for records, logs and scores.json. Needed unless --log is given."
    ),
    log: Path | None = LOG,
    unit: str | None = UNIT,
    clip: bool = CLIP,
    tokenize: str = typer.Option("13a", help=TOKENIZE_HELP),
    resamples: int = typer.Option(
        1000, min=0, max=MAX_RESAMPLES, help="Bootstrap resamples for intervals; 0 for none."
    ),
    seconds_per_word: float | None = SECONDS_PER_WORD,
    comet: Path | None = typer.Option(None, help="Directory for COMET's input files."),
    batch: int | None = BATCH,
    device: str = DEVICE,
    trust: bool = TRUST,
    is_longform: bool = longform.LONGFORM,
    talk_sentences: int | None = longform.TALK_SENTENCES,
    talks: Path | None = longform.TALKS,
    unpunctuated: bool = longform.UNPUNCTUATED,
) -> None:
    """Measure quality and latency on a test set.

    Every sentence is translated as if it arrived word by word. Repeat the command to resume what
    was stopped.

    \b
    Examples:
      hmt evaluate --source test.de --target test.en --output curve --lower 1,3,5
      hmt evaluate model --source test.de --target test.en --output other
      hmt evaluate --log instances.log
    """
    from hmt.evaluation.evaluate import read_parallel
    from hmt.evaluation.translations import read_point, score_log

    scoring = checked_scoring(tokenize, seconds_per_word, resamples)
    _refuse(context, LOG_ONLY if log is None else MODEL_ONLY, is_log=log is not None)
    if log is not None:
        point, sentences = score_log(log, output, scoring, unit=unit, clip=clip)
        _report([point], [sentences], output, comet)
        return
    if source is None or output is None:
        raise UserError("Give --source and --output, or an instances.log with --log.")
    loaded = open_model(model, device, trust=trust)
    settings = list(knobs.sweep(knobs.given(context), loaded.system.Knobs, loaded.system.name))
    text = read_parallel(source, target)
    if is_longform:
        form = longform.form_of(len(text.sources), talk_sentences, talks, unpunctuated)
        longform.run(loaded, text, output, form, settings, scoring)
        return
    batch = batch or (64 if seconds_per_word is None else 1)
    points = _sweep(loaded, text, output, settings, scoring, batch)
    needed = points if comet is not None else points[:1]
    _report(points, [read_point(output, point) for point in needed], output, comet)


def _sweep(
    model: "Model",
    text: "ParallelText",
    output: Path,
    settings: "Sequence[dict[str, Any]]",
    scoring: "Scoring",
    batch: int,
) -> "list[Point]":
    """Translate and score at every setting, with progress bars."""
    from hmt.evaluation.evaluate import evaluate

    with bars() as progress:
        return evaluate(
            model, text, output, settings, batch=batch, scoring=scoring, progress=progress
        )


def _refuse(context: typer.Context, names: Sequence[str], *, is_log: bool) -> None:
    """Refuse options that would have no effect, or that lack another."""
    longform.refuse(context.params)
    if context.params["comet"] is not None and context.params["target"] is None and not is_log:
        raise UserError("COMET needs references; give them with --target.")
    given = [name for name in names if context.params.get(name) not in (None, False, "cpu")]
    if is_log:
        given += knobs.given(context)
    if given:
        option = "a model" if given[0] == "model" else f"--{given[0].replace('_', '-')}"
        raise UserError(
            f"With --log nothing is translated; leave out {option}."
            if is_log
            else f"The option {option} is for logs; name one with --log or leave it out."
        )


def _report(
    points: "Sequence[Point]",
    translations: "Sequence[Translations]",
    output: Path | None,
    comet: Path | None,
) -> None:
    """Show the table and the commands for COMET, and warn of misleading numbers."""
    from hmt.metrics.quality import lacks_spaces

    commands = _export(comet, points, translations) if comet is not None else []
    typer.echo(score_table(points) + "".join(f"{command}\n" for command in commands), nl=False)
    references = [s.reference for s in translations[0] if s.reference is not None]
    if points[0]["scoring"]["tokenize"] == "13a" and lacks_spaces(references):
        logger.warning(
            "The references are written without spaces, and BLEU's tokenizer 13a treats each as "
            "one word; use --tokenize zh, ja-mecab or char."
        )
    clocks = [p["conventions"]["latency"]["word"].get("computation_aware", "") for p in points]
    if any("side by side" in clock for clock in clocks):
        logger.warning(
            "Sentences ran side by side, so each clock also counts its neighbours' work; for "
            "comparable _CA numbers use --batch 1 and a new --output."
        )
    if output is not None:
        logger.info("Scores: %s", output / "scores.json")


def _export(
    comet: Path, points: "Sequence[Point]", translations: "Sequence[Translations]"
) -> list[str]:
    """Write COMET's files, for a curve in a folder per point. -> the commands that run it"""
    from hmt.evaluation.evaluate import folder_name
    from hmt.metrics.instance import instance_of
    from hmt.metrics.quality import export_comet
    from hmt.streaming.record import Record

    commands = []
    first = points[0]["settings"]
    same = {key: v for key, v in first.items() if all(p["settings"].get(key) == v for p in points)}
    for point, sentences in zip(points, translations, strict=True):
        folder = comet / folder_name(point["settings"], same) if len(points) > 1 else comet
        rows = [instance_of(s) if isinstance(s, Record) else s for s in sentences]
        commands.append(export_comet(folder, rows))
    return commands
