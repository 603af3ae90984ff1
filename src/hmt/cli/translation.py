"""`hmt translate`: a pipe that translates words while they arrive."""

import sys
from enum import StrEnum
from pathlib import Path

import typer

from hmt.cli import knobs, recognised, words
from hmt.cli.app import app
from hmt.cli.loading import DEVICE, INT8, open_model
from hmt.cli.output import Format, Output
from hmt.errors import UserError


class Input(StrEnum):
    """What standard input holds."""

    text = "text"
    jsonl = "jsonl"


class Timing(StrEnum):
    """Which clock captions follow."""

    live = "live"
    source = "source"


@app.command(cls=knobs.KnobCommand, epilog=knobs.HELP)
def translate(
    context: typer.Context,
    model: Path | None = typer.Argument(
        None, help="A model directory; by default the model that ships."
    ),
    given: Input = typer.Option(
        Input.text, "--input", help="Plain text, or the JSON lines of a speech recogniser."
    ),
    style: Format = typer.Option(
        Format.text, "--format", help="Plain text, one JSON event per line, or captions."
    ),
    by_line: bool = typer.Option(
        False, "--by-line", help="Take each line as one sentence, whatever its punctuation."
    ),
    timing: Timing = typer.Option(
        Timing.live,
        help="Time captions by the clock, or by the times of the words (--input jsonl).",
    ),
    caption_offset: float = typer.Option(0.0, help="Seconds to add to the times of captions."),
    device: str = DEVICE,
    int8: bool = INT8,
) -> None:
    """Translate standard input while it arrives: running text, or one sentence per line.

    A word counts as soon as whitespace follows it, and text is written the moment it is ready.
    Sentences end by punctuation, at the end of a line, or where the model ends them.  With
    --input jsonl a line is {"text": "Ich habe", "at": 1.25} (final words and their time),
    {"text": ..., "committed": 2} or {"text": ..., "tentative": true} (a guess that may still
    change), or {"pause": true}.
    """
    from hmt.streaming.captions import Captions

    if timing is Timing.source and given is not Input.jsonl:
        raise UserError("--timing source needs the times of words: give them by --input jsonl.")
    if by_line and given is Input.jsonl:
        raise UserError("--by-line is for plain text, not for --input jsonl: leave out one.")
    loaded = open_model(model, device, int8)
    chosen = knobs.settings(knobs.given(context), loaded.system.Knobs, loaded.system.name)
    captions = Captions(timing=timing.value, offset_ms=round(1000 * caption_offset))
    note = " ".join([loaded.system.name, *(f"{name}={value}" for name, value in chosen.items())])
    output = Output(style, by_line, captions, note)
    session = loaded.session(by_line=by_line, listener=output.take, keep=1, **chosen)
    if given is Input.jsonl:
        for number, line in enumerate(words.lines_arriving(sys.stdin.fileno()), 1):
            recognised.take(session, line, number)
        session.commit()
        output.close()
        return
    for word in words.arriving(sys.stdin.fileno()):
        if word != words.LINE_END:
            session.push(word)
            continue
        session.finish()
        output.end_line()
    output.close()
