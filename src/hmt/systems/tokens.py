"""Systems with one row per target token: the training pass and the read-then-write loop they share.

Shapes: B sentences, I target tokens, J source tokens, N rows of the batch, D width, V vocabulary.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from hmt.model.moments import NOBODY, Rows, plain_bias
from hmt.model.transformer import CrossAttention, Dims, Packing, SourceView, Transformer
from hmt.model.vocabulary import gold_log_prob, smoothed
from hmt.systems.system import Batch, Loss, Plan, Read, Stream, System


@dataclass(frozen=True)
class TokenPass:
    """A teacher-forced pass: packed rows in order of sentence and token."""

    states: Tensor  # (N, D)
    rows: Rows  # (B, I)
    is_real: Tensor  # (B, I) False where the target is padding
    told: list[Any]  # per layer, from the cross-attention


class TokenSystem(System):
    """One row per target token; a subclass says how much source each row sees, and when."""

    def __init__(self, config: Any, cross: Any = CrossAttention) -> None:
        super().__init__()
        self.config = config
        dims: Dims = config.dims
        self.transformer = Transformer(dims, cross)

    def moments(self, batch: Batch, knobs: Any) -> Tensor:
        """Source tokens that each target token sees in training. -> (B, I)"""
        return batch.source_length[:, None].expand(batch.target.shape)

    def columns(self, batch: Batch, knobs: Any) -> Tensor:
        """What else each row carries for its system. -> (B, I)"""
        return torch.zeros_like(batch.target)

    def needed(self, token: int, knobs: Any) -> int | None:
        """Source tokens that must be read to write y_token; None for all of them."""
        raise NotImplementedError

    def forward_tokens(self, batch: Batch, knobs: Any) -> TokenPass:
        """All rows of a batch in one pass."""
        size, steps = batch.target.shape
        index = torch.arange(steps, device=batch.target.device)
        is_real = index < batch.target_length[:, None]
        rows = Rows(
            target=(index + 1).expand(size, steps).masked_fill(~is_real, NOBODY),
            moment=self.moments(batch, knobs),
            column=self.columns(batch, knobs),
            log_copies=torch.zeros(size, steps, device=batch.target.device),
        )
        source = self.transformer.encode(batch.source).view(*batch.source.shape, -1)
        out = self.transformer.decode(
            batch.inputs,
            plain_bias(rows, rows, source.dtype),
            self.transformer.read(source),
            SourceView(rows, batch.source_length),
            Packing(size, steps, is_real.flatten().nonzero()[:, 0]),
        )
        return TokenPass(out.states, rows, is_real, out.told)

    def cross_entropy(self, batch: Batch, done: TokenPass) -> Tensor:
        """Label-smoothed negative log-likelihood of each sentence. -> (B,)"""
        gold, mean = gold_log_prob(
            done.states, self.transformer.output.weight, batch.target[done.is_real]
        )
        each = -smoothed(gold, mean, self.config.label_smoothing)
        return (
            torch.zeros(done.is_real.shape, dtype=each.dtype, device=each.device)
            .masked_scatter(done.is_real, each)
            .sum(1)
        )

    def losses(self, batch: Batch, knobs: Any) -> Loss:
        total = self.cross_entropy(batch, self.forward_tokens(batch, knobs))
        return Loss(total, {"cross_entropy": total})

    def plan(self, stream: Stream) -> Plan | Read:
        """Read what the next token needs, then compute its row."""
        token = len(stream.target) + 1
        needed = self.needed(token, stream.knobs)
        if not stream.is_complete and (needed is None or stream.read < needed):
            return Read(stream.read + 1 if needed is None else needed)
        moment = stream.read if needed is None else min(needed, stream.read)
        return Plan([token], [moment], [self.column(stream)])

    def column(self, stream: Stream) -> int:
        """What else the row of the next token carries."""
        return 0
