"""Whole words from write events: what captions, SimulEval, scores and a terminal show.

The pieces of a word may be written one by one.  A word is whole once a piece ends it, another word
begins, or its sentence is over.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hmt.streaming.events import Ended, Event, Written


@dataclass(frozen=True)
class WholeWord:
    """A word of the translation, and the event that began it."""

    text: str
    began: Written


class WordGate:
    """Write events in, the events of whole words out; those of the open word are held back."""

    def __init__(self) -> None:
        self._held: list[Written] = []

    def push(self, event: Written) -> list[list[Written]]:
        """The events of each word that is now whole."""
        words = [self.rest()] if event.text.startswith(" ") else []
        self._held.append(event)
        return [*words, self.rest()] if event.is_whole else words

    def release(self, events: Iterable[Written]) -> list[Written]:
        """The events of all words that are whole after these, in one list."""
        return [held for event in events for word in self.push(event) for held in word]

    def rest(self) -> list[Written]:
        """The events of the open word, which is whole at the end of a sentence."""
        held, self._held = self._held, []
        return held


class WordAssembler:
    """Events in, whole words out, each once and in order."""

    def __init__(self) -> None:
        self._gate = WordGate()

    def take(self, event: Event) -> list[WholeWord]:
        """The words that are now whole; usually one or none."""
        if isinstance(event, Ended):
            return self.rest()
        return _words(self._gate.push(event)) if isinstance(event, Written) else []

    def rest(self) -> list[WholeWord]:
        """The word that is still open, if any; at the end of a translation it is whole."""
        return _words([self._gate.rest()])


def _words(groups: Iterable[Sequence[Written]]) -> list[WholeWord]:
    """One word per group of events; events that show nothing begin no word."""
    shown = [[event for event in group if event.text] for group in groups]
    return [
        WholeWord("".join(event.text.strip() for event in group), group[0])
        for group in shown
        if group
    ]
