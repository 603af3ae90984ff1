"""What a live translation reports: each token written, each end of a sentence, each notice.

`hmt translate --format jsonl` prints exactly these events, one JSON object per line.
"""

from dataclasses import asdict, dataclass
from typing import ClassVar

Plain = dict[str, "str | int | float | bool | None"]

# Why a sentence ended.
PUNCTUATION = "punctuation"  # of the source
PAUSE = "pause"  # reported by the caller
FINISH = "finish"  # requested by the caller
MODEL = "model"  # the model wrote its end while source was still arriving
LENGTH = "length"  # the sentence reached the maximum length


@dataclass(frozen=True)
class Event:
    """One thing that happened; times are seconds since the first word of the session."""

    kind: ClassVar[str]

    sentence: int  # from 0
    seconds: float

    def plain(self) -> Plain:
        """The event as a JSON object."""
        return {"event": self.kind, **asdict(self)}


@dataclass(frozen=True)
class Written(Event):
    """A token was appended to the translation."""

    kind: ClassVar[str] = "write"

    text: str  # begins with a space where a new word begins, except at the start of a line
    # Words read by then, including a partly read one. A model that ends a sentence itself may have
    # read into the next one, so `source_words` may exceed that of the end event.
    source_words: int  # since the start of the sentence
    read_words: int  # since the start of the session
    confidence: float | None  # of the state that wrote
    log_prob: float
    is_whole: bool  # nothing more can be joined to this text
    spoken: float | None = None  # when the last word read was spoken, if the caller reports it


@dataclass(frozen=True)
class Ended(Event):
    """A sentence is over."""

    kind: ClassVar[str] = "end"

    text: str  # of the whole sentence: its write events joined, without a leading space
    source: str
    source_words: int
    reason: str


@dataclass(frozen=True)
class Notice(Event):
    """Something a reader should know; the translation itself is fine."""

    kind: ClassVar[str] = "notice"

    # "untrained": a setting outside the trained range; "conflict": a guess changed final words;
    # "long_word": a word is too long to be read whole
    code: str
    message: str
