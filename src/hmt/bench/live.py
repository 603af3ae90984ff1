"""`hmt serve` over loopback: the server in one process, its clients in another.

The bare engine is measured in the same run with the same words at the same pace, so that what the
server adds is a difference within one run.
"""

import asyncio
import contextlib
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from hmt.bench.crowd import LAST_SECONDS, Heard, connects, listeners, speakers
from hmt.bench.sessions import TARGET_P95_MS, TARGET_SESSIONS, WORDS_PER_SECOND
from hmt.bench.setting import Row
from hmt.errors import UserError
from hmt.models.model import load
from hmt.streaming.live import Live, SentenceRules

SENTENCES = (
    "Ich habe gestern keine Zeit gehabt, weil ich arbeiten musste.",
    "Meine Schwester hat den ganzen Abend mit ihren Freunden gespielt.",
    "Wenn es morgen regnet, bleiben wir zu Hause.",
)
WORDS = [word for sentence in SENTENCES for word in sentence.split()]
TARGET_ADDED_MS, TARGET_FAN_OUT_MS, TARGET_CONNECTS = 15.0, 50.0, 300.0
TARGET_DRIFT = 2.0  # percent of the memory
FREE_PLACES = "100000"
SAMPLE_SECONDS = 5.0
MOMENTS = 10  # of a soak at which its memory is reported, evenly spaced, besides the beginning


@dataclass(frozen=True)
class Load:
    """What is measured."""

    sessions: list[int]
    seconds: float
    listeners: int
    connects: int
    soak_minutes: float = 0.0  # then nothing else


def measure(asked: Load) -> Iterator[Row]:
    """Delays of live sessions, fan-out of a room and connections per second, or a soak."""
    _allow_sockets()
    if asked.soak_minutes:
        yield from soak(max(asked.sessions), 60 * asked.soak_minutes)
        return
    for count in asked.sessions:
        yield from sessions(count, asked.seconds)
    if asked.listeners:
        yield fan_out(asked.listeners, asked.seconds)
    if asked.connects:
        yield from rush(asked.connects)


def sessions(count: int, seconds: float) -> Iterator[Row]:
    """Several speakers at once, compared with the bare engine."""
    bare = quantiles(bare_delays(count, seconds))
    with serving() as server:
        empty, start = server.memory_mb(), server.cpu_seconds()
        heard, memory = _watched(server, count, seconds)
        cpu = server.cpu_seconds() - start
    p50, p95, p99 = quantiles(heard.delays)
    is_judged = count == TARGET_SESSIONS
    what = f"live server, {count} at {WORDS_PER_SECOND} words/s"
    yield {
        "what": f"{what}, p95",
        "value": round(p95, 1),
        "unit": "ms",
        "p50_ms": round(p50, 1),
        "p99_ms": round(p99, 1),
        "bare_p50_ms": round(bare[0], 1),
        "bare_p95_ms": round(bare[1], 1),
        "bare_p99_ms": round(bare[2], 1),
        **({"at_most": TARGET_P95_MS} if is_judged else {}),
    }
    yield {
        "what": f"{what}, p95 above the bare engine's",
        "value": round(p95 - bare[1], 1),
        "unit": "ms",
        **({"at_most": TARGET_ADDED_MS} if is_judged else {}),
    }
    yield _lost(what, heard)
    yield {
        "what": f"{what}, processor time of the server",
        "value": round(1000 * cpu / max(1, heard.said - heard.lost), 2),
        "unit": "ms/word",
        "sessions_per_core": round((heard.said - heard.lost) / WORDS_PER_SECOND / max(cpu, 1e-9)),
        "server_mb": round(max(memory)),
        "mb_per_session": round((max(memory) - empty) / count, 2),
    }


def fan_out(count: int, seconds: float) -> Row:
    """The time from sending a word to its arrival at each reader of the room."""
    with serving() as server:
        empty, start = server.memory_mb(), server.cpu_seconds()
        arrivals = asyncio.run(listeners(server.address, count, seconds, WORDS))
        memory, cpu = server.memory_mb() - empty, server.cpu_seconds()
    p50, p95, p99 = quantiles(arrivals.delays)
    return {
        "what": f"one room, {count} readers (SSE), fan-out p95",
        "value": round(p95, 1),
        "unit": "ms",
        "at_most": TARGET_FAN_OUT_MS,
        "p50_ms": round(p50, 1),
        "p99_ms": round(p99, 1),
        "lost": arrivals.lost,
        "server_us_per_word_and_reader": round(1e6 * (cpu - start) / max(1, len(arrivals.delays))),
        "kb_per_reader": round(1000 * memory / count),
    }


def rush(count: int) -> Iterator[Row]:
    """Clients that connect as fast as they are accepted: handshake and `session.created`."""
    with serving() as server:
        start = server.cpu_seconds()
        delays, seconds = asyncio.run(connects(server.address, count))
        cpu = server.cpu_seconds() - start
    yield {
        "what": f"connects, {count} as fast as they are accepted",
        "value": round(len(delays) / seconds),
        "unit": "per second",
        "at_least": TARGET_CONNECTS,
        "refused": count - len(delays),
        "server_ms_each": round(1000 * cpu / count, 2),
        "p95_ms": round(quantiles(delays)[1], 1),
    }


