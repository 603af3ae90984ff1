"""Connections that are cut, servers that go away: no word is lost and none is written twice."""

import asyncio
import os
import random
from itertools import islice
from typing import Any
from unittest.mock import AsyncMock, Mock

import pytest

pytest.importorskip("starlette", reason="the extra `serve` is not installed")
pytest.importorskip("msgspec", reason="the extra `serve` is not installed")

import attack_connections as attack
from live_server import WORDS, Running, Talk, piped, serving, small_model, talking
from websockets.asyncio.client import connect
from websockets.asyncio.server import ServerConnection, serve

from hmt.models.model import Model
from hmt.server import client as client_module
from hmt.server.client import Client
from hmt.server.outbox import Outbox
from hmt.server.realtime import Line
from hmt.server.replies import Error, Fault, Heartbeat

SEED = os.environ.get("HMT_TEST_SEED", "1")


@pytest.fixture(scope="module")
def model() -> Model:
    return small_model()


async def _accepted(client: Client) -> None:
    while not client.is_accepted:
        await asyncio.sleep(0.01)


async def cut_at(server: Running, step: int) -> tuple[int, int]:
    """Cut sessions at every `step`-th byte, and others several times; how many cuts of each."""
    _, once, wrong = await attack.carry_out(server, await attack.every_byte(server, step))
    assert not wrong, wrong
    plans = attack.again_and_again(random.Random(SEED), await attack.length(server))
    _, again, wrong = await attack.carry_out(server, islice(plans, 12))
    assert not wrong, wrong
    return once, again


def test_a_cut_at_any_byte_loses_and_repeats_nothing(model: Model) -> None:
    """The long form, all bytes, is `make attack`.

    Planted bugs: deltas sent before the cut come again; words of the last message are lost.
    """
    with serving(model, per_address=100) as server:
        once, again = asyncio.run(cut_at(server, 97))
        assert once > 20 and again > 12
        assert server.service.metrics.resumes.labels("kept")._value.get() > 10


def test_another_server_goes_on_with_the_open_sentence(model: Model) -> None:
    """A client whose server is gone resumes on one that knows nothing of it.

    Planted bugs: what the client shows is sent again; the words of the open sentence are lost.
    """
    words = random.Random(4).choices(WORDS, k=14)
    expected = piped(model, words)

    async def run(one: Running, other: Running, at: int) -> str:
        proxy = attack.Proxy(one.port)
        async with proxy.running() as url, Client(url) as client:
            await client.say(" ".join(words[:at]))
            reading = asyncio.create_task(attack.until_closed(client))
            await _accepted(client)
            await asyncio.sleep(0.05 * (at % 3))
            proxy.port = other.port
            assert client._socket is not None
            client._socket.transport.abort()
            await client.say(" ".join(words[at:]))
            await _accepted(client)
            await client.close()
            await asyncio.wait_for(reading, 180)
            return client.text

    with serving(model) as one, serving(model) as other:
        for at in (3, 6, 11):
            assert asyncio.run(run(one, other, at)) == expected, at
        assert other.service.metrics.resumes.labels("rebuilt")._value.get() == 3


def test_a_sentence_that_comes_out_otherwise_is_told(model: Model) -> None:
    async def run(server: Running) -> None:
        async with connect(f"{server.url}?resume=1") as websocket:
            talk = Talk(websocket)
            facts = {
                "token": "rt_gone",
                "after": 7,
                "open_sentence": ["Nolu", "ka", "besi", "tarum", "pelo"],
                "shown": " something else",
                "offset": 40,
                "sentence": 3,
            }
            await talk.send("session.resume", hmt=facts)
            resumed = await talk.until("session.resumed")
            assert resumed["hmt"]["how"] == "rebuilt"
            notice = await talk.until("session.notice")
            assert notice["hmt"]["code"] == "resumed_differently"
            await talk.finish()
            deltas = talk.of("session.output_transcript.delta")
            assert deltas[0]["hmt"]["n"] == 8
            assert deltas[0]["delta"].startswith(" ")
            assert talk.text.strip() == piped(server.model, facts["open_sentence"])  # type: ignore[arg-type]

    with serving(model) as server:
        asyncio.run(run(server))


def test_a_token_is_taken_once_and_takes_over(model: Model) -> None:
    async def run(server: Running) -> None:
        async with talking(server) as first:
            token = first.events[0]["session"]["hmt"]["resume_token"]
            await first.append("Nolu ka ", seq=1)
            await first.until("session.input_text.accepted")
            async with talking(server, "resume=1") as second:
                await second.send("session.resume", hmt={"token": token, "after": 0})
                resumed = await second.until("session.resumed")
                assert resumed["hmt"] == {"how": "kept", "seq": 1}
                assert await first.code() == 4409
                async with talking(server, "resume=1") as third:
                    await third.send("session.resume", hmt={"token": token})
                    assert await third.code() == 4404
                await second.append("besi. ", seq=2)
                await second.append("besi. ", seq=2)
                assert await second.finish() == piped(server.model, ["Nolu", "ka", "besi."])

    with serving(model) as server:
        asyncio.run(run(server))


