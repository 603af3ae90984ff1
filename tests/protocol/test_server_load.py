"""The clients of `hmt bench live` count what they send and what comes back."""

import asyncio
from collections.abc import Iterator

import pytest

pytest.importorskip("starlette", reason="the extra `serve` is not installed")
pytest.importorskip("msgspec", reason="the extra `serve` is not installed")

from live_server import Running, serving, small_model

from hmt.bench.crowd import Heard, connects, listeners, speakers

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


def test_the_delays_of_a_third_are_those_of_words_sent_in_it() -> None:
    """Planted bug: the list is cut into thirds, though it goes speaker by speaker."""
    heard = Heard([1.0, 2.0, 3.0], 3, 0, [10.0, 12.0, 14.0])
    heard += Heard([4.0, 5.0, 6.0], 3, 0, [11.0, 13.0, 19.0])
    assert [heard.third(n) for n in range(3)] == [[1.0, 2.0, 4.0], [3.0, 5.0], [6.0]]
    assert Heard().third(0) == []


def test_readers_of_a_room_get_every_word(server: Running) -> None:
    """Planted bug: the connection is dropped once it was opened."""
    heard = asyncio.run(listeners(address(server), 4, 1.2, WORDS))
    assert (heard.said, heard.lost) == (3, 0)
    assert len(heard.delays) == 4 * 3


def test_newcomers_are_counted_once_they_have_a_session(server: Running) -> None:
    delays, seconds = asyncio.run(connects(address(server), 6))
    assert len(delays) == 6
    assert max(delays) <= seconds
