"""How long words waited lately, by which new sessions are admitted."""

import time
from collections import deque

WINDOW_SECONDS = 10.0


class Delays:
    """The delays of the last seconds; filled by one thread, read by any."""

    def __init__(self) -> None:
        self._delays: deque[tuple[float, float]] = deque()

    def add(self, now: float, delay: float) -> None:
        """Note how long a word waited."""
        self._delays.append((now, delay))
        while self._delays[0][0] < now - WINDOW_SECONDS:
            self._delays.popleft()

    def p95(self) -> float:
        """The delay in seconds that 95 % of the words did not exceed; 0 if there were none."""
        horizon = time.monotonic() - WINDOW_SECONDS
        delays = sorted(delay for at, delay in list(self._delays) if at >= horizon)
        return delays[int(len(delays) * 0.95)] if delays else 0.0
