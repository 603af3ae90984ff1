"""MoE wait-k (Zhang & Feng 2021): each cross-attention head is an expert with a lag of its own.

Shapes: B sentences, Q rows (padded), N rows (packed), J source tokens, H heads, D width.

Expert h of lag k_h sees min(min(k_h, k) + i - 1, J) source tokens of the min(k + i - 1, J) that are
read.  A gate weights the experts by the attention that each would get, and by k.  Training has two
stages: first without the gate, then everything with it.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import torch
from torch import Tensor, nn

from hmt.errors import UserError
from hmt.model.attention import CrossAttention, Look
from hmt.model.dims import Dims
from hmt.model.passes import Pass
from hmt.model.rows import Rows, source_bias
from hmt.systems.batch import Batch
from hmt.systems.multipath import VALIDATION_LAGS, draw_lag
from hmt.systems.token_system import TokenSystem
from hmt.systems.wait_k import WaitKKnobs

LONGEST_LAG = 16
LAG_UNIT = 10  # the gate is given k / 10, as in the authors' code


def expert_lags(heads: int) -> tuple[int, ...]:
    """Lags spread over 1..16; the authors' own for 4, 8 and 16 heads."""
    if heads == 8:
        return tuple(range(1, LONGEST_LAG, 2))
    step = (LONGEST_LAG - 1) / max(heads - 1, 1)
    return tuple(round(LONGEST_LAG - step * h) for h in reversed(range(heads)))


@dataclass(frozen=True)
class MoEWaitKConfig:
    dims: Dims
    lags: tuple[int, ...] = ()  # k_h, one per head; empty: spread over 1..16
    gate: bool = True  # false in the first stage: all experts count alike
    label_smoothing: float = 0.1

    def __post_init__(self) -> None:
        if self.lags and len(self.lags) != self.dims.heads:
            raise UserError(
                f"lags = {list(self.lags)} for {self.dims.heads} heads: give one lag per head, "
                "or leave lags out."
            )
        if any(lag < 1 for lag in self.lags):
            raise UserError(f"lags = {list(self.lags)}: every lag must be 1 or more.")


class ExpertAttention(CrossAttention):
    """Cross-attention whose heads see different spans and are weighted by a gate."""

    def __init__(self, dims: Dims, lags: tuple[int, ...], has_gate: bool) -> None:
        super().__init__(dims)
        self.lags = lags
        self.gate = nn.Linear(dims.heads + 1, dims.heads) if has_gate else None

    def look(
        self,
        x: Tensor,
        query: Tensor,
        kept: Sequence[Tensor],
        at: Pass,
        register: Tensor | None,
    ) -> Look:
        """Every expert looks at its own span, weighted by the gate."""
        keys = kept[0]
        spans = self.spans(at.rows)
        bias = source_bias(spans, keys.shape[2], x.dtype)  # (B, H, Q, J)
        if self.gate is None:
            return Look(bias)
        return Look(bias, shares=self.shares(query, keys, spans, at))

    def spans(self, rows: Rows) -> Tensor:
        """Source tokens that each expert sees: k_h + i - 1, at most what is read. -> (B, H, Q)"""
        lags = torch.tensor(self.lags, device=rows.target.device)[:, None]
        return (lags + rows.target[:, None] - 1).minimum(rows.moment[:, None])

    def shares(self, query: Tensor, keys: Tensor, spans: Tensor, at: Pass) -> Tensor:
        """G = H softmax(tanh(W [s_1..s_H, k/10] + b)), which sums to H.

        (B, H, Q, D / H), (B, H, J, D / H), (B, H, Q) -> (B, Q, H)

        s_h is the mean attention that expert h's span gets from a head that sees all that is read.
        """
        assert self.gate is not None
        scores = query @ keys.transpose(-1, -2) / query.shape[-1] ** 0.5  # (B, H, Q, J)
        if at.source_bias is not None:
            scores = scores + at.source_bias
        inside = torch.arange(keys.shape[2], device=spans.device) < spans[..., None]
        means = (scores.softmax(-1) * inside).sum(-1) / spans  # (B, H, Q)
        lag = (at.setting.to(means.dtype) / LAG_UNIT)[:, None, None].expand(-1, means.shape[2], 1)
        logits: Tensor = self.gate(torch.cat([means.transpose(1, 2), lag], dim=-1)).tanh()
        return self.heads * logits.softmax(-1)


class MoEWaitK(TokenSystem[MoEWaitKConfig, WaitKKnobs, None]):
    """Multipath with experts: k ~ U{1..J} per batch; any k at inference."""

    name: ClassVar[str] = "moe-wait-k"
    Config: ClassVar[type] = MoEWaitKConfig
    Knobs: ClassVar[type] = WaitKKnobs

    def __init__(self, config: MoEWaitKConfig) -> None:
        lags = config.lags or expert_lags(config.dims.heads)
        super().__init__(config, partial(ExpertAttention, lags=lags, has_gate=config.gate))

    def sample(self, draw: random.Random, batch: Batch) -> WaitKKnobs:
        return WaitKKnobs(k=draw_lag(draw, batch))

    def validation_knobs(self) -> list[WaitKKnobs]:
        return [WaitKKnobs(k=k) for k in VALIDATION_LAGS]

    def needed(self, token: int, knobs: WaitKKnobs) -> int | None:
        return knobs.k + token - 1

    def refreshes(self, knobs: WaitKKnobs) -> bool:
        return knobs.refresh

    def attention_setting(self, knobs: WaitKKnobs) -> float:
        return knobs.k
