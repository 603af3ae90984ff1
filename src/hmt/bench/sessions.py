"""Many live sessions on one engine: the time from a word's arrival to the text it released."""

import random
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from hmt.bench.setting import Row, random_sentence, random_system
from hmt.streaming.engine import Engine
from hmt.systems.contract import System
from hmt.systems.stream import Stream

WORDS_PER_SECOND = 2.5
TARGET_SESSIONS, TARGET_P95_MS = 200, 200.0


@dataclass
class Speaker:
    """One listener's source: words at a steady pace, sentence after sentence."""

    next_at: float
    source: list[int]
    target: list[int]
    stream: Stream
    spoken: int = 0
    delays: list[float] = field(default_factory=list)


def measure(size: str, counts: list[int], seconds: float) -> Iterator[Row]:
    """Raise the number of sessions until the 95th percentile is too late."""
    system = random_system("hmt", size, lower=3, states=5)
    best = 0
    for count in counts:
        delays = drive(system, size, count, seconds)
        p50, p95, p99 = (delays[int(len(delays) * q)] * 1000 for q in (0.5, 0.95, 0.99))
        yield {
            "what": f"live sessions, {size}, {count} at {WORDS_PER_SECOND} words/s, p95",
            "value": round(p95, 1),
            "unit": "ms",
            "p50_ms": round(p50, 1),
            "p99_ms": round(p99, 1),
            **({"at_most": TARGET_P95_MS} if count <= TARGET_SESSIONS else {}),
        }
        if p95 >= TARGET_P95_MS:
            break
        best = count
    yield {
        "what": f"live sessions, {size}, most with p95 under {TARGET_P95_MS:.0f} ms",
        "value": best,
        "unit": "sessions",
        "at_least": TARGET_SESSIONS,
    }


def drive(system: System, size: str, count: int, seconds: float) -> list[float]:
    """Run `count` sessions in real time; sorted delays from word in to text out, in seconds."""
    draw = random.Random(1)
    engine = Engine(system, count)
    start = time.perf_counter()
    speakers = [
        _speaker(engine, draw, size, start + draw.random() / WORDS_PER_SECOND) for _ in range(count)
    ]
    end = start + seconds
    while (now := time.perf_counter()) < end:
        due = [(n, s) for n, s in enumerate(speakers) if s.next_at <= now]
        if not due:
            time.sleep(max(0.0, min(s.next_at for s in speakers) - now))
            continue
        for _, s in due:
            _say(engine, s)
        engine.advance([s.stream for _, s in due])
        now = time.perf_counter()
        for n, s in due:
            s.delays.append(now - s.next_at)
            s.next_at += 1 / WORDS_PER_SECOND
            if s.stream.target_ended:
                engine.close(s.stream)
                speakers[n] = _speaker(engine, draw, size, s.next_at)
                speakers[n].delays = s.delays
    return sorted(d for s in speakers for d in s.delays) or [0.0]


def _speaker(engine: Engine, draw: random.Random, size: str, first_at: float) -> Speaker:
    length = draw.randint(8, 30)
    target = [*random_sentence(draw, size, length), 2]
    stream = engine.open(forced=target)
    return Speaker(first_at, random_sentence(draw, size, length), target, stream)


def _say(engine: Engine, speaker: Speaker) -> None:
    """The next word; the end of the sentence comes with its last word."""
    engine.push(speaker.stream, [speaker.source[speaker.spoken]])
    speaker.spoken += 1
    if speaker.spoken == len(speaker.source):
        engine.finish(speaker.stream)
