"""The examples in examples/live run against a real server; a list of lines is the recogniser."""

import asyncio
import html
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("starlette", reason="the extra `serve` is not installed")
pytest.importorskip("msgspec", reason="the extra `serve` is not installed")

import webvtt
from live_server import TEXT, Running, piped, serving, small_model

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "live"
SECONDS = 180  # machines of continuous integration are slow


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    with serving(small_model()) as running:
        yield running


def start(name: str, *options: str) -> "subprocess.Popen[str]":
    command = [sys.executable, str(EXAMPLES / name), *options]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)


def translated(server: Running) -> list[str]:
    return [piped(server.model, line.split()) for line in TEXT]


def shown(path: Path) -> str:
    """The letters of a file of captions, in which words of this model may be cut."""
    cues = webvtt.read(str(path)).captions if path.exists() else []
    text = "".join(cue.text for cue in cues)
    return "".join(html.unescape(text).split())


def test_what_a_recogniser_hears_is_read_in_a_room_and_written_to_a_file(
    server: Running, tmp_path: Path
) -> None:
    path = tmp_path / "talk.vtt"
    hearing = start("microphone.py", "--url", server.url, "--room", "aula")
    while server.service.rooms.find("aula") is None:
        time.sleep(0.05)
        assert hearing.poll() is None
    reading = start("captions.py", "aula", str(path), "--server", server.http)
    heard, problems = hearing.communicate("\n".join(TEXT) + "\n", timeout=SECONDS)
    assert hearing.returncode == 0, problems
    assert heard.split() == " ".join(translated(server)).split()
    end = time.monotonic() + SECONDS
    while shown(path) != "".join(heard.split()) and time.monotonic() < end:
        time.sleep(0.2)
    reading.terminate()
    reading.communicate()
    assert shown(path) == "".join(heard.split())

    before = path.read_bytes()
    path.write_bytes(before[: len(before) // 2])  # as after a connection that was lost
    reading = start("captions.py", "aula", str(path), "--server", server.http)
    while len(path.read_bytes()) < len(before) and time.monotonic() < end + SECONDS:
        time.sleep(0.2)
    reading.terminate()
    reading.communicate()
    assert path.read_bytes() == before


async def channel(server: Running) -> list[str]:
    """A server of IRC with one channel, in which somebody says the lines; what the bot answers."""
    answers: list[str] = []
    done = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        joined = False
        while line := (await reader.readline()).decode().strip():
            if line.startswith("USER"):
                writer.write(b"PING :x1\r\n:irc 001 hmt :welcome\r\n")
            elif line.startswith("JOIN #reading"):
                joined = True
                for said in TEXT:
                    writer.write(f":ana!a@b PRIVMSG #reading :{said}\r\n".encode())
            elif line.startswith("PRIVMSG") and joined:
                answers.append(line)
                writer.write(f":hmt!a@b {line}\r\n".encode())  # as some servers do
            if len(answers) == len(TEXT):
                done.set()
                break
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as irc:
        port = irc.sockets[0].getsockname()[1]
        options = ["--irc", f"127.0.0.1:{port}", "--server", server.http]
        bot = await asyncio.to_thread(start, "bot.py", *options)
        await asyncio.wait_for(done.wait(), SECONDS)
        _, problems = await asyncio.to_thread(bot.communicate)
        assert bot.returncode == 0, problems
    return answers


def test_the_bot_translates_a_channel(server: Running) -> None:
    found = asyncio.run(channel(server))
    expected = [f"PRIVMSG #reading :ana: {' '.join(text.split())}" for text in translated(server)]
    assert found == [line.encode()[:400].decode() for line in expected]


def node() -> list[str] | None:
    """Node with a WebSocket."""
    if (path := shutil.which("node")) is None:
        return None
    for command in ([path], [path, "--experimental-websocket"]):
        asked = [*command, "-e", "process.exit(typeof WebSocket === 'function' ? 0 : 1)"]
        if subprocess.run(asked, capture_output=True).returncode == 0:
            return command
    return None


def test_the_client_of_the_page_runs_in_node(server: Running) -> None:
    command = node()
    if command is None:
        pytest.skip("needs node 20 or newer")
    done = subprocess.run(
        [*command, str(EXAMPLES / "translate.mjs"), f"{server.http}/"],
        input="\n".join(TEXT),
        capture_output=True,
        text=True,
        timeout=SECONDS,
        env={**os.environ, "NODE_NO_WARNINGS": "1"},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == " ".join(translated(server)).split()
