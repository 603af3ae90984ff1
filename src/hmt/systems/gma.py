"""Gaussian multi-head attention (Zhang & Feng, Findings of ACL 2022): predicted alignments.

Shapes: B sentences, Q rows (I target tokens in training), J source tokens, N packed rows, D width,
H heads.

For each target token, each layer predicts by how many source tokens the alignment advances; the sum
of these steps is the position P_i (from 0) that y_i is aligned to.  A Gaussian around P_i weights
the attention, and y_i sees the source up to P_i + delta: that is also when it can be written.
"""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from hmt.errors import UserError
from hmt.model.attention import CrossAttention, Look, Report, join_heads
from hmt.model.dims import Dims
from hmt.model.passes import Pass
from hmt.model.rows import NEVER
from hmt.model.vocabulary import at_least_float32
from hmt.systems.batch import Batch
from hmt.systems.contract import PassOutput
from hmt.systems.stream import Plan, Read, Stream, Write
from hmt.systems.token_system import TokenSystem, trial_plan

# The range of positions in the authors' code: the width of the Gaussian must not be zero, and no
# sentence is longer.
NEAREST, FARTHEST = 0.9, 1100.0


@dataclass(frozen=True)
class GMAConfig:
    dims: Dims
    # source tokens to wait for beyond the aligned position; a range is drawn from for each batch
    delta: float | tuple[float, float] = 1.0
    label_smoothing: float = 0.1

    def __post_init__(self) -> None:
        low, high = self.delta_range
        check_delta(low)
        if not low <= high:
            raise UserError(f"delta = [{low}, {high}] is an empty range; put the smaller first.")

    @property
    def delta_range(self) -> tuple[float, float]:
        return self.delta if isinstance(self.delta, tuple) else (self.delta, self.delta)


@dataclass(frozen=True)
class GMAKnobs:
    delta: float = 1.0  # may differ from that of training, at a price in quality

    def __post_init__(self) -> None:
        check_delta(self.delta)


def check_delta(delta: float) -> None:
    """Refuse a delta under which a row would see no source at all."""
    if not delta >= 0:
        raise UserError(f"delta = {delta}: the source tokens to wait for cannot be below 0.")


@dataclass(frozen=True, kw_only=True)
class Aligned(Report):
    """What a layer reports."""

    register: Tensor  # (B,) running sum after the last row
    position: Tensor  # (B, Q) P_i
    span: Tensor  # (B, Q) source tokens that the rows request


class Gaussian(CrossAttention):
    def __init__(self, dims: Dims) -> None:
        super().__init__(dims)
        self.hidden = nn.Linear(dims.width, dims.width, bias=False)  # W_p
        self.step = nn.Linear(dims.width, 1, bias=False)  # v_p

    def look(
        self,
        x: Tensor,
        query: Tensor,
        kept: Sequence[Tensor],
        at: Pass,
        register: Tensor | None,
    ) -> Look:
        """A Gaussian around the predicted position, up to the span that the row requests."""
        steps = at.packing.unpack(self.increments(at.packing.pack(join_heads(query))))[..., 0]
        steps = steps.masked_fill(at.rows.target == 1, 0.0)
        total = steps.cumsum(1)  # (B, Q)
        if register is not None:
            total = total + register[:, None]
        position = total.clamp(NEAREST, FARTHEST)
        span = spans(position, at.setting)
        bias = gaussian_bias(position, span.minimum(at.rows.moment), kept[0].shape[2])
        report = Aligned(register=total[:, -1].detach(), position=position, span=span)
        return Look(bias[:, None].to(query.dtype), report=report)

    def increments(self, query: Tensor) -> Tensor:
        """exp(v_p tanh(W_p z)) > 0 of the scaled query z; about 1 at first. (N, D) -> (N, 1)"""
        z = query * (query.shape[-1] // self.heads) ** -0.5
        exponent = at_least_float32(self.step(torch.tanh(self.hidden(z))))
        # a larger step would overflow, and this one already passes the farthest position
        return exponent.clamp(max=math.log(FARTHEST)).exp()


def spans(position: Tensor, delta: Tensor) -> Tensor:
    """Source tokens each row requests: ceil(P + delta). (B, Q), (B,) -> (B, Q) whole numbers"""
    return (position.detach() + delta[:, None]).ceil().long()


def gaussian_bias(position: Tensor, span: Tensor, length: int) -> Tensor:
    """Log of a Gaussian around P with deviation P / 2, cut off after the span.

    Added to attention scores it gives the normalised product of both. (B, Q) twice -> (B, Q, J)
    """
    place = torch.arange(length, device=position.device)
    far = (place - position[..., None]) / (position[..., None] / 2)
    return (-0.5 * far**2).masked_fill(place >= span[..., None], NEVER)


class GMA(TokenSystem[GMAConfig, GMAKnobs, None]):
    name: ClassVar[str] = "gma"
    Config: ClassVar[type] = GMAConfig
    Knobs: ClassVar[type] = GMAKnobs

    def __init__(self, config: GMAConfig) -> None:
        super().__init__(config, Gaussian)

    def default_knobs(self) -> dict[str, object]:
        low, high = self.config.delta_range
        return {"delta": (low + high) / 2}

    def doubts(self, knobs: GMAKnobs) -> list[str]:
        low, high = self.config.delta_range
        if low < high and not low <= knobs.delta <= high:
            return [f"delta = {knobs.delta} is outside the trained range of {low} to {high}."]
        return []

    def sample(self, draw: random.Random, batch: Batch) -> GMAKnobs:
        low, high = self.config.delta_range
        return GMAKnobs(delta=draw.uniform(low, high) if low < high else low)

    def validation_knobs(self) -> list[GMAKnobs]:
        """Both ends and the middle of what is drawn from."""
        low, high = self.config.delta_range
        return [GMAKnobs(delta=d) for d in dict.fromkeys((low, (low + high) / 2, high))]

    @property
    def register_shape(self) -> tuple[int, ...]:
        return ()

    def attention_setting(self, knobs: GMAKnobs) -> float:
        return knobs.delta

    def inspect(self, batch: Batch, knobs: GMAKnobs) -> list[dict[str, list[list[float]]]]:
        """The position that each layer aligns each token to, counted from 0."""
        reports = self.forward_tokens(batch, knobs).reported(Aligned)
        position = torch.stack([report.position for report in reports], dim=-1).tolist()
        lengths = batch.target_length.tolist()
        return [{"positions": rows[:n]} for rows, n in zip(position, lengths, strict=True)]

    def plan(self, stream: Stream[GMAKnobs, None]) -> Plan | Read:
        return trial_plan(stream)

    def decide(
        self, streams: Sequence[Stream[GMAKnobs, None]], plans: Sequence[Plan], output: PassOutput
    ) -> list[Read | Write]:
        """Read up to the span of the first layer that needs more; later layers depend on it."""
        layers = [report.span[:, -1] for report in output.reported(Aligned)]
        spans = torch.stack(layers, dim=1).tolist()
        decisions: list[Read | Write] = []
        for stream, plan, asked in zip(streams, plans, spans, strict=True):
            more = [n for n in asked if n > stream.read and not stream.source_read]
            stream.note(plan.rows[0].target, stream.read, 0.0 if more else 1.0)
            decisions.append(Read(more[0]) if more else Write(0))
        return decisions
