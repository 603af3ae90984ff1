"""`hmt serve` as a process: killed and started again, told to go away, a port that is taken."""

import asyncio
import signal
import socket
from pathlib import Path

import pytest

pytest.importorskip("starlette", reason="the extra `serve` is not installed")
pytest.importorskip("msgspec", reason="the extra `serve` is not installed")

from live_process import Process, process, save_small_model
from live_server import Talk, piped
from websockets.asyncio.client import connect

from hmt.models.model import Model, load
from hmt.server.client import Client


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_small_model(tmp_path_factory.mktemp("models") / "small")


@pytest.fixture(scope="module")
def model(folder: Path) -> Model:
    return load(folder)


async def _read(client: Client) -> None:
    async for event in client.events():
        if event["type"] == "session.closed" and event["hmt"]["reason"] == "client":
            return


def test_a_killed_server_is_started_again_and_goes_on(folder: Path, model: Model) -> None:
    """Planted bugs: words that were accepted and not translated are lost; so is a commit."""
    words = ["Nolu", "ka", "besi", "tarum", "pelo", "lim", "ka.", "Nolu", "besi"]

    async def run(first: Process) -> str:
        async with Client(first.url, attempts=100) as client:
            reading = asyncio.create_task(_read(client))
            await client.say(" ".join(words[:4]))
            await client.commit()
            await client.say(" ".join(words[4:6]))
            while not client.is_accepted:
                await asyncio.sleep(0.01)
            first.popen.kill()
            await asyncio.to_thread(first.popen.wait)
            with process(folder, first.port):
                await client.say(" ".join(words[6:]))
                await client.close()
                await asyncio.wait_for(reading, 180)
            return client.text

    with process(folder) as first:
        assert asyncio.run(run(first)) == piped(model, words, {3})


def test_a_server_that_is_told_to_go_lets_sentences_end(folder: Path, model: Model) -> None:
    """Also text that has not left yet. Planted bug: connections are closed at once."""
    words = ["Nolu", "ka", "besi", "tarum"]

    async def run(running: Process) -> None:
        async with connect(running.url) as websocket:
            talk = Talk(websocket)
            await talk.append(" ".join(words) + " ", seq=1)
            await talk.until("session.input_text.accepted")
            running.popen.send_signal(signal.SIGTERM)
            notice = await talk.until("session.notice")
            assert notice["hmt"]["code"] == "going_away"
            closed = await talk.until("session.closed")
            assert closed["hmt"]["reason"] == "going_away"
            assert await talk.code() == 1012
            assert talk.text == piped(model, words)

    with process(folder) as running:
        asyncio.run(run(running))
        assert running.popen.wait(timeout=90) == -signal.SIGTERM, "as a shell expects it: 143"


def test_what_strangers_send_does_not_fill_the_log(folder: Path) -> None:
    """Planted bug: a line for each request that is none, a traceback for each wrong letter."""

    async def run(running: Process) -> None:
        for _ in range(3):
            reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
            writer.write(b"\x16\x03\x01 no request\r\n\r\n")
            assert b"400" in await reader.readline()
            writer.close()
            async with connect(running.url) as websocket:
                await websocket.send(b"\xff\xfe", text=True)
                assert await Talk(websocket).code() == 1007

    with process(folder) as running:
        asyncio.run(run(running))
        running.popen.send_signal(signal.SIGTERM)
        assert running.popen.stderr is not None
        said = running.popen.stderr.read()
    assert [line for line in said.splitlines() if not line.startswith("Shutting down")] == []


def test_a_port_that_is_taken_is_one_sentence(folder: Path) -> None:
    """Planted bug: uvicorn's own exit, without a word of what to do."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with process(folder, port) as running:
            assert running.popen.returncode == 2
            assert f"127.0.0.1:{port} cannot be served; is the port in use?" in running.said
            assert "Traceback" not in running.said
