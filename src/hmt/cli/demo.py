"""`hmt demo`: German becomes English live; or a small model learns an invented language first."""

import logging
import sys
from collections.abc import Iterable, Iterator
from itertools import chain, takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from hmt import toy
from hmt.cli import _words as words
from hmt.cli._app import app
from hmt.cli._progress import training_bar
from hmt.files import write_atomically

if TYPE_CHECKING:
    from rich.console import Console

    from hmt.models.model import Model

logger = logging.getLogger(__name__)

GERMAN = (
    "Ich habe gestern keine Zeit gehabt, weil ich arbeiten musste.",
    "Hast du gestern Abend meine Nachricht gelesen?",
    "Herr Präsident, ich möchte der Kommission für ihren Bericht danken.",
    "Mein Name ist Julia Schneider, meine Telefonnummer ist 0171 4582936.",
)
ON_SCREEN = (
    "German arrives word by word; below each word is the English that was shown after it.\n"
    "Bright words are confident ones."
)
IN_LINES = (
    "German arrives word by word; each line says after how many words its English was shown, and\n"
    "in brackets after how many the model began to write it, if that was earlier."
)
LEGEND = """
Written is not yet shown: the model writes a word in pieces, and the word is shown when it is
complete, which is when the next one begins. Nothing shown is ever taken back.
"""
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
    is_fast: bool = typer.Option(
        False, "--fast", help="Do not pause between words. Default: 2.5 words per second."
    ),
    lower: int | None = typer.Option(
        None,
        help="Source tokens to read before the first word is written: higher is later and better. "
        "Default: that of the model.",
    ),
    learns: bool = typer.Option(
        False, "--learn", help="First train on an invented language, for about a minute."
    ),
    output: Path = typer.Option(Path("demo"), help="Directory for --learn's data and model."),
) -> None:
    """Translate German live in the terminal.

    Shows sample sentences, then translates what you type. Text on standard input is translated
    instead: echo "Guten Morgen" | hmt demo
    """
    from hmt.cli._terminal import Screen, listen, play

    console = Screen(highlight=False)
    if learns:
        _learn(output, console, is_fast)
        return
    from hmt.models.model import load

    dial: dict[str, Any] = {} if lower is None else {"lower": lower}
    session = load().session(**dial)
    console.print((ON_SCREEN if console.is_terminal else IN_LINES) + LEGEND, soft_wrap=True)
    is_typed = sys.stdin is not None and sys.stdin.isatty()
    lines = _sentences(words.arriving()) if sys.stdin is not None and not is_typed else iter(())
    for line in _or_samples(lines):
        play(session, line, console, is_fast)
        console.print()
    if is_typed and console.is_terminal:
        console.print("Now you: type German, word by word. Enter ends a sentence, Ctrl-D quits.\n")
        listen(session, console)


def _sentences(arriving: Iterator[str]) -> Iterator[Iterable[str]]:
    """The words of one line after another, each word when it arrives; empty lines left out."""
    for first in arriving:
        if first != words.LINE_END:
            yield chain([first], takewhile(lambda word: word != words.LINE_END, arriving))


def _or_samples(lines: Iterator[Iterable[str]]) -> Iterator[Iterable[str]]:
    """The lines, or German sentences where there are none."""
    first = next(lines, None)
    yield from [german.split() for german in GERMAN] if first is None else chain([first], lines)


def _learn(output: Path, console: "Console", is_fast: bool) -> None:
    """Train a very small model, show it at work, and measure it."""
    from hmt.cli._terminal import play
    from hmt.models.model import load

    console.print(
        "An invented language: adjectives follow their nouns, and after an adverb of time the verb "
        "comes last.\nA very small model learns when it has heard enough to write each word.\n"
    )
    _train(output)
    model = load(output / "model")
    console.print("\nLive: below each word is what was shown after it.\n")
    for pair in toy.sentences(SHOWN, UNSEEN_SEED):
        play(model.session(by_line=True), pair.source, console, is_fast)
        console.print()
    _measure(model)


def _train(output: Path) -> None:
    """Prepare and train, unless that was done before."""
    from hmt.text.prepare import Prepare, prepare
    from hmt.training.recipe import load_recipe
    from hmt.training.train import train

    source, target = toy.write(output, "train", 8000, seed=1)
    valid_source, valid_target = toy.write(output, "valid", 200, seed=2)
    files = (source, target, valid_source, valid_target)
    prepare(Prepare(*files, output=output / "data", vocabulary="words", min_count=1))
    recipe = output / "recipe.toml"
    write_atomically(recipe, RECIPE.format(output=output.as_posix()))
    with training_bar(sys.stderr.isatty()) as report:
        train(load_recipe(recipe), report)


def _measure(model: "Model") -> None:
    """Print how good and how late it is on sentences that it has never seen."""
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
    lag = point["latency"]["word"]["AL"]
    behind = "nothing written" if lag is None else f"on average {lag:.1f} words behind the speaker"
    typer.echo(
        f"On {len(pairs)} unseen sentences: BLEU {point['quality']['bleu']:.1f}, {behind} "
        f"(waiting for the end of the sentence: {length:.1f})."
    )
