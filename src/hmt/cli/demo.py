"""`hmt demo`: German becomes English live; or a small model learns an invented language first."""

import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from hmt import toy
from hmt.cli.app import app
from hmt.cli.training import bar

if TYPE_CHECKING:
    from rich.console import Console

    from hmt.models.model import Model

logger = logging.getLogger(__name__)

GERMAN = (
    "Ich habe gestern keine Zeit gehabt, weil ich arbeiten musste.",
    "Meine Schwester hat den ganzen Abend mit ihren Freunden gespielt.",
    "Kannst du mir bitte sagen, wo der Bahnhof ist?",
    "Wenn es morgen regnet, bleiben wir zu Hause.",
)
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
    is_fast: bool = typer.Option(False, "--fast", help="Do not wait between words."),
    lower: int | None = typer.Option(None, help="Tokens to hear before writing: the dial."),
    learns: bool = typer.Option(
        False, "--learn", help="Train on an invented language for a minute, then translate it."
    ),
    output: Path = typer.Option(Path("demo"), help="With --learn: directory for data and model."),
) -> None:
    """Translate German live with the model that ships, then whatever you type."""
    from rich.console import Console

    console = Console(highlight=False)
    if learns:
        _learn(output, console, is_fast)
        return
    from hmt.cli.stage import listen, play
    from hmt.models.model import load

    dial: dict[str, Any] = {} if lower is None else {"lower": lower}
    session = load().session(**dial)
    console.print(
        "German, word by word; below each word what the model wrote once it had heard it.\n"
        "Bright words are sure ones. Nothing that is written is ever taken back.\n"
    )
    for line in GERMAN:
        play(session, line.split(), console, is_fast)
        console.print()
    if sys.stdin.isatty() and console.is_terminal:
        console.print("Now you: type German, word by word. Enter ends a sentence, Ctrl-D leaves.\n")
        listen(session, console)


def _learn(output: Path, console: "Console", is_fast: bool) -> None:
    """Train a very small model, show it at work, and measure it."""
    from hmt.cli.stage import play
    from hmt.models.model import load

    console.print(
        "An invented language: adjectives follow their nouns, and after a word of time the verb "
        "comes last.\nA very small model learns when it has heard enough to write each word.\n"
    )
    _train(output)
    model = load(output / "model")
    console.print("\nLive: under each word stands what is written as soon as it is heard.\n")
    for pair in toy.sentences(SHOWN, UNSEEN_SEED):
        play(model.session(), pair.source, console, is_fast)
        console.print()
    _measure(model)


def _train(output: Path) -> None:
    """Prepare and train; a finished run is found finished."""
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
        train(load_recipe(recipe), report)


def _measure(model: "Model") -> None:
    """Say how good and how late it is on sentences that it has never seen."""
    import dataclasses

    from hmt.metrics.scores import score

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
