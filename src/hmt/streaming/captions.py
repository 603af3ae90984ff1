"""Captions from events: cues that are written once, complete, and never change.

The numbers are those of common caption guides: two lines of 42 characters, 5/6 to 7 seconds, about
17 characters per second, 80 milliseconds between cues.  Times are whole milliseconds.
"""

import re
import unicodedata
from dataclasses import dataclass, field

from hmt.errors import UserError
from hmt.streaming.events import Ended, Event, Written
from hmt.streaming.whole_words import WholeWord, WordAssembler

LEAST_MS, MOST_MS, GAP_MS = 834, 7000, 80
CHARACTERS_PER_SECOND = 17
HURRIED = 1.5  # faster by this factor while captions lag behind the speaker
LAG_MS = 500  # captions lag if a cue begins this much later than its first word was written
# A cue that is still being read delays the next one by up to this much: the time in which two full
# lines are read in a hurry.
MOST_DELAY_MS = 3400
SILENCE_MS = 1500  # without a new word, a cue is complete
# An arrow in the text would be read as a line of times.  "--->" minus one dash still has one.
ARROW = re.compile("-{2,}>")
# SubRip cannot escape markup.  A zero-width character makes players show "<b>" as text; many
# players hide everything in braces, so braces become parentheses.
TAG = re.compile("<(?=[/a-zA-Z])")
WORD_JOINER = "\u2060"
BRACES = str.maketrans("{}", "()")
TIMINGS = ("live", "source")  # when a word was written, or when what it translates was spoken


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

    def has_room(self, word: str) -> bool:
        """Whether a word can be added."""
        return len(self.lines) < self.height or self._fits_last(word)

    def add(self, word: str) -> None:
        """Append a word, on a new line if it does not fit the last one."""
        if self._fits_last(word):
            self.lines[-1] += " " + word
        else:
            self.lines.append(word)

    def _fits_last(self, word: str) -> bool:
        return bool(self.lines) and cells(self.lines[-1]) + 1 + cells(word) <= self.width


class Captions:
    """Events in, finished cues out."""

    def __init__(
        self,
        width: int = 42,
        height: int = 2,
        timing: str = "live",
        offset_ms: int = 0,
        *,
        cues_before: int = 0,
    ) -> None:
        if not 10 <= width <= 200 or not 1 <= height <= 4:
            raise UserError(
                f"Captions of {height} lines of {width} characters: give 1 to 4 lines of 10 to 200."
            )
        if timing not in TIMINGS:
            raise UserError(f'timing "{timing}" is unknown; it is {" or ".join(TIMINGS)}.')
        self._width, self._height = width, height
        self._timing, self._offset = timing, offset_ms
        self._words = WordAssembler()
        self._layout = Layout(width, height)
        self._first_ms = self._last_ms = 0  # of the words in the layout
        self._shown_until = -GAP_MS
        self._count = cues_before

    def take(self, event: Event) -> list[Cue]:
        """The cues that this event completes."""
        cues = [cue for word in self._words.take(event) for cue in self._add(word)]
        return cues + (self._close() if isinstance(event, Ended) else [])

    def rest(self) -> list[Cue]:
        """What is left at the end of the session."""
        cues = [cue for word in self._words.rest() for cue in self._add(word)]
        return cues + self._close()

    def _time(self, event: Written) -> int:
        """When a word appears: never before the previous word."""
        if self._timing == "live":
            ms = round(1000 * event.seconds)
        elif event.spoken is None:
            return self._last_ms  # the caller gave no time: show it with the previous word
        else:
            ms = round(1000 * event.spoken)
        return max(0, self._last_ms, ms + self._offset)

    def _add(self, word: WholeWord) -> list[Cue]:
        now = self._time(word.began)
        cues: list[Cue] = []
        is_quiet = now - self._last_ms > SILENCE_MS
        if self._layout.lines and (is_quiet or now - self._first_ms >= MOST_MS):
            cues += self._close(now)
        for part in pieces(word.text, self._width):
            if not self._layout.has_room(part):
                cues += self._close(now)
            if not self._layout.lines:
                self._first_ms = now
            self._layout.add(part)
        self._last_ms = now
        return cues

    def _close(self, next_ms: int | None = None) -> list[Cue]:
        """Finish the cue; `next_ms` is when the next one would begin, if that is known."""
        if not self._layout.lines:
            return []
        start = max(self._first_ms, self._shown_until + GAP_MS)
        reading = sum(map(cells, self._layout.lines)) * 1000 // CHARACTERS_PER_SECOND
        if start - self._first_ms > LAG_MS:
            reading = round(reading / HURRIED)
        # A cue is shown complete from its start, so reading time counts from there.
        end = max(start + reading, self._last_ms)
        if next_ms is not None:
            end = min(end, next_ms - GAP_MS + MOST_DELAY_MS)
        end = min(max(end, start + LEAST_MS), start + MOST_MS)
        self._count += 1
        cue = Cue(self._count, start, end, tuple(self._layout.lines))
        self._shown_until, self._layout = end, Layout(self._width, self._height)
        return [cue]


def cells(text: str) -> int:
    """Width of a text; characters of East Asian scripts are twice as wide."""
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def pieces(word: str, width: int) -> list[str]:
    """Split a word into parts that fit a line; nearly always the word itself."""
    parts = [""]
    for character in word:
        if cells(parts[-1]) + cells(character) > width:
            parts.append("")
        parts[-1] += character
    return [part for part in parts if part]


def srt(cue: Cue) -> str:
    """A cue of a SubRip file."""
    text = "\n".join(ARROW.sub("->", line).translate(BRACES) for line in cue.lines)
    text = TAG.sub("<" + WORD_JOINER, text)
    return f"{cue.number}\n{_clock(cue.start_ms, ',')} --> {_clock(cue.end_ms, ',')}\n{text}\n\n"


def vtt(cue: Cue) -> str:
    """A cue of a WebVTT file."""
    text = "\n".join(_escaped(line) for line in cue.lines)
    return f"{_clock(cue.start_ms, '.')} --> {_clock(cue.end_ms, '.')}\n{text}\n\n"


def vtt_header(note: str = "") -> str:
    """The header of a WebVTT file."""
    note = " ".join(ARROW.sub("->", note).split())
    return "WEBVTT\n\n" + (f"NOTE {note}\n\n" if note else "")


def _escaped(line: str) -> str:
    return line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _clock(milliseconds: int, comma: str) -> str:
    seconds, thousandths = divmod(milliseconds, 1000)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:02}:{minutes:02}:{seconds:02}{comma}{thousandths:03}"
