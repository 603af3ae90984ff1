"""A whole corpus through the engine: many slots against one, with identical output."""

import random
import time
from collections.abc import Iterator
from typing import Any

from hmt.bench.setting import Row, random_sentence, random_system
from hmt.streaming.engine import Engine
from hmt.systems.contract import System

TARGET = 6.0


def measure(size: str, sentences: int, slots: int, repeats: int) -> Iterator[Row]:
    """Sentences of 10 to 40 tokens, with forced targets of the same length."""
    draw = random.Random(1)
    lengths = [draw.randint(10, 40) for _ in range(sentences)]
    sources = [random_sentence(draw, size, n) for n in lengths]
    targets = [[*random_sentence(draw, size, n), 2] for n in lengths]
    system = random_system("hmt", size, lower=3, states=5)
    # One slot is slow and its speed does not depend on how many sentences there are.
    few = max(1, sentences // 16)
    each = []
    for _ in range(repeats):
        many_speed, many = _speed(system, slots, sources, targets)
        one_speed, one = _speed(system, 1, sources[:few], targets[:few])
        assert all(one[n].reads == many[n].reads for n in one), "slots must not change the output"
        each.append(many_speed / one_speed)
    yield {
        "what": f"corpus, {size}, {slots} slots / 1 slot",
        "value": round(sorted(each)[len(each) // 2], 2),
        "unit": "x tokens/s",
        "spread": [round(min(each), 2), round(max(each), 2)],
        "at_least": TARGET,
    }
    yield {"what": f"corpus, {size}, {slots} slots", "value": round(many_speed), "unit": "tokens/s"}


def _speed(
    system: System, slots: int, sources: list[list[int]], targets: list[list[int]]
) -> tuple[float, dict[int, Any]]:
    engine = Engine(system, slots)
    start = time.perf_counter()
    done = dict(engine.translate(sources, forced=targets))
    return engine.counts.written / (time.perf_counter() - start), done
