"""Generative framework for simultaneous MT (Miao, Blunsom & Specia, EMNLP 2021), reconstructed.

Shapes: B sentences, I target tokens, J source tokens (moments), N cells of the batch, D width.

In cell (i, j) - about to produce y_i, having read j source tokens - the model reads or writes.
Training sums over all paths through this lattice.  In a cell the whole target prefix sees the first
j source tokens: a *column* is a sentence of its own, and after a READ the prefix is computed again.
The authors' code is not public: what is known of it is the sum over all policies and the Poisson
prior on delays; the rest is a reconstruction.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from hmt.errors import UserError
from hmt.model import lattice
from hmt.model.delays import divergence, expected_moment, poisson_hazards, real_tokens
from hmt.model.dims import Dims
from hmt.model.passes import Packing, whole_pass
from hmt.model.rows import NEVER, NOBODY, Row, Rows, source_bias
from hmt.model.transformer import Transformer
from hmt.model.vocabulary import gold_log_prob, smoothed
from hmt.systems.batch import Batch
from hmt.systems.contract import Loss, PassOutput, System, doubts_of_threshold
from hmt.systems.hmt_states import boundaries
from hmt.systems.stream import Plan, Read, Stream, Write

LATENCY = ("poisson", "delay")


@dataclass(frozen=True)
class GSiMTConfig:
    dims: Dims
    latency: str = "poisson"  # prior on delays, or "delay": the expected delay itself
    latency_weight: float = 1.0  # beta
    zeta: float = 2.0  # source tokens by which the prior lets a delay lag behind the diagonal
    state_weight: float = 1.0  # of every cell's own cross-entropy, which has the label smoothing
    label_smoothing: float = 0.1
    band: tuple[int, int] | None = None  # (lower, states): only moments lower + i - 1, ...

    def __post_init__(self) -> None:
        if self.latency not in LATENCY:
            raise UserError(f'latency "{self.latency}" is unknown; it is "poisson" or "delay".')
        if self.zeta < 0:
            raise UserError(f"zeta = {self.zeta}: the lag of the prior cannot be below 0.")
        if self.band is not None and min(self.band) < 1:
            raise UserError(f"band = {list(self.band)}: lower and states must be 1 or more.")

    def first(self, token: int) -> int:
        """The smallest moment at which y_token may be written."""
        return 1 if self.band is None else self.band[0] + token - 1

    def last(self, token: int) -> int | None:
        """The largest moment that y_token waits for; None if only the source's end limits it."""
        return None if self.band is None else self.band[0] + token + self.band[1] - 2


@dataclass(frozen=True)
class GSiMTKnobs:
    threshold: float = 0.5  # probability of writing that suffices to write


@dataclass
class GSiMTMemory:
    column: int = 0  # the moment that all cached rows of the stream see


GSiMTStream = Stream[GSiMTKnobs, GSiMTMemory]


@dataclass(frozen=True)
class Cells:
    """The lattice of a batch after a teacher-forced pass, each (B, I, J)."""

    exists: Tensor
    confidence: Tensor  # logit to write
    gold: Tensor  # log p(y_i | cell), NEVER where there is no cell
    mean: Tensor  # mean over the vocabulary of log p, 0 where there is no cell
    first: Tensor  # (B, I) moments between which y_i is written
    last: Tensor  # (B, I)


