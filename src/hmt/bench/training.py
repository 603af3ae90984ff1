"""Cost of a training step of each system, as a multiple of a full-sentence step."""

import random
from collections.abc import Callable, Iterator
from functools import partial

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

TARGETS = {"tiny": (3.0, 3.8, 4.1), "base": (2.8, 3.5, 3.7)}
OTHERS = ("wait-k", "multipath", "moe-wait-k", "gma", "mma")


def measure(size: str, repeats: int, others: bool) -> Iterator[Row]:
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
