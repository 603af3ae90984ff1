"""One live stream: time per target token against full-sentence decoding and against wait-k."""

import random
from collections.abc import Callable, Iterator
from functools import partial

from hmt.bench.setting import (
    HMT_SETTINGS,
    Row,
    interleaved,
    random_sentence,
    random_system,
    ratio_row,
    ratios,
)
from hmt.streaming.engine import Engine
from hmt.systems.system import System

TARGET_FULL, TARGET_WAIT_K = 2.0, 1.5
TARGET_LENGTH = 200  # words up to which the targets are set
OTHERS = ("multipath", "adaptive", "moe-wait-k", "mma", "gma", "gsimt")


def measure(size: str, lengths: list[int], repeats: int, others: bool = False) -> Iterator[Row]:
    """Target tokens are forced, so that all systems write equally many."""
    draw = random.Random(1)
    systems: dict[str, System] = {
        "full": random_system("full", size),
        "wait-k": random_system("wait-k", size, k=3),
    }
    for lower, states in HMT_SETTINGS:
        systems[f"hmt {lower},{states}"] = random_system("hmt", size, lower=lower, states=states)
    if others:
        systems |= {name: random_system(name, size) for name in OTHERS}
    for length in lengths:
        source, target = (random_sentence(draw, size, length) for _ in range(2))
        engines = {name: Engine(system) for name, system in systems.items()}
        runs: dict[str, Callable[[], object]] = {
            name: partial(play, engine, source, [*target, 2]) for name, engine in engines.items()
        }
        seconds = interleaved(runs, repeats)
        to_full, to_wait_k = ratios(seconds, "full"), ratios(seconds, "wait-k")
        for name in list(systems)[1:]:
            counts = engines[name].counts
            more = {
                "rows_per_token": round(counts.rows / counts.written, 2),
                "passes_per_token": round(counts.passes / counts.written, 2),
            }
            what = f"one stream, {size}, {length} words, {name}"
            is_judged = name.startswith("hmt ") and length <= TARGET_LENGTH
            wanted = (TARGET_FULL, TARGET_WAIT_K) if is_judged else (None, None)
            yield ratio_row(f"{what} / full", to_full[name], wanted[0], **more)
            if name != "wait-k":
                yield ratio_row(f"{what} / wait-k", to_wait_k[name], wanted[1])
        yield {
            "what": f"one stream, {size}, {length} words, full",
            "value": round(min(seconds["full"]) / (length + 1) * 1000, 2),
            "unit": "ms/token",
        }


def play(engine: Engine, source: list[int], target: list[int]) -> None:
    """Words arrive one at a time; a system that waits for all of them encodes them at once."""
    stream = engine.open(forced=target)
    for token in source:
        engine.push(stream, [token])
        engine.advance([stream])
    engine.finish(stream)
    engine.advance([stream])
    engine.close(stream)
