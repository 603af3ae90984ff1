"""Monotonic multihead attention (Ma et al., ICLR 2020): every head is a pointer into the source.

Shapes: B sentences, H heads, Q rows (I target tokens in training), J source tokens, N packed rows,
D width.

A head stands at a source token and, for each target token, stops there or moves on, with a
probability that it computes.  Training uses the expected alignment of this process, inference
stops where the probability passes a threshold.  A token is written once all heads have stopped.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hmt.errors import UserError
from hmt.model import lattice
from hmt.model.attention import CrossAttention, Look, Report, split_heads
from hmt.model.delays import differentiable_average_lagging, expected_moment, real_tokens
from hmt.model.dims import Dims
from hmt.model.passes import Pass
from hmt.model.rows import NEVER
from hmt.model.vocabulary import at_least_float32
from hmt.systems.batch import Batch
from hmt.systems.contract import Loss, PassOutput, doubts_of_threshold
from hmt.systems.stream import Plan, Read, Stream, Write
from hmt.systems.token_system import TokenPass, TokenSystem, trial_plan

KINDS = ("lookback", "hard")


@dataclass(frozen=True)
class MMAConfig:
    dims: Dims
    kind: str = "lookback"  # soft attention from the pointer backwards (IL), or "hard" (H)
    latency_weight: float = 0.1  # lambda of the average delay; the paper has 0 with "hard"
    variance_weight: float = 0.0  # lambda of the heads' divergence; the paper has 0 with "lookback"
    noise: float = 1.0  # standard deviation added to stopping energies in training
    label_smoothing: float = 0.1

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise UserError(f'kind "{self.kind}" is unknown; it is "lookback" or "hard".')


@dataclass(frozen=True)
class MMAKnobs:
    threshold: float = 0.5  # a head stops where its stopping probability reaches this


@dataclass(frozen=True, kw_only=True)
class Expected(Report):
    """What a layer reports of a training pass."""

    delay: Tensor  # (B, H, I) expected number of source tokens up to the pointer


@dataclass(frozen=True, kw_only=True)
class Pointers(Report):
    """What a layer reports of a streaming pass."""

    register: Tensor  # (B, H) where the heads stand after the last row, from 0
    needs: Tensor  # (B, H) the head has not stopped within what was read


class Monotonic(CrossAttention):
    """Cross-attention of one layer; "hard" uses the keys of `project` for stopping as well."""

    def __init__(self, dims: Dims, kind: str, noise: float) -> None:
        super().__init__(dims)
        self.noise = noise
        self.looks_back = kind == "lookback"
        if self.looks_back:
            self.stop_query = nn.Linear(dims.width, dims.width)
            self.stop_project = nn.Linear(dims.width, dims.width)

    def keep(self, h: Tensor) -> Tensor:
        kept = self.project(h)
        return torch.cat([kept, self.stop_project(h)], dim=-1) if self.looks_back else kept

    def look(
        self,
        x: Tensor,
        query: Tensor,
        kept: Sequence[Tensor],
        at: Pass,
        register: Tensor | None,
    ) -> Look:
        """The expected alignment in training; in streaming the pointers move on from `register`."""
        soft = self.scores(query, kept[0])
        stop = self.stop_scores(x, kept[2], at) if self.looks_back else soft
        if not at.is_streaming:
            log_alpha = expected_alignment(self.disturbed(stop), at.source_length)
            weights = look_back(log_alpha, soft, at.source_length) if self.looks_back else log_alpha
            delay = expected_moment(log_alpha.exp())
            return Look(weights=weights.exp(), report=Expected(delay=delay))
        assert register is not None
        stops = stop.sigmoid() >= at.setting[:, None, None, None]
        pointer, needs = move(stops, register.long(), at.rows.moment)
        needs = needs[..., -1] & ~at.source_read[:, None]
        report = Pointers(register=pointer[..., -1], needs=needs)
        return Look(weights=self.point(soft, pointer), report=report)

    def scores(self, query: Tensor, keys: Tensor) -> Tensor:
        """Scaled products per head. (B, H, Q, D / H), (B, H, J, D / H) -> (B, H, Q, J)"""
        scaled: Tensor = at_least_float32(query @ keys.transpose(-1, -2)) * query.shape[-1] ** -0.5
        return scaled

    def stop_scores(self, x: Tensor, keys: Tensor, at: Pass) -> Tensor:
        """Logits to stop, where they are not those of attention. (N, D) -> (B, H, Q, J)"""
        query = split_heads(at.packing.unpack(self.stop_query(x)), self.heads)
        return self.scores(query, keys)

    def disturbed(self, stop: Tensor) -> Tensor:
        """Add noise that drives stopping probabilities towards 0 and 1, as inference uses them."""
        return stop + self.noise * torch.randn_like(stop) if self.training else stop

    def point(self, soft: Tensor, pointer: Tensor) -> Tensor:
        """Attention of heads that have stopped. (B, H, Q, J), (B, H, Q) -> (B, H, Q, J)"""
        place = torch.arange(soft.shape[-1], device=soft.device)
        if self.looks_back:
            return soft.masked_fill(place > pointer[..., None], NEVER).softmax(-1)
        return (place == pointer[..., None]).to(soft.dtype)


def expected_alignment(stop: Tensor, length: Tensor) -> Tensor:
    """log P(head stands at j for token i) from stopping logits. (B, H, I, J), (B,) -> same

    The pointer of token i starts where that of token i - 1 stopped; at the end of the source it
    stops for certain, which keeps every row's mass at one.
    """
    flat = stop.flatten(0, 1)
    last = length.repeat_interleave(stop.shape[1])[:, None].expand(flat.shape[:2])
    write, wait = lattice.moves(flat, torch.ones_like(last), last)
    return (lattice.arrive(write, wait) + write).view_as(stop)


def look_back(log_alpha: Tensor, soft: Tensor, length: Tensor) -> Tensor:
    """Log of the mean over pointers l of the softmax up to l. (B, H, I, J) twice, (B,) -> same

    beta_j = exp(u_j) sum_{l >= j} alpha_l / sum_{m <= l} exp(u_m), in logs: no sum can underflow.
    """
    beyond = torch.arange(soft.shape[-1], device=soft.device) >= length[:, None, None, None]
    soft = soft.masked_fill(beyond, NEVER)
    per_pointer = log_alpha - soft.logcumsumexp(-1)
    return soft + per_pointer.flip(-1).logcumsumexp(-1).flip(-1)


def move(stops: Tensor, start: Tensor, available: Tensor) -> tuple[Tensor, Tensor]:
    """Move every head to its next stop, row by row; one that finds none waits at the end.

    (B, H, Q, J) where a head would stop, (B, H) from 0, (B, Q) tokens that a row may look at
    -> pointers (B, H, Q), and whether they found no stop
    """
    place = torch.arange(stops.shape[-1], device=stops.device)
    stops = stops & (place < available[:, None, :, None])
    pointers, needs = [], []
    for row in range(stops.shape[2]):
        here = stops[:, :, row] & (place >= start[..., None])
        found = here.any(-1)
        end = (available[:, row, None] - 1).maximum(start)
        start = torch.where(found, here.byte().argmax(-1), end)
        pointers.append(start)
        needs.append(~found)
    return torch.stack(pointers, -1), torch.stack(needs, -1)


class MMA(TokenSystem[MMAConfig, MMAKnobs, None]):
    name: ClassVar[str] = "mma"
    Config: ClassVar[type] = MMAConfig
    Knobs: ClassVar[type] = MMAKnobs
    MOVABLE: ClassVar[frozenset[str]] = frozenset({"threshold"})

    def __init__(self, config: MMAConfig) -> None:
        super().__init__(config, partial(Monotonic, kind=config.kind, noise=config.noise))

    @property
    def register_shape(self) -> tuple[int, ...]:
        return (self.config.dims.heads,)

    def attention_setting(self, knobs: MMAKnobs) -> float:
        return knobs.threshold

    def doubts(self, knobs: MMAKnobs) -> list[str]:
        return doubts_of_threshold(knobs.threshold)

    def loss(self, batch: Batch, knobs: MMAKnobs) -> Loss:
        done = self.forward_tokens(batch, knobs)
        cross_entropy = self.cross_entropy(batch, done)
        delays = all_delays(done)
        average = differentiable_average_lagging(
            weighted_delay(delays), batch.source_length, batch.target_length
        )
        variance = head_divergence(delays, batch.target_length)
        total = cross_entropy + self.config.latency_weight * average
        total = total + self.config.variance_weight * variance
        terms = {"cross_entropy": cross_entropy, "latency": average, "variance": variance}
        return Loss(total, terms)

    def inspect(self, batch: Batch, knobs: MMAKnobs) -> list[dict[str, list[float]]]:
        """The expected delay of the most demanding head, per token."""
        delay = all_delays(self.forward_tokens(batch, knobs)).amax(1).tolist()
        lengths = batch.target_length.tolist()
        return [{"delay": row[:n]} for row, n in zip(delay, lengths, strict=True)]

    def plan(self, stream: Stream[MMAKnobs, None]) -> Plan | Read:
        return trial_plan(stream)

    def decide(
        self, streams: Sequence[Stream[MMAKnobs, None]], plans: Sequence[Plan], output: PassOutput
    ) -> list[Read | Write]:
        """Any head of any layer that has not stopped needs one more source token."""
        layers = [report.needs for report in output.reported(Pointers)]
        needs = torch.cat(layers, dim=1).double().mean(1).tolist()
        decisions: list[Read | Write] = []
        for stream, plan, share in zip(streams, plans, needs, strict=True):
            stream.note(plan.rows[0].target, stream.read, 1.0 - share)
            decisions.append(Read(stream.read + 1) if share > 0 else Write(0))
        return decisions


def all_delays(done: TokenPass) -> Tensor:
    """The expected delays of all heads of all layers. -> (B, layers x H, I)"""
    return torch.cat([report.delay for report in done.reported(Expected)], dim=1)


def weighted_delay(delays: Tensor) -> Tensor:
    """Mean over all heads, weighted towards large delays. (B, H, I) -> (B, I)"""
    return (F.softmax(delays, dim=1) * delays).sum(1)


def head_divergence(delays: Tensor, target_length: Tensor) -> Tensor:
    """Variance over all heads, mean over tokens. (B, H, I), (B,) -> (B,)"""
    variance = delays.var(1, correction=min(1, delays.shape[1] - 1))
    return (variance * real_tokens(target_length, delays.shape[2])).sum(1) / target_length
