"""Replay a translation with its target forced, to see what every state would have written.

Shapes: N rows of a pass, J source tokens, H heads, V vocabulary.

A record holds what a model did.  What its states would have written instead, and where they
attended, is observed in a second run of the engine with the written tokens forced.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from hmt.model.vocabulary import at_least_float32
from hmt.streaming.engine import Engine
from hmt.systems.contract import PassOutput, System
from hmt.systems.stream import Plan, Stream
from hmt.text.symbols import FIRST_WRITABLE

BEST = 3  # most probable tokens shown per state


@dataclass(frozen=True)
class Seen:
    """One state as the decoder computed it."""

    best: list[tuple[int, float]]  # the most probable tokens and their probabilities
    attention: list[float]  # (moment) weight of every source token that was read


def replay(
    system: System, source: Sequence[int], target: Sequence[int], knobs: object, layer: int | None
) -> tuple[Stream, dict[tuple[int, int], Seen]]:
    """Force `target` on `source` (without end token); what each state (i, t) saw, i from 1.

    Attention is the mean over heads of one decoder layer (from 1), or of all if `layer` is None.
    """
    seen: dict[tuple[int, int], Seen] = {}

    def watch(streams: Sequence[Stream], plans: Sequence[Plan], output: PassOutput) -> None:
        (stream,), (plan,) = streams, plans
        keep(seen, stream, plan, rows_seen(output, stream, plan, layer))

    engine = Engine(system, watch=watch)
    stream = engine.open(knobs, list(target))
    engine.push(stream, source)
    engine.finish(stream)
    if target:
        engine.advance([stream])
    return stream, seen


def rows_seen(output: PassOutput, stream: Stream, plan: Plan, layer: int | None) -> list[Seen]:
    """What each row of a pass would write, and where it looked."""
    chosen = output.attention if layer is None else output.attention[layer - 1 : layer]
    attention = torch.stack([at_least_float32(each.mean(1)) for each in chosen]).mean(0)  # (N, J)
    probability = at_least_float32(output.transformer.output(output.hidden)).softmax(-1)  # (N, V)
    probability[:, :FIRST_WRITABLE] = 0.0
    best = probability.topk(min(BEST, probability.shape[-1] - FIRST_WRITABLE))
    return [
        Seen(list(zip(tokens, values, strict=True)), weights[: max(stream.read, row.moment)])
        for row, tokens, values, weights in zip(
            plan.rows, best.indices.tolist(), best.values.tolist(), attention.tolist(), strict=True
        )
    ]


def keep(
    seen: dict[tuple[int, int], Seen], stream: Stream, plan: Plan, rows: Sequence[Seen]
) -> None:
    """Remember what the states (i, t) of a pass saw."""
    last = plan.rows[-1]
    for row, found in zip(plan.rows, rows, strict=True):
        is_deciding = row is last and row.target == stream.next_token
        if is_deciding and row.moment <= stream.read:
            seen[row.target, stream.read] = found
        else:
            # a row that is computed again, for another lag or column, is not the state of a record
            seen.setdefault((row.target, row.moment), found)
