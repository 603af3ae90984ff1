"""`hmt bench`: how fast this machine runs the systems, as ratios that carry over to others."""

from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import typer

from hmt.cli._app import app
from hmt.errors import UserError

PARTS = ("training", "stream", "words", "corpus", "sessions", "live")
PARTS_HELP = f"{', '.join(PARTS)}. Default: all but live."
MAX_WORDS = 1000  # of one stream: a session cuts longer sentences
MAX_SESSIONS = 10_000
SESSIONS = typer.Option(
    "50,100,150,200,250,300", help="words, sessions, live: numbers of sessions to try, in order."
)
LISTENERS = typer.Option(1000, min=0, max=2000, help="live: readers of one room.")
CONNECTS = typer.Option(600, min=0, max=100_000, help="live: clients that connect all at once.")
SOAK = typer.Option(
    0.0, min=0.0, help="live: only run the largest number of sessions, for this many minutes."
)


@app.command()
def bench(
    parts: list[str] = typer.Argument(None, metavar="PART", help=PARTS_HELP),
    size: str = typer.Option("tiny", help="Size of the models: tiny or base."),
    lengths: str = typer.Option(
        "10,25,50,100,200", help=f"stream: sentence lengths in words, at most {MAX_WORDS:,}."
    ),
    repeats: int = typer.Option(5, min=1, max=1000, help="Measurements of each figure."),
    sentences: int = typer.Option(256, min=1, max=1_000_000, help="corpus: number of sentences."),
    slots: int = typer.Option(
        64, min=1, max=4096, help="corpus: sentences translated side by side."
    ),
    sessions: str = SESSIONS,
    seconds: float = typer.Option(
        10.0, min=1.0, max=86_400.0, help="sessions, live: seconds per number of sessions."
    ),
    listeners: int = LISTENERS,
    connects: int = CONNECTS,
    soak_minutes: float = SOAK,
    others: bool = typer.Option(
        False, "--others", help="training, stream: also measure the other systems."
    ),
    compiles: bool = typer.Option(
        False, "--compile", help="training: also measure with torch.compile."
    ),
    threads: int = typer.Option(2, min=1, max=256, help="Threads to compute with."),
    compare: Path | None = typer.Option(
        None, help="Output of an earlier run, to show beside the new values."
    ),
) -> None:
    """Measure speed, as ratios within one run.

    Prints a table, then the same as JSON in the last line. Takes some minutes.

    \b
    Examples:
      hmt bench > before
      hmt bench stream training --compare before
      hmt bench words --sessions 50,100,200 --threads 1
      hmt bench live --sessions 200 --seconds 30
    """
    import torch

    from hmt.bench import corpus, live, report, stream, training, words
    from hmt.bench import sessions as many

    _check(parts, size)
    before = report.earlier(compare)
    counts = _numbers(lengths, "--lengths", MAX_WORDS)
    speakers = _numbers(sessions, "--sessions", MAX_SESSIONS)
    torch.set_num_threads(threads)
    measurements: dict[str, Iterator[dict[str, Any]]] = {
        "training": training.measure(size, repeats, others, compiles),
        "stream": stream.measure(size, counts, repeats, others),
        "words": words.measure(speakers, repeats),
        "corpus": corpus.measure(size, sentences, slots, repeats),
        "sessions": many.measure(size, speakers, seconds),
        "live": live.measure(live.Load(speakers, seconds, listeners, connects, soak_minutes)),
    }
    rows = chain.from_iterable(measurements[name] for name in parts or PARTS[:-1])
    report.show(rows, before, size=size, threads=threads)


def _check(parts: list[str] | None, size: str) -> None:
    from hmt.bench.setting import SIZES

    for name in parts or ():
        if name not in PARTS:
            raise UserError(f'"{name}" cannot be measured; choose from {", ".join(PARTS)}.')
    if size not in SIZES:
        raise UserError(f'Size "{size}" is unknown; it is {" or ".join(SIZES)}.')


def _numbers(text: str, option: str, most: int) -> list[int]:
    try:
        numbers = [int(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if not numbers or not 1 <= min(numbers) <= max(numbers) <= most:
        raise UserError(
            f"{option} was given as {text!r}; it must be numbers from 1 to {most:,}, as in 10,25."
        )
    return numbers
