"""Tests that talk to a server end after a while, whatever the server does."""

import signal
from collections.abc import Iterator
from types import FrameType

import pytest

MOST_SECONDS = 120.0


@pytest.fixture(autouse=True)
def deadline(request: pytest.FixtureRequest) -> Iterator[None]:
    """A server that never answers fails the test that waits for it, and no other."""
    if not request.path.name.startswith("test_server_") or not hasattr(signal, "SIGALRM"):
        yield
        return

    def give_up(number: int, frame: FrameType | None) -> None:
        raise TimeoutError(f"no end after {MOST_SECONDS:.0f} s")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, MOST_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
