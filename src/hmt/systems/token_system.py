"""Systems with one row per target token: the training pass and the read-then-write loop they share.

Shapes: B sentences, I target tokens, J source tokens, N rows of the batch, D width, V vocabulary.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from hmt.model.attention import CrossAttention, Report, ReportT, reports_of
from hmt.model.dims import Dims
from hmt.model.passes import Packing, whole_pass
from hmt.model.rows import NOBODY, Row, Rows, plain_bias
from hmt.model.transformer import Transformer
from hmt.model.vocabulary import gold_log_prob, smoothed
from hmt.systems.batch import Batch
from hmt.systems.contract import Loss, System
from hmt.systems.parameters import ConfigT, KnobsT, MemoryT
from hmt.systems.stream import Plan, Read, Stream

ALL = 2**30  # more source tokens than any sentence has


@dataclass(frozen=True)
class TokenPass:
    """A teacher-forced pass: packed rows in order of sentence and token."""

    hidden: Tensor  # (N, D)
    is_real: Tensor  # (B, I) False where the target is padding
    reports: list[Report]  # of the cross-attention, per layer
    transformer: Transformer

    def spread(self, values: Tensor) -> Tensor:
        """One value per row in its place, zero where the target is padding. (N,) -> (B, I)"""
        full = torch.zeros(self.is_real.shape, dtype=values.dtype, device=values.device)
        return full.masked_scatter(self.is_real, values)

    def reported(self, kind: type[ReportT]) -> list[ReportT]:
        """The layers' reports, all of this type, which is the system's own."""
        return reports_of(kind, self.reports)


class TokenSystem(System[ConfigT, KnobsT, MemoryT]):
    """One row per target token; a subclass defines how much source each row sees, and when."""

    def __init__(
        self, config: ConfigT, cross: Callable[[Dims], CrossAttention] = CrossAttention
    ) -> None:
        super().__init__()
        self.config = config
        self.transformer = Transformer(config.dims, cross)

    def needed(self, token: int, knobs: KnobsT) -> int | None:
        """Source tokens that must be read to write y_token; None for all of them."""
        return None

    def refreshes(self, knobs: KnobsT) -> bool:
        """Whether each step recomputes the whole target prefix with all source read so far."""
        return False

    # ---- training

    def forward_tokens(self, batch: Batch, knobs: KnobsT, reads: Tensor | None = None) -> TokenPass:
        """All rows of a batch: as in training, or with given reads (B, I) as in streaming."""
        if reads is None:
            moments = scheduled(batch, lambda token: self.needed(token, knobs))
        else:
            moments = reads
        setting = self.attention_setting(knobs)
        return self.forward_at(batch, moments, setting, is_streaming=reads is not None)

    def forward_at(
        self,
        batch: Batch,
        moments: Tensor,
        setting: float = 0.0,
        is_streaming: bool = False,
        transformer_index: int = 0,
    ) -> TokenPass:
        """All rows of a batch in one pass, each seeing the source up to its moment (B, I)."""
        transformer = self.transformers[transformer_index]
        size, steps = batch.target.shape
        index = torch.arange(steps, device=batch.target.device)
        is_real = index < batch.target_length[:, None]
        target = (index + 1).expand(size, steps).masked_fill(~is_real, NOBODY)
        rows = Rows.of(target, moments)
        source = transformer.encode_batch(batch.source, batch.source_length)
        registers: tuple[Tensor, ...] = ()
        if is_streaming and self.register_shape is not None:
            precise = torch.promote_types(source.dtype, torch.float32)
            start = source.new_zeros(size, *self.register_shape, dtype=precise)
            registers = (start,) * len(transformer.decoder)
        at = whole_pass(
            rows,
            plain_bias(rows, rows, source.dtype),
            Packing.where(is_real),
            source,
            batch.source_length,
            setting=setting,
            registers=registers,
            is_streaming=is_streaming,
        )
        out = transformer.decode(batch.inputs[is_real], transformer.read(source), at)
        return TokenPass(out.hidden, is_real, out.reports, transformer)

    def gold(self, batch: Batch, done: TokenPass) -> tuple[Tensor, Tensor]:
        """log p(y_i) of each row and the mean over the vocabulary. -> (N,) twice"""
        gold = batch.target[done.is_real]
        return gold_log_prob(done.hidden, done.transformer.output.weight, gold)

    def cross_entropy(self, batch: Batch, done: TokenPass) -> Tensor:
        """Label-smoothed negative log-likelihood of each sentence. -> (B,)"""
        each = -smoothed(*self.gold(batch, done), self.config.label_smoothing)
        return done.spread(each).sum(1)

    def loss(self, batch: Batch, knobs: KnobsT) -> Loss:
        total = self.cross_entropy(batch, self.forward_tokens(batch, knobs))
        return Loss(total, {"cross_entropy": total})

    def score(self, batch: Batch, knobs: KnobsT, reads: Tensor) -> Tensor:
        done = self.forward_tokens(batch, knobs, reads)
        return done.spread(self.gold(batch, done)[0])

    # ---- streaming

    def plan(self, stream: Stream[KnobsT, MemoryT]) -> Plan | Read:
        """Read what the next token needs, then compute its row."""
        token = stream.next_token
        needed = self.needed(token, stream.knobs)
        if not stream.source_read and (needed is None or stream.read < needed):
            return Read(stream.read + 1 if needed is None else needed)
        moment = stream.read if needed is None else min(needed, stream.read)
        if self.refreshes(stream.knobs):
            return Plan([Row(i, moment) for i in range(1, token + 1)], drops_earlier_rows=True)
        return Plan([Row(token, moment)])


def scheduled(batch: Batch, needed: Callable[[int], int | None]) -> Tensor:
    """The moment that each target token needs, at most the source length. -> (B, I)"""
    schedule = [needed(token) or ALL for token in range(1, batch.target.shape[1] + 1)]
    moments = torch.tensor(schedule, device=batch.target.device)
    return moments.minimum(batch.source_length[:, None])


def trial_plan(stream: Stream[KnobsT, MemoryT], first: int = 1) -> Plan | Read:
    """The next token's row, seeing all that was read, once that is `first` tokens or everything.

    The row is kept only if it writes.
    """
    if stream.read < first and not stream.source_read:
        return Read(first)
    return Plan([Row(stream.next_token, stream.read)], drops_unless_written=True)
