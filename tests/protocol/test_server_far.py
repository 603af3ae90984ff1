"""The engine in a process of its own: the same text, and what happens when either process ends."""

import asyncio
import contextlib
import os
import random
import signal
import socket
import sys
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import pytest

pytest.importorskip("starlette", reason="the extra `serve` is not installed")
pytest.importorskip("msgspec", reason="the extra `serve` is not installed")
if sys.platform != "linux":
    pytest.skip("only Linux forks safely", allow_module_level=True)

from live_process import process, save_small_model
from live_server import WORDS, Running, Talk, eventually, piped, serving, small_model, talking
from websockets.asyncio.client import connect

from hmt.errors import UserError
from hmt.models.model import Model
from hmt.server import running
from hmt.server.engine_process import Unpacker, packed
from hmt.server.far_conductor import FarConductor
from hmt.server.service import Offer
from hmt.server.settings import Settings
from hmt.streaming.engine import Engine
from hmt.systems.stream import Stream


@pytest.fixture(scope="module")
def model() -> Model:
    return small_model()


def far(server: Running) -> FarConductor:
    conductor = server.service.served["xx-yy"].conductor
    assert isinstance(conductor, FarConductor)
    return conductor


def drawn(seed: int, count: int) -> list[str]:
    return random.Random(seed).choices(WORDS, k=count)


def test_it_runs_apart_where_that_is_possible(model: Model, monkeypatch: Any) -> None:
    """Planted bug: a single core is shared by two processes."""
    offers = [Offer("xx-yy", model, "xx", "yy")]

    def decided(engine: str, cores: int) -> str:
        monkeypatch.setattr(running, "cores", lambda: cores)
        return running._decided(Settings(engine=engine), offers).engine

    assert [decided("auto", cores) for cores in (1, 2, 8)] == ["thread", "process", "process"]
    assert decided("process", 1) == "process" and decided("thread", 8) == "thread"
    with pytest.raises(UserError, match="choose process, thread or auto"):
        decided("apart", 2)
    monkeypatch.setattr(sys, "platform", "darwin")
    assert decided("auto", 2) == "thread"
    with pytest.raises(UserError, match="needs Linux and models on the CPU"):
        decided("process", 2)


def test_messages_arrive_whole_however_their_bytes_are_cut() -> None:
    """Planted bugs: what follows a whole message is lost; half a message is taken for one."""
    messages: list[Any] = ["one", list(range(1000)), "", {"four": 4.0}]
    sent = b"".join(map(packed, messages))
    for size in (1, 3, 7, 100, len(sent)):
        unpacker, found = Unpacker(), list[object]()
        for at in range(0, len(sent), size):
            found += unpacker.take(sent[at : at + size])
        assert found == messages


def test_sessions_side_by_side_write_what_the_pipe_writes(model: Model) -> None:
    """Planted bug: outputs of one channel reach another."""

    async def one(server: Running, words: list[str]) -> str:
        async with talking(server) as talk:
            for word in words:
                await talk.append(word + " ")
            return await talk.finish()

    async def run(server: Running, texts: list[list[str]]) -> list[str]:
        return await asyncio.gather(*(one(server, words) for words in texts))

    texts = [drawn(seed, 20) for seed in range(8)]
    with serving(model, engine="process") as server:
        assert asyncio.run(run(server, texts)) == [piped(model, words) for words in texts]
        assert eventually(lambda: not server.service.sessions)
        usage = far(server).usage
        assert usage.slots > 0 and usage.cache_bytes > 0
        measured = server.service.measure().decode()
        assert 'hmt_words_total{side="source"} 160.0' in measured
        assert "hmt_word_delay_seconds_count 160.0" in measured


def test_what_waits_is_counted_and_cleared_unread(model: Model) -> None:
    """Planted bugs: the queue grows without bound; `clear` comes too late."""

    async def run(server: Running) -> None:
        async with talking(server) as talk:
            await talk.append("Nolu ka. " * 90, seq=1)
            accepted = await talk.until("session.input_text.accepted")
            session = next(iter(server.service.sessions))
            assert accepted["hmt"]["words"] == 180
            assert 0 < session.queued <= 180
            await talk.send("session.input_text.clear", hmt={"seq": 2})
            await talk.append("Besi tarum", seq=3)
            await talk.send("session.input_text.commit", hmt={"seq": 4})
            while (await talk.until("session.output_transcript.done"))["hmt"].get("seq") != 4:
                pass
            sources = [done["hmt"]["source"] for done in talk.of("session.output_transcript.done")]
            assert sources[-1] == "Besi tarum" and len(sources) < 60
            await talk.finish()
            assert session.queued <= 2, "nothing but the items that ended it"

    with serving(model, engine="process") as server:
        asyncio.run(run(server))


