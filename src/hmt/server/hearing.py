"""From what a client sends to words: final text, guesses that may change, clean characters."""

import re
import unicodedata
from collections.abc import Sequence

from hmt.server.messages import Append, Guess, InvalidError, shortened
from hmt.server.settings import Limits
from hmt.streaming.hypotheses import Hypotheses

# Marks that change the direction of text around them: shown to others, they could disguise what it
# says.
BIDI = re.compile("[\u200e\u200f\u061c\u202a-\u202e\u2066-\u2069]")


def clean(text: str) -> str:
    """Text without control characters and marks that override direction; whitespace stays."""
    if text.isascii() and text.isprintable():
        return text
    text = BIDI.sub("", text)
    return "".join(c for c in text if c.isspace() or unicodedata.category(c) not in ("Cc", "Cs"))


class Hearing:
    """Words out of appended text and guesses."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._partial = ""  # a word not yet completed by whitespace
        self._hypotheses = Hypotheses()
        self._utterance: int | None = None
        self.mode: str | None = None

    @property
    def tentative(self) -> str:
        """Guessed words that may still change."""
        return " ".join(self._hypotheses.tail)

    def append(self, event: Append) -> list[str]:
        """The words that an event completes."""
        if (event.text is None) == (event.words is None):
            raise InvalidError("invalid_event", "Give either `text` or `words`, not both.", "text")
        if event.words is not None:
            words = [*self.rest(), *(w for word in event.words for w in clean(word).split())]
            return self._checked(words)
        text = self._partial + clean(event.text or "")
        words = text.split()
        partial = words.pop() if words and not text[-1].isspace() else ""
        words = self._checked(words)
        if len(partial) > self._limits.word_characters:
            raise self._too_long(partial)
        self._partial = partial
        return words

    def guess(self, event: Guess) -> tuple[list[str], int]:
        """The words that a guess makes final, and how many final words it contradicts."""
        words: list[str] = []
        if event.utterance != self._utterance:
            words, self._utterance = self._hypotheses.commit(), event.utterance
        before = self._hypotheses.conflicts
        guessed = self._checked(clean(event.text).split())
        words += self._hypotheses.update(guessed, self._committed(event, guessed))
        return words, self._hypotheses.conflicts - before

    def commit(self) -> list[str]:
        """The utterance is over: everything guessed or begun is final."""
        return [*self.rest(), *self._hypotheses.commit()]

    def rest(self) -> list[str]:
        """The unfinished word, now taken as complete."""
        words, self._partial = [self._partial] if self._partial else [], ""
        return words

    def clear(self) -> None:
        """Discard everything that is not final."""
        self.rest()
        self._hypotheses.commit()

    def _committed(self, event: Guess, words: Sequence[str]) -> int | None:
        mode = self.mode or ("agreement" if event.committed is None else "client")
        if mode == "client":
            return min(event.committed or 0, len(words))
        if mode == "agreement":
            return None
        return max(0, len(words) - int(mode.removeprefix("hold:")))

    def _checked(self, words: list[str]) -> list[str]:
        most = self._limits.words_per_message
        if len(words) > most:
            raise InvalidError(
                "limit", f"{len(words)} words in one message; send at most {most}.", "text"
            )
        for word in words:
            if len(word) > self._limits.word_characters:
                raise self._too_long(word)
        return words

    def _too_long(self, word: str) -> InvalidError:
        most = self._limits.word_characters
        return InvalidError(
            "limit",
            f"`{shortened(word)}` has more than {most} characters; send shorter words.",
            "text",
        )
