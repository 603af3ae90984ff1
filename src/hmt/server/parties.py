"""The interfaces a session needs: a connection for its messages, an audience that reads along."""

from typing import Protocol

from hmt.server.channels import FinishedSentence
from hmt.streaming.events import Written


class Connection(Protocol):
    """Carries a session's messages."""

    def close(self, code: int, reason: str) -> None:
        """Close once everything has been sent."""

    def cut(self, code: int, reason: str) -> None:
        """Close at once and send nothing more."""


class Audience(Protocol):
    """Who reads along: a track of a room."""

    def heard(self, words: list[str]) -> None: ...

    def tentative(self, text: str) -> None: ...

    def wrote(self, events: list[Written]) -> None: ...

    def begins_again(self, sentence: int) -> None: ...

    def ended(self, sentence: FinishedSentence) -> None: ...
