"""A translation done again with its words given, to see what every state would have written.

Shapes: B streams (here one), N rows of a pass, J source tokens, D width, H heads, V vocabulary.

A record says what a model did. What its states would have written instead, and where they looked,
is read off a second run in the same engine with the written tokens forced.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from hmt.model.attention import CrossAttention, Packing, SourceView
from hmt.model.transformer import Transformer
from hmt.model.vocabulary import at_least_float32
from hmt.streaming.engine import Engine
from hmt.systems.contract import PassOutput, System
from hmt.systems.stream import Plan, Stream
from hmt.text.symbols import FIRST_WRITABLE

BEST = 3  # tokens that a state names


@dataclass(frozen=True)
class Seen:
    """One state as the decoder computed it."""

    best: list[tuple[int, float]]  # the most probable tokens and their probabilities
    attention: list[float]  # (moment) weight of every source token that was read


def replay(
    system: System, source: Sequence[int], target: Sequence[int], knobs: Any, layer: int | None
) -> tuple[Stream, dict[tuple[int, int], Seen]]:
    """Force `target` on `source` (without its end); what each state (i, t) saw, i from 1.

    Attention is the mean over heads of one decoder layer (from 1), or of all if `layer` is None.
    """
    engine = Watching(system, layer)
    stream = engine.open(knobs, list(target))
    engine.push(stream, source)
    engine.finish(stream)
    if target:
        engine.advance([stream])
    return stream, engine.seen


class Watching(Engine):
    """An engine of one slot that keeps what every row of the decoder saw."""

    def __init__(self, system: System, layer: int | None) -> None:
        super().__init__(system)
        self.layer = layer
        self.seen: dict[tuple[int, int], Seen] = {}

    def _decode(self, part: int, streams: list[Stream], plans: list[Plan]) -> PassOutput:
        with watched(self.parts[part]) as weights:
            output = super()._decode(part, streams, plans)
        (stream,), (plan,) = streams, plans
        chosen = weights if self.layer is None else weights[self.layer - 1 : self.layer]
        attention = torch.stack(chosen).mean(0)  # (N, J)
        probability = at_least_float32(output.transformer.output(output.states)).softmax(-1)
        probability[:, :FIRST_WRITABLE] = 0.0
        best = probability.topk(min(BEST, probability.shape[-1] - FIRST_WRITABLE))
        token = len(stream.target) + 1
        for row, place_ in enumerate(zip(plan.targets, plan.moments, strict=True)):
            seen = Seen(
                list(zip(best.indices[row].tolist(), best.values[row].tolist(), strict=True)),
                attention[row, : max(stream.read, place_[1])].tolist(),
            )
            is_last = row == len(plan.targets) - 1 and plan.targets[row] == token
            if is_last and plan.moments[row] <= stream.read:
                self.seen[token, stream.read] = seen  # the row that decides
            else:
                # a row that is computed again, in another column, is not the state that was asked
                self.seen.setdefault(place_, seen)
        return output


@contextmanager
def watched(transformer: Transformer) -> Iterator[list[Tensor]]:
    """Fill a list with the cross-attention of every layer while a pass runs. (N, J) each"""
    weights: list[Tensor] = []

    def look(cross: Any, arguments: tuple[Any, ...], _: Any) -> None:
        weights.append(attention_weights(cross, *arguments))

    handles = [
        layer.cross.register_forward_hook(look)  # type: ignore[union-attr]
        for layer in transformer.decoder
    ]
    try:
        yield weights
    finally:
        for handle in handles:
            handle.remove()


class Keeping(nn.Module):
    """Stands for an output layer and keeps what it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.given: list[Tensor] = []

    def forward(self, x: Tensor) -> Tensor:
        self.given.append(x)
        return x


def attention_weights(
    cross: CrossAttention, x: Tensor, source: Tensor, view: SourceView, packing: Packing
) -> Tensor:
    """Weights of any cross-attention, averaged over its heads. -> (N, J)

    What a head gives is the weighted sum of the values, whatever rule makes the weights. With unit
    vectors for values the sums are the weights themselves, D / H source tokens at a time. So no
    system's rule has to be written a second time here.
    """
    length, step = source.shape[3:]
    output, keeping = cross.output, Keeping()
    cross.output = keeping  # type: ignore[assignment]
    try:
        for start in range(0, length, step):
            count = min(step, length - start)
            units = x.new_zeros(length, step)
            units[start : start + count] = torch.eye(step, dtype=x.dtype, device=x.device)[:count]
            probe = source.clone()
            probe[1] = units  # after the keys
            cross.forward(x, probe, view, packing)
    finally:
        cross.output = output
    heads = torch.cat([context.unflatten(-1, (cross.heads, -1)) for context in keeping.given], -1)
    return at_least_float32(heads.mean(1))[:, :length]