def test_settings_and_detail_reach_the_engine(model: Model) -> None:
    """Planted bug: details stay as they were when the channel was opened."""

    async def run(server: Running) -> None:
        async with talking(server) as talk:
            await talk.append("nolu ")
            await talk.send("session.update", session={"hmt": {"detail": True}})
            await talk.until("session.updated")
            await talk.append("ka besi tarum pelo lim ka nolu besi ")
            await talk.send("session.input_text.commit")
            done = await talk.until("session.output_transcript.done")
            assert done["hmt"]["record"]["reads"]

    with serving(model, engine="process") as server:
        asyncio.run(run(server))


class Faulty(Engine):
    """Fails in every round in which a stream has read certain words."""

    poison: set[int]

    def round(self, streams: Sequence[Stream]) -> list[Stream]:
        if any(self.poison <= set(stream.source) for stream in streams):
            raise RuntimeError("planted")
        return super().round(streams)


def test_a_fault_ends_one_session_and_is_counted(model: Model, monkeypatch: Any) -> None:
    """Planted bug: the process ends with the first fault."""
    Faulty.poison = {t for word in ("nolu", "12") for t in model.source_tokenizer.encode(word)}
    monkeypatch.setattr(model, "engine", lambda slots=1: Faulty(model.system, slots))
    words = [word for word in drawn(3, 12) if word != "12"]

    async def run(server: Running) -> str:
        async with talking(server) as ill, talking(server) as well:
            for word in words[:6]:
                await well.append(word + " ")
            await ill.append("nolu 12 ka ")
            error = await ill.until("error")
            assert error["error"]["code"] == "internal" and await ill.code() == 4500
            for word in words[6:]:
                await well.append(word + " ")
            return await well.finish()

    with serving(model, engine="process") as server:
        text = asyncio.run(run(server))
        assert far(server).is_alive
        assert "hmt_faults_total 0.0" not in server.service.measure().decode()
    monkeypatch.undo()
    assert text == piped(model, words)


def test_an_engine_that_is_killed_ends_its_sessions_and_is_reported(model: Model) -> None:
    """Planted bugs: sessions wait for ever; the server calls itself live."""

    async def run(server: Running) -> None:
        async with talking(server) as talk:
            await talk.append("nolu ka ")
            os.kill(far(server)._pid, signal.SIGKILL)
            error = await talk.until("error")
            assert error["error"]["message"] == "The engine has stopped. Start a new session."
            assert await talk.code() == 4500

    with serving(model, engine="process") as server:
        asyncio.run(run(server))
        assert not far(server).is_alive and not server.service.sessions
        with pytest.raises(HTTPError) as refused:
            urllib.request.urlopen(f"{server.http}/health/live")
        assert refused.value.code == 503
        refused.value.close()


def children_of(pid: int) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text(encoding="utf-8").rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == pid and fields[0] != "Z":
            found.append(int(path.parent.name))
    return found


def is_there(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def test_a_killed_server_leaves_no_engine_behind(tmp_path: Path) -> None:
    """Planted bug: the process of the engine waits for ever."""
    with process(save_small_model(tmp_path / "small")) as server:
        (engine,) = children_of(server.popen.pid)
        server.popen.kill()
        server.popen.wait()
        try:
            assert eventually(lambda: not is_there(engine))
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.kill(engine, signal.SIGKILL)


def test_a_signal_to_both_processes_lets_sentences_end(tmp_path: Path, model: Model) -> None:
    """As service managers and terminals send it. Planted bug: the engine ends at once."""
    words = drawn(4, 10)

    async def run(url: str, pids: list[int]) -> None:
        async with connect(url) as websocket:
            talk = Talk(websocket)
            await talk.append(" ".join(words) + " ", seq=1)
            await talk.until("session.input_text.accepted")
            for pid in pids:
                os.kill(pid, signal.SIGTERM)
            await talk.until("session.closed")
            assert await talk.code() == 1012
            assert talk.text == piped(model, words)

    with process(save_small_model(tmp_path / "small")) as server:
        pids = children_of(server.popen.pid)
        asyncio.run(run(server.url, [*pids, server.popen.pid]))
        assert server.popen.wait(timeout=90) == -signal.SIGTERM
        assert eventually(lambda: not any(map(is_there, pids)))


def test_a_port_that_is_taken_leaves_no_engine_behind(tmp_path: Path) -> None:
    """Planted bug: the server waits for an engine that waits for it."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port, folder = taken.getsockname()[1], save_small_model(tmp_path / "small")
        with process(folder, port) as server:  # whose standard error ends with the last process
            assert server.popen.returncode == 2
