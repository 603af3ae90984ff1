"""Whole words from write events: what captions, SimulEval and a terminal show.

The pieces of a word may be written one by one.  A word is whole once a piece ends it, another word
begins, or its sentence is over.
"""

from dataclasses import dataclass

from hmt.streaming.events import Ended, Event, Written


@dataclass(frozen=True)
class WholeWord:
    """A word of the translation, and the event that began it."""

    text: str
    began: Written


class WordAssembler:
    """Events in, whole words out, each once and in order."""

    def __init__(self) -> None:
        self._text = ""
        self._began: Written | None = None

    def take(self, event: Event) -> list[WholeWord]:
        """The words that are now whole; mostly one or none."""
        if isinstance(event, Ended):
            return self.rest()
        if not isinstance(event, Written):
            return []
        words = self.rest() if event.text.startswith(" ") else []
        if event.text and self._began is None:
            self._began = event
        self._text += event.text.strip()
        return words + (self.rest() if event.is_whole else [])

    def rest(self) -> list[WholeWord]:
        """The word that is still open, if any: at the end of a translation it is whole."""
        text, began = self._text, self._began
        self._text, self._began = "", None
        return [WholeWord(text, began)] if began is not None else []
