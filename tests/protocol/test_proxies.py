"""Two servers behind HAProxy and behind nginx, by the files in deploy/; one of them is killed.

Sessions and rooms stick to their server while it lives; when it is gone, its clients go on with the
other one, and neither a speaker nor a listener misses or repeats a word.
"""

import asyncio
import contextlib
import json
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette", reason="the extra `serve` is not installed")
pytest.importorskip("msgspec", reason="the extra `serve` is not installed")

from live_server import WORDS, piped, small_model
from model_directories import save
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from hmt.models.model import Model
from hmt.server.client import Client

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
SECONDS = 300  # machines of continuous integration are slow


def program(name: str) -> str | None:
    """Debian keeps daemons where only root looks."""
    return shutil.which(name) or shutil.which(name, path="/usr/sbin:/usr/local/sbin")


@dataclass(frozen=True)
class Host:
    """One `hmt serve`."""

    name: str
    process: subprocess.Popen[str]
    port: int

    def resumes(self, how: str) -> int:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics") as answer:
            found = re.search(rf'hmt_resumes_total{{how="{how}"}} (\S+)', answer.read().decode())
        return int(float(found[1])) if found else 0


def start_host(name: str, folder: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "hmt", "serve", str(folder), "--languages", "xx:yy"]
    command += ["--name", name, "--port", "0", "--delay-ms", "60000", "--threads", "1"]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdout=pipe, stderr=subprocess.STDOUT, text=True)


def started(name: str, process: subprocess.Popen[str]) -> Host:
    """A host that has said where it listens."""
    assert process.stdout is not None
    for line in process.stdout:
        if found := re.search(r"http://[^/]+:(\d+)/", line):
            return Host(name, process, int(found[1]))
    raise AssertionError(f"{name} did not start")


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def configured(name: str, port: int, hosts: list[Host]) -> str:
    """The example, with the ports of this test."""
    text = (DEPLOY / name).read_text()
    for example, host in zip(("8765", "8766"), hosts, strict=True):
        assert f"127.0.0.1:{example}" in text
        text = text.replace(f"127.0.0.1:{example}", f"127.0.0.1:{host.port}")
    assert ":8080" in text or " 8080;" in text
    text = text.replace("bind *:8080", f"bind 127.0.0.1:{port}")
    return text.replace("listen 8080;", f"listen 127.0.0.1:{port};")


def haproxy(folder: Path, port: int, hosts: list[Host]) -> list[str]:
    path = folder / "haproxy.cfg"
    path.write_text(configured("haproxy.cfg", port, hosts))
    return [program("haproxy") or "", "-db", "-f", str(path)]


def nginx(folder: Path, port: int, hosts: list[Host]) -> list[str]:
    (folder / "live.conf").write_text(configured("nginx.conf", port, hosts))
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    places = "".join(f"{kind}_temp_path {folder}/{kind};" for kind in kinds)
    (folder / "nginx.conf").write_text(
        f"daemon off; pid {folder}/pid; error_log {folder}/error.log;"
        f"events {{}} http {{ access_log off; {places} include {folder}/live.conf; }}"
    )
    return [program("nginx") or "", "-e", f"{folder}/error.log", "-c", f"{folder}/nginx.conf"]


@dataclass(frozen=True)
class Site:
    """Two hosts behind a proxy."""

    port: int
    hosts: dict[str, Host]
    model: Model

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.port}/v1/realtime/translations"

    def host_of(self, client: Client) -> Host:
        return self.hosts[client.session["id"].split("_")[1]]


@contextlib.contextmanager
def site(proxy: Callable[..., list[str]], folder: Path) -> Iterator[Site]:
    if program(proxy.__name__) is None:
        pytest.skip(f"needs {proxy.__name__}: apt-get install {proxy.__name__}")
    model = small_model()
    save(folder / "model", model.system, model.tokenizers[0], knobs={"threshold": 0.4})
    processes = {name: start_host(name, folder / "model") for name in ("a1", "a2")}
    before: subprocess.Popen[bytes] | None = None
    try:
        hosts = [started(*one) for one in processes.items()]
        port = free_port()
        before = subprocess.Popen(proxy(folder, port, hosts), stderr=subprocess.DEVNULL)
        wait_until_open(port)
        yield Site(port, {host.name: host for host in hosts}, model)
    finally:
        running: list[subprocess.Popen[Any]] = [*processes.values()]
        for process in [*running, *([before] if before else [])]:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(10)
            process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()


def wait_until_open(port: int) -> None:
    for _ in range(200):
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        time.sleep(0.05)
    raise AssertionError("the proxy did not start")


