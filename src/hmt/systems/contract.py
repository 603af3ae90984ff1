"""The contract of a system: how it learns, which rows it wants computed, when it writes.

Shapes: B batch, I target tokens, J source tokens, N packed rows, D width.

Training asks for `losses`.  Streaming asks `plan` (which rows must be computed next, or how much
more source must be read) and, once the engine has computed the rows of many streams in one pass,
`decide` (which row writes, or read on).  Whatever a translation in progress needs is in its Stream.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from hmt.errors import UserError
from hmt.model.rows import Rows, plain_bias
from hmt.model.transformer import Transformer
from hmt.plain import from_plain
from hmt.systems.batch import Batch
from hmt.systems.stream import Plan, Read, Stream, Write


@dataclass(frozen=True)
class Loss:
    """Per-sentence sums; `parts` are reported, `total` is minimised."""

    total: Tensor  # (B,)
    parts: dict[str, Tensor]  # (B,) each


def mean_loss(losses: Sequence[Loss]) -> Loss:
    """The mean of several losses of one batch."""
    parts = {
        name: torch.stack([loss.parts[name] for loss in losses]).mean(0) for name in losses[0].parts
    }
    return Loss(torch.stack([loss.total for loss in losses]).mean(0), parts)


@dataclass(frozen=True)
class PassOutput:
    """What one pass over the rows of several streams gave."""

    states: Tensor  # (N, D)
    means: Callable[[], Tensor]  # (N, D) mean of the source states each row has seen
    counts: list[int]  # rows per stream; they stand one after another
    told: list[Any]  # per layer, from the cross-attention
    transformer: Transformer

    def last_rows(self) -> Tensor:
        """The last row of each stream. (streams, D)"""
        ends = torch.tensor(self.counts, device=self.states.device).cumsum(0) - 1
        return self.states[ends]


class System(nn.Module):
    """Base of all systems; a new one is a subclass in a file of its own and a line in SYSTEMS."""

    name: ClassVar[str]
    Config: ClassVar[type]
    Knobs: ClassVar[type]

    transformer: Transformer
    config: Any

    @property
    def parts(self) -> list[Transformer]:
        """The Transformers that rows can be computed by."""
        return [self.transformer]

    @property
    def register_shape(self) -> tuple[int, ...] | None:
        """What cross-attention keeps of a stream, per layer: pointers, a running sum."""
        return None

    def dial(self, knobs: Any) -> float:
        """The one setting that cross-attention has to know: a threshold, a delay."""
        return 0.0

    def knobs(self, **chosen: Any) -> Any:
        """Inference settings: this model's defaults with some chosen anew."""
        allowed = [f.name for f in fields(self.Knobs)]
        for key in chosen:
            if key not in allowed:
                raise UserError(
                    f'A {self.name} model has no setting "{key}"; it has '
                    f"{', '.join(allowed) or 'none'}."
                )
        return from_plain(self.Knobs, {**self.default_knobs(), **chosen}, "knobs")

    def default_knobs(self) -> dict[str, Any]:
        """Settings that follow from how the model was trained."""
        return {}

    def sample(self, draw: random.Random, batch: Batch) -> Any:
        """The settings of one training batch."""
        return self.knobs()

    def validation_knobs(self) -> list[Any]:
        """The settings that validation takes the mean over: fixed, so that losses compare."""
        return [self.knobs()]

    def loss(self, batch: Batch, draw: random.Random | None = None) -> Loss:
        """Loss under drawn settings (training) or the fixed ones of validation."""
        if draw is not None:
            return self.losses(batch, self.sample(draw, batch))
        return mean_loss([self.losses(batch, knobs) for knobs in self.validation_knobs()])

    def losses(self, batch: Batch, knobs: Any) -> Loss:
        raise NotImplementedError

    def score(self, batch: Batch, knobs: Any, reads: Tensor) -> Tensor:
        """log p(y_i) in one parallel pass if y_i is written after reads_i tokens. (B, I) -> (B, I)

        Zero beyond a target's end.  Streaming gives exactly these numbers.
        """
        raise NotImplementedError

    @classmethod
    def compose(cls, models: "Sequence[System]") -> "System":
        """A system made of trained ones; most are trained themselves."""
        raise UserError(f"A {cls.name} model is trained, not composed: leave out models.")

    def inspect(self, batch: Batch, knobs: Any) -> list[dict[str, Any]]:
        """Per sentence, what a forced pass shows beyond losses and reads."""
        return [{} for _ in batch.source]

    def begin(self, knobs: Any) -> Any:
        """Fresh memory of a stream."""
        return None

    def bias(
        self, query: Rows, keys: Rows, streams: Sequence[Stream], dtype: torch.dtype
    ) -> Tensor:
        """Which cached rows the new rows see. (B, Q), (B, C) -> (B, 1, Q, C)"""
        return plain_bias(query, keys, dtype)

    def plan(self, stream: Stream) -> Plan | Read:
        raise NotImplementedError

    def decide(
        self, streams: Sequence[Stream], plans: Sequence[Plan], output: PassOutput
    ) -> list[Read | Write]:
        """By default the last row writes."""
        for stream, plan in zip(streams, plans, strict=True):
            stream.note(plan.targets[-1], plan.moments[-1], 1.0)
        return [Write(len(plan.targets) - 1) for plan in plans]
