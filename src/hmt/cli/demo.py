"""`hmt demo`: a very small model learns an invented language, then translates it live."""

import logging
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from hmt import toy
from hmt.cli.app import app
from hmt.cli.training import bar

if TYPE_CHECKING:
    from hmt.streaming.model import Model

logger = logging.getLogger(__name__)

WORDS_PER_SECOND = 2.5  # unhurried speech
SHOWN = 5
UNSEEN_SEED = 4

RECIPE = """\
# The demo: an invented language (see src/hmt/toy.py), about a minute on two cores.
output = "{output}/model"

[data]
directory = "{output}/data"

[model]
system = "hmt"
config.lower = 1
config.states = 6
config.dims.width = 64
config.dims.ffn = 128
config.dims.heads = 4
config.dims.encoder_layers = 2
config.dims.decoder_layers = 2
config.dims.share_embeddings = false

[training]
updates = 300
batch_tokens = 1000
learning_rate = 2e-3
warmup = 100
save_every = 200
log_every = 100
threads = 1  # a network this small gains nothing from more
"""


@app.command()
def demo(
    output: Path = typer.Option(Path("demo"), help="Directory for the data and the model."),
) -> None:
    """Learn an invented language in about a minute and translate it live. Needs nothing else."""
    from hmt.streaming.model import load

    typer.echo(
        "An invented language: adjectives follow their nouns, and after a word of time the verb "
        "comes last.\nA very small model learns when it has heard enough to write each word.\n"
    )
    _train(output)
    model = load(output / "model")
    typer.echo("\nLive: under each word stands what is written as soon as it is heard.\n")
    for pair in toy.sentences(SHOWN, UNSEEN_SEED):
        _live(model, pair.source)
        typer.echo()
    _measure(model)


def _train(output: Path) -> None:
    """Prepare and train; a finished run is found finished."""
    from hmt.evaluation.held_out import streamed
    from hmt.text.prepare import Prepare, prepare
    from hmt.training.recipe import load_recipe
    from hmt.training.train import train

    source, target = toy.write(output, "train", 8000, seed=1)
    valid_source, valid_target = toy.write(output, "valid", 200, seed=2)
    files = (source, target, valid_source, valid_target)
    prepare(Prepare(*files, output=output / "data", vocabulary="words", min_count=1))
    recipe = output / "recipe.toml"
    recipe.write_text(RECIPE.format(output=output.as_posix()), encoding="utf-8")
    with bar(sys.stderr.isatty()) as report:
        train(load_recipe(recipe), validate=streamed, report=report)


def _live(model: "Model", source: tuple[str, ...]) -> None:
    """Show one sentence while it is spoken: on a terminal at the pace of speech."""
    from rich.console import Console
    from rich.live import Live

    console = Console(highlight=False)
    session = model.session()
    columns: list[tuple[str, str]] = []
    pause = 1 / WORDS_PER_SECOND if console.is_terminal else 0.0
    with Live(console=console, auto_refresh=False) as live:
        for word in source:
            columns.append((word, session.push(word).strip()))
            live.update(_page(columns, console.width), refresh=True)
            time.sleep(pause)
        word, text = columns[-1]
        columns[-1] = (word, f"{text} {session.finish().strip()}".strip())
        live.update(_page(columns, console.width), refresh=True)


def _page(columns: list[tuple[str, str]], width: int) -> str:
    """Two rows, source over target, broken where the terminal ends."""
    blocks = [("", "")]
    for word, text in columns:
        size = max(len(word), len(text)) + 2
        if len(blocks[-1][0]) + size > width:
            blocks.append(("", ""))
        source, target = blocks[-1]
        blocks[-1] = (source + word.ljust(size), target + text.ljust(size))
    return "\n".join(f"[dim]{source}[/dim]\n[bold]{target}[/bold]" for source, target in blocks)


def _measure(model: "Model") -> None:
    """Say how good and how late it is on sentences that it has never seen."""
    import dataclasses

    from hmt.evaluation.scores import score

    pairs = list(toy.sentences(200, UNSEEN_SEED))
    records = [
        dataclasses.replace(record, reference=" ".join(pair.target))
        for record, pair in zip(
            model.translate([" ".join(pair.source) for pair in pairs]), pairs, strict=True
        )
    ]
    point = score(records, resamples=0)
    length = sum(len(pair.source) for pair in pairs) / len(pairs)
    typer.echo(
        f"On {len(pairs)} unseen sentences: BLEU {point['quality']['bleu']:.1f}, on average "
        f"{point['latency']['word']['AL']:.1f} words behind the speaker "
        f"(waiting for the end of the sentence: {length:.1f})."
    )
