"""One live word with the model that ships: processor time, of one session and of many together."""

import statistics
import time
from collections.abc import Iterator

from hmt.bench.setting import Row
from hmt.bench.stream import GERMAN, per_token
from hmt.models.model import Model, load
from hmt.streaming import events
from hmt.streaming.engine import Engine
from hmt.streaming.live import Live, SentenceRules

TARGET_MS = 5.0  # of one session, on one ordinary core
WORDS = [word for sentence in GERMAN for word in sentence.split()]


def measure(counts: list[int], repeats: int) -> Iterator[Row]:
    """Milliseconds of processor time per word, with one session and with these numbers of them."""
    model = load()
    for count in [1, *(n for n in counts if n > 1)]:
        engine = model.engine(count)
        speak(model, engine)
        each = [1000 * speak(model, engine) / count / len(WORDS) for _ in range(repeats)]
        yield {
            "what": f"one live word, the model that ships, {count} at a time",
            "value": round(statistics.median(each), 2),
            "unit": "ms/word",
            "spread": [round(min(each), 2), round(max(each), 2)],
            **({"at_most": TARGET_MS} if count == 1 else {}),
            **per_token(engine),
        }


def speak(model: Model, engine: Engine) -> float:
    """Give all sessions of an engine the same words, each starting at another one. -> seconds"""
    knobs = model.knobs()
    lives = [
        Live(engine, model.tokenizers, knobs, SentenceRules(segmenter=model.segmenter))
        for _ in range(engine.slots)
    ]
    start = time.process_time()
    for turn in range(len(WORDS)):
        for n, live in enumerate(lives):
            live.hear(WORDS[(turn + n) % len(WORDS)])
        _run(engine, lives)
    for live in lives:
        live.end(events.FINISH)
    _run(engine, lives)
    return time.process_time() - start


def _run(engine: Engine, lives: list[Live]) -> None:
    """Run until everything heard is processed."""
    while streams := {n: s for n, live in enumerate(lives) if (s := live.feed()) is not None}:
        engine.advance(list(streams.values()))
        for n in streams:
            lives[n].collect()
