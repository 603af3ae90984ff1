"""`hmt evaluate` and `hmt score`: how good, how late, and what a model makes of given pairs."""

import json
import logging
from pathlib import Path
from typing import Any

import typer

from hmt.cli import knobs
from hmt.cli.app import app
from hmt.cli.loading import DEVICE, open_model
from hmt.cli.progress import bars

logger = logging.getLogger(__name__)


@app.command(
    cls=knobs.KnobCommand,
    epilog=knobs.HELP + " Several values, as in --lower 1,3,5, sweep a curve.",
)
def evaluate(
    context: typer.Context,
    model: Path = typer.Argument(..., help="A model directory."),
    source: Path = typer.Option(..., help="Sentences to translate, one per line."),
    target: Path | None = typer.Option(None, help="Their references; without, only latency."),
    output: Path = typer.Option(..., help="Directory for records, logs and scores.json."),
    batch: int = typer.Option(64, min=1, help="Sentences translated side by side."),
    device: str = DEVICE,
) -> None:
    """Translate a test set as if it arrived word by word; measure quality and latency.

    A sweep that was stopped goes on by the same command.
    """
    from hmt.evaluation.evaluate import evaluate as run
    from hmt.evaluation.evaluate import read_parallel

    loaded = open_model(model, device)
    settings = list(knobs.sweep(knobs.given(context), loaded.system.Knobs, loaded.system.name))
    text = read_parallel(source, target)
    with bars() as progress:
        points = run(loaded, text, output, settings, batch=batch, progress=progress)
    for point in points:
        typer.echo(_line(point))
    logger.info("Scores: %s", output / "scores.json")


def _line(point: dict[str, Any]) -> str:
    settings = " ".join(f"{name}={value}" for name, value in point["settings"].items())
    figures = {
        **{name: point["quality"][name] for name in ("bleu", "chrf")},
        "AL": point["latency"]["token"]["AL"],
        "AL(words)": point["latency"]["word"]["AL"],
        "AP": point["latency"]["token"]["AP"],
    }
    shown = "  ".join(f"{name} {v:.2f}" for name, v in figures.items() if v is not None)
    return f"{settings}  {shown}"


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
    from hmt.evaluation.alignment import PolicyQuality, read_alignments
    from hmt.evaluation.evaluate import read_parallel
    from hmt.evaluation.forced import forced

    loaded = open_model(model, device)
    chosen = knobs.settings(knobs.given(context), loaded.system.Knobs, loaded.system.name)
    text = read_parallel(source, target)
    targets = text.references or ()
    policy = None
    if alignment is not None:
        gold = read_alignments(alignment, text.sources, targets, alignment_base)
        policy = PolicyQuality(loaded, text.sources, targets, gold)
    for found in forced(loaded, text.sources, targets, loaded.knobs(**chosen), batch):
        if policy is not None:
            found["alignment"] = policy.add(found["index"], found["reads"])
        typer.echo(json.dumps(found))
    if policy is not None:
        logger.info("%s", policy)
