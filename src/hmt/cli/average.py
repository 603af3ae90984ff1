"""`hmt average`: the mean of several models, often better than any of them."""

import logging
from pathlib import Path

import typer

from hmt.cli._app import app
from hmt.cli._model import TRUST

logger = logging.getLogger(__name__)


@app.command()
def average(
    models: list[Path] = typer.Argument(
        ..., metavar="MODEL", help="The directory of one run, or several models."
    ),
    output: Path = typer.Option(..., help="Model directory to write."),
    last: int = typer.Option(5, min=1, help="How many of the run's latest snapshots to average."),
    is_half: bool = typer.Option(
        False, "--half", help="Store weights in half precision: half the size, for shipping."
    ),
    trust: bool = TRUST,
) -> None:
    """Average the last snapshots of a run, or several models.

    \b
    Example:
      hmt average runs/small --last 5 --output small
    """
    from hmt.training.average import average_models

    averaged = average_models(models, output, last, is_half=is_half, trust=trust)
    logger.info("Average of %d: %s", len(averaged), output)
