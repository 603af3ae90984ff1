"""SIGTERM while many people speak: everybody is told, every sentence ends, and nothing is lost.

HMT_TEST_SESSIONS=100 pytest tests/protocol/test_server_drain.py
"""

import asyncio
import json
import os
import random
import signal
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette", reason="the extra `serve` is not installed")
pytest.importorskip("msgspec", reason="the extra `serve` is not installed")
pytest.importorskip("httpx")

import httpx
from caption_readers import read_srt, read_vtt
from live_process import Process, process, save_small_model
from live_server import WORDS, piped, server_sent_events
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from hmt.models.model import Model, load
from hmt.server.client import Client

SESSIONS = int(os.environ.get("HMT_TEST_SESSIONS", "16"))
SPOKEN = 24  # words of each session
SECONDS = 240  # for everything; machines of continuous integration are slow
DRAIN_SECONDS, GRACE_SECONDS = 30, 10  # of the process, and what its end may take besides
DELTA, DONE = "session.output_transcript.delta", "session.output_transcript.done"


class Speaker:
    """One who goes on speaking, whatever becomes of the server."""

    def __init__(self, number: int, url: str) -> None:
        self.words = random.Random(number).choices(WORDS, k=SPOKEN)
        self.client = Client(url, room=None if number else "aula", attempts=100)
        self.events: list[dict[str, Any]] = []
        self.codes: list[int] = []
        self.said = 0

    async def run(self, is_told: asyncio.Event) -> None:
        """Say the first third at once, then a word now and then, and the rest after the signal."""
        async with self.client as client:
            reading = asyncio.create_task(self._read())
            await self._say(SPOKEN // 3)
            while not is_told.is_set():
                await asyncio.sleep(random.uniform(0.05, 0.2))
                await self._say(1 if self.said < SPOKEN * 2 // 3 else 0)
            while self.said < SPOKEN:
                await self._say(1)
                await asyncio.sleep(0.02)
            await client.close()
            await asyncio.wait_for(reading, SECONDS)

    async def _say(self, count: int) -> None:
        words = self.words[self.said : self.said + count]
        self.said += len(words)
        if words:
            await self.client.say(" ".join(words))

    async def _read(self) -> None:
        async for event in self.client.events():
            self.events.append(event)
            if self.client.close_code is not None and not self.codes:
                self.codes.append(self.client.close_code)
            if event["type"] == "session.closed" and event["hmt"]["reason"] == "client":
                return

    def of(self, type: str) -> list[dict[str, Any]]:
        return [event for event in self.events if event["type"] == type]

    @property
    def sentences(self) -> list[str]:
        return [event["hmt"]["text"] for event in self.of(DONE)]

    def check(self, model: Model) -> None:
        """Told and let go as documented, and everything written once."""
        (notice,) = [n for n in self.of("session.notice") if n["hmt"]["code"] == "going_away"]
        assert notice["hmt"]["deadline_ms"] == 30_000 and notice["hmt"]["resume_token"]
        reasons = [event["hmt"]["reason"] for event in self.of("session.closed")]
        assert reasons == ["going_away", "client"]
        assert self.codes == [1012]
        ends = self.of(DONE)
        numbers = [event["hmt"]["n"] for event in self.events if event["type"] in (DELTA, DONE)]
        assert numbers == list(range(1, len(numbers) + 1)), "without gaps, across both servers"
        assert " ".join(event["hmt"]["source"] for event in ends).split() == self.words
        told = self.events.index(self.of("session.closed")[0])
        before = [event for event in self.events[:told] if event["type"] == DONE]
        heard = sum(len(event["hmt"]["source"].split()) for event in before)
        assert 0 < heard < SPOKEN, "in the middle of the text"
        assert self.client.text == piped(model, self.words, {heard - 1})


class Reader:
    """One who reads along in the room, as the page does."""

    def __init__(self) -> None:
        self.last: int | None = None
        self.sentences: dict[int, str] = {}
        self.states: list[str] = []

    def take(self, number: int, name: str, data: dict[str, Any]) -> None:
        self.last = number
        if name == "snapshot" and (shown := data["tracks"].get("yy")):
            first = shown["sentence"] - len(shown["sentences"])
            self.sentences |= dict(enumerate(shown["sentences"], first))
            self.sentences[shown["sentence"]] = shown["open"]
        elif name == "delta" and data["track"] == "yy":
            known = self.sentences.setdefault(data["sentence"], "")
            delta = data["delta"] if known or data["offset"] else data["delta"].lstrip()
            if data["offset"] == len(known):
                self.sentences[data["sentence"]] = known + delta
        elif name == "state":
            self.states.append(data["state"])

    @property
    def text(self) -> str:
        return " ".join(text for _, text in sorted(self.sentences.items()) if text)


async def read_over_websocket(reader: Reader, port: int) -> int:
    """Read until the server closes; with which code it did."""
    after = "" if reader.last is None else f"&after={reader.last}"
    async with connect(f"ws://127.0.0.1:{port}/v1/rooms/aula?wait=1{after}") as websocket:
        try:
            while True:
                event = json.loads(await websocket.recv())
                reader.take(event["id"], event["event"], event["data"])
        except ConnectionClosed as closed:
            return closed.rcvd.code if closed.rcvd else 1006


async def read_server_sent_events(reader: Reader, port: int) -> None:
    """Read until the answer ends."""
    headers = {} if reader.last is None else {"Last-Event-ID": str(reader.last)}
    url = f"http://127.0.0.1:{port}/v1/rooms/aula/events?wait=1"
    async with (
        httpx.AsyncClient(timeout=SECONDS) as client,
        client.stream("GET", url, headers=headers) as response,
    ):
        async for event in server_sent_events(response):
            reader.take(*event)


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(SECONDS):
        while not holds():
            await asyncio.sleep(0.05)


async def drain(first: Process, restart: Callable[[], AbstractContextManager[Process]]) -> Any:
    """Stop a server in the middle of everything and start it again. -> speakers, readers"""
    speakers = [Speaker(number, first.url) for number in range(SESSIONS)]
    readers, port = (Reader(), Reader()), first.port

    def read() -> tuple[asyncio.Task[int], asyncio.Task[None]]:
        return (
            asyncio.create_task(read_over_websocket(readers[0], port)),
            asyncio.create_task(read_server_sent_events(readers[1], port)),
        )

    reading = read()
    await until(lambda: all(reader.last is not None for reader in readers))
    is_told = asyncio.Event()
    speaking = [asyncio.create_task(speaker.run(is_told)) for speaker in speakers]
    await until(lambda: all(speaker.of(DELTA) for speaker in speakers))
    start = time.monotonic()
    first.popen.send_signal(signal.SIGTERM)
    is_told.set()
    assert await asyncio.to_thread(first.popen.wait, SECONDS) == -signal.SIGTERM
    print(f"gone after {time.monotonic() - start:.1f} s")
    assert time.monotonic() - start < DRAIN_SECONDS + GRACE_SECONDS
    code, _ = await asyncio.gather(*reading)
    assert code == 1012
    for reader in readers:
        assert reader.states[-1] == "closed"
        assert reader.text == " ".join(s.strip() for s in speakers[0].sentences)
    with restart():
        reading = read()
        await asyncio.wait_for(asyncio.gather(*speaking), SECONDS)
        await until(lambda: all(len(r.text) >= len(speakers[0].client.text) for r in readers))
        for task in reading:
            task.cancel()
        await asyncio.wait(reading)
    return speakers, readers


def test_everybody_is_told_and_goes_on_after_a_restart(tmp_path: Path) -> None:
    """Planted bugs: readers in a room are told that all is done (1000), not to come back; they are
    cut off before the last words."""
    folder = save_small_model(tmp_path / "small")
    options = ["--limit", f"per_address={2 * SESSIONS}", "--captions", str(tmp_path)]
    options += ["--languages", "xx:yy"]
    with process(folder, 0, *options) as first:
        again = partial(process, folder, first.port, *options)
        speakers, readers = asyncio.run(drain(first, again))
    model = load(folder)
    for speaker in speakers:
        speaker.check(model)
    expected = " ".join(sentence.strip() for sentence in speakers[0].sentences)
    assert [reader.text for reader in readers] == [expected] * 2
    text = (tmp_path / "aula.yy.txt").read_text()
    assert text.split() == expected.split(), "both servers wrote captions, and each word once"
    cues = read_srt((tmp_path / "aula.yy.srt").read_text())
    assert cues == read_vtt((tmp_path / "aula.yy.vtt").read_text())
    assert all(one.end_ms < next.start_ms for one, next in pairwise(cues)), "in one order"
