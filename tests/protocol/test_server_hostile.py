"""Clients that mean harm, or are merely broken: they cost themselves something and nobody else."""

import asyncio
import hashlib
import json
import logging
import socket
import time
from collections.abc import Callable, Iterator
from inspect import signature
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

pytest.importorskip("starlette", reason="the extra `serve` is not installed")
pytest.importorskip("msgspec", reason="the extra `serve` is not installed")
pytest.importorskip("httpx")

import httpx
from live_server import Running, Talk, eventually, piped, serving, small_model, talking
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from websockets.asyncio.client import connect

from hmt.cli.serve import OTHERS_HELP, serve
from hmt.errors import UserError
from hmt.models.model import Model
from hmt.server import tokens as tokens_module
from hmt.server.patience import Doorkeeper, WholeBodies
from hmt.server.rooms import Rooms
from hmt.server.settings import Limits
from hmt.server.tokens import EVERYBODY, Tokens

INIT = {"type": "init", "protocol_version": 1, "source_lang": "xx", "target_lang": "yy"}
SECONDS = 90  # machines of continuous integration are slow


@pytest.fixture(scope="module")
def model() -> Model:
    return small_model()


@pytest.fixture(scope="module")
def server(model: Model) -> Iterator[Running]:
    with serving(model) as running:
        yield running


def test_a_message_that_waits_is_not_taken_again_over_a_newer_connection(model: Model) -> None:
    """A client sends faster than it may, loses its connection and repeats what was not accepted.

    Planted bug: the old connection and the new one both take it, and its words come twice.
    """
    words = ["Nolu", "ka", "besi", "tarum"]

    async def run(server: Running) -> None:
        async with talking(server) as first:
            created = first.events[0]["session"]
            await first.append("Lim. ", seq=1)
            await first.until("session.input_text.accepted")
            (session,) = server.service.sessions
            goes_on = hold_up(session)
            await first.append(" ".join(words) + " ", seq=2)
            await until(session._taking.locked)
            async with talking(server, "resume=1") as second:
                token = created["hmt"]["resume_token"]
                await second.send("session.resume", hmt={"token": token, "after": first_n(first)})
                assert (await second.until("session.resumed"))["hmt"]["seq"] == 1
                await second.append(" ".join(words) + " ", seq=2)
                await asyncio.sleep(0.5)  # for the server to see it, while the first one waits
                assert server.service._loop is not None
                server.service._loop.call_soon_threadsafe(goes_on.set)
                await second.finish()
                assert second.events[-1]["hmt"]["words_in"] == 1 + len(words)
                sources = [e["hmt"]["source"] for e in second.of("session.output_transcript.done")]
                assert " ".join(sources).split()[-len(words) :] == words

    with serving(model) as server:
        asyncio.run(run(server))


async def until(holds: Callable[[], bool]) -> None:
    assert await asyncio.to_thread(eventually, holds)


def hold_up(session: Any) -> asyncio.Event:
    """Let words wait before they are queued, as those of a client that sends too fast."""
    goes_on, say = asyncio.Event(), session._say

    async def say_later(words: list[str], spoken: list[float] | None = None) -> None:
        await goes_on.wait()
        await say(words, spoken)

    session._say = say_later
    return goes_on


def first_n(talk: Talk) -> int:
    return max((event.get("hmt", {}).get("n", 0) for event in talk.events), default=0)


# ---- connections that never become requests


def test_who_never_asks_is_hung_up_on(model: Model) -> None:
    """Slow loris: a byte now and then. Planted bug: uvicorn waits for ever."""

    async def run(server: Running) -> None:
        async with talking(server, "room=aula") as talk:
            server.server._doorkeeper = Doorkeeper(1.0)
            silent = socket.create_connection(("127.0.0.1", server.port))
            slow = socket.create_connection(("127.0.0.1", server.port))
            slow.sendall(b"GET /health/live HT")
            loop = asyncio.get_running_loop()
            for stranger in (silent, slow):
                stranger.setblocking(False)
                assert await asyncio.wait_for(loop.sock_recv(stranger, 100), SECONDS) == b""
                stranger.close()
            await talk.append("Nolu ka. ")
            assert await talk.finish(), "whoever speaks stays"

    with serving(model) as server:
        asyncio.run(run(server))