def test_draining_lets_sentences_end(model: Model) -> None:
    """Planted bug: sessions are closed at once."""

    async def run(server: Running) -> None:
        async with talking(server) as talk:
            await talk.append("Nolu ka besi tarum ", seq=1)
            await talk.until("session.input_text.accepted")
            loop = server.service._loop
            assert loop is not None
            asyncio.run_coroutine_threadsafe(server.service.drain(), loop)
            notice = await talk.until("session.notice")
            assert notice["hmt"]["code"] == "going_away"
            await talk.until("session.closed")
            assert talk.text == piped(server.model, ["Nolu", "ka", "besi", "tarum"])
            async with connect(server.url) as late:
                assert await Talk(late).code() == 1013

    with serving(model, drain_seconds=5) as server:
        asyncio.run(run(server))
        assert server.service.why_not_ready() == "The server is going away."


def test_a_connection_that_is_cut_takes_nothing_more_of_its_session(model: Model) -> None:
    """Planted bug: a write that was about to happen still does, and takes `session.resumed` from
    the client's next connection."""

    async def run(server: Running) -> None:
        transport, outbox = Mock(), Outbox(10**6)
        transport.get_write_buffer_size.return_value = 0
        transport.is_closing.return_value = False
        websocket = Mock(scope={"extensions": {"hmt.transport": transport}}, close=AsyncMock())
        line = Line(websocket, server.service)
        line._begin(Mock(outbox=outbox))
        outbox.put(Heartbeat(elapsed_ms=1))
        await asyncio.sleep(0.01)
        assert transport.write.call_count == 1
        outbox.put(Heartbeat(elapsed_ms=2))
        line.cut(4409, "taken over")
        outbox.put(Error(error=Fault("late", "late")))
        await asyncio.sleep(0.01)
        assert transport.write.call_count == 1
        assert [type(event) for event in (outbox.pop(), outbox.pop())] == [Heartbeat, Error]
        websocket.close.assert_awaited_once_with(4409, "taken over")

    with serving(model) as server:
        asyncio.run(run(server))


def test_a_server_that_lets_in_and_says_nothing_is_left(monkeypatch: Any) -> None:
    """Planted bug: the client waits for the first message for ever."""
    monkeypatch.setattr(client_module, "ANSWER_SECONDS", 0.2)
    visits: list[ServerConnection] = []

    async def answer(visit: ServerConnection) -> None:
        visits.append(visit)
        if len(visits) > 1:
            await visit.send('{"type": "session.created", "session": {"id": "sess_b2_1"}}')
        await visit.wait_closed()

    async def run() -> None:
        async with serve(answer, "127.0.0.1", 0) as server:
            port = next(iter(server.sockets)).getsockname()[1]
            async with Client(f"ws://127.0.0.1:{port}/") as client:
                assert client.session["id"] == "sess_b2_1"
            assert [visit.close_code for visit in visits] == [1000, 1000], "and hung up on"

    asyncio.run(run())


def test_messages_stay_in_order_while_the_connection_changes() -> None:
    """Planted bug: a sender that was held up by the old connection goes on with the new one, past
    messages that only the old one had seen."""

    async def run() -> list[tuple[str, int]]:
        client: Any = Client("ws://127.0.0.1:1/")
        sent, goes_on = list[tuple[str, int]](), asyncio.Event()

        async def send(message: dict[str, Any]) -> None:
            over, seq = client._socket, message["hmt"]["seq"]
            sent.append((over, seq))
            if over == "old":
                await goes_on.wait()

        client._send, client._socket = send, None
        for word in ("Nolu", "ka", "besi"):
            await client.say(word)
        client._socket = "old"
        held_up = asyncio.create_task(client._flush())
        while not sent:
            await asyncio.sleep(0)
        client._socket, client._sent = "new", 0
        anew = asyncio.create_task(client._flush())
        goes_on.set()
        await asyncio.gather(held_up, anew)
        return sent

    assert asyncio.run(run()) == [("old", 1), ("new", 1), ("new", 2), ("new", 3)]


def test_a_speaker_returns_to_a_room_whose_old_connection_seems_alive(model: Model) -> None:
    """The token was changed by a resume whose answer never arrived, so that the server takes the
    speaker for another one; planted bug: it is turned away for good."""

    async def run(server: Running) -> None:
        async with talking(server, "room=aula"):
            async with connect(f"{server.url}?room=aula&resume=sess_a1_1") as websocket:
                talk = Talk(websocket)
                await talk.send("session.resume", hmt={"token": "rt_old", "open_sentence": []})
                error = (await talk.until("error"))["error"]
                assert (error["code"], error["retry_after"]) == ("room_taken", 5)
            async with connect(f"{server.url}?room=aula") as websocket:
                error = (await Talk(websocket).next())["error"]
                assert "retry_after" not in error, "a newcomer has nothing to wait for"

    with serving(model) as server:
        asyncio.run(run(server))
