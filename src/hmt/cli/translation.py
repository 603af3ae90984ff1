"""`hmt translate`: a pipe that translates words while they arrive."""

import json
import os
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from hmt.cli import knobs, words
from hmt.cli.app import app
from hmt.cli.loading import DEVICE, INT8, open_model

if TYPE_CHECKING:
    from hmt.streaming.events import Event


class Format(StrEnum):
    """What is written to standard output."""

    text = "text"
    jsonl = "jsonl"
    srt = "srt"
    vtt = "vtt"


@app.command(cls=knobs.KnobCommand, epilog=knobs.HELP)
def translate(
    context: typer.Context,
    model: Path | None = typer.Argument(
        None, help="A model directory; by default the model that ships."
    ),
    style: Format = typer.Option(
        Format.text, "--format", help="Plain text, one JSON event per line, or captions."
    ),
    by_line: bool = typer.Option(
        False, "--by-line", help="Take each line as one sentence, whatever its punctuation."
    ),
    device: str = DEVICE,
    int8: bool = INT8,
) -> None:
    """Translate standard input while it arrives: running text, or one sentence per line.

    A word counts as soon as whitespace follows it, and text is written the moment it is ready.
    Sentences end by punctuation, at the end of a line, or where the model ends them.
    """
    loaded = open_model(model, device, int8)
    chosen = knobs.settings(knobs.given(context), loaded.system.Knobs, loaded.system.name)
    output = Output(style, by_line, f"{loaded.system.name} {chosen or ''}")
    session = loaded.session(by_line=by_line, listener=output.take, **chosen)
    for word in words.arriving(sys.stdin.fileno()):
        if word != words.LINE_END:
            session.push(word)
            continue
        session.finish()
        output.end_line()
    output.close()


class Output:
    """Events as they appear on standard output, each in one write."""

    def __init__(self, style: Format, by_line: bool, note: str) -> None:
        from hmt.streaming.captions import Captions, srt, vtt, vtt_header

        self.style, self.by_line = style, by_line
        self.captions = Captions()
        self.cue = vtt if style is Format.vtt else srt
        if style is Format.vtt:
            _put(vtt_header(note))

    def take(self, event: "Event") -> None:
        """Show one event."""
        if self.style is Format.jsonl:
            _put(json.dumps(event.plain(), ensure_ascii=False) + "\n")
        elif self.style is Format.text:
            _put(self._plain(event))
        else:
            for cue in self.captions.take(event):
                _put(self.cue(cue))

    def end_line(self) -> None:
        """A line of the input has ended; with one sentence per line so does a line of output."""
        if self.style is Format.text and self.by_line:
            _put("\n")

    def close(self) -> None:
        """Show what was held back."""
        if self.style in (Format.srt, Format.vtt):
            for cue in self.captions.rest():
                _put(self.cue(cue))

    def _plain(self, event: "Event") -> str:
        from hmt.streaming.events import Ended, Written

        if isinstance(event, Written):
            return event.text.lstrip() if event.is_first and not self.by_line else event.text
        return "\n" if isinstance(event, Ended) and event.text and not self.by_line else ""


def _put(text: str) -> None:
    if text:
        sys.stdout.flush()
        data = text.encode()
        while data:
            data = data[os.write(sys.stdout.fileno(), data) :]
