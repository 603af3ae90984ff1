"""Information transport (Zhang & Feng, EMNLP 2022): write once enough information has arrived.

Shapes: B sentences or streams, Q rows (I target tokens in training), J source tokens, N packed
rows, L layers, D width, H heads.

Each layer predicts how much information T_ij source token j transports to target token i.  The
transport multiplies the attention, two losses teach it to sum to one per target token and to come
from near the diagonal, and y_i is written once every layer has received `threshold` of it.

The equations are those of the authors' public code.  Its training threshold falls from 1 towards
`lowest` during training, after a first phase that sees the whole source.  Here every batch draws
its threshold between the same limits, and some batches see the whole source: the same thresholds in
random order, so that at any time the model is trained for its full range of thresholds.
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
from hmt.model.delays import real_tokens
from hmt.model.dims import Dims
from hmt.model.passes import Pass
from hmt.model.rows import Rows, source_bias
from hmt.model.vocabulary import at_least_float32
from hmt.systems.batch import Batch
from hmt.systems.contract import Loss, PassOutput
from hmt.systems.stream import Plan, Read, Stream, Write
from hmt.systems.token_system import TokenSystem, trial_plan

# Added to every transport, as in the authors' code: no source token is cut off entirely.
LEAST = 1e-4
# Source tokens that must be read before anything is written; the last of them does not count yet.
FIRST = 2


@dataclass(frozen=True)
class ITSTConfig:
    dims: Dims
    lowest: float = 0.5  # training draws its thresholds between this and 1
    whole_share: float = 0.1  # of the training batches that see the whole source
    latency_weight: float = 1.0
    normalisation_weight: float = 1.0
    label_smoothing: float = 0.1

    def __post_init__(self) -> None:
        for name, value in (("lowest", self.lowest), ("whole_share", self.whole_share)):
            if not 0 <= value <= 1:
                raise UserError(f"{name} = {value}: give a number from 0 to 1.")


@dataclass(frozen=True)
class ITSTKnobs:
    threshold: float = 0.5  # information that suffices to write; near 1 only the end suffices

    def __post_init__(self) -> None:
        if not self.threshold >= 0:
            raise UserError(f"threshold = {self.threshold}: information cannot be below 0.")


@dataclass(frozen=True, kw_only=True)
class Transported(Report):
    """What a layer reports."""

    transport: Tensor  # (B, Q, J) T
    received: Tensor  # (B, Q) information from what each row sees, its last token excepted


class Transport(CrossAttention):
    """Cross-attention multiplied by the transport, which all heads of a layer share."""

    def __init__(self, dims: Dims) -> None:
        super().__init__(dims)
        self.transport_query = nn.Linear(dims.width, dims.width)
        self.transport_project = nn.Linear(dims.width, dims.width)

    def keep(self, h: Tensor) -> Tensor:
        return torch.cat([self.project(h), self.transport_project(h)], dim=-1)

    def look(
        self,
        x: Tensor,
        query: Tensor,
        kept: Sequence[Tensor],
        at: Pass,
        register: Tensor | None,
    ) -> Look:
        """Attention times transport, normalised; in training up to where the threshold is reached.

        Adding log T to the scores is the same as multiplying the softmax by T and normalising.
        """
        transport = self.transport(at.packing.unpack(self.transport_query(x)), join_heads(kept[2]))
        seen = at.rows.moment
        if not at.is_streaming:
            seen = spans(transport.detach(), at.setting, at.rows)
        bias = transport.log() + source_bias(seen, transport.shape[-1], transport.dtype)
        report = Transported(transport=transport, received=received(transport, at.rows.moment))
        return Look(bias[:, None].to(query.dtype), report=report)

    def transport(self, query: Tensor, keys: Tensor) -> Tensor:
        """T = sigmoid(q . k / sqrt(D / H)) over the whole width. (B, Q, D), (B, J, D) -> (B, Q, J)

        The authors scale by the width of one head although the product spans them all.
        """
        scale = (query.shape[-1] // self.heads) ** -0.5
        return at_least_float32(query @ keys.transpose(-1, -2) * scale).sigmoid() + LEAST


def received(transport: Tensor, moment: Tensor) -> Tensor:
    """Information from the tokens before the last one seen. (B, Q, J), (B, Q) -> (B, Q)

    What the newest token transports is not reliable before the next one has been read.
    """
    counts = torch.arange(transport.shape[-1], device=moment.device) < moment[..., None] - 1
    return (transport * counts).sum(-1)


def spans(transport: Tensor, threshold: Tensor, rows: Rows) -> Tensor:
    """Source tokens that rows see in training. (B, Q, J), (B,), rows (B, Q) -> (B, Q)

    Up to the token that reaches the threshold and one more, as in streaming; never less than an
    earlier row, nor than i + 1.
    """
    is_short = transport.cumsum(-1) < threshold[:, None, None]
    asked = is_short.sum(-1) + 2  # the token that reaches it, and the newest, uncounted one
    return asked.cummax(1).values.maximum(rows.target + 1).minimum(rows.moment)


def normalised(transport: Tensor, source_length: Tensor) -> tuple[Tensor, Tensor]:
    """Transport from real source tokens, and the same with rows that sum to one.

    (B, L, I, J), (B,) -> same, twice
    """
    real = real_tokens(source_length, transport.shape[-1])[:, None, None]
    transport = transport * real
    return transport, transport / transport.sum(-1, keepdim=True)


def latency_cost(batch: Batch) -> Tensor:
    """max(|j - i J / I| - 1, 0) / (I J): far from the diagonal is expensive. -> (B, I, J)"""
    source, target = (n[:, None, None] for n in (batch.source_length, batch.target_length))
    i = torch.arange(1, batch.target.shape[1] + 1, device=source.device)[:, None]
    j = torch.arange(1, batch.source.shape[1] + 1, device=source.device)
    return ((j - i * source / target).abs() - 1).clamp(min=0) / (source * target)


def transport_losses(transport: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
    """Latency of each sentence, and the distance of its transport from normalised. -> (B,) twice

    (B, L, I, J).  Latency is the cost of the normalised transport, the mean over layers; the other
    is the distance of transport and normalised transport, over all layers and tokens.  The authors
    take this distance over a whole batch; here it does not depend on what else is in the batch.
    """
    is_real = real_tokens(batch.target_length, transport.shape[2])[:, None, :, None]
    transport, share = normalised(transport, batch.source_length)
    cost = (share * is_real * latency_cost(batch)[:, None]).sum((2, 3)).mean(1)
    return cost, ((transport - share) * is_real).flatten(1).norm(dim=1)


class ITST(TokenSystem[ITSTConfig, ITSTKnobs, None]):
    name: ClassVar[str] = "itst"
    Config: ClassVar[type] = ITSTConfig
    Knobs: ClassVar[type] = ITSTKnobs

    def __init__(self, config: ITSTConfig) -> None:
        super().__init__(config, Transport)

    def attention_setting(self, knobs: ITSTKnobs) -> float:
        return knobs.threshold

    def sample(self, draw: random.Random, batch: Batch) -> ITSTKnobs:
        """A threshold between the lowest and 1, or the whole source."""
        is_whole = draw.random() < self.config.whole_share
        threshold = draw.uniform(self.config.lowest, 1.0)
        return ITSTKnobs(threshold=math.inf if is_whole else threshold)

    def validation_knobs(self) -> list[ITSTKnobs]:
        lowest = self.config.lowest
        return [ITSTKnobs(threshold=value) for value in (lowest, (lowest + 1) / 2, 1.0)]

    def loss(self, batch: Batch, knobs: ITSTKnobs) -> Loss:
        done = self.forward_tokens(batch, knobs)
        cross_entropy = self.cross_entropy(batch, done)
        transport = torch.stack([r.transport for r in done.reported(Transported)], dim=1)
        latency, excess = transport_losses(transport, batch)
        total = cross_entropy + self.config.latency_weight * latency
        total = total + self.config.normalisation_weight * excess
        terms = {"cross_entropy": cross_entropy, "latency": latency, "normalisation": excess}
        return Loss(total, terms)

    def inspect(self, batch: Batch, knobs: ITSTKnobs) -> list[dict[str, list[list[float]]]]:
        """How much each source token transports to each target token, the mean over layers."""
        reports = self.forward_tokens(batch, knobs).reported(Transported)
        transport = torch.stack([report.transport for report in reports]).mean(0)
        lengths = zip(batch.target_length.tolist(), batch.source_length.tolist(), strict=True)
        return [
            {"transport": own[:i, :j].tolist()}
            for own, (i, j) in zip(transport, lengths, strict=True)
        ]

    def plan(self, stream: Stream[ITSTKnobs, None]) -> Plan | Read:
        return trial_plan(stream, FIRST)

    def decide(
        self, streams: Sequence[Stream[ITSTKnobs, None]], plans: Sequence[Plan], output: PassOutput
    ) -> list[Read | Write]:
        """Write once the layer that received least has received enough, or all is read."""
        layers = [report.received[:, -1] for report in output.reported(Transported)]
        least = torch.stack(layers, dim=1).amin(1).tolist()
        decisions: list[Read | Write] = []
        for stream, plan, information in zip(streams, plans, least, strict=True):
            writes = stream.source_read or information >= stream.knobs.threshold
            nearness = 1.0 if writes else information / stream.knobs.threshold
            stream.note(plan.rows[0].target, stream.read, nearness)
            decisions.append(Write(0) if writes else Read(stream.read + 1))
        return decisions
