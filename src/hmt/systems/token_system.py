"""Systems with one row per target token: the training pass and the read-then-write loop they share.

Shapes: B sentences, I target tokens, J source tokens, N rows of the batch, D width, V vocabulary.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from hmt.model.attention import CrossAttention, Packing, SourceView
from hmt.model.dims import Dims
from hmt.model.rows import NOBODY, Rows, plain_bias
from hmt.model.transformer import Transformer
from hmt.model.vocabulary import gold_log_prob, smoothed
from hmt.systems.batch import Batch
from hmt.systems.contract import Loss, System
from hmt.systems.stream import Plan, Read, Stream

ALL = 2**30  # more source tokens than any sentence has


@dataclass(frozen=True)
class TokenPass:
    """A teacher-forced pass: packed rows in order of sentence and token."""

    states: Tensor  # (N, D)
    rows: Rows  # (B, I)
    is_real: Tensor  # (B, I) False where the target is padding
    told: list[Any]  # per layer, from the cross-attention
    transformer: Transformer

    def spread(self, values: Tensor) -> Tensor:
        """One value per row in its place, zero where the target is padding. (N,) -> (B, I)"""
        full = torch.zeros(self.is_real.shape, dtype=values.dtype, device=values.device)
        return full.masked_scatter(self.is_real, values)


class TokenSystem(System):
    """One row per target token; a subclass says how much source each row sees, and when."""

    def __init__(self, config: Any, cross: Any = CrossAttention) -> None:
        super().__init__()
        self.config = config
        dims: Dims = config.dims
        self.transformer = Transformer(dims, cross)

    def moments(self, batch: Batch, knobs: Any) -> Tensor:
        """Source tokens that each target token sees in training: those it needs. -> (B, I)"""
        tokens = range(1, batch.target.shape[1] + 1)
        needed = [self.needed(token, knobs) or ALL for token in tokens]
        schedule = torch.tensor(needed, device=batch.target.device)
        return schedule.minimum(batch.source_length[:, None])

    def columns(self, batch: Batch, knobs: Any) -> Tensor:
        """What else each row carries for its system. -> (B, I)"""
        return torch.zeros_like(batch.target)

    def needed(self, token: int, knobs: Any) -> int | None:
        """Source tokens that must be read to write y_token; None for all of them."""
        return None

    def forward_tokens(
        self, batch: Batch, knobs: Any, moments: Tensor | None = None, part: int = 0
    ) -> TokenPass:
        """All rows of a batch in one pass, at the moments of training or at others (B, I)."""
        transformer = self.parts[part]
        size, steps = batch.target.shape
        index = torch.arange(steps, device=batch.target.device)
        is_real = index < batch.target_length[:, None]
        rows = Rows(
            target=(index + 1).expand(size, steps).masked_fill(~is_real, NOBODY),
            moment=self.moments(batch, knobs) if moments is None else moments,
            column=self.columns(batch, knobs),
        )
        source = transformer.encode_batch(batch.source, batch.source_length)
        precise = torch.promote_types(source.dtype, torch.float32)
        registers = None
        if moments is not None and self.register_shape is not None:  # it goes as in streaming
            start = source.new_zeros(size, *self.register_shape, dtype=precise)
            registers = [start] * len(transformer.decoder)
        out = transformer.decode(
            batch.inputs,
            plain_bias(rows, rows, source.dtype),
            transformer.read(source),
            SourceView(
                rows,
                batch.source_length,
                complete=torch.ones_like(batch.source_length, dtype=torch.bool),
                dial=batch.source_length.new_full((size,), self.dial(knobs), dtype=precise),
            ),
            Packing(size, steps, is_real.flatten().nonzero()[:, 0]),
            registers,
        )
        return TokenPass(out.states, rows, is_real, out.told, transformer)

    def gold(self, batch: Batch, done: TokenPass) -> tuple[Tensor, Tensor]:
        """log p(y_i) of each row and the mean over the vocabulary. -> (N,) twice"""
        gold = batch.target[done.is_real]
        return gold_log_prob(done.states, done.transformer.output.weight, gold)

    def cross_entropy(self, batch: Batch, done: TokenPass) -> Tensor:
        """Label-smoothed negative log-likelihood of each sentence. -> (B,)"""
        each = -smoothed(*self.gold(batch, done), self.config.label_smoothing)
        return done.spread(each).sum(1)

    def losses(self, batch: Batch, knobs: Any) -> Loss:
        total = self.cross_entropy(batch, self.forward_tokens(batch, knobs))
        return Loss(total, {"cross_entropy": total})

    def score(self, batch: Batch, knobs: Any, reads: Tensor) -> Tensor:
        done = self.forward_tokens(batch, knobs, reads)
        return done.spread(self.gold(batch, done)[0])

    def plan(self, stream: Stream) -> Plan | Read:
        """Read what the next token needs, then compute its row."""
        token = len(stream.target) + 1
        needed = self.needed(token, stream.knobs)
        if not stream.is_complete and (needed is None or stream.read < needed):
            return Read(stream.read + 1 if needed is None else needed)
        moment = stream.read if needed is None else min(needed, stream.read)
        if getattr(stream.knobs, "refresh", False):
            columns = [self.column(stream)] * token
            return Plan([*range(1, token + 1)], [moment] * token, columns, forgets=True)
        return Plan([token], [moment], [self.column(stream)])

    def column(self, stream: Stream) -> int:
        """What else the row of the next token carries."""
        return 0


def tentative_plan(stream: Stream) -> Plan | Read:
    """The next token's row on all that has been read; it counts only if it comes to write."""
    if stream.read == 0:
        return Read(1)
    return Plan([len(stream.target) + 1], [stream.read], [0], is_tentative=True)
