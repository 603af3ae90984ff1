"""The speeds in the form of the paper's table: parameters, seconds per batch, seconds per token."""

import random
import statistics
from functools import partial
from typing import Any

from hmt.bench.policies import with_random_policy
from hmt.bench.setting import (
    HMT_SETTINGS,
    Row,
    interleaved,
    random_sentence,
    random_system,
)
from hmt.bench.stream import per_token, play
from hmt.bench.training import invented, step_of
from hmt.streaming.engine import Engine
from hmt.systems.contract import System
from hmt.text.symbols import EOS
from hmt.training.processes import keep_buffers

WORDS = 25  # of the sentence that is streamed, as in newstest


def speed_table(size: str, repeats: int) -> list[Row]:
    """One row per system of the paper's table, all measured in turn within one run.

    A batch has about 1,000 target tokens; a token is one of a live stream of 25 words whose target
    is forced.  Weights are random, and so are the policies of systems that decide for themselves.
    """
    keep_buffers()
    trained = {name: _system(name, size, is_ready=False) for name in _names()}
    corpus = invented(size)
    steps = {name: step_of(system, corpus) for name, system in trained.items()}
    training = interleaved(steps, repeats)
    streamed = {name: with_random_policy(_system(name, size)) for name in _names()}
    engines = {name: Engine(system) for name, system in streamed.items()}
    draw = random.Random(1)
    source, target = (random_sentence(draw, size, WORDS) for _ in range(2))
    plays = {
        name: partial(play, engine, source, [*target, EOS]) for name, engine in engines.items()
    }
    inference = interleaved(plays, repeats)
    return [
        {
            "system": name,
            "parameters": sum(p.numel() for p in trained[name].parameters()),
            "seconds_per_batch": statistics.median(training[name]),
            "seconds_per_token": statistics.median(inference[name]) / (WORDS + 1),
            **per_token(engines[name]),
        }
        for name in _names()
    ]


def _names() -> list[str]:
    return ["full", "wait-k", "mma", "gsimt", *(f"hmt L={low} K={k}" for low, k in HMT_SETTINGS)]


def _system(name: str, size: str, is_ready: bool = True) -> System:
    system, *settings = name.split()
    config: dict[str, Any] = {"k": 3} if system == "wait-k" else {}
    if settings:
        lower, states = (int(setting.split("=")[1]) for setting in settings)
        config = {"lower": lower, "states": states}
    return random_system(system, size, is_ready, **config)
