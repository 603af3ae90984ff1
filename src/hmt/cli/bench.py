"""`hmt bench`: how fast this machine runs the systems, as ratios that carry over to others."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from hmt.cli.app import app
from hmt.errors import UserError

PARTS = ("training", "stream", "corpus", "sessions", "memory", "soak", "prepare")
PARTS_HELP = f"{', '.join(PARTS)}; all if none is named."


@app.command()
def bench(
    parts: list[str] = typer.Argument(None, help=PARTS_HELP),
    size: str = typer.Option("tiny", help="tiny or base."),
    lengths: str = typer.Option("10,25,50,100,200", help="Words of the single stream."),
    repeats: int = typer.Option(5, min=1, help="Measurements of each figure."),
    sentences: int = typer.Option(256, min=1, help="Sentences of the corpus."),
    slots: int = typer.Option(64, min=1, help="Streams that share a pass."),
    sessions: str = typer.Option("50,100,150,200,250,300", help="Live sessions to try."),
    seconds: float = typer.Option(10.0, min=1.0, help="How long each number of sessions speaks."),
    words: int = typer.Option(10_000, min=10, help="Words of the soak."),
    pairs: int = typer.Option(100_000, min=1000, help="Sentence pairs to prepare."),
    others: bool = typer.Option(False, "--others", help="Training and stream: all systems."),
    compiles: bool = typer.Option(False, "--compile", help="Training: also torch.compile."),
    threads: int = typer.Option(2, min=1, help="Cores to use."),
    compare: Path | None = typer.Option(None, help="An earlier output (JSON) to show beside."),
) -> None:
    """Measure speed. A table, then all of it as JSON in the last line."""
    import torch

    from hmt.bench import corpus, memory, prepare, report, soak, stream, training
    from hmt.bench import sessions as live

    _check(parts, size)
    before = _earlier(compare)
    counts, speakers = _numbers(lengths, "--lengths"), _numbers(sessions, "--sessions")
    torch.set_num_threads(threads)
    load_before = round(os.getloadavg()[0], 1)
    measurements: dict[str, Iterator[dict[str, Any]]] = {
        "training": training.measure(size, repeats, others, compiles),
        "stream": stream.measure(size, counts, repeats, others),
        "corpus": corpus.measure(size, sentences, slots, repeats),
        "sessions": live.measure(size, speakers, seconds),
        "memory": memory.measure(size, 4096),
        "soak": soak.measure(words),
        "prepare": prepare.measure(pairs, threads),
    }
    rows = []
    for name in parts or PARTS:
        for row in measurements[name]:
            rows.append(row)
            typer.echo(report.line(row, before))
    typer.echo(report.finish(rows, size=size, threads=threads, load_before=load_before))


def _check(parts: list[str] | None, size: str) -> None:
    from hmt.bench.setting import SIZES

    for name in parts or ():
        if name not in PARTS:
            raise UserError(f'"{name}" cannot be measured; choose from {", ".join(PARTS)}.')
    if size not in SIZES:
        raise UserError(f'Size "{size}" is unknown; it is {" or ".join(SIZES)}.')


def _numbers(text: str, option: str) -> list[int]:
    try:
        numbers = [int(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if not numbers or min(numbers) < 1:
        raise UserError(f"{option} was given as {text!r}; it must be numbers like 10,25,50.")
    return numbers


def _earlier(path: Path | None) -> dict[str, Any]:
    """Values of an earlier run by what they measured; its JSON may follow a table."""
    if path is None:
        return {}
    try:
        last = path.read_text(encoding="utf-8").strip().splitlines()[-1]
        return {row["what"]: row["value"] for row in json.loads(last)["rows"]}
    except (OSError, ValueError, KeyError, IndexError, TypeError):
        raise UserError(
            f"{path} is not an output of `hmt bench`: its last line must be JSON."
        ) from None
