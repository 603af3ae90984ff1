"""`hmt train` and `hmt average`: from prepared data to a model directory."""

import logging
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from hmt.cli.app import app
from hmt.cli.loading import TRUST

if TYPE_CHECKING:
    from hmt.training.train import Progress

logger = logging.getLogger(__name__)


@app.command()
def train(
    recipe: Path = typer.Argument(..., help="A recipe in TOML; see the folder recipes/."),
    overrides: list[str] = typer.Option(
        [], "--set", metavar="A.B=C", help="Change a setting of the recipe; may be repeated."
    ),
) -> int:
    """Train any system. The same command goes on where a stopped run was.

    Several processes or machines: torchrun --nproc-per-node 2 -m hmt train RECIPE.
    """
    from hmt.training.recipe import load_recipe
    from hmt.training.train import train as run

    is_first = os.environ.get("RANK", "0") == "0"
    if not is_first:
        logging.getLogger().setLevel(logging.WARNING)
    with bar(sys.stderr.isatty() and is_first) as report:
        result = run(load_recipe(recipe, overrides), report)
    if result.is_finished:
        made = f"Finished after {result.step:,} updates" if result.step else "Composed"
        logger.info("%s: %s", made, result.directory)
        return 0
    logger.info("Stopped after %s updates; the same command goes on.", f"{result.step:,}")
    return 128 + result.signal if result.signal else 0


@app.command()
def average(
    models: list[Path] = typer.Argument(..., help="The directory of a run, or several models."),
    output: Path = typer.Option(..., help="Model directory to make."),
    last: int = typer.Option(5, min=1, help="Snapshots of the run, counted from its end."),
    is_half: bool = typer.Option(False, "--half", help="Store in half precision, to ship it."),
    trust: bool = TRUST,
) -> None:
    """Average the last snapshots of a run, or several models of one kind."""
    from hmt.training.average import average_models

    averaged = average_models(models, output, last, is_half=is_half, trust=trust)
    logger.info("Average of %d: %s", len(averaged), output)


@contextmanager
def bar(is_shown: bool) -> "Iterator[Callable[[Progress], None] | None]":
    """Give a callback that shows updates, loss and time left, or None."""
    if not is_shown:
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
    from rich.progress import Progress as Display

    from hmt.training.journal import duration

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    text = TextColumn("loss {task.fields[loss]}  left {task.fields[left]}")
    with Display(*columns, text, console=Console(stderr=True), transient=True) as display:
        task = display.add_task("training", total=None, loss="-", left="-")

        def show(progress: "Progress") -> None:
            several = f" {progress.stage}/{progress.stages}" if progress.stages > 1 else ""
            display.update(
                task,
                description=f"training{several}",
                completed=progress.step,
                total=progress.updates,
                loss=f"{progress.loss:.3f}",
                left=duration(progress.seconds_left),
            )

        yield show
