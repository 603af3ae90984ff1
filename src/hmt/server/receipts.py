"""Acknowledges the messages of a client, but not too often."""

import time
from collections.abc import Callable

INTERVAL_SECONDS = 0.1


class Receipts:
    """Tracks the number of the last accepted message.

    A receipt may wait for a text that goes the same way, which saves a write for every word.
    """

    def __init__(self, send: Callable[[], None]) -> None:
        self._send = send
        self.seq: int | None = None
        self._sent_at = 0.0
        self._is_due = False

    def is_new(self, seq: int | None) -> bool:
        """Whether a message is new: after a lost connection clients repeat some."""
        return seq is None or self.seq is None or seq > self.seq

    def take(self, seq: int | None) -> None:
        """Accept a message; its receipt is sent with the next text or tick."""
        if seq is not None and self.is_new(seq):
            self.seq = seq
        self._is_due = True

    def flush(self) -> None:
        """Send a receipt if there is one to send, and the last one was not just now."""
        if self._is_due and (now := time.monotonic()) - self._sent_at >= INTERVAL_SECONDS:
            self._sent_at = now
            self.flush_now()

    def flush_now(self) -> None:
        """Send a receipt if there is one to send."""
        if self._is_due:
            self._is_due = False
            self._send()