def test_a_body_that_does_not_come_is_not_waited_for() -> None:
    async def read(request: Request) -> Response:
        return PlainTextResponse(await request.body())

    routes = [Route("/", read, methods=["POST"])]
    app = Starlette(routes=routes, middleware=[Middleware(WholeBodies, seconds=0.2)])

    async def ask(is_whole: bool) -> int:
        parts = [{"type": "http.request", "body": b"ab", "more_body": True}]
        parts += [{"type": "http.request", "body": b"c", "more_body": False}] * is_whole
        answers: list[Any] = []

        async def receive() -> Any:
            return parts.pop(0) if parts else await asyncio.Event().wait()

        async def send(message: Any) -> None:
            answers.append(message)

        scope = {"type": "http", "method": "POST", "path": "/", "headers": [], "query_string": b""}
        await asyncio.wait_for(app(scope, receive, send), SECONDS)
        return int(answers[0]["status"])

    assert asyncio.run(ask(True)) == 200
    assert asyncio.run(ask(False)) == 408


def test_who_has_sent_a_whole_body_may_stay() -> None:
    """As the readers of a room do. Planted bug: they are cut off when the time for bodies is up."""
    seen: list[str] = []

    async def wait(scope: Any, receive: Any, send: Any) -> None:
        seen.extend([(await receive())["type"], (await receive())["type"]])

    async def run() -> None:
        messages = [("http.request", 0.0), ("http.disconnect", 0.5)]

        async def receive() -> Any:
            kind, seconds = messages.pop(0)
            await asyncio.sleep(seconds)
            return {"type": kind}

        async def send(message: Any) -> None:
            raise AssertionError(message)

        await WholeBodies(wait, seconds=0.2)({"type": "http"}, receive, send)

    asyncio.run(run())
    assert seen == ["http.request", "http.disconnect"]


def asked(server: Running, request: bytes) -> bytes:
    """What a server says to bytes that no client would send."""
    with socket.create_connection(("127.0.0.1", server.port), SECONDS) as raw:
        raw.sendall(request)
        raw.settimeout(SECONDS)
        found = b""
        while part := raw.recv(65536):
            found += part
        return found


HOST = b"Host: 127.0.0.1\r\n"


def test_requests_that_two_readers_would_read_differently_are_refused(server: Running) -> None:
    """Seen to hold with h11: nothing behind a proxy is smuggled past it."""
    chunked = b"Transfer-Encoding: chunked\r\n"
    post, smuggled = b"POST /translate HTTP/1.1\r\n" + HOST, b"GET /metrics HTTP/1.1\r\n\r\n"
    for request in (
        post + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
        post + b"Content-Length: -1\r\n\r\n",
        post + b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
        post + b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
        post + chunked + b"\r\nzz\r\n",
        b"GET / HTTP/1.1\r\n" + HOST + b"X: a\rb\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + HOST + b"X: " + b"a" * 70_000,
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" * 20 + b"\r\n\r\n",
    ):
        answer = asked(server, request)
        assert answer.startswith(b"HTTP/1.1 400"), request[:90]
        assert answer.count(b"HTTP/1.1") == 1, "one request, one answer"
    both = (
        post + b"Content-Length: 4\r\n" + chunked + b"Connection: close\r\n\r\n0\r\n\r\n" + smuggled
    )
    assert asked(server, both).count(b"HTTP/1.1") == 1


def test_no_path_leads_out_of_the_page(server: Running) -> None:
    for path in (
        "/static/../app.py",
        "/static/%2e%2e/app.py",
        "/static/..%2fapp.py",
        "/static/%2e%2e%2f%2e%2e%2f%2e%2e%2fpyproject.toml",
        "/static//etc/passwd",
        "/static/%00",
        "/static/..\\app.py",
        "/v1/rooms/..%2f..%2fetc/captions.vtt",
        "/v1/rooms/%2e%2e/captions.vtt?wait=1",
    ):
        request = f"GET {path} HTTP/1.1\r\n".encode() + HOST + b"Connection: close\r\n\r\n"
        assert asked(server, request).split()[1] in (b"400", b"404"), path


# ---- too much of everything


def test_messages_are_taken_only_so_fast(model: Model) -> None:
    """Planted bug: messages without words are worked on as fast as they come."""

    async def run(server: Running) -> float:
        async with talking(server) as talk:
            start = time.monotonic()
            for n in range(16):
                await talk.send("session.input_text.append", text="", hmt={"seq": n})
            await talk.finish()
            return time.monotonic() - start

    with serving(model, messages_per_second=10, burst_messages=5) as server:
        assert asyncio.run(run(server)) > 1