def soak(count: int, seconds: float) -> Iterator[Row]:
    """A long run: no word may be lost, and memory must not grow after the first third."""
    with serving() as server:
        heard, memory = _watched(server, count, seconds)
    what = f"soak, {count} sessions, {seconds / 60:.0f} minutes"
    third = max(1, len(memory) // 3)
    middle, last = (max(part) for part in (memory[third : 2 * third] or memory, memory[-third:]))
    yield {
        "what": f"{what}, memory, last third over the second",
        "value": round(100 * (last / max(middle, 1e-9) - 1), 2),
        "unit": "%",
        "at_most": TARGET_DRIFT,
        "server_mb": [
            round(memory[at * (len(memory) - 1) // MOMENTS]) for at in range(MOMENTS + 1)
        ],
    }
    first_p50, first_p95, _ = quantiles(heard.third(0))
    p50, p95, p99 = quantiles(heard.third(2))
    yield {
        "what": f"{what}, p95 of the last third",
        "value": round(p95, 1),
        "unit": "ms",
        "p50_ms": round(p50, 1),
        "p99_ms": round(p99, 1),
        "first_third_p50_ms": round(first_p50, 1),
        "first_third_p95_ms": round(first_p95, 1),
    }
    yield _lost(what, heard)


def _lost(what: str, heard: Heard) -> Row:
    what = f"{what}, words lost or later than {LAST_SECONDS:.0f} s"
    lost = {"what": what, "value": heard.lost, "unit": "words", "at_most": 0}
    return {**lost, "words": heard.said}


def _watched(server: "Server", count: int, seconds: float) -> tuple[Heard, list[float]]:
    """Run the speakers, and watch the memory of the server while they speak."""
    memory: list[float] = []

    async def sample() -> None:
        while True:
            memory.append(server.memory_mb())
            await asyncio.sleep(min(SAMPLE_SECONDS, seconds / 3))

    async def run() -> Heard:
        sampling = asyncio.create_task(sample())
        try:
            return await speakers(server.address, count, seconds, WORDS)
        finally:
            sampling.cancel()

    return asyncio.run(run()), memory


def bare_delays(count: int, seconds: float) -> list[float]:
    """The same words and ends at the same pace, straight into an engine; delays of texts."""
    model = load()
    warm = model.session()
    warm.push(" ".join(WORDS))
    warm.finish()
    engine = model.engine(count)
    lives = [
        Live(engine, model.tokenizers, model.knobs(), SentenceRules(segmenter=model.segmenter))
        for _ in range(count)
    ]
    start, words = time.monotonic(), round(seconds * WORDS_PER_SECOND)
    due = [start + n / count / WORDS_PER_SECOND for n in range(count)]
    said, delays = [0] * count, list[float]()
    while speaking := [n for n in range(count) if said[n] < words]:
        now = time.monotonic()
        ready = [n for n in speaking if due[n] <= now]
        if not ready:
            time.sleep(max(0.0, min(due[n] for n in speaking) - now))
        for n in ready:
            lives[n].hear(WORDS[(n + said[n]) % len(WORDS)])
            said[n] += 1
            if said[n] == words:
                lives[n].end("finish")
        wrote: set[int] = set()
        while streams := {n: s for n in ready if (s := lives[n].feed()) is not None}:
            engine.advance(list(streams.values()))
            wrote |= {n for n in streams if lives[n].collect()}
        delays += [time.monotonic() - due[n] for n in wrote]
        for n in ready:
            due[n] += 1 / WORDS_PER_SECOND
    return delays


def quantiles(delays: list[float]) -> list[float]:
    """The 50th, 95th and 99th percentile in milliseconds."""
    ordered = sorted(delays) or [0.0]
    return [1000 * ordered[int(len(ordered) * q)] for q in (0.5, 0.95, 0.99)]


class Server:
    """A server in a separate process."""

    def __init__(self, process: "subprocess.Popen[str]", address: str) -> None:
        self._process, self.address = process, address

    def memory_mb(self) -> float:
        """Memory in use; 0 where the system has no /proc. What its processes share counts once."""
        kilobytes = 0
        for pid in self._stats():
            with contextlib.suppress(OSError):
                sums = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
                kilobytes += sum(map(int, re.findall(r"^Pss:\s+(\d+) kB", sums, re.MULTILINE)))
        return kilobytes / 1000

    def cpu_seconds(self) -> float:
        """Processor time so far; 0 where the system has no /proc."""
        ticks = sum(int(user) + int(system) for user, system in self._stats().values())
        return ticks / os.sysconf("SC_CLK_TCK") if ticks else 0.0

    def _stats(self) -> dict[int, tuple[str, str]]:
        """Processor time of the server and of its engine, in ticks of the user and the system."""
        found = {}
        for path in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                fields = path.read_text(encoding="utf-8").rpartition(")")[2].split()
                pid, parent = int(path.parent.name), int(fields[1])
                if self._process.pid in (pid, parent):
                    found[pid] = fields[11], fields[12]
        return found


@contextlib.contextmanager
def serving() -> Iterator[Server]:
    """A server that admits everybody: what is measured is the machine, not the limits."""
    limits = ("places", "per-address", "listeners-per-address", "delay-ms")
    options = [part for name in limits for part in (f"--{name}", FREE_PLACES)]
    command = [sys.executable, "-m", "hmt", "serve", "--port", "0", *options]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        for line in process.stderr:
            if found := re.search(r"http://([\d.]+:\d+)/", line):
                yield Server(process, found[1])
                return
        raise UserError("The server did not start; try `hmt serve` by itself.")
    finally:
        process.kill()
        process.wait()


def _allow_sockets() -> None:
    """Allow as many open files as the system permits, here and in the server."""
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource  # not on Windows

        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
