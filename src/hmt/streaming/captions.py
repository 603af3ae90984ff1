"""Captions from events: cues that are written once, whole, and never change.

The numbers are those of common caption guides: two lines of 42 characters, 5/6 to 7 seconds, about
17 characters per second, 80 milliseconds between cues.  Times are whole milliseconds.
"""

import unicodedata
from dataclasses import dataclass, field

from hmt.errors import UserError
from hmt.streaming.events import Ended, Event, Written

LEAST_MS, MOST_MS, GAP_MS = 833, 7000, 80
CHARACTERS_PER_SECOND = 17
HURRIED = 1.5  # faster by this factor while captions lag behind the speaker
LAG_MS = 500  # which is when a cue begins this much later than its first word was written
SILENCE_MS = 1500  # without a new word, a cue is complete
TIMINGS = ("live", "source")


@dataclass(frozen=True)
class Cue:
    """What is shown from one moment to another."""

    number: int  # from 1
    start_ms: int
    end_ms: int
    lines: tuple[str, ...]


@dataclass
class Layout:
    """Lines that words are added to as long as there is room."""

    width: int
    height: int
    lines: list[str] = field(default_factory=list)

    def add(self, word: str) -> bool:
        """Whether the word found room."""
        if self.lines and cells(self.lines[-1]) + 1 + cells(word) <= self.width:
            self.lines[-1] += " " + word
            return True
        if len(self.lines) < self.height:
            self.lines.append(word)
            return True
        return False


class Captions:
    """Events in, finished cues out."""

    def __init__(
        self, width: int = 42, height: int = 2, timing: str = "live", offset_ms: int = 0
    ) -> None:
        if not 10 <= width <= 200 or not 1 <= height <= 4:
            raise UserError(
                f"Captions of {height} lines of {width} characters: give 1 to 4 lines of 10 to 200."
            )
        if timing not in TIMINGS:
            raise UserError(f'timing "{timing}" is unknown; it is {" or ".join(TIMINGS)}.')
        self._width, self._height = width, height
        self._timing, self._offset = timing, offset_ms
        self._layout = Layout(width, height)
        self._word = ""  # written, but more may be joined to it
        self._word_ms = self._first_ms = self._last_ms = 0
        self._shown_until = -GAP_MS
        self._count = 0

    def take(self, event: Event) -> list[Cue]:
        """The cues that this event completes."""
        cues: list[Cue] = []
        if isinstance(event, Written):
            cues += self._silence(self._time(event))
            if event.text.startswith(" "):
                cues += self._end_word()
            if not self._word:
                self._word_ms = self._time(event)
            self._word += event.text.strip()
            if event.is_whole:
                cues += self._end_word()
        elif isinstance(event, Ended):
            cues += self._end_word() + self._close()
        return cues

    def rest(self) -> list[Cue]:
        """What is left at the end of the session."""
        return self._end_word() + self._close()

    def _time(self, event: Written) -> int:
        is_spoken = self._timing == "source" and event.spoken is not None
        seconds = event.spoken if is_spoken and event.spoken is not None else event.seconds
        return max(0, round(1000 * seconds) + self._offset)

    def _silence(self, now: int) -> list[Cue]:
        """Close a cue after which nothing came for a while, or that has stood long enough."""
        if not self._layout.lines:
            return []
        is_quiet = now - self._last_ms > SILENCE_MS
        is_full = now - self._first_ms >= MOST_MS
        return self._end_word() + self._close() if is_quiet or is_full else []

    def _end_word(self) -> list[Cue]:
        word, self._word = self._word, ""
        cues: list[Cue] = []
        for part in pieces(word, self._width):
            if not self._layout.add(part):
                cues += self._close(self._word_ms)
                self._layout.add(part)
            if cells(self._layout.lines[0]) == cells(part) and len(self._layout.lines) == 1:
                self._first_ms = self._word_ms
            self._last_ms = self._word_ms
        return cues

    def _close(self, next_ms: int | None = None) -> list[Cue]:
        """Finish the cue; `next_ms` is when the next one would begin, if that is known."""
        if not self._layout.lines:
            return []
        start = max(self._first_ms, self._shown_until + GAP_MS)
        reading = sum(map(cells, self._layout.lines)) * 1000 // CHARACTERS_PER_SECOND
        if start - self._first_ms > LAG_MS:
            reading = round(reading / HURRIED)
        end = max(start + reading, self._last_ms)
        if next_ms is not None:
            end = min(end, next_ms - GAP_MS)
        end = min(max(end, start + LEAST_MS), start + MOST_MS)
        self._count += 1
        cue = Cue(self._count, start, end, tuple(self._layout.lines))
        self._shown_until, self._layout = end, Layout(self._width, self._height)
        return [cue]


def cells(text: str) -> int:
    """Width of a text; characters of East Asian scripts are twice as wide."""
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def pieces(word: str, width: int) -> list[str]:
    """A word in parts that fit a line; nearly always the word itself."""
    parts = [""]
    for character in word:
        if cells(parts[-1]) + cells(character) > width:
            parts.append("")
        parts[-1] += character
    return [part for part in parts if part]


def srt(cue: Cue) -> str:
    """A cue of a SubRip file."""
    text = "\n".join(line.replace("-->", "->") for line in cue.lines)
    return f"{cue.number}\n{_clock(cue.start_ms, ',')} --> {_clock(cue.end_ms, ',')}\n{text}\n\n"


def vtt(cue: Cue) -> str:
    """A cue of a WebVTT file."""
    text = "\n".join(_escaped(line) for line in cue.lines)
    return f"{_clock(cue.start_ms, '.')} --> {_clock(cue.end_ms, '.')}\n{text}\n\n"


def vtt_header(note: str = "") -> str:
    """How a WebVTT file begins."""
    note = " ".join(note.replace("-->", "->").split())
    return "WEBVTT\n\n" + (f"NOTE {note}\n\n" if note else "")


def _escaped(line: str) -> str:
    return line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _clock(milliseconds: int, comma: str) -> str:
    seconds, thousandths = divmod(milliseconds, 1000)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:02}:{minutes:02}:{seconds:02}{comma}{thousandths:03}"
