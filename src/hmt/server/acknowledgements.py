"""Which messages of a client were taken, and when it is told so."""

import asyncio
import time
from collections.abc import Callable

LEAST_SECONDS = 0.1  # between two acknowledgements


class Acknowledgements:
    """Counts messages by their sequence numbers; calls `tell` soon after each, but not for each."""

    def __init__(self, tell: Callable[[], None]) -> None:
        self._tell = tell
        self.seq: int | None = None  # of the last message taken
        self._told_at = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def is_new(self, seq: int | None) -> bool:
        """Whether a message was not taken before: after a lost connection clients repeat some."""
        return seq is None or self.seq is None or seq > self.seq

    def took(self, seq: int | None) -> None:
        """A message was taken."""
        if seq is not None and self.is_new(seq):
            self.seq = seq
        if self._timer is not None:
            return
        wait = self._told_at + LEAST_SECONDS - time.monotonic()
        if wait <= 0:
            self._acknowledge()
        else:
            self._timer = asyncio.get_running_loop().call_later(wait, self._acknowledge)

    def stop(self) -> None:
        """Say no more."""
        if self._timer is not None:
            self._timer.cancel()

    def _acknowledge(self) -> None:
        self._timer = None
        self._told_at = time.monotonic()
        self._tell()
