"""Acknowledges the messages of a client, but not too often."""

import asyncio
import time
from collections.abc import Callable

INTERVAL_SECONDS = 0.1


class Receipts:
    """Tracks the number of the last accepted message."""

    def __init__(self, send: Callable[[], None]) -> None:
        self._send = send
        self.seq: int | None = None
        self._sent_at = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def is_new(self, seq: int | None) -> bool:
        """Whether a message is new: after a lost connection clients repeat some."""
        return seq is None or self.seq is None or seq > self.seq

    def take(self, seq: int | None) -> None:
        """Accept a message; its receipt is sent now or with later ones."""
        if seq is not None and self.is_new(seq):
            self.seq = seq
        if self._timer is not None:
            return
        wait = self._sent_at + INTERVAL_SECONDS - time.monotonic()
        if wait <= 0:
            self._now()
        else:
            self._timer = asyncio.get_running_loop().call_later(wait, self._now)

    def close(self) -> None:
        """Send no more receipts."""
        if self._timer is not None:
            self._timer.cancel()

    def _now(self) -> None:
        self._timer, self._sent_at = None, time.monotonic()
        self._send()
