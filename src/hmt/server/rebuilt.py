"""A sentence that is read again because the process that knew it is gone.

Decoding is greedy and independent of the other streams: the same words become the same text.  What
the client shows already is written again and not sent again.
"""

from dataclasses import replace

from hmt.server.channels import Text


class Rebuilt:
    """What is written until the words of the open sentence are through."""

    def __init__(self, shown: str, leads: bool) -> None:
        self._shown = shown.strip()
        self._leads = leads  # text stands before the sentence
        self.held: list[Text] = []

    def hold(self, text: Text) -> None:
        """Keep text until it can be compared."""
        self.held.append(text)

    @property
    def fits(self) -> bool:
        """Whether the text continues what the client shows."""
        text = "".join(event.text for part in self.held for event in part.events)
        return text.startswith(self._shown)

    def rest(self) -> list[Text]:
        """The text behind what the client shows, or all of it if that is something else."""
        skipped = len(self._shown) if self.fits else 0
        parts, leads = [], self._leads and not skipped
        for part in self.held:
            events = []
            for event in part.events:
                text = " " + event.text if leads else event.text
                leads = False
                text, skipped = text[skipped:], max(0, skipped - len(text))
                if text:
                    events.append(replace(event, text=text))
            if events:
                parts.append(replace(part, events=events))
        return parts
