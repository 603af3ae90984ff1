"""The clients of `hmt bench live` count what they send and what comes back."""

import asyncio
from collections.abc import Iterator

import pytest

pytest.importorskip("starlette", reason="the extra `serve` is not installed")
pytest.importorskip("msgspec", reason="the extra `serve` is not installed")

from live_server import Running, serving, small_model

from hmt.bench.crowd import connects, listeners, speakers

WORDS = ["Nolu", "ka", "besi.", "Lim", "tarum!"]


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    with serving(small_model(), per_address=100) as running:
        yield running


def address(server: Running) -> str:
    return f"127.0.0.1:{server.port}"


def test_speakers_hear_all_that_they_said(server: Running) -> None:
    """Planted bug: words of ended sentences are not counted."""
    heard = asyncio.run(speakers(address(server), 3, 2.0, WORDS))
    assert heard.said == 3 * 5
    assert heard.lost == 0
    assert 3 <= len(heard.delays) <= heard.said
    assert all(0 < delay < 60 for delay in heard.delays)


def test_readers_of_a_room_get_every_word(server: Running) -> None:
    """Planted bug: the connection is dropped once it was opened."""
    heard = asyncio.run(listeners(address(server), 4, 1.2, WORDS))
    assert (heard.said, heard.lost) == (3, 0)
    assert len(heard.delays) == 4 * 3


def test_newcomers_are_counted_once_they_have_a_session(server: Running) -> None:
    delays, seconds = asyncio.run(connects(address(server), 6))
    assert len(delays) == 6
    assert max(delays) <= seconds
