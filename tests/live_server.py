"""A server in a thread of the test, with a small model, and clients that keep what they see."""

import asyncio
import contextlib
import json
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lively import lively_hmt
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from hmt.models.directory import describe
from hmt.models.model import Model
from hmt.server.running import Server, configured
from hmt.server.service import Offer, Service
from hmt.server.settings import Limits, Settings
from hmt.server.tokens import Tokens
from hmt.text.tokenizer import train_bpe

if TYPE_CHECKING:
    import httpx  # only some of the tests need it

TEXT = [
    "Nolu ka, besi tarum!",
    "Ka besi nolu tarum, 12 pelo.",
    '"Tarum pelo?" besi nolu (ka lim).',
    "Lim pelo-besi: tarum ka, nolu.",
]
WORDS = " ".join(TEXT).split()


def small_model() -> Model:
    tokenizer = train_bpe(TEXT, 60)
    size = {"source_vocabulary": tokenizer.size, "target_vocabulary": tokenizer.size}
    system = lively_hmt(5, 2, 3, **size)
    return Model(system, (tokenizer, tokenizer), describe(system, knobs={"threshold": 0.4}))


class Running:
    """A server that runs, and its address."""

    def __init__(self, model: Model, send_bytes: int | None = None, **changed: Any) -> None:
        names = Limits.__dataclass_fields__
        limits = replace(Limits(delay_ms=10**6), **{k: v for k, v in changed.items() if k in names})
        others = {k: v for k, v in changed.items() if k not in names}
        settings = Settings(limits=limits, **others)
        self.model = model
        self.service = Service(
            settings, [Offer("xx-yy", model, "xx", "yy")], Tokens(settings.token_file)
        )
        listening = socket.socket()
        if send_bytes is not None:  # of the system's buffer, so that a slow reader is felt soon
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_bytes)
        listening.bind(("127.0.0.1", 0))
        self.port = listening.getsockname()[1]
        config = configured(self.service)
        config.timeout_graceful_shutdown = 2
        self.server = Server(config, self.service)
        run = threading.Thread(target=self.server.run, args=([listening],), daemon=True)
        run.start()
        self._thread = run
        while not self.server.started:
            assert run.is_alive()
            time.sleep(0.01)

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.port}/v1/realtime/translations"

    @property
    def http(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def stop(self) -> None:
        self.server.should_exit = True
        self._thread.join(timeout=60)


@contextlib.contextmanager
def serving(model: Model, **changed: Any) -> Iterator[Running]:
    running = Running(model, **changed)
    try:
        yield running
    finally:
        running.stop()


class Talk:
    """A client that sends what it is given and keeps all that it is sent."""

    def __init__(self, websocket: ClientConnection) -> None:
        self.websocket = websocket
        self.events: list[dict[str, Any]] = []

    async def send(self, type: str, **fields: Any) -> None:
        await self.websocket.send(json.dumps({"type": type, **fields}))

    async def append(self, text: str, **hmt: Any) -> None:
        await self.send("session.input_text.append", text=text, hmt=hmt)

    async def until(self, type: str) -> dict[str, Any]:
        """Take events up to the first of a type."""
        async with asyncio.timeout(120):
            while (event := await self.next())["type"] != type:
                pass
        return event

    async def next(self) -> dict[str, Any]:
        event: dict[str, Any] = json.loads(await asyncio.wait_for(self.websocket.recv(), 60))
        self.events.append(event)
        return event

    async def finish(self) -> str:
        """Close the session; all text of it."""
        await self.send("session.close")
        await self.until("session.closed")
        return self.text

    async def code(self) -> int:
        """Take everything until the server closes; with which code it did."""
        try:
            async with asyncio.timeout(120):  # heartbeats would go on for ever
                while True:
                    await self.next()
        except ConnectionClosed as closed:
            return closed.rcvd.code if closed.rcvd else 1006

    def of(self, type: str) -> list[dict[str, Any]]:
        return [event for event in self.events if event["type"] == type]

    @property
    def text(self) -> str:
        return "".join(event["delta"] for event in self.of("session.output_transcript.delta"))


@contextlib.asynccontextmanager
async def talking(server: Running, query: str = "", **options: Any) -> Any:
    async with connect(f"{server.url}?{query}", **options) as websocket:
        talk = Talk(websocket)
        if "resume" not in query:
            await talk.next()
        yield talk


def eventually(holds: Callable[[], bool], seconds: float = 60) -> bool:
    """Whether something comes true; machines of continuous integration are slow."""
    end = time.monotonic() + seconds
    while not holds() and time.monotonic() < end:
        time.sleep(0.05)
    return holds()


def piped(model: Model, words: list[str], ends: set[int] = frozenset(), **knobs: Any) -> str:  # type: ignore[assignment]
    """What a session of the library writes for the same words, paused after some of them."""
    session = model.session(**knobs)
    text = ""
    for n, word in enumerate(words):
        text += session.push(word)
        if n in ends:
            text += session.pause()
    return text + session.pause()


async def server_sent_events(response: "httpx.Response") -> AsyncIterator[tuple[int, str, Any]]:
    """The events of an answer, as (id, name, data)."""
    fields: dict[str, str] = {}
    async for line in response.aiter_lines():
        if line and not line.startswith(":"):
            name, _, value = line.partition(": ")
            fields[name] = value
        elif fields:
            yield int(fields["id"]), fields["event"], json.loads(fields["data"])
            fields = {}
