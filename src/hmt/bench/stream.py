"""One live stream: time per target token against full-sentence decoding and against wait-k.

How many passes a token needs depends on the policy, and random weights have none. So they get a
random one (policies.py), and HMT also gets the worst one: never confident, so that every token
waits for its last moment. The model that ships is measured with its own policy.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from hmt.bench.policies import with_random_policy
from hmt.bench.setting import (
    HMT_SETTINGS,
    Row,
    interleaved,
    random_sentence,
    random_system,
    ratio_row,
    ratios,
)
from hmt.fast.prepacked import make_ready
from hmt.models.model import load
from hmt.streaming.engine import Engine
from hmt.systems import SYSTEMS, build
from hmt.systems.contract import System
from hmt.text.symbols import EOS

TARGET_FULL, TARGET_WAIT_K = 2.0, 1.5
TARGET_LENGTH = 200  # words up to which the targets are set
OTHERS = tuple(name for name in SYSTEMS if name not in ("hmt", "full", "wait-k"))
NEVER_CONFIDENT = 2.0  # a threshold that no confidence reaches
GERMAN = (
    "Kannst du mir sagen, wann der nächste Zug nach Hause fährt?",
    "Wir haben gestern Abend lange auf dich gewartet.",
    "Das Buch, das du mir gegeben hast, habe ich noch nicht gelesen.",
    "Wenn es morgen regnet, bleiben wir zu Hause und spielen Karten.",
    "Mein Bruder arbeitet seit drei Jahren in einer kleinen Stadt am Meer.",
)


def measure(size: str, lengths: list[int], repeats: int, others: bool = False) -> Iterator[Row]:
    """Target tokens are forced, so that all systems write equally many."""
    draw = random.Random(1)
    systems: dict[str, System] = {
        "full": random_system("full", size),
        "wait-k": random_system("wait-k", size, k=3),
    }
    knobs: dict[str, Any] = {}
    for lower, states in HMT_SETTINGS:
        hmt = random_system("hmt", size, lower=lower, states=states)
        systems[f"hmt {lower},{states}"] = with_random_policy(hmt)
        systems[f"hmt {lower},{states} always waiting"] = hmt
        knobs[f"hmt {lower},{states} always waiting"] = hmt.knobs(threshold=NEVER_CONFIDENT)
    if others:
        systems |= {name: with_random_policy(random_system(name, size)) for name in OTHERS}
    for length in lengths:
        source, target = (random_sentence(draw, size, length) for _ in range(2))
        engines = {name: Engine(system) for name, system in systems.items()}
        runs: dict[str, Callable[[], object]] = {
            name: partial(play, engine, source, [*target, EOS], knobs.get(name))
            for name, engine in engines.items()
        }
        yield from _rows(f"one stream, {size}, {length} words", engines, runs, repeats, length)
    yield shipped(repeats)


def _rows(
    what: str,
    engines: dict[str, Engine],
    runs: dict[str, Callable[[], object]],
    repeats: int,
    length: int,
) -> Iterator[Row]:
    """All systems beside full-sentence decoding and wait-k."""
    seconds = interleaved(runs, repeats)
    to_full, to_wait_k = ratios(seconds, "full"), ratios(seconds, "wait-k")
    for name in list(engines)[1:]:
        more = per_token(engines[name])
        is_judged = name.startswith("hmt ") and " always " not in name and length <= TARGET_LENGTH
        targets = (TARGET_FULL, TARGET_WAIT_K) if is_judged else (None, None)
        yield ratio_row(f"{what}, {name} / full", to_full[name], targets[0], **more)
        if name != "wait-k":
            yield ratio_row(f"{what}, {name} / wait-k", to_wait_k[name], targets[1])
    yield {
        "what": f"{what}, full",
        "value": round(min(seconds["full"]) / (length + 1) * 1000, 2),
        "unit": "ms/token",
    }


def per_token(engine: Engine) -> dict[str, float]:
    """Work per written token."""
    counts = engine.counts
    return {
        "rows_per_token": round(counts.rows / counts.written, 2),
        "passes_per_token": round(counts.passes / counts.written, 2),
    }


def shipped(repeats: int) -> Row:
    """The model that ships on German text, beside full-sentence decoding at its size."""
    model = load()
    dims = model.system.config.dims
    full = build("full", {"dims": {**vars(dims)}})
    make_ready(full)
    sources = model.source_tokenizer.encode_batch(GERMAN)
    engine = model.engine(1)
    targets = [s.target for _, s in sorted(engine.translate(sources), key=lambda pair: pair[0])]
    engines = {"full": Engine(full), "hmt": model.engine(1)}
    runs = {name: partial(play_all, engine, sources, targets) for name, engine in engines.items()}
    ratio = ratios(interleaved(runs, repeats), "full")["hmt"]
    return ratio_row(
        "one stream, the hmt that ships, German sentences / full",
        ratio,
        TARGET_FULL,
        **per_token(engines["hmt"]),
    )


def play_all(
    engine: Engine, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]
) -> None:
    """Sentences one after another."""
    for source, target in zip(sources, targets, strict=True):
        play(engine, source, target)


def play(engine: Engine, source: Sequence[int], target: Sequence[int], knobs: Any = None) -> None:
    """Words arrive one at a time; a system that waits for all of them encodes them at once."""
    stream = engine.open(knobs, forced=target)
    for token in source:
        engine.push(stream, [token])
        engine.advance([stream])
    engine.finish(stream)
    engine.advance([stream])
    engine.close(stream)
