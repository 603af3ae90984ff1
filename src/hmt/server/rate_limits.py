"""Rate limits: a token bucket, and counts by address."""

import time
from collections import Counter, deque
from collections.abc import Callable


class Bucket:
    """A token bucket: `burst` at once, then `per_second`."""

    def __init__(
        self, per_second: float, burst: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._rate, self._burst, self._clock = per_second, burst, clock
        self._level, self._at = burst, clock()

    def take(self, amount: float) -> float:
        """Take this much; return the seconds to wait until it is available."""
        now = self._clock()
        self._level = min(self._burst, self._level + (now - self._at) * self._rate) - amount
        self._at = now
        return max(0.0, -self._level / self._rate)


class Visits:
    """Requests of each address within the last minute."""

    def __init__(self, per_minute: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._most, self._clock = per_minute, clock
        self._times: dict[str, deque[float]] = {}

    def allow(self, address: str) -> bool:
        """Whether one more is allowed."""
        now = self._clock()
        if len(self._times) > 10_000:
            self._times = {a: t for a, t in self._times.items() if t and t[-1] > now - 60}
        times = self._times.setdefault(address, deque())
        while times and times[0] <= now - 60:
            times.popleft()
        if len(times) >= self._most:
            return False
        times.append(now)
        return True


class Guests:
    """Limits how many connections of a kind each address has open."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._counts: Counter[str] = Counter()

    def enter(self, address: str) -> bool:
        """Count one more; False if there are too many already."""
        if self._counts[address] >= self._most:
            return False
        self._counts[address] += 1
        return True

    @property
    def total(self) -> int:
        """The connections of all addresses together."""
        return self._counts.total()

    def leave(self, address: str) -> None:
        """Count one less."""
        self._counts[address] -= 1
        if self._counts[address] <= 0:
            del self._counts[address]
