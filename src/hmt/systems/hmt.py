"""Hidden Markov Transformer (Zhang & Feng, ICLR 2023): learning when to start translating.

Shapes: B sentences, I target tokens, J source tokens, N states of the batch, D width.

Each target token y_i has up to K *states*, one per candidate moment t = lo_i .. hi_i.  A state sees
the first t source tokens, knows how confident it is to write, and how probable y_i is.  Which
state writes is hidden: training maximises the probability of the target over all selections,
inference writes at the first confident state.  Equation numbers are the paper's.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from hmt.errors import UserError
from hmt.model import lattice
from hmt.model.attention import Packing, SourceView
from hmt.model.dims import Dims
from hmt.model.rows import NEVER, Rows
from hmt.model.transformer import Transformer
from hmt.model.vocabulary import gold_log_prob, smoothed
from hmt.systems.batch import Batch
from hmt.systems.contract import Loss, PassOutput, System
from hmt.systems.hmt_states import StateTable, state_bias, state_table
from hmt.systems.stream import Plan, Read, Stream, Write

ATTENTION = ("multiple", "max", "selected")
MOST_STATES = 100  # bounds the memory of a stream; the paper goes to 10


@dataclass(frozen=True)
class HMTConfig:
    dims: Dims
    lower: int | tuple[int, int] = 3  # L; a range is sampled anew for each batch
    states: int = 6  # K
    latency_weight: float = 1.0
    state_weight: float = 1.0
    label_smoothing: float = 0.1
    attention: str = "multiple"  # or "max"
    path: str = "marginal"  # or "best": the most probable selection instead of all

    def __post_init__(self) -> None:
        low, high = self.lower_range
        if low > high:
            raise UserError(f"lower = [{low}, {high}] is an empty range; put the smaller first.")
        if self.attention not in ATTENTION[:2]:
            raise UserError(f'attention "{self.attention}": training knows "multiple" and "max".')
        if self.path not in ("marginal", "best"):
            raise UserError(f'path "{self.path}" is unknown; it is "marginal" or "best".')

    @property
    def lower_range(self) -> tuple[int, int]:
        return (self.lower, self.lower) if isinstance(self.lower, int) else self.lower


@dataclass(frozen=True)
class HMTKnobs:
    """The latency dial of one session."""

    lower: int = 3  # L: tokens read before the first word can be written
    states: int = 6  # K: candidate moments per token
    threshold: float = 0.5  # confidence that suffices to write
    attention: str = "multiple"  # "multiple", "max" or "selected"
    policy: str = "confidence"  # or "last": always the last state, which is wait-(L+K-1)

    def __post_init__(self) -> None:
        if not 1 <= self.states <= MOST_STATES:
            raise UserError(f"states = {self.states}: a token has 1 to {MOST_STATES} states.")
        if self.attention not in ATTENTION:
            raise UserError(f'attention "{self.attention}" is unknown; use {", ".join(ATTENTION)}.')
        if self.policy not in ("confidence", "last"):
            raise UserError(f'policy "{self.policy}" is unknown; it is "confidence" or "last".')

    def first(self, token: int) -> int:
        """lo_i while the source end is not known (Eq. 1)."""
        return max(self.lower + token - 1, 1)

    def last(self, token: int) -> int:
        """hi_i while the source end is not known (Eq. 1)."""
        return max(self.lower + token + self.states - 2, 1)


@dataclass
class Memory:
    """How far the lattice of one stream has been computed."""

    token: int = 0  # states of tokens up to here ...
    moment: int = 0  # ... and moments up to here exist
    ahead: list[tuple[int, int, float]] = field(default_factory=list)  # (i, t, c) not yet read


@dataclass(frozen=True)
class States:
    """All states of a batch after a teacher-forced pass, one entry per state (N,)."""

    table: StateTable
    confidence: Tensor  # logits
    gold: Tensor  # log p(y_i | state)
    mean: Tensor  # mean over the vocabulary of log p
    shape: tuple[int, int, int]  # B, I, J

    def spread(self, values: Tensor, empty: float) -> Tensor:
        """Put one value per state at its cell of the lattice. (N,) -> (B, I, J)"""
        table, (batch, steps, moments) = self.table, self.shape
        cell = (table.sentence * steps + table.token) * moments + table.moment - 1
        full = values.new_full((batch * steps * moments,), empty)
        return full.index_copy(0, cell, values).view(self.shape)


class HMT(System):
    name: ClassVar[str] = "hmt"
    Config: ClassVar[type] = HMTConfig
    Knobs: ClassVar[type] = HMTKnobs
    config: HMTConfig

    def __init__(self, config: HMTConfig) -> None:
        super().__init__()
        self.config = config
        self.transformer = Transformer(config.dims)
        # Eq. 5: a state's confidence is a linear function of the state and of the source mean.
        self.selection = nn.Linear(2 * config.dims.width, 1, bias=False)
        nn.init.xavier_uniform_(self.selection.weight)

    # ---- settings

    def default_knobs(self) -> dict[str, Any]:
        low, high = self.config.lower_range
        c = self.config
        return {"lower": (low + high) // 2, "states": c.states, "attention": c.attention}

    def sample(self, draw: random.Random, batch: Batch) -> HMTKnobs:
        chosen: HMTKnobs = self.knobs(lower=draw.randint(*self.config.lower_range))
        return chosen

    # ---- training

    def forward_states(self, batch: Batch, knobs: HMTKnobs) -> States:
        """One pass over all states of a batch (Eq. 1-5)."""
        if knobs.attention == "selected":
            raise UserError('attention "selected" exists at inference only; use multiple or max.')
        size, steps = batch.target.shape
        moments = batch.source.shape[1]
        table = state_table(
            knobs.lower, knobs.states, batch.source_length, batch.target_length, steps
        )
        source = self.transformer.encode_batch(batch.source, batch.source_length)
        tokens = batch.inputs.gather(1, (table.rows.target - 1).clamp(max=steps - 1))
        out = self.transformer.decode(
            tokens,
            state_bias(table.rows, table.rows, knobs.attention, source.dtype),
            self.transformer.read(source),
            SourceView(table.rows, batch.source_length),
            Packing(size, tokens.shape[1], table.index),
        )
        seen = source.cumsum(1) / torch.arange(1, moments + 1, device=source.device)[:, None]
        confidence = self.confidence(out.states, seen[table.sentence, table.moment - 1])
        gold, mean = gold_log_prob(
            out.states, self.transformer.output.weight, batch.target[table.sentence, table.token]
        )
        return States(table, confidence.to(gold.dtype), gold, mean, (size, steps, moments))

    def confidence(self, states: Tensor, means: Tensor) -> Tensor:
        """Logit of c_{i,t} from state and source mean (Eq. 5). (N, D) twice -> (N,)"""
        w_state, w_mean = self.selection.weight[0].chunk(2)
        return states @ w_state + means @ w_mean

    def transitions(self, states: States) -> tuple[Tensor, Tensor]:
        """Log-probability to write or to wait in each cell (Eq. 6). -> (B, I, J) twice

        p(n | m) = c(i, n) prod_{m <= l < n} (1 - c(i, l)) is a path that waits and then writes: it
        cannot write below lo_i and must at hi_i, so that every row of transitions sums to one.
        """
        confidence = states.spread(states.confidence, 0.0)
        return lattice.moves(confidence, states.table.first, states.table.last)

    def losses(self, batch: Batch, knobs: HMTKnobs) -> Loss:
        """Eq. 7-11: the likelihood over all selections, expected latency, and every state's own."""
        states = self.forward_states(batch, knobs)
        write, wait = self.transitions(states)
        emission = states.spread(states.gold, NEVER)
        # Cells that are no state can only be passed by waiting; their emission never counts.
        hmm = -lattice.log_likelihood(
            write + emission, wait, batch.target_length, best=self.config.path == "best"
        )
        latency = expected_delay(
            lattice.moment_probability(write, wait), states.table.first, batch.target_length
        )
        state = self.state_loss(states, knobs.states)
        total = hmm + self.config.latency_weight * latency + self.config.state_weight * state
        return Loss(total, {"hmm": hmm, "latency": latency, "state": state})

    def state_loss(self, states: States, k: int) -> Tensor:
        """Eq. 10: each of the K states should give y_i, with label smoothing. -> (B,)"""
        log_prob = smoothed(states.gold, states.mean, self.config.label_smoothing)
        weighted = states.spread(log_prob * states.table.copies / k, 0.0)
        return -weighted.sum((1, 2))

    def score(self, batch: Batch, knobs: HMTKnobs, reads: Tensor) -> Tensor:
        states = self.forward_states(batch, knobs)
        chosen = states.spread(states.gold, NEVER).gather(2, reads[..., None] - 1)[..., 0]
        steps = torch.arange(batch.target.shape[1], device=chosen.device)
        return chosen.masked_fill(steps >= batch.target_length[:, None], 0.0)

    def inspect(self, batch: Batch, knobs: HMTKnobs) -> list[dict[str, Any]]:
        states = self.forward_states(batch, knobs)
        table = states.table
        is_last = table.moment == table.last[table.sentence, table.token]
        confidence = states.confidence.sigmoid().masked_fill(is_last, 1.0).tolist()
        found: list[dict[str, Any]] = [
            {"moments": [[] for _ in range(n)], "confidence": [[] for _ in range(n)]}
            for n in batch.target_length.tolist()
        ]
        places = zip(
            table.sentence.tolist(), table.token.tolist(), table.moment.tolist(), strict=True
        )
        for (b, i, t), c in zip(places, confidence, strict=True):
            found[b]["moments"][i].append(t)
            found[b]["confidence"][i].append(c)
        return found

    # ---- streaming

    def begin(self, knobs: HMTKnobs) -> Memory:
        return Memory()

    def bias(
        self, query: Rows, keys: Rows, streams: Sequence[Stream], dtype: torch.dtype
    ) -> Tensor:
        modes = [stream.knobs.attention for stream in streams]
        bias = state_bias(query, keys, modes[0], dtype)
        for mode in set(modes) - {modes[0]}:
            other = torch.tensor([m == mode for m in modes], device=bias.device)
            bias = torch.where(
                other[:, None, None, None], state_bias(query, keys, mode, dtype), bias
            )
        return bias

    def plan(self, stream: Stream) -> Plan | Read:
        """All states that exist by now and were not computed yet: a wavefront of about K.

        Where more source has arrived than was read, the later moments of the next token are
        computed in the same pass.  A state sees nothing beyond its moment, and `decide` goes
        through them in order: what is written is the same, in fewer passes.
        """
        knobs, memory = stream.knobs, stream.memory
        token, arrived = len(stream.target) + 1, len(stream.source)
        if stream.read < knobs.first(token) and not stream.is_complete:
            return Read(knobs.first(token))
        until = max(stream.read, min(arrived, knobs.last(token)))
        end = arrived if stream.is_finished and until == arrived else None
        plan = Plan([], [], [])
        oldest = max(1, min(memory.token + 1, memory.moment - knobs.lower - knobs.states + 3))
        for i in range(oldest, token + 1):
            first, last = knobs.first(i), min(knobs.last(i), until)
            if end is not None:
                first = min(first, end)
            if i <= memory.token:
                first = max(first, memory.moment + 1)
            for t in range(first, last + 1):
                plan.targets.append(i)
                plan.moments.append(t)
                plan.columns.append(knobs.last(i))
                plan.copies.append(copies_of(knobs, i, t, end))
        memory.token, memory.moment = token, until
        return plan

    def decide(
        self, streams: Sequence[Stream], plans: Sequence[Plan], output: PassOutput
    ) -> list[Read | Write]:
        """Write at the first confident moment that is not before the last write (Algorithm 1)."""
        confidence = self.confidence(output.states, output.means()).sigmoid().tolist()
        decisions: list[Read | Write] = []
        start = 0
        for stream, plan in zip(streams, plans, strict=True):
            own = confidence[start : start + len(plan.targets)]
            decisions.append(self.decide_one(stream, plan, own))
            start += len(plan.targets)
        return decisions

    def decide_one(self, stream: Stream, plan: Plan, confidence: list[float]) -> Read | Write:
        knobs, memory, token = stream.knobs, stream.memory, len(stream.target) + 1
        end = len(stream.source) if stream.is_finished else None
        earliest = stream.reads[-1] if stream.reads else 0
        chosen: Read | Write = Read(memory.moment + 1)
        read = memory.moment
        for row, (i, t) in enumerate(zip(plan.targets, plan.moments, strict=True)):
            is_last = t == knobs.last(i) or t == end
            c = 1.0 if is_last else confidence[row]
            memory.ahead.append((i, t, c))
            if i == token and t >= earliest and isinstance(chosen, Read):
                is_confident = knobs.policy == "confidence" and c >= knobs.threshold
                if is_confident or is_last:
                    chosen, read = Write(row), max(t, stream.read)
        for i, t, c in memory.ahead:
            if t <= read:
                stream.note(i, t, c)
        memory.ahead = [state for state in memory.ahead if state[1] > read]
        return chosen


def expected_delay(probability: Tensor, first: Tensor, target_length: Tensor) -> Tensor:
    """Eq. 9: mean over tokens of E[t] - lo_i. (B, I, J), (B, I), (B,) -> (B,)"""
    steps, moments = probability.shape[1:]
    moment = torch.arange(1, moments + 1, device=probability.device)
    delay = (probability * (moment - first[..., None]).clamp(min=0)).sum(-1)  # (B, I)
    real = torch.arange(steps, device=probability.device) < target_length[:, None]
    return (delay * real).sum(1) / target_length


def copies_of(knobs: HMTKnobs, token: int, moment: int, end: int | None) -> int:
    """How many of the K states of a token fall on a moment; `end` is J once it is known."""
    start = knobs.lower + token - 1
    above = knobs.states if moment == end else min(max(moment - start + 1, 0), knobs.states)
    below = 0 if moment == 1 else min(max(moment - start, 0), knobs.states)
    return above - below
