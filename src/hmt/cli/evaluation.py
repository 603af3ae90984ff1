"""`hmt evaluate` and `hmt score`: how good, how late, and what a model makes of given pairs."""

import json
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from hmt.cli import knobs, longform
from hmt.cli.app import app
from hmt.cli.loading import DEVICE, open_model
from hmt.cli.progress import bars
from hmt.cli.score_table import score_table
from hmt.cli.scoring import SECONDS_PER_WORD, TOKENIZE_HELP, checked_scoring
from hmt.errors import UserError

if TYPE_CHECKING:
    from hmt.evaluation.translations import Translations
    from hmt.metrics.scores import Point

logger = logging.getLogger(__name__)

LOG_ONLY = ("unit", "clip")
MODEL_ONLY = ("model", "source", "target", "batch", "device")


@app.command(
    cls=knobs.KnobCommand,
    epilog=knobs.HELP + " Several values, as in --lower 1,3,5, sweep a curve.",
)
def evaluate(
    context: typer.Context,
    model: Path | None = typer.Argument(None, help="A model directory; none with --log."),
    source: Path | None = typer.Option(None, help="Sentences to translate, one per line."),
    target: Path | None = typer.Option(None, help="Their references; without, only latency."),
    output: Path | None = typer.Option(None, help="Directory for records, logs and scores.json."),
    log: Path | None = typer.Option(
        None, help="Score this instances.log (SimulEval's or any tool's) or records.jsonl instead."
    ),
    unit: str | None = typer.Option(
        None, help="What the log counts: word, space or char; found out if not given."
    ),
    clip: bool = typer.Option(
        False, "--clip", help="Delays of the log past the source's end count as its length."
    ),
    tokenize: str = typer.Option("13a", help=TOKENIZE_HELP),
    resamples: int = typer.Option(1000, min=0, help="Resamples behind intervals; 0: no intervals."),
    seconds_per_word: float | None = SECONDS_PER_WORD,
    comet: Path | None = typer.Option(None, help="Write COMET's input files to this directory."),
    batch: int | None = typer.Option(
        None, min=1, help="Sentences side by side: 64, with --seconds-per-word 1."
    ),
    device: str = DEVICE,
    is_longform: bool = longform.LONGFORM,
    talk_sentences: int | None = longform.TALK_SENTENCES,
    talks: Path | None = longform.TALKS,
    unpunctuated: bool = longform.UNPUNCTUATED,
) -> None:
    """Translate a test set as if it arrived word by word; measure quality and latency.

    What was stopped goes on by the same command. With --log nothing is translated.
    """
    from hmt.evaluation import evaluate as corpus
    from hmt.evaluation.translations import read_point, score_log

    scoring = checked_scoring(tokenize, seconds_per_word, resamples)
    _refuse(context, LOG_ONLY if log is None else MODEL_ONLY, is_log=log is not None)
    if log is not None:
        point, sentences = score_log(log, output, scoring, unit=unit, clip=clip)
        _report([point], [sentences], output, comet)
        return
    if model is None or source is None or output is None:
        raise UserError(
            "Give a model directory with --source and --output, or an instances.log with --log."
        )
    loaded = open_model(model, device)
    settings = list(knobs.sweep(knobs.given(context), loaded.system.Knobs, loaded.system.name))
    text = corpus.read_parallel(source, target)
    batch = batch or (64 if seconds_per_word is None else 1)
    if is_longform:
        form = longform.form_of(len(text.sources), talk_sentences, talks, unpunctuated)
        longform.run(loaded, text, output, form, settings, scoring)
        return
    with bars() as progress:
        points = corpus.evaluate(
            loaded, text, output, settings, batch=batch, scoring=scoring, progress=progress
        )
    needed = points if comet is not None else points[:1]
    _report(points, [read_point(output, point) for point in needed], output, comet)


def _refuse(context: typer.Context, names: Sequence[str], *, is_log: bool) -> None:
    """Report options that would have no effect, or that lack another."""
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
    """Show the table and the commands for COMET, and warn of numbers that mislead."""
    from hmt.metrics.quality import lacks_spaces

    commands = _export(comet, points, translations) if comet is not None else []
    typer.echo(score_table(points) + "".join(f"{command}\n" for command in commands), nl=False)
    references = [s.reference for s in translations[0] if s.reference is not None]
    if points[0]["scoring"]["tokenize"] == "13a" and lacks_spaces(references):
        logger.warning(
            "The references are written without spaces, of which BLEU's tokenizer 13a makes single "
            "words; use --tokenize zh, ja-mecab or char."
        )
    clocks = [p["conventions"]["latency"]["word"].get("computation_aware", "") for p in points]
    if any("side by side" in clock for clock in clocks):
        logger.warning(
            "Sentences ran side by side, so each clock also counts its neighbours' work; for _CA "
            "numbers that compare use --batch 1 and a new --output."
        )
    if output is not None:
        logger.info("Scores: %s", output / "scores.json")


def _export(
    comet: Path, points: "Sequence[Point]", translations: "Sequence[Translations]"
) -> list[str]:
    """Write COMET's files, for a curve in a folder per point; give the commands to run it."""
    from hmt.evaluation.evaluate import folder_name
    from hmt.metrics.instance import instance_of
    from hmt.metrics.quality import export_comet
    from hmt.streaming.record import Record

    commands = []
    for point, sentences in zip(points, translations, strict=True):
        folder = comet / folder_name(point["settings"]) if len(points) > 1 else comet
        rows = [instance_of(s) if isinstance(s, Record) else s for s in sentences]
        commands.append(export_comet(folder, rows))
    return commands


@app.command(cls=knobs.KnobCommand, epilog=knobs.HELP)
def score(
    context: typer.Context,
    model: Path = typer.Argument(..., help="A model directory."),
    source: Path = typer.Option(..., help="Source sentences, one per line."),
    target: Path = typer.Option(..., help="Their translations, line by line."),
    alignment: Path | None = typer.Option(
        None, help="Gold word alignments: adds the share of words whose source had been read."
    ),
    alignment_base: int | None = typer.Option(
        None, min=0, max=1, help="What alignments count from; found out if not given."
    ),
    batch: int = typer.Option(16, min=1, help="Pairs computed side by side."),
    device: str = DEVICE,
) -> None:
    """Force given translations: losses, reads and confidences per pair, as JSON lines."""
    from hmt.evaluation.evaluate import read_parallel
    from hmt.evaluation.forced import forced
    from hmt.metrics.alignment import PolicyQuality, read_alignments

    loaded = open_model(model, device)
    chosen = knobs.settings(knobs.given(context), loaded.system.Knobs, loaded.system.name)
    text = read_parallel(source, target)
    targets = text.references or ()
    policy = None
    if alignment is not None:
        gold = read_alignments(alignment, text.sources, targets, alignment_base)
        policy = PolicyQuality(loaded.tokenizers, text.sources, targets, gold)
    for found in forced(loaded, text.sources, targets, loaded.knobs(**chosen), batch):
        if policy is not None:
            found["alignment"] = policy.add(found["index"], found["reads"])
        typer.echo(json.dumps(found))
    if policy is not None:
        logger.info("%s", policy)
