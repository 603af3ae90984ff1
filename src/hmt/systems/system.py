"""The contract of a system: how it learns, which rows it wants computed, when it writes.

Shapes: B batch, I target tokens, J source tokens, N packed rows, D width.

Training asks for `losses`.  Streaming asks `plan` (which rows must be computed next, or how much
more source must be read) and, once the engine has computed the rows of many streams in one pass,
`decide` (which row writes, or read on).  Whatever a translation in progress needs is in its Stream.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from hmt.errors import UserError
from hmt.model.moments import Rows, plain_bias
from hmt.model.transformer import Transformer
from hmt.systems.plain import from_plain
from hmt.text.tokenizer import EOS, PAD


@dataclass(frozen=True)
class Batch:
    """Sentence pairs, padded on the right; both sides include the end token."""

    source: Tensor  # (B, J)
    source_length: Tensor  # (B,)
    target: Tensor  # (B, I)
    target_length: Tensor  # (B,)

    @property
    def inputs(self) -> Tensor:
        """What the decoder is fed: the end token, then the target without its last. (B, I)"""
        return torch.cat([torch.full_like(self.target[:, :1], EOS), self.target[:, :-1]], dim=1)


def make_batch(
    sources: Sequence[Sequence[int]],
    targets: Sequence[Sequence[int]],
    device: torch.device | str | None = None,
) -> Batch:
    """Pad token lists (end tokens included) into a batch."""
    source, source_length = pad(sources, device)
    target, target_length = pad(targets, device)
    return Batch(source, source_length, target, target_length)


def pad(lists: Sequence[Sequence[int]], device: Any = None) -> tuple[Tensor, Tensor]:
    """Token lists side by side. -> (B, longest), (B,)"""
    lengths = torch.tensor([len(x) for x in lists], dtype=torch.long)
    full = torch.full((len(lists), int(lengths.max())), PAD, dtype=torch.long)
    for row, tokens in zip(full, lists, strict=True):
        row[: len(tokens)] = torch.as_tensor(tokens, dtype=torch.long)
    return full.to(device), lengths.to(device)


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
class Read:
    """Wait until this many source tokens have been read, or the source has ended."""

    until: int


@dataclass(frozen=True)
class Write:
    """The row of this pass (counted within the stream) that writes the next token."""

    row: int


@dataclass
class Plan:
    """Rows of one stream to compute in the next pass, as parallel lists."""

    targets: list[int]  # i, from 1
    moments: list[int]
    columns: list[int]
    copies: list[int] = field(default_factory=list)  # empty: all 1
    part: int = 0  # which of the system's Transformers computes them
    is_tentative: bool = False  # the rows are kept only if this pass ends in a write
    forgets: bool = False  # earlier rows of the stream will never be looked at again


@dataclass
class Stream:
    """One translation in progress: all that it needs, and all that its record will tell."""

    slot: int
    knobs: Any
    memory: Any = None  # what its system has to remember, typed by that system
    forced: list[int] | None = None  # target tokens to write instead of the model's own
    source: list[int] = field(default_factory=list)  # arrived, not necessarily read
    arrived_at: list[float] = field(default_factory=list)  # seconds, per source token
    is_finished: bool = False  # the source end token has arrived
    read: int = 0
    wants: int = 0  # tokens that must be read before the next pass
    target: list[int] = field(default_factory=list)
    reads: list[int] = field(default_factory=list)
    log_probs: list[float] = field(default_factory=list)
    written_at: list[float] = field(default_factory=list)
    states: list[dict[int, float]] = field(default_factory=list)  # per token: moment -> confidence
    has_ended: bool = False
    rows: list[int] = field(default_factory=list)  # rows cached, per part
    encoded: list[int] = field(default_factory=list)  # source tokens encoded, per part

    @property
    def is_complete(self) -> bool:
        """The source has been read to its end token: only now is its length known."""
        return self.is_finished and self.read == len(self.source)

    def note(self, token: int, moment: int, confidence: float) -> None:
        """Record that target token i was considered at a moment."""
        while len(self.states) < token:
            self.states.append({})
        self.states[token - 1][moment] = confidence


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
