"""Connections that are cut at every byte, and again while they resume; `make attack` runs it.

A proxy stands between a client and the server and cuts after so many bytes of one direction. The
text that the client has in the end is that of a session that nobody disturbed. The tests cut at a
sample of the bytes.
"""

import argparse
import asyncio
import contextlib
import random
import sys
import time
from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from live_server import Running, piped, serving, small_model

from hmt.server.client import Client

WORDS = ["Nolu", "ka.", "Lim"]
TOGETHER = 12  # sessions at a time
SECONDS = 240  # for one session, with all that it has to wait


@dataclass(frozen=True)
class Cut:
    """After so many bytes from the server, or to it."""

    after: int
    is_upstream: bool = False


class Proxy:
    """Passes bytes on, and cuts one connection after the other where it is told to."""

    def __init__(self, port: int, *plan: Cut) -> None:
        self.port, self._plan = port, list(plan)
        self.cuts = 0
        self.passed = {True: 0, False: 0}  # bytes to the server and from it

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[str]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        try:
            port = server.sockets[0].getsockname()[1]
            yield f"ws://127.0.0.1:{port}/v1/realtime/translations"
        finally:
            server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner, outer = await asyncio.open_connection("127.0.0.1", self.port)
        cut = self._plan.pop(0) if self._plan else None
        there = asyncio.create_task(self._pass(reader, outer, cut, True))
        back = asyncio.create_task(self._pass(inner, writer, cut, False))
        await asyncio.wait((there, back), return_when=asyncio.FIRST_COMPLETED)
        there.cancel()
        back.cancel()
        for end in (writer, outer):
            end.transport.abort()

    async def _pass(self, reader: Any, writer: Any, cut: Cut | None, is_upstream: bool) -> None:
        left = cut.after if cut is not None and cut.is_upstream == is_upstream else None
        with contextlib.suppress(OSError):
            while data := await reader.read(1000):
                if left is not None and len(data) >= left:
                    writer.write(data[:left])
                    await writer.drain()
                    self.cuts += 1
                    return
                left = None if left is None else left - len(data)
                self.passed[is_upstream] += len(data)
                writer.write(data)
                await writer.drain()


async def until_closed(client: Client) -> None:
    """Read what the server says until it closes because the client has asked for it."""
    async for event in client.events():
        if event["type"] == "session.closed" and event["hmt"]["reason"] == "client":
            return


async def speak(url: str, words: list[str]) -> str:
    """A whole session by way of a proxy; all of its text."""
    async with Client(url) as client:
        reading = asyncio.create_task(until_closed(client))
        for at in range(0, len(words), 2):
            await client.say(" ".join(words[at : at + 2]))
            await asyncio.sleep(0.01)
        await client.close()
        await asyncio.wait_for(reading, SECONDS)
        return client.text


async def length(server: Running) -> dict[bool, int]:
    """Bytes of a session that nobody cuts, to the server and from it."""
    proxy = Proxy(server.port)
    async with proxy.running() as url:
        await speak(url, WORDS)
    return proxy.passed


async def every_byte(server: Running, step: int = 1) -> list[list[Cut]]:
    """A plan for every `step`-th byte of a session, both ways."""
    passed = await length(server)
    return [[Cut(at, is_up)] for is_up in (True, False) for at in range(1, passed[is_up], step)]


def again_and_again(draw: random.Random, passed: dict[bool, int]) -> Iterator[list[Cut]]:
    """Plans that cut the connections by which a client resumes, too."""
    while True:
        ways = [draw.random() < 0.5 for _ in range(draw.randint(2, 4))]
        yield [Cut(draw.randint(1, passed[is_up]), is_up) for is_up in ways]


async def carry_out(
    server: Running, plans: Iterable[list[Cut]], end: float | None = None
) -> tuple[int, int, list[str]]:
    """Run sessions that are cut as planned. -> sessions, cuts, and what went wrong"""
    expected, sessions, cuts, wrong = piped(server.model, WORDS), 0, 0, list[str]()
    left = iter(plans)

    async def work() -> None:
        nonlocal sessions, cuts
        for plan in left:
            if end is not None and time.monotonic() > end:
                return
            proxy = Proxy(server.port, *plan)
            try:
                async with proxy.running() as url:
                    text = await speak(url, WORDS)
                problem = "" if text == expected else f"{text!r} instead of {expected!r}"
            except Exception as error:  # goes on, so that one run shows all of them
                problem = repr(error)
            sessions, cuts = sessions + 1, cuts + proxy.cuts
            wrong.extend([f"{plan}: {problem}"] if problem else [])

    await asyncio.gather(*(work() for _ in range(TOGETHER)))
    return sessions, cuts, wrong


async def attack(server: Running, seconds: float, draw: random.Random) -> list[str]:
    """Every byte once, however long it takes; then `seconds` of several cuts of one session."""
    plans = await every_byte(server)
    draw.shuffle(plans)
    sessions, cuts, wrong = await carry_out(server, plans)
    print(f"every byte: {sessions} sessions, {cuts} cuts, {len(wrong)} wrong", flush=True)
    passed, end = await length(server), time.monotonic() + seconds
    sessions, cuts, more = await carry_out(server, again_and_again(draw, passed), end)
    print(f"again and again: {sessions} sessions, {cuts} cuts, {len(more)} wrong", flush=True)
    return wrong + more


def main() -> None:
    """Cut connections for some seconds, at other places each time."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seconds", type=float, default=300)
    options.add_argument("--seed", type=int, default=time.time_ns() % 2**32)
    chosen = options.parse_args()
    print(f"seed {chosen.seed}", flush=True)
    with serving(small_model(), per_address=10_000) as server:
        wrong = asyncio.run(attack(server, chosen.seconds, random.Random(chosen.seed)))
    print("\n".join(wrong))
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