def test_messages_of_recognisers_are_taken_only_so_fast(model: Model) -> None:
    async def run(server: Running) -> float:
        url = server.url.replace("v1/realtime/translations", "sidecar/alignatt")
        async with connect(url) as websocket:
            await websocket.send(json.dumps(INIT))
            start = time.monotonic()
            for _ in range(16):
                await websocket.send("{")
            for _ in range(17):
                await websocket.recv()
            return time.monotonic() - start

    with serving(model, messages_per_second=10, burst_messages=5) as server:
        assert asyncio.run(run(server)) > 1


def test_characters_that_disguise_text_are_removed(server: Running) -> None:
    """Marks that turn other people's text round, and control characters; no word is lost by it."""

    async def run() -> Talk:
        async with talking(server) as talk:
            await talk.send("session.update", session={"hmt": {"echo": True}})
            await talk.append("\u202eNolu\u0007 k\u2066a\x1b[2J\u200f. ")
            await talk.send("session.input_text.append", words=["b\x00esi\u202d."])
            await talk.finish()
            return talk

    talk = asyncio.run(run())
    heard = "".join(event["delta"] for event in talk.of("session.input_transcript.delta"))
    assert heard.split() == ["Nolu", "ka[2J.", "besi."]
    sources = [event["hmt"]["source"] for event in talk.of("session.output_transcript.done")]
    assert " ".join(sources) == "Nolu ka[2J. besi."


def test_sessions_without_words_are_given_up_before_others(model: Model) -> None:
    """Planted bug: whoever connects and leaves often enough drives out those who lost a network."""

    async def run(server: Running) -> None:
        async with talking(server) as talk:
            token = talk.events[0]["session"]["hmt"]["resume_token"]
            await talk.append("Nolu ka ", seq=1)
            await talk.until("session.input_text.accepted")
            talk.websocket.transport.abort()
        for _ in range(6):
            async with talking(server) as stranger:
                stranger.websocket.transport.abort()
            await until(lambda: all(s.lost_at is not None for s in server.service.sessions))
        figures = server.service.measure().decode()
        assert 'hmt_sessions{model="xx-yy"} 0.0' in figures and "hmt_lost_sessions 3.0" in figures
        async with talking(server, "resume=1") as talk:
            await talk.send("session.resume", hmt={"token": token})
            assert (await talk.until("session.resumed"))["hmt"] == {"how": "kept", "seq": 1}

    with serving(model, places=3) as server:
        asyncio.run(run(server))


def test_rooms_that_nobody_uses_make_way(tmp_path: Path) -> None:
    """Planted bug: one stranger's names keep all speakers out for ten minutes."""
    rooms = Rooms(Limits(rooms=2), None)
    first, second = rooms.make("a", to_speak=False), rooms.make("b", to_speak=False)
    assert first is not None and second is not None
    assert rooms.make("c", to_speak=False) is not None
    assert first.is_closed and rooms.find("a") is None
    for name in ("b", "c"):
        room = rooms.find(name)
        assert room is not None
        room.feed._readers[Mock()] = 0.0
    assert rooms.make("d", to_speak=False) is None, "readers do not drive readers out"
    second.feed._begin_round = Mock()  # type: ignore[method-assign]  # there is no event loop
    speakers = rooms.make("d")
    assert speakers is not None and second.is_closed, "a speaker drives out who waits in vain"
    speakers.left_at = None
    third = rooms.find("c")
    assert third is not None
    third.track("yy")
    assert rooms.make("e") is None, "and nobody from a room where somebody spoke and somebody reads"