class GSiMT(System[GSiMTConfig, GSiMTKnobs, GSiMTMemory]):
    name: ClassVar[str] = "gsimt"
    Config: ClassVar[type] = GSiMTConfig
    Knobs: ClassVar[type] = GSiMTKnobs
    MOVABLE: ClassVar[frozenset[str]] = frozenset({"threshold"})
    Memory: ClassVar[type] = GSiMTMemory

    def __init__(self, config: GSiMTConfig) -> None:
        super().__init__()
        self.config = config
        self.transformer = Transformer(config.dims)
        self.write = nn.Linear(config.dims.width, 1)

    def doubts(self, knobs: GSiMTKnobs) -> list[str]:
        return doubts_of_threshold(knobs.threshold)

    # ---- training

    def moments(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """First and last moment of each target token. -> (B, I) twice"""
        length, steps = batch.source_length, batch.target.shape[1]
        if self.config.band is None:
            last = length[:, None].expand(-1, steps)
            return torch.ones_like(last), last
        lower, states = (torch.full_like(length, n) for n in self.config.band)
        return boundaries(lower, states, length, steps)

    def forward_cells(self, batch: Batch) -> Cells:
        """One pass over all columns."""
        steps, width = batch.target.shape[1], batch.source.shape[1]
        first, last = self.moments(batch)
        moment = torch.arange(1, width + 1, device=batch.source.device)[:, None]
        # A column's rows, also those above the band: later ones look at them. (B, J, I)
        computed = (moment >= first[:, None]) & (moment <= batch.source_length[:, None, None])
        computed = computed & real_tokens(batch.target_length, steps)[:, None]
        source = self.transformer.encode_batch(batch.source, batch.source_length)
        hidden = self.decode_columns(batch, source, computed)  # (N, D)
        exists = computed & (moment <= last[:, None])
        chosen = exists[computed]
        target = batch.target[:, None].expand(-1, width, -1)
        gold, mean = gold_log_prob(hidden[chosen], self.transformer.output.weight, target[exists])
        confidence = self.write(hidden)[chosen, 0].to(gold.dtype)

        def lay(values: Tensor, empty: float) -> Tensor:
            full = torch.full(exists.shape, empty, dtype=values.dtype, device=values.device)
            return full.masked_scatter(exists, values).transpose(1, 2)

        return Cells(
            exists.transpose(1, 2), lay(confidence, 0.0), lay(gold, NEVER), lay(mean, 0.0),
            first, last,
        )  # fmt: skip

    def decode_columns(self, batch: Batch, source: Tensor, computed: Tensor) -> Tensor:
        """Hidden vectors of the rows marked in (B, J, I). -> (N, D), in that order

        Beside the source the rows of a sentence stand in one rectangle, B x (J I); for
        self-attention each column is a sentence of its own, (B J) x I.
        """
        size, width, steps = computed.shape
        token = torch.arange(1, steps + 1, device=source.device)
        moment = torch.arange(1, width + 1, device=source.device)[:, None]
        rows = Rows.of(
            target=token.expand_as(computed).masked_fill(~computed, NOBODY).flatten(1),
            moment=moment.expand_as(computed).flatten(1),
        )
        index = computed.flatten().nonzero()[:, 0]
        at = whole_pass(
            rows,
            source_bias(token[None, None], steps, source.dtype),  # a row sees itself and earlier
            Packing(size, width * steps, index),
            source,
            batch.source_length,
            row_packing=Packing(size * width, steps, index),
        )
        tokens = batch.inputs[:, None].expand(-1, width, -1)[computed]
        return self.transformer.decode(tokens, self.transformer.read(source), at).hidden

    def loss(self, batch: Batch, knobs: GSiMTKnobs) -> Loss:
        cells = self.forward_cells(batch)
        write, wait = lattice.moves(cells.confidence, cells.first, cells.last)
        marginal = -lattice.log_likelihood(write + cells.gold, wait, batch.target_length)
        visits = lattice.arrive(write, wait)
        real = real_tokens(batch.target_length, batch.target.shape[1])
        diagonal = diagonal_delay(batch).to(write.dtype)
        if self.config.latency == "poisson":
            prior = poisson_hazards(
                diagonal + self.config.zeta, batch.source_length, write.shape[-1]
            )
            each = visits.exp() * (divergence(write, prior[0]) + divergence(wait, prior[1]))
            latency = (each * cells.exists).sum((1, 2))
        else:
            delay = expected_moment((visits + write).exp())
            latency = ((delay - diagonal) * real).sum(1) / batch.target_length
        log_prob = smoothed(cells.gold, cells.mean, self.config.label_smoothing)
        state = -(log_prob.masked_fill(~cells.exists, 0.0)).sum(-1)  # (B, I)
        state = (state / (cells.last - cells.first + 1)).sum(1)
        total = marginal + self.config.latency_weight * latency + self.config.state_weight * state
        return Loss(total, {"marginal": marginal, "latency": latency, "state": state})

    def score(self, batch: Batch, knobs: GSiMTKnobs, reads: Tensor) -> Tensor:
        cells = self.forward_cells(batch)
        gold = cells.gold.gather(2, (reads[..., None] - 1).clamp(min=0))[..., 0]
        return gold * real_tokens(batch.target_length, batch.target.shape[1])

    def inspect(self, batch: Batch, knobs: GSiMTKnobs) -> list[dict[str, list[list[float]]]]:
        cells = self.forward_cells(batch)
        confidence = lattice.moves(cells.confidence, cells.first, cells.last)[0].exp().tolist()
        found = []
        for b, n in enumerate(batch.target_length.tolist()):
            bounds = [
                (int(lo), int(hi))
                for lo, hi in zip(cells.first[b, :n], cells.last[b, :n], strict=True)
            ]
            own = [confidence[b][i][lo - 1 : hi] for i, (lo, hi) in enumerate(bounds)]
            moments: list[list[float]] = [list(range(lo, hi + 1)) for lo, hi in bounds]
            found.append({"moments": moments, "confidence": own})
        return found

    # ---- streaming

    def plan(self, stream: GSiMTStream) -> Plan | Read:
        """The next row of the column, or after a READ the whole prefix in the new column."""
        token, read = stream.next_token, stream.read
        if read < self.config.first(token) and not stream.source_read:
            return Read(self.config.first(token))
        is_new = stream.memory.column != read
        rows = [Row(i, read) for i in range(1 if is_new else token, token + 1)]
        return Plan(rows, drops_earlier_rows=is_new)

    def decide(
        self, streams: Sequence[GSiMTStream], plans: Sequence[Plan], output: PassOutput
    ) -> list[Read | Write]:
        confidence = self.write(output.last_rows())[:, 0].sigmoid().tolist()
        decisions: list[Read | Write] = []
        for stream, plan, c in zip(streams, plans, confidence, strict=True):
            stream.memory.column = stream.read
            token, last = stream.next_token, self.config.last(stream.next_token)
            is_due = stream.source_read or (last is not None and stream.read >= last)
            stream.note(token, stream.read, 1.0 if is_due else c)
            writes = is_due or c >= stream.knobs.threshold
            decisions.append(Write(len(plan.rows) - 1) if writes else Read(stream.read + 1))
        return decisions


def diagonal_delay(batch: Batch) -> Tensor:
    """i J / I: the delay of a translator that keeps pace with the speaker. -> (B, I)"""
    i = torch.arange(1, batch.target.shape[1] + 1, device=batch.target.device)
    return i * (batch.source_length.double() / batch.target_length)[:, None]
