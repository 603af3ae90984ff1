"""`hmt translate`: a pipe that translates words as they arrive."""

import logging
import sys
from enum import StrEnum
from typing import TYPE_CHECKING

import typer

from hmt.cli import _knobs as knobs
from hmt.cli import _recognised as recognised
from hmt.cli import _words as words
from hmt.cli._app import app
from hmt.cli._model import DEVICE, INT8, MODEL, TRUST, open_model
from hmt.cli._output import Format, Output
from hmt.errors import UserError

if TYPE_CHECKING:
    from hmt.streaming.session import Session

logger = logging.getLogger(__name__)

MOST_SECONDS = 1_000_000  # largest offset of captions: eleven days


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
    model: str | None = MODEL,
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
        Timing.live, help="Captions follow the clock, or the times of the words (--input jsonl)."
    ),
    caption_offset: float = typer.Option(0.0, help="Seconds to add to the times of captions."),
    device: str = DEVICE,
    trust: bool = TRUST,
    int8: bool = INT8,
) -> None:
    """Translate words from standard input as they arrive.

    A word counts as soon as whitespace follows it, and its translation is written the moment it is
    ready. Sentences end by punctuation, at the end of a line, or where the model ends them. With
    --input jsonl a line is {"text": "Ich habe", "at": 1.25} (final words and their time),
    {"text": ..., "committed": 2} or {"text": ..., "tentative": true} (a guess that may still
    change), or {"pause": true}.

    \b
    Examples:
      echo "Guten Morgen. Wie geht es dir?" | hmt translate
      hmt translate model --lower 3 --by-line < text.de
      recogniser | hmt translate --input jsonl --format vtt --timing source > talk.vtt
    """
    from hmt.streaming.captions import Captions

    if timing is Timing.source and given is not Input.jsonl:
        raise UserError("--timing source needs the times of words: give them with --input jsonl.")
    if not abs(caption_offset) <= MOST_SECONDS:
        raise UserError(
            f"--caption-offset is {caption_offset}; it must be from -{MOST_SECONDS:,} to "
            f"{MOST_SECONDS:,} seconds."
        )
    if by_line and given is Input.jsonl:
        raise UserError("--by-line is for plain text, not for --input jsonl: leave out one.")
    loaded = open_model(model, device, int8, trust)
    chosen = knobs.settings(knobs.given(context), loaded.system.Knobs, loaded.system.name)
    captions = Captions(timing=timing.value, offset_ms=round(1000 * caption_offset))
    note = " ".join([loaded.system.name, *(f"{name}={value}" for name, value in chosen.items())])
    output = Output(style, by_line, captions, note)
    session = loaded.session(by_line=by_line, listener=output.take, keep=1, **chosen)
    if sys.stdin is not None and sys.stdin.isatty():
        logger.info("Reading from the terminal: Enter sends a line, Ctrl-D ends the input.")
    if given is Input.jsonl:
        _take_lines(session)
    else:
        _take_words(session, output)
    output.close()


def _take_words(session: "Session", output: Output) -> None:
    for word in words.arriving():
        if word == words.LINE_END:
            session.finish()
            output.end_line()
        else:
            session.push(word)


def _take_lines(session: "Session") -> None:
    for number, line in enumerate(words.lines_arriving(), 1):
        recognised.take(session, line, number)
    session.commit()
