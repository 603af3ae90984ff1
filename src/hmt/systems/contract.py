"""The contract of a system: how it learns, which rows it needs computed, when it writes.

Shapes: B batch, I target tokens, J source tokens, N packed rows, D width.

Training asks for the `loss` of a batch under some knobs.  Streaming asks `plan` (which rows must be
computed next, or how much more source must be read: a question that changes nothing) and, once the
engine has computed the rows of many streams in one pass, `decide` (which row writes, or read on).
Whatever a translation in progress needs is in its Stream, and only `decide` changes its memory.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import ClassVar, Generic, Self, cast

import torch
from torch import Tensor, nn

from hmt.errors import UserError
from hmt.model.attention import Report, ReportT, reports_of
from hmt.model.rows import Rows, plain_bias
from hmt.model.transformer import Transformer
from hmt.plain import from_plain
from hmt.systems.batch import Batch
from hmt.systems.parameters import ConfigT, KnobsT, MemoryT
from hmt.systems.stream import Plan, Read, Stream, Write


@dataclass(frozen=True)
class Loss:
    """Per-sentence sums; `terms` are reported, `total` is minimised."""

    total: Tensor  # (B,)
    terms: dict[str, Tensor]  # (B,) each


def mean_loss(losses: Sequence[Loss]) -> Loss:
    """The mean of several losses of one batch."""
    terms = {
        name: torch.stack([loss.terms[name] for loss in losses]).mean(0) for name in losses[0].terms
    }
    return Loss(torch.stack([loss.total for loss in losses]).mean(0), terms)


@dataclass(frozen=True)
class PassOutput:
    """What one pass over the rows of several streams computed."""

    hidden: Tensor  # (N, D) the decoder's vectors
    means: Callable[[], Tensor]  # (N, D) mean of the encoded source that each row has seen
    counts: list[int]  # rows per stream; they stand one after another
    reports: Sequence[Report]  # of the cross-attention, per layer
    transformer: Transformer
    attention: Sequence[Tensor]  # (N, H, J) weights per layer; empty unless the engine is watched

    def last_rows(self) -> Tensor:
        """The last row of each stream. (streams, D)"""
        ends = torch.tensor(self.counts, device=self.hidden.device).cumsum(0) - 1
        return self.hidden[ends]

    def reported(self, kind: type[ReportT]) -> list[ReportT]:
        """The layers' reports, all of this type, which is the system's own."""
        return reports_of(kind, self.reports)


def doubts_of_threshold(threshold: float) -> list[str]:
    """Why this threshold of a probability may not be meant: one sentence, or none."""
    if 0 <= threshold <= 1:
        return []
    effect = "no probability reaches it" if threshold > 1 else "every probability reaches it"
    return [f"threshold = {threshold} is not between 0 and 1: {effect}."]


class System(nn.Module, Generic[ConfigT, KnobsT, MemoryT]):
    """Base class of all systems; a new one is a subclass in its own file and a line in TABLE."""

    name: ClassVar[str]
    Config: ClassVar[type]
    Knobs: ClassVar[type]
    Memory: ClassVar[type] = type(None)  # of a stream; called to make a fresh one
    MOVABLE: ClassVar[frozenset[str]] = frozenset()  # knobs that may change within a sentence

    transformer: Transformer
    config: ConfigT

    @property
    def transformers(self) -> list[Transformer]:
        """The Transformers that can compute rows, usually just one."""
        return [self.transformer]

    @property
    def register_shape(self) -> tuple[int, ...] | None:
        """Shape of what each cross-attention carries between passes: pointers, a sum."""
        return None

    def attention_setting(self, knobs: KnobsT) -> float:
        """The one knob that cross-attention needs, such as a threshold or a delay."""
        return 0.0

    def knobs(self, **chosen: object) -> KnobsT:
        """The knobs of this model: its defaults, with the given ones replaced."""
        allowed = [f.name for f in fields(self.Knobs)]
        for key in chosen:
            if key not in allowed:
                raise UserError(
                    f'This {self.name} model has no knob "{key}"; its knobs are '
                    f"{', '.join(allowed) or 'none'}."
                )
        knobs: KnobsT = from_plain(self.Knobs, {**self.default_knobs(), **chosen}, "knobs")
        return knobs

    def default_knobs(self) -> dict[str, object]:
        """Defaults that depend on how the model was trained."""
        return {}

    def seeing_all(self, knobs: KnobsT) -> KnobsT:
        """Knobs under which `score` can let every token see the whole source."""
        return knobs

    def doubts(self, knobs: KnobsT) -> list[str]:
        """Reasons why these knobs may not suit this model, one sentence each."""
        return []

    # ---- training

    def sample(self, draw: random.Random, batch: Batch) -> KnobsT:
        """The knobs of one training batch."""
        return self.knobs()

    def validation_knobs(self) -> list[KnobsT]:
        """The knobs that validation averages over: fixed, so that losses are comparable."""
        return [self.knobs()]

    def training_loss(self, batch: Batch, draw: random.Random) -> Loss:
        """The loss under knobs that are drawn for this batch."""
        return self.loss(batch, self.sample(draw, batch))

    def validation_loss(self, batch: Batch) -> Loss:
        """The mean loss under the fixed knobs of validation."""
        return mean_loss([self.loss(batch, knobs) for knobs in self.validation_knobs()])

    def loss(self, batch: Batch, knobs: KnobsT) -> Loss:
        """What the system minimises, under given knobs."""
        raise NotImplementedError

    def score(self, batch: Batch, knobs: KnobsT, reads: Tensor) -> Tensor:
        """log p(y_i) in one parallel pass if y_i is written after reads_i tokens. (B, I) -> (B, I)

        Zero beyond a target's end.  Streaming computes exactly these numbers.
        """
        raise NotImplementedError

    @classmethod
    def compose(cls, models: "Sequence[System]") -> Self:
        """A system made of trained ones; most systems are trained instead, and refuse this."""
        raise UserError(f"This {cls.name} model is trained, not composed: leave out models.")

    def inspect(self, batch: Batch, knobs: KnobsT) -> Sequence[Mapping[str, object]]:
        """What a forced pass reveals beyond losses and reads, per sentence."""
        return [{} for _ in batch.source]

    # ---- streaming

    def bias(
        self,
        query: Rows,
        keys: Rows,
        streams: Sequence[Stream[KnobsT, MemoryT]],
        dtype: torch.dtype,
    ) -> Tensor:
        """Which cached rows the new rows see. (B, Q), (B, C) -> (B, 1, Q, C)"""
        return plain_bias(query, keys, dtype)

    def plan(self, stream: Stream[KnobsT, MemoryT]) -> Plan | Read:
        """What the stream needs next; changes nothing."""
        raise NotImplementedError

    def decide(
        self, streams: Sequence[Stream[KnobsT, MemoryT]], plans: Sequence[Plan], output: PassOutput
    ) -> list[Read | Write]:
        """What each stream does now that its rows are computed; by default its last row writes."""
        for stream, plan in zip(streams, plans, strict=True):
            stream.note(plan.rows[-1].target, plan.rows[-1].moment, 1.0)
        return [Write(len(plan.rows) - 1) for plan in plans]


def of_some_type(system: System[ConfigT, KnobsT, MemoryT]) -> System:
    """The same system for code that serves them all, and so knows none of its three types."""
    return cast("System", system)
