"""The clients of a load test: speakers at speaking pace, readers of a room, newcomers."""

import asyncio
import contextlib
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from hmt.bench.sessions import WORDS_PER_SECOND

ROOM = "bench"
LAST_SECONDS = 60.0  # after the end, for the last words to be translated
AT_ONCE = 50  # newcomers connecting at the same time
HEARD = b'data: {"track":"source","sentence"'  # begins the event of a source word


@dataclass
class Heard:
    """What came back; delays in seconds."""

    delays: list[float] = field(default_factory=list)
    said: int = 0  # words
    lost: int = 0  # words in no sentence that ended before `LAST_SECONDS` were over
    sent_at: list[float] = field(default_factory=list)  # seconds on a clock, one for each delay

    def third(self, number: int) -> list[float]:
        """The delays of a third of the time, from 0."""
        start, end = min(self.sent_at, default=0.0), max(self.sent_at, default=0.0)
        length = max(end - start, 1e-9) / 3
        pairs = zip(self.sent_at, self.delays, strict=True)
        return [delay for at, delay in pairs if min(2, int((at - start) / length)) == number]

    def __iadd__(self, other: "Heard") -> "Heard":
        self.delays += other.delays
        self.sent_at += other.sent_at
        self.said += other.said
        self.lost += other.lost
        return self


class Speaker:
    """One client that speaks; a delay is the time from the last word a text needed to that text.

    Which word that was follows from the counts in the server's events: words of sentences that
    have ended, and words of the open one that the model was given.
    """

    def __init__(self, websocket: Any, words: Sequence[str], first: int = 0) -> None:
        self._websocket, self._words, self._first = websocket, words, first
        self.sent_at: list[float] = []
        self._delays: dict[int, float] = {}
        self._ended = 0  # words of sentences that have ended

    async def speak(self, seconds: float) -> Heard:
        """Speak at a steady pace; return what came back."""
        reading = asyncio.create_task(self._read())
        start = time.monotonic()
        for n in range(round(seconds * WORDS_PER_SECOND)):
            await asyncio.sleep(max(0.0, start + n / WORDS_PER_SECOND - time.monotonic()))
            text = self._words[(self._first + n) % len(self._words)] + " "
            self.sent_at.append(time.monotonic())
            message = {"type": "session.input_text.append", "text": text}
            await self._websocket.send(json.dumps(message))
        await self._websocket.send('{"type":"session.close"}')
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(reading, LAST_SECONDS)
        said = len(self.sent_at)
        sent_at = [self.sent_at[word] for word in self._delays]
        return Heard(list(self._delays.values()), said, said - self._ended, sent_at)

    async def _read(self) -> None:
        async for message in self._websocket:
            event = json.loads(message)
            kind = event["type"].removeprefix("session.output_transcript.")
            if kind == "delta":
                word = self._ended + event["hmt"]["read_of"] - 1
                if 0 <= word < len(self.sent_at):
                    self._delays[word] = time.monotonic() - self.sent_at[word]
            elif kind == "done":
                self._ended += len(event["hmt"]["source"].split())


async def speakers(address: str, count: int, seconds: float, words: Sequence[str]) -> Heard:
    """Many speakers, whose words are spread evenly over time."""

    async def one(n: int) -> Heard:
        async with _connected(address) as websocket:
            await asyncio.sleep(1.0 + n / count / WORDS_PER_SECOND)
            return await Speaker(websocket, words, n).speak(seconds)

    every = Heard()
    for heard in await asyncio.gather(*(one(n) for n in range(count))):
        every += heard
    return every


async def listeners(address: str, count: int, seconds: float, words: Sequence[str]) -> Heard:
    """Readers of one speaker's room; when each word of the speaker reached each of them."""
    async with _connected(address, room=ROOM) as websocket:
        speaker = Speaker(websocket, words)
        gate = asyncio.Semaphore(AT_ONCE)
        readers = [Reader(speaker) for _ in range(count)]
        await asyncio.gather(*(reader.connect(address, gate) for reader in readers))
        said = (await speaker.speak(seconds)).said
        await asyncio.sleep(1.0)
        for reader in readers:
            assert reader.transport is not None
            reader.transport.close()
    arrived = [delay for reader in readers for delay in reader.delays]
    return Heard(arrived, said, count * said - len(arrived))


class Reader(asyncio.Protocol):
    """One client that reads along: source words and translation, as server-sent events.

    It does as little as it can: a thousand of them share a process, and what they take for an event
    delays the next one.
    """

    def __init__(self, speaker: Speaker) -> None:
        self._speaker = speaker
        self.delays: list[float] = []
        self.has_begun = asyncio.Event()
        self.transport: asyncio.Transport | None = None
        self._rest = b""  # of a line that is not complete yet

    async def connect(self, address: str, gate: asyncio.Semaphore) -> None:
        """Connect, and wait for the first event."""
        host, _, port = address.partition(":")
        async with gate:
            loop = asyncio.get_running_loop()
            self.transport, _ = await loop.create_connection(lambda: self, host, int(port))
            path = f"/v1/rooms/{ROOM}/events?kind=words,source"
            self.transport.write(f"GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n".encode())
            await self.has_begun.wait()

    def data_received(self, data: bytes) -> None:
        """Source words come in the order in which they were sent, one per event."""
        now = time.monotonic()
        lines, _, self._rest = (self._rest + data).rpartition(b"\n")
        if not self.has_begun.is_set():
            if b"event: snapshot" in lines:
                self.has_begun.set()
            return
        for _ in range(lines.count(HEARD)):
            self.delays.append(now - self._speaker.sent_at[len(self.delays)])


async def connects(address: str, count: int) -> tuple[list[float], float]:
    """Seconds until each newcomer had its session, and until all of them had."""
    gate = asyncio.Semaphore(AT_ONCE)
    delays: list[float] = []

    async def one() -> None:
        async with gate:
            start = time.monotonic()
            with contextlib.suppress(OSError):
                async with _connected(address):
                    delays.append(time.monotonic() - start)

    start = time.monotonic()
    await asyncio.gather(*(one() for _ in range(count)))
    return delays, time.monotonic() - start


@contextlib.asynccontextmanager
async def _connected(address: str, room: str | None = None) -> Any:
    """A session that was created."""
    from websockets.asyncio.client import connect

    url = f"ws://{address}/v1/realtime/translations" + (f"?room={room}" if room else "")
    async with connect(url, compression=None, open_timeout=60, ping_interval=None) as websocket:
        await websocket.recv()
        yield websocket
