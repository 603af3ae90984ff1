"""Readers of a room who are slow, leave, or use another HTTP: each gets everything once."""

import asyncio
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

pytest.importorskip("starlette", reason="the extra `serve` is not installed")
pytest.importorskip("msgspec", reason="the extra `serve` is not installed")
pytest.importorskip("httpx")

import httpx
from live_server import Running, eventually, serving, small_model, talking

from hmt.server.readers import KEPT_EVENTS, Reader
from hmt.server.room_events import RoomDelta
from hmt.server.rooms import Room
from hmt.server.wire import chunk, text_frame, whole

SECONDS = 90  # machines of continuous integration are slow


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    with serving(small_model()) as running:
        yield running


class Slow(asyncio.Transport):
    """A transport whose client takes nothing until it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting, self.got, self.writes = b"", b"", 0
        self.takes = self.is_cut = False

    def get_write_buffer_size(self) -> int:
        return len(self.waiting)

    def is_closing(self) -> bool:
        return self.is_cut

    def write(self, data: Any) -> None:
        self.writes += 1
        self.waiting += data
        if self.takes:
            self.take()

    def take(self) -> None:
        self.got, self.waiting = self.got + self.waiting, b""

    def abort(self) -> None:
        self.is_cut = True


async def nothing() -> None:
    """The end of a response."""


def ids(data: bytes) -> list[int]:
    return [int(line[4:]) for line in data.decode().splitlines() if line.startswith("id: ")]


def test_a_slow_reader_gets_everything_at_once_and_holds_nobody_up() -> None:
    """Planted bugs: everything is written at once into the memory of a slow reader; the events
    between two writes are lost; a slow reader is never looked at again; or for ever."""

    async def run() -> None:
        room = Room("aula", None, stall_seconds=30)
        slow, keen = Slow(), Slow()
        keen.takes = True
        readers = [Reader(t, whole, frozenset({"words"}), None, nothing) for t in (slow, keen)]
        for reader in readers:
            room.feed.enter(reader)
        first = room.feed.seq
        for n in range(1000):
            room.feed.publish("delta", "words", RoomDelta("yy", n, "x" * 200, 0))
            room.feed.publish("delta", "source", RoomDelta("source", n, "x" * 200, 0))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        assert ids(keen.got)[1:] == list(range(first + 1, first + 2000, 2))
        assert slow.writes == 1 and len(slow.waiting) < 1000, "the snapshot, and nothing after it"
        for _ in range(9):
            slow.take()
            room.feed.tick(time.monotonic())
            assert len(slow.waiting) < 70_000
        assert slow.got == keen.got and slow.writes < 10
        room.feed.publish("delta", "words", RoomDelta("yy", 0, "x", 0))
        await asyncio.sleep(0.01)
        now = time.monotonic()
        room.feed.tick(now + 16)  # whom no ping reaches is slow as well
        room.feed.tick(now + 45)
        assert (slow.is_cut, keen.is_cut) == (False, False)
        room.feed.tick(now + 47)
        assert (slow.is_cut, keen.is_cut) == (True, False), "who takes nothing for 30 seconds"

    asyncio.run(run())


def test_who_falls_behind_the_kept_events_gets_a_snapshot() -> None:
    async def run() -> None:
        room = Room("aula", None, stall_seconds=30)
        slow = Slow()
        room.feed.enter(Reader(slow, whole, frozenset({"words"}), None, nothing))
        for n in range(KEPT_EVENTS + 2):
            room.feed.publish("delta", "words", RoomDelta("yy", n, "x", 0))
            await asyncio.sleep(0)
        slow.take()
        slow.got = b""
        room.feed.tick(time.monotonic())
        assert ids(slow.waiting) == [room.feed.seq]
        assert b"event: snapshot" in slow.waiting and b'"gap":true' in slow.waiting

    asyncio.run(run())


def test_readers_are_pinged_and_a_room_that_closes_ends_what_they_read() -> None:
    """Planted bugs: no pings; pings into a WebSocket; the end before the last words."""

    async def run() -> None:
        ends: list[bytes] = []

        async def end(transport: Slow) -> None:
            ends.append(transport.got + transport.waiting)

        room = Room("aula", None, stall_seconds=30)
        forms, late = (chunk, whole, text_frame), Slow()
        transports = [Slow() for _ in forms]
        for transport, form in zip(transports, forms, strict=True):
            transport.takes = True
            room.feed.enter(Reader(transport, form, frozenset(), None, partial(end, transport)))
        room.feed.enter(Reader(late, whole, frozenset(), None, partial(end, late)))
        begun = [transport.got for transport in transports]
        now = time.monotonic()
        room.feed.tick(now + 14)
        assert [transport.got for transport in transports] == begun
        room.feed.tick(now + 16)
        new = [t.got.removeprefix(b) for t, b in zip(transports, begun, strict=True)]
        assert new[1].startswith(b": ping - ") and new[1].endswith(b"\r\n\r\n")
        assert new[0].split(b"\r\n")[1].startswith(b": ping - ") and new[2] == b""
        assert int(new[0].split(b"\r\n")[0], 16) == len(new[0]) - len(b"2d\r\n\r\n")
        room.close()
        await asyncio.sleep(0.01)
        assert len(ends) == 3 and all(b"closed" in got for got in ends)
        late.take()
        room.feed.tick(now + 17)
        await asyncio.sleep(0.01)
        assert len(ends) == 4 and b"closed" in ends[3]

    asyncio.run(run())


def test_readers_of_every_kind_of_http(server: Running) -> None:
    """Planted bugs: chunks for a client of HTTP/1.0; whoever only asks for the head counts for ever
    as a listener."""

    async def run() -> None:
        async with talking(server, "room=forms") as talk:
            url = f"{server.http}/v1/rooms/forms/events"
            head = await asyncio.to_thread(httpx.head, url, timeout=SECONDS)
            assert head.headers["content-type"].startswith("text/event-stream")
            assert eventually(lambda: server.service.listeners.total == 0, SECONDS)
            old, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(b"GET /v1/rooms/forms/events HTTP/1.0\r\nHost: localhost\r\n\r\n")
            answer = await old.readuntil(b"\r\n\r\n")
            assert b"chunked" not in answer.lower()
            assert (await old.readline()).startswith(b"id: ")
            await talk.append("Nolu ka. ")
            async with asyncio.timeout(SECONDS):
                await old.readuntil(b"event: sentence\r\n")
            writer.close()

    asyncio.run(run())
