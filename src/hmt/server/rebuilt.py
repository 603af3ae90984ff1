"""Rebuilding a sentence whose process is gone, by reading it again.

Decoding is greedy and independent of the other streams: the same words become the same text. What
the client already shows is written again but not sent again.
"""

from dataclasses import replace

from hmt.server.channels import Text


class Rebuilt:
    """Holds text back until it goes beyond what the client shows, or differs from it."""

    def __init__(self, shown: str) -> None:
        self._shown = shown
        self._text = ""
        self.held: list[Text] = []

    def hold(self, text: Text) -> None:
        """Keep text until it can be compared."""
        self.held.append(text)
        self._text += "".join(event.text for event in text.events)

    @property
    def is_known(self) -> bool:
        """Whether the client shows all of the text already, and perhaps more."""
        return self._shown.startswith(self._text)

    @property
    def continues(self) -> bool:
        """Whether the text continues what the client shows."""
        return self._text.startswith(self._shown)

    def rest(self) -> list[Text]:
        """The text after what the client shows, or all of it if they differ."""
        skipped = len(self._shown) if self.continues else 0
        parts = []
        for part in self.held:
            events = []
            for event in part.events:
                text, skipped = event.text[skipped:], max(0, skipped - len(event.text))
                if text:
                    events.append(replace(event, text=text))
            if events:
                parts.append(replace(part, events=events))
        return parts