class Speaker:
    """A client that says words, in a room or in none."""

    def __init__(self, place: Site, words: list[str], room: str | None) -> None:
        self.words, self.room = words, room
        self.client = Client(place.url, room=room, attempts=40)
        self.reading: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        await self.client.__aenter__()
        self.reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        async for event in self.client.events():
            if event["type"] == "session.closed":
                return

    async def say(self, words: list[str]) -> None:
        for word in words:
            await self.client.say(word)
            await asyncio.sleep(0.05)

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait for something that the server brings about."""
        assert self.reading is not None
        while not holds():
            if self.reading.done():
                self.reading.result()
                raise AssertionError(f"it was told to go: {self.client.close_code}")
            await asyncio.sleep(0.02)

    async def finish(self) -> str:
        await self.until(lambda: self.client.is_accepted)
        await self.client.close()
        assert self.reading is not None
        await self.reading
        await self.client.__aexit__()
        return self.client.text


class Listener:
    """Reads along in a room by its WebSocket, as docs/serve.md says one should."""

    def __init__(self, place: Site, room: str) -> None:
        self._url = f"ws://127.0.0.1:{place.port}/v1/rooms/{room}"
        self._after = 0
        self.texts: dict[int, str] = {}
        self.snapshots = 0

    async def run(self) -> None:
        while True:
            with contextlib.suppress(ConnectionClosed, OSError, InvalidStatus):
                after = f"&after={self._after}" if self._after else ""
                async with connect(f"{self._url}?wait=1{after}") as websocket:
                    async for message in websocket:
                        self._take(**json.loads(message))
            await asyncio.sleep(0.2)

    def _take(self, id: int, event: str, data: dict[str, Any]) -> None:
        self._after = id
        if event == "snapshot":
            self.snapshots += 1
            if track := data["tracks"].get("yy"):
                first = track["sentence"] - len(track["sentences"])
                for number, text in enumerate([*track["sentences"], track["open"]], first):
                    self._show(number, text, 0)
        elif event == "delta" and data["track"] == "yy":
            self._show(data["sentence"], data["delta"], data["offset"])

    def _show(self, number: int, text: str, offset: int) -> None:
        if number < max(self.texts, default=0):
            return
        shown = self.texts.setdefault(number, "")
        new = text if offset else text.lstrip()
        assert offset <= len(shown), "something is missing"
        self.texts[number] += new[len(shown) - offset :]


async def one_on_each(place: Site, words: list[str], in_rooms: bool) -> list[Speaker]:
    """Speakers until both hosts have some."""
    found: list[Speaker] = []
    while {place.host_of(speaker.client).name for speaker in found} != {"a1", "a2"}:
        assert len(found) < 16, "all of them are on one host"
        speaker = Speaker(place, words, f"aula{len(found)}" if in_rooms else None)
        await speaker.begin()
        found.append(speaker)
    return found


async def cut(speaker: Speaker) -> None:
    """As a network does it."""
    before = speaker.client._socket
    assert before is not None
    before.transport.abort()
    await speaker.until(lambda: speaker.client._socket not in (before, None))


async def talk(place: Site) -> None:
    words = random.Random(7).choices(WORDS, k=24)
    expected = piped(place.model, words)
    speakers = await one_on_each(place, words, False) + await one_on_each(place, words, True)
    listeners = {s: Listener(place, s.room) for s in speakers if s.room}
    reading = [asyncio.create_task(listener.run()) for listener in listeners.values()]

    await asyncio.gather(*(speaker.say(words[:8]) for speaker in speakers))
    before = {speaker: place.host_of(speaker.client) for speaker in speakers}
    for speaker in speakers:
        await cut(speaker)
    await asyncio.gather(*(speaker.say(words[8:14]) for speaker in speakers))
    for speaker in speakers:
        await speaker.until(lambda speaker=speaker: speaker.client.is_accepted)  # type: ignore[misc]
    assert {s: place.host_of(s.client) for s in speakers} == before, "they stick"
    assert sum(host.resumes("kept") for host in place.hosts.values()) >= len(speakers)
    assert sum(host.resumes("rebuilt") for host in place.hosts.values()) == 0

    lost, other = place.hosts["a1"], place.hosts["a2"]
    lost.process.send_signal(signal.SIGKILL)
    await asyncio.gather(*(speaker.say(words[14:]) for speaker in speakers))
    texts = await asyncio.gather(*(speaker.finish() for speaker in speakers))
    assert texts == [expected] * len(speakers)
    assert {place.host_of(speaker.client) for speaker in speakers} == {other}
    moved = [speaker for speaker, host in before.items() if host is lost]
    assert other.resumes("rebuilt") == len(moved) > 1
    for speaker, listener in listeners.items():
        while " ".join(listener.texts.values()) != expected:
            await asyncio.sleep(0.1)
        assert listener.snapshots == (2 if speaker in moved else 1)
    for task in reading:
        task.cancel()
    await asyncio.gather(*reading, return_exceptions=True)


@pytest.mark.slow
@pytest.mark.parametrize("proxy", [haproxy, nginx])
def test_a_killed_host_costs_no_word(proxy: Callable[..., list[str]], tmp_path: Path) -> None:
    with site(proxy, tmp_path) as place:
        asyncio.run(asyncio.wait_for(talk(place), SECONDS))
