"""What `hmt translate` writes: plain text, one JSON event per line, or captions."""

import json
import os
import sys
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hmt.streaming.captions import Captions
    from hmt.streaming.events import Event


class Format(StrEnum):
    """What is written to standard output."""

    text = "text"
    jsonl = "jsonl"
    srt = "srt"
    vtt = "vtt"


class Output:
    """Events as they appear on standard output, each in one write."""

    def __init__(self, style: Format, by_line: bool, captions: "Captions", note: str) -> None:
        from hmt.streaming.captions import srt, vtt, vtt_header

        self.style, self.by_line, self.captions = style, by_line, captions
        self.cue = vtt if style is Format.vtt else srt
        self.starts_line = True
        if style is Format.vtt:
            put(vtt_header(note))

    def take(self, event: "Event") -> None:
        """Show one event."""
        if self.style is Format.jsonl:
            put(json.dumps(event.plain(), ensure_ascii=False) + "\n")
        elif self.style is Format.text:
            put(self._plain(event))
        else:
            for cue in self.captions.take(event):
                put(self.cue(cue))

    def end_line(self) -> None:
        """End a line of the input; with one sentence per line, this also ends a line of output."""
        if self.style is Format.text and self.by_line:
            put("\n")

    def close(self) -> None:
        """Show what was held back."""
        if self.style in (Format.srt, Format.vtt):
            for cue in self.captions.rest():
                put(self.cue(cue))

    def _plain(self, event: "Event") -> str:
        """The text of an event; running text has one sentence per line."""
        from hmt.streaming.events import Ended, Written

        if isinstance(event, Written):
            text = event.text.lstrip() if self.starts_line else event.text
            self.starts_line = self.starts_line and not text
            return text
        if isinstance(event, Ended) and event.text and not self.by_line:
            self.starts_line = True
            return "\n"
        return ""


def put(text: str) -> None:
    """Write at once, unbuffered: a reader of the file always finds complete cues and lines."""
    data = text.encode()
    while data:
        data = data[os.write(sys.stdout.fileno(), data) :]
