"""`hmt train`: from a recipe and prepared data to a model directory."""

import logging
import os
import sys
from pathlib import Path

import typer

from hmt.cli._app import app
from hmt.cli._progress import training_bar
from hmt.files import refuse_special

logger = logging.getLogger(__name__)


@app.command()
def train(
    recipe: Path = typer.Argument(
        ...,
        metavar="RECIPE",
        help="A TOML file. `hmt demo --learn` writes one to start from, demo/recipe.toml. The "
        "repository has one per result in recipes/; a wheel does not contain these.",
    ),
    overrides: list[str] = typer.Option(
        [],
        "--set",
        metavar="A.B=C",
        help="Override a setting of the recipe, as in --set training.updates=500; repeatable.",
    ),
) -> int:
    """Train a system as a recipe describes.

    Repeat the command to resume a run that was stopped. Several processes or machines train
    together under torchrun.

    \b
    Examples:
      hmt train recipe.toml --set training.updates=500
      torchrun --nproc-per-node 2 -m hmt train recipe.toml
    """
    from hmt.training.recipe import load_recipe
    from hmt.training.train import train as run

    is_first = os.environ.get("RANK", "0") == "0"
    if not is_first:
        logging.getLogger().setLevel(logging.WARNING)
    refuse_special(recipe)
    with training_bar(sys.stderr.isatty() and is_first) as report:
        result = run(load_recipe(recipe, overrides), report)
    if result.is_finished:
        done = f"Finished after {result.step:,} updates" if result.step else "Composed"
        logger.info("%s: %s", done, result.directory)
        return 0
    logger.info("Stopped after %s updates; repeat the command to resume.", f"{result.step:,}")
    return 128 + result.signal if result.signal else 0
