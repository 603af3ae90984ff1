"""Cost of a training step of each system, as a multiple of a full-sentence step.

A step is an update of `hmt train`: batch, losses, gradients, clipping, Adam.
"""

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch

from hmt.bench.setting import (
    HMT_SETTINGS,
    Row,
    interleaved,
    random_sentence,
    random_system,
    ratio_row,
    ratios,
)
from hmt.systems import SYSTEMS
from hmt.systems.contract import System
from hmt.systems.hmt_states import StateTable, state_table
from hmt.text.symbols import EOS
from hmt.training.batches import MOST_PADDING, Numbers, micro_batches, plan_epoch
from hmt.training.checkpoint import Position
from hmt.training.learner import Learner
from hmt.training.processes import Group, keep_buffers
from hmt.training.recipe import Training

TARGETS = {"tiny": (3.0, 3.8, 4.1), "base": (2.8, 3.5, 3.7)}
# adaptive wait-k is composed of trained models
OTHERS = tuple(name for name in SYSTEMS if name not in ("hmt", "full", "adaptive"))
# The padding that micro-batches aim at, plus some for the side they are not sorted by.
TARGET_PADDING = MOST_PADDING + 0.05


def measure(size: str, repeats: int, others: bool, compiles: bool = False) -> Iterator[Row]:
    """Steps on one batch of about 1,000 target tokens in sentences of about 27."""
    keep_buffers()  # as training does
    corpus = invented(size)
    systems: dict[str, System] = {"full": random_system("full", size, is_ready=False)}
    for lower, states in HMT_SETTINGS:
        systems[f"hmt {lower},{states}"] = _hmt(size, lower, states)
    if others:
        systems |= {name: random_system(name, size, is_ready=False) for name in OTHERS}
    steps = {name: step_of(system, corpus) for name, system in systems.items()}
    seconds = interleaved(steps, repeats)
    targets = dict(zip(list(systems)[1:4], TARGETS[size], strict=True))
    found = ratios(seconds, "full")
    for name in list(systems)[1:]:
        more = {}
        if name in targets:
            lower, states = map(int, name.split()[1].split(","))
            more["rows_per_token"] = round(_rows(corpus, lower, states), 2)
        yield ratio_row(
            f"training step, {size}, {name} / full", found[name], targets.get(name), **more
        )
    yield {
        "what": f"training, {size}, full",
        "value": round(int(corpus.target_lengths.sum()) / min(seconds["full"])),
        "unit": "target tokens/s",
    }
    yield from padding()
    if compiles:
        yield compiled(size, corpus, repeats)


@dataclass(frozen=True)
class Lengths:
    """Lengths as real text has them, for planning batches without any tokens."""

    source_lengths: Numbers
    target_lengths: Numbers

    def __len__(self) -> int:
        return len(self.source_lengths)

    def source(self, n: int) -> Numbers:
        raise NotImplementedError

    def target(self, n: int) -> Numbers:
        raise NotImplementedError


@dataclass(frozen=True)
class Invented(Lengths):
    """Sentence pairs in memory, end tokens included."""

    sources: list[Numbers]
    targets: list[Numbers]

    def source(self, n: int) -> Numbers:
        return self.sources[n]

    def target(self, n: int) -> Numbers:
        return self.targets[n]


def invented(size: str, pairs: int = 36) -> Invented:
    """Pairs of 26 to 29 tokens."""
    draw = random.Random(1)
    sides: list[list[Numbers]] = [
        [np.array([*random_sentence(draw, size, draw.randint(25, 28)), EOS]) for _ in range(pairs)]
        for _ in range(2)
    ]
    source, target = (np.array([len(x) for x in side]) for side in sides)
    return Invented(source, target, *sides)


def real_like(pairs: int) -> Lengths:
    """Log-normal target lengths with mean 27, up to 250, and sources longer or shorter by 15 %."""
    draw = np.random.default_rng(1)
    target = draw.lognormal(np.log(22), 0.65, pairs)
    source = target * draw.lognormal(0.0, 0.15, pairs)
    return Lengths(*(x.round().clip(2, 250).astype(np.int32) for x in (source, target)))


def padding(limit: int = 4096, pairs: int = 100_000) -> Iterator[Row]:
    """Share of padding in the batches of an epoch, as training computes them: in micro-batches."""
    corpus = real_like(pairs)
    plan = plan_epoch(corpus, limit, seed=1, epoch=0)
    chosen = range(0, len(plan), max(1, len(plan) // 50))
    parts = [part for n in chosen for part in micro_batches(corpus, plan[n])]
    for side, lengths in (("source", corpus.source_lengths), ("target", corpus.target_lengths)):
        tokens = sum(int(lengths[part].sum()) for part in parts)
        padded = sum(len(part) * int(lengths[part].max()) for part in parts)
        yield _padding_row(f"{side} tokens", 1 - tokens / padded, limit)
    lower, states = HMT_SETTINGS[1]
    tables = [_states(corpus, part, lower, states) for part in parts]
    rows = sum(len(table.index) for table in tables)
    rectangle = sum(table.rows.target.numel() for table in tables)
    yield _padding_row(f"rows of hmt {lower},{states}", 1 - rows / rectangle, limit)


def _padding_row(what: str, share: float, limit: int) -> Row:
    return {
        "what": f"padding of batches of {limit} tokens, {what}",
        "value": round(100 * share, 1),
        "unit": "%",
        "at_most": 100 * TARGET_PADDING,
    }


def compiled(size: str, corpus: Invented, repeats: int) -> Row:
    """A step with `training.compile`, once compiled, as a multiple of one without."""
    lower, states = HMT_SETTINGS[1]
    plain, other = (_hmt(size, lower, states) for _ in range(2))
    runs = {"plain": step_of(plain, corpus), "compiled": step_of(other, corpus, compile=True)}
    start = time.perf_counter()
    runs["compiled"]()
    seconds = time.perf_counter() - start
    ratio = ratios(interleaved(runs, repeats), "plain")["compiled"]
    what = f"training step, {size}, hmt {lower},{states}, torch.compile / without"
    return ratio_row(what, ratio, None, compile_seconds=round(seconds, 1))


def _rows(corpus: Lengths, lower: int, states: int) -> float:
    """States per target token after packing."""
    table = _states(corpus, np.arange(len(corpus)), lower, states)
    return len(table.index) / int(corpus.target_lengths.sum())


def _states(corpus: Lengths, sentences: Numbers, lower: int, states: int) -> StateTable:
    """The states of some sentences as one batch."""
    source, target = (
        torch.from_numpy(x[sentences].astype(np.int64))
        for x in (corpus.source_lengths, corpus.target_lengths)
    )
    return state_table(lower, states, source, target, int(target.max()))


def _hmt(size: str, lower: int, states: int) -> System:
    return random_system("hmt", size, is_ready=False, lower=lower, states=states)


def step_of(system: System, corpus: Invented, **settings: Any) -> Callable[[], object]:
    """One update on all of a corpus."""
    longest = max(corpus.source_lengths.max(), corpus.target_lengths.max())
    training = Training(updates=1, batch_tokens=int(longest) * len(corpus), clip=1.0, **settings)
    alone = Group(0, 1, torch.device("cpu"))
    learner = Learner(training, system, corpus, alone, 1, Position())
    return partial(learner.update, 1, was_signalled=False)
