"""Cost of a training step of each system, as a multiple of a full-sentence step."""

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
from hmt.model.moments import state_table
from hmt.systems.system import Batch, System, make_batch
from hmt.training.batches import Numbers, plan_epoch

TARGETS = {"tiny": (3.0, 3.8, 4.1), "base": (2.8, 3.5, 3.7)}
OTHERS = ("wait-k", "multipath", "moe-wait-k", "gma", "mma", "gsimt")
TARGET_PADDING = 0.1


def measure(size: str, repeats: int, others: bool, compiles: bool = False) -> Iterator[Row]:
    """Steps on one batch of about 1,000 target tokens in sentences of about 27."""
    batch = _batch(size)
    systems: dict[str, System] = {"full": random_system("full", size)}
    for lower, states in HMT_SETTINGS:
        systems[f"hmt {lower},{states}"] = random_system("hmt", size, lower=lower, states=states)
    if others:
        systems |= {name: random_system(name, size) for name in OTHERS}
    seconds = interleaved({name: _step(system, batch) for name, system in systems.items()}, repeats)
    targets = dict(zip(list(systems)[1:4], TARGETS[size], strict=True))
    found = ratios(seconds, "full")
    for name in list(systems)[1:]:
        more = {}
        if name in targets:
            lower, states = map(int, name.split()[1].split(","))
            more["rows_per_token"] = round(_rows(batch, lower, states), 2)
        yield ratio_row(
            f"training step, {size}, {name} / full", found[name], targets.get(name), **more
        )
    step = min(seconds["full"])
    tokens = int(batch.target_length.sum())
    yield {
        "what": f"training, {size}, full",
        "value": round(tokens / step),
        "unit": "target tokens/s",
    }
    yield from padding()
    if compiles:
        yield compiled(size, batch, repeats)


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


def real_like(pairs: int) -> Lengths:
    """Log-normal target lengths with mean 27, up to 250, and sources longer or shorter by 15 %."""
    draw = np.random.default_rng(1)
    target = draw.lognormal(np.log(22), 0.65, pairs)
    source = target * draw.lognormal(0.0, 0.15, pairs)
    return Lengths(*(x.round().clip(2, 250).astype(np.int32) for x in (source, target)))


def padding(limit: int = 4096, pairs: int = 100_000) -> Iterator[Row]:
    """Share of padding in the batches of an epoch as training plans them."""
    corpus = real_like(pairs)
    plan = plan_epoch(corpus, limit, seed=1, epoch=0)
    for side, lengths in (("source", corpus.source_lengths), ("target", corpus.target_lengths)):
        yield _padding_row(f"{side} tokens", plan.padding(lengths), limit)
    lower, states = HMT_SETTINGS[1]
    real = rectangle = 0
    for n in range(0, len(plan), max(1, len(plan) // 50)):
        source, target = (
            torch.from_numpy(x[plan[n]].astype(np.int64))
            for x in (corpus.source_lengths, corpus.target_lengths)
        )
        table = state_table(lower, states, source, target, int(target.max()))
        real, rectangle = real + len(table.index), rectangle + table.rows.target.numel()
    yield _padding_row(f"rows of hmt {lower},{states}", 1 - real / rectangle, limit)


def _padding_row(what: str, share: float, limit: int) -> Row:
    return {
        "what": f"padding of batches of {limit} tokens, {what}",
        "value": round(100 * share, 1),
        "unit": "%",
        "at_most": 100 * TARGET_PADDING,
    }


def compiled(size: str, batch: Batch, repeats: int) -> Row:
    """A step with torch.compile over one without, once compiled."""
    lower, states = HMT_SETTINGS[1]
    plain, other = (random_system("hmt", size, lower=lower, states=states) for _ in range(2))
    fast: Any = torch.compile(other.losses, dynamic=True)
    other.losses = fast  # type: ignore[method-assign]
    runs = {"plain": _step(plain, batch), "compiled": _step(other, batch)}
    start = time.perf_counter()
    runs["compiled"]()
    seconds = time.perf_counter() - start
    ratio = ratios(interleaved(runs, repeats), "plain")["compiled"]
    what = f"training step, {size}, hmt {lower},{states}, torch.compile / without"
    return ratio_row(what, ratio, None, compile_seconds=round(seconds, 1))


def _batch(size: str) -> Batch:
    draw = random.Random(1)
    pairs = [
        [[*random_sentence(draw, size, draw.randint(25, 28)), 2] for _ in range(2)]
        for _ in range(36)
    ]
    return make_batch([p[0] for p in pairs], [p[1] for p in pairs])


def _rows(batch: Batch, lower: int, states: int) -> float:
    """States per target token after packing."""
    lengths = batch.source_length, batch.target_length
    table = state_table(lower, states, *lengths, batch.target.shape[1])
    return len(table.index) / int(batch.target_length.sum())


def _step(system: System, batch: Batch) -> Callable[[], None]:
    optimizer = torch.optim.Adam(system.parameters(), lr=1e-4, foreach=True)
    return partial(_one_step, system.train(), optimizer, batch)


def _one_step(system: System, optimizer: torch.optim.Optimizer, batch: Batch) -> None:
    loss = system.loss(batch, random.Random(1)).total.sum() / batch.target_length.sum()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