def test_readers_of_growing_captions_count_and_leave(model: Model) -> None:
    """Planted bugs: any number of them; one who leaves a silent room is never missed."""

    async def run(server: Running) -> None:
        async with talking(server, "room=aula") as talk:
            await talk.append("Nolu ka. ")
            await talk.until("session.output_transcript.done")
            url = f"{server.http}/v1/rooms/aula/captions.txt"
            async with httpx.AsyncClient(timeout=SECONDS) as client:
                async with client.stream("GET", f"{url}?follow=1") as follower:
                    texts = follower.aiter_text()  # forgotten, it would hang up
                    assert await anext(texts)
                    assert (await client.get(url)).status_code == 429
                await until(lambda: not server.service.listeners.total)
                assert (await client.get(url)).status_code == 200
            rooms = server.url.replace("realtime/translations", "rooms")
            async with connect(f"{rooms}/aula") as reader:
                assert json.loads(await reader.recv())["event"] == "snapshot"
                await reader.send("not asked for")
                await (await reader.ping())  # the server has seen what came before
                await talk.append("Besi. ")
                await talk.until("session.output_transcript.done")
                assert json.loads(await reader.recv())["event"] == "delta", "it reads on"
                assert server.service.rooms.listeners == 1
                reader.transport.abort()
            await until(lambda: not server.service.rooms.listeners)
            await until(lambda: not server.service.listeners.total)

    with serving(model, listeners_per_address=1) as server:
        asyncio.run(run(server))


def test_a_broken_recogniser_is_answered_and_a_silent_one_leaves(model: Model) -> None:
    """Planted bug: a binary frame is our fault, with a traceback."""
    update = {"type": "update", "seq": 1, "words": [["Nolu", 0.0, None]], "is_final": True}

    async def run(server: Running) -> None:
        url = server.url.replace("v1/realtime/translations", "sidecar/alignatt")
        async with connect(url) as websocket:
            await websocket.send(json.dumps(INIT))
            assert json.loads(await websocket.recv())["type"] == "init_ok"
            long = {**update, "words": [["x" * 5000, 0.0, None]]}
            for broken in (b"\x00\x01", "{", "[]", json.dumps(long), json.dumps({"type": "x"})):
                await websocket.send(broken)
                assert json.loads(await websocket.recv())["code"] == "processing_failed"
            await websocket.send(json.dumps(update))
            answer = json.loads(await websocket.recv())
            assert answer["committed_text"] == piped(server.model, ["Nolu"])
            assert await Talk(websocket).code() == 4408
        assert server.service.sidecars == 0

    with serving(model, idle_seconds=10) as server:
        asyncio.run(run(server))


def test_many_empty_texts_are_much(server: Running) -> None:
    body = {"q": [""] * 6000, "source": "xx", "target": "yy"}
    answer = httpx.post(f"{server.http}/translate", json=body, timeout=SECONDS)
    assert answer.status_code == 400 and "5999 characters" in answer.json()["error"]
    one = httpx.post(f"{server.http}/translate", json={**body, "q": "x" * 5000}, timeout=SECONDS)
    assert one.status_code == 200, "a word without end is cut, not refused"


def test_secrets_for_browsers_do_not_pile_up(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(tokens_module, "MOST_SHORT", 3)
    file = tmp_path / "tokens"
    file.write_text(f"ana {hashlib.sha256(b'ana').hexdigest()} translate\n")
    tokens = Tokens(file)
    made = [tokens.shorten(EVERYBODY)[0] for _ in range(5)]
    assert [tokens.find(secret) is not None for secret in made] == [False] * 2 + [True] * 3


def test_every_limit_can_be_set_and_is_listed() -> None:
    """Planted bug: a limit that only the source knows."""
    assert Limits().changed(["rooms=500", "sockets=9"]) == Limits(rooms=500, sockets=9)
    for wrong in ("rooms", "rooms=", "rooms=-1", "rooms=0", "rooms=1e3", "rooms=9999999999", "x=1"):
        with pytest.raises(UserError):
            Limits().changed([wrong])
    own = signature(serve).parameters  # options of their own, with the same defaults
    for name, value in vars(Limits()).items():
        if name in own:
            assert own[name].default.default == value, name
        else:
            assert f" {name} {value}" in OTHERS_HELP, name


@pytest.mark.parametrize("is_asked", [False, True])
def test_text_is_logged_only_where_it_is_asked_for(
    model: Model, is_asked: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def run(server: Running) -> None:
        async with talking(server) as talk:
            await talk.append("Nolu tarum. ")
            await talk.websocket.send('{"type": "session.nolu", "text": "tarum"}')
            await talk.finish()

    with caplog.at_level(logging.INFO), serving(model, logs_text=is_asked) as server:
        asyncio.run(run(server))
    own = [r.getMessage() for r in caplog.records if r.name.startswith(("hmt", "uvicorn.error"))]
    assert any("Nolu tarum." in line for line in own) == is_asked
