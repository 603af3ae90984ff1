"""Whom a session deals with: who carries its messages, and who reads along."""

from typing import Protocol

from hmt.server.channels import Sentence
from hmt.streaming.events import Written


class Connection(Protocol):
    """Whoever carries a session's messages."""

    def close(self, code: int, reason: str) -> None:
        """Close once everything was sent."""

    def cut(self, code: int, reason: str) -> None:
        """Close at once and send nothing more."""


class Audience(Protocol):
    """Who reads along: a track of a room."""

    def heard(self, words: list[str]) -> None: ...

    def tentative(self, text: str) -> None: ...

    def wrote(self, events: list[Written]) -> None: ...

    def begins_again(self, sentence: int) -> None: ...

    def ended(self, sentence: Sentence) -> None: ...
