"""Hidden Markov Transformer (Zhang & Feng, ICLR 2023): learning when to start translating.

Shapes: B sentences, I target tokens, J source tokens, N states of the batch, D width.

Each target token y_i has up to K *states*, one per candidate moment t = lo_i .. hi_i.  A state sees
the first t source tokens and predicts its confidence to write and the probability of y_i.  Which
state writes is hidden: training maximises the probability of the target over all selections,
inference writes at the first confident state.

The paper's equations, each with its function:

    1  moments of states          boundaries (hmt_states.py); HMTKnobs.first, .last in streaming
    2  self-attention of states   state_bias (hmt_states.py)
    3  cross-attention            source_bias (model/rows.py): a row sees its moment and before
    4  translation probability    HMT.translation
    5  confidence                 HMT.confidence
    6  transitions                transitions
    7  likelihood                 log_likelihood
    8  HMM loss                   hmm_loss
    9  latency loss               latency_loss
    10 state loss                 state_loss
    11 total loss                 HMT.loss
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal, get_args

import torch
from torch import Tensor, nn

from hmt.errors import UserError
from hmt.model import lattice
from hmt.model.delays import real_tokens
from hmt.model.dims import Dims
from hmt.model.passes import Packing, whole_pass
from hmt.model.rows import NEVER, Row, Rows
from hmt.model.transformer import Transformer
from hmt.model.vocabulary import best_token, gold_log_prob, smoothed
from hmt.systems.batch import Batch
from hmt.systems.contract import Loss, PassOutput, System, doubts_of_threshold
from hmt.systems.hmt_states import MOST_STATES, StateTable, state_bias, state_table
from hmt.systems.stream import Plan, Read, Stream, Write

Attention = Literal["multiple", "max", "selected"]
ATTENTION: tuple[Attention, ...] = get_args(Attention)
BEYOND = 2**20  # a lower boundary beyond the end of every source


@dataclass(frozen=True)
class HMTConfig:
    dims: Dims
    lower: int | tuple[int, int] = 3  # L; a range is sampled for each batch
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
    """What sets the latency of a translation."""

    lower: int = 3  # L: tokens read before the first word can be written
    states: int = 6  # K: candidate moments per token
    threshold: float = 0.5  # confidence that suffices to write
    attention: Attention = "multiple"
    # "last" always takes the last state, which is wait-(L+K-1)
    policy: Literal["confidence", "last"] = "confidence"

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
class HMTMemory:
    """Which states of one stream have been computed."""

    token: int = 0  # states of tokens up to here ...
    moment: int = 0  # ... and moments up to here exist
    ahead: list[tuple[int, int, float]] = field(default_factory=list)  # (i, t, c) not yet read


HMTStream = Stream[HMTKnobs, HMTMemory]


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


class HMT(System[HMTConfig, HMTKnobs, HMTMemory]):
    name: ClassVar[str] = "hmt"
    Config: ClassVar[type] = HMTConfig
    Knobs: ClassVar[type] = HMTKnobs
    Memory: ClassVar[type] = HMTMemory
    MOVABLE: ClassVar[frozenset[str]] = frozenset({"threshold", "policy"})

    def __init__(self, config: HMTConfig) -> None:
        super().__init__()
        self.config = config
        self.transformer = Transformer(config.dims)
        self.selection = nn.Linear(2 * config.dims.width, 1, bias=False)  # W^S of Eq. 5
        nn.init.xavier_uniform_(self.selection.weight)

    # ---- settings

    def default_knobs(self) -> dict[str, object]:
        low, high = self.config.lower_range
        c = self.config
        return {"lower": (low + high) // 2, "states": c.states, "attention": c.attention}

    def knobs(self, **chosen: object) -> HMTKnobs:
        """As for every system; a boundary below 1 is only for models trained with one."""
        knobs = super().knobs(**chosen)
        low, high = self.config.lower_range
        if knobs.lower < min(1, low):
            raise UserError(
                f"lower = {knobs.lower}: this model was trained with {low} to {high}; give "
                f"{min(1, low)} or more."
            )
        return knobs

    def seeing_all(self, knobs: HMTKnobs) -> HMTKnobs:
        attention = "multiple" if knobs.attention == "selected" else knobs.attention
        return replace(knobs, lower=BEYOND, attention=attention)

    def doubts(self, knobs: HMTKnobs) -> list[str]:
        low, high = self.config.lower_range
        found = doubts_of_threshold(knobs.threshold)
        if not low <= knobs.lower <= high:
            found.append(f"lower = {knobs.lower} is outside the trained range of {low} to {high}.")
        if knobs.states > self.config.states:
            found.append(f"states = {knobs.states} is more than the {self.config.states} trained.")
        return found

    def sample(self, draw: random.Random, batch: Batch) -> HMTKnobs:
        return self.knobs(lower=draw.randint(*self.config.lower_range))

    # ---- training

    def forward_states(self, batch: Batch, knobs: HMTKnobs) -> States:
        """One pass over all states of a batch (Eq. 1 to 5)."""
        return self.read_states(batch, *self.decode_states(batch, knobs))

    def read_states(
        self, batch: Batch, table: StateTable, source: Tensor, hidden: Tensor
    ) -> States:
        """Confidences and probabilities of decoded states (Eq. 4 and 5). (B, J, D), (N, D)"""
        moments = batch.source.shape[1]
        seen = source.cumsum(1) / torch.arange(1, moments + 1, device=source.device)[:, None]
        confidence = self.confidence(hidden, seen[table.sentence, table.moment - 1])
        gold, mean = self.translation(hidden, batch.target[table.sentence, table.token])
        shape = (*batch.target.shape, moments)
        return States(table, confidence.to(gold.dtype), gold, mean, shape)

    def decode_states(self, batch: Batch, knobs: HMTKnobs) -> tuple[StateTable, Tensor, Tensor]:
        """The table of states, the encoded source, the hidden vectors. -> (B, J, D), (N, D)"""
        if knobs.attention == "selected":
            raise UserError('attention "selected" exists at inference only; use multiple or max.')
        size, steps = batch.target.shape
        table = state_table(
            knobs.lower, knobs.states, batch.source_length, batch.target_length, steps
        )
        source = self.transformer.encode_batch(batch.source, batch.source_length)
        tokens = batch.inputs[table.sentence, table.token]
        at = whole_pass(
            table.rows,
            state_bias(table.rows, table.rows, knobs.attention, source.dtype),
            Packing(size, table.rows.target.shape[1], table.index),
            source,
            batch.source_length,
        )
        return (
            table,
            source,
            self.transformer.decode(tokens, self.transformer.read(source), at).hidden,
        )

    def translation(self, hidden: Tensor, gold: Tensor) -> tuple[Tensor, Tensor]:
        """Eq. 4: log p(y_i | state), and the mean over all tokens. (N, D), (N,) -> (N,) twice"""
        return gold_log_prob(hidden, self.transformer.output.weight, gold)

    def confidence(self, hidden: Tensor, means: Tensor) -> Tensor:
        """Eq. 5: logit of c_{i,t}, from a row and the mean of its source. (N, D) twice -> (N,)"""
        w_hidden, w_mean = self.selection.weight[0].chunk(2)
        return hidden @ w_hidden + means @ w_mean

    def loss(self, batch: Batch, knobs: HMTKnobs) -> Loss:
        """Eq. 11: the HMM loss, plus latency and state losses by their weights. -> (B,)"""
        states = self.forward_states(batch, knobs)
        write, wait = transitions(states)
        hmm = hmm_loss(states, write, wait, batch.target_length, self.config.path == "best")
        latency = latency_loss(states, write, wait, batch.target_length)
        state = state_loss(states, knobs.states, self.config.label_smoothing)
        total = hmm + self.config.latency_weight * latency + self.config.state_weight * state
        return Loss(total, {"hmm": hmm, "latency": latency, "state": state})

    def score(self, batch: Batch, knobs: HMTKnobs, reads: Tensor) -> Tensor:
        states = self.forward_states(batch, knobs)
        chosen = states.spread(states.gold, NEVER).gather(2, reads[..., None] - 1)[..., 0]
        return chosen.masked_fill(~real_tokens(batch.target_length, chosen.shape[1]), 0.0)

    def inspect(self, batch: Batch, knobs: HMTKnobs) -> list[dict[str, list[list[float]]]]:
        """Moment, confidence and correctness of every state, per sentence and token.

        A state is correct (1, else 0) if its most probable token is the given one.
        """
        table, source, hidden = self.decode_states(batch, knobs)
        states = self.read_states(batch, table, source, hidden)
        is_last = table.moment == table.last[table.sentence, table.token]
        best = best_token(hidden, self.transformer.output.weight)
        columns = {
            "moments": table.moment,
            "confidence": states.confidence.sigmoid().masked_fill(is_last, 1.0),
            "correct": (best == batch.target[table.sentence, table.token]).long(),
        }
        found: list[dict[str, list[list[float]]]] = [
            {name: [[] for _ in range(n)] for name in columns} for n in batch.target_length.tolist()
        ]
        places = list(zip(table.sentence.tolist(), table.token.tolist(), strict=True))
        for name, values in columns.items():
            for (b, i), value in zip(places, values.tolist(), strict=True):
                found[b][name][i].append(value)
        return found

    # ---- streaming

    def bias(
        self, query: Rows, keys: Rows, streams: Sequence[HMTStream], dtype: torch.dtype
    ) -> Tensor:
        modes = [stream.knobs.attention for stream in streams]
        bias = state_bias(query, keys, modes[0], dtype)
        for mode in set(modes) - {modes[0]}:
            other = torch.tensor([m == mode for m in modes], device=bias.device)
            bias = torch.where(
                other[:, None, None, None], state_bias(query, keys, mode, dtype), bias
            )
        return bias

    def plan(self, stream: HMTStream) -> Plan | Read:
        """All states that exist so far and are not yet computed: a wavefront of about K.

        Where more source has arrived than was read, the later moments of the next token are
        computed in the same pass.  A state sees nothing beyond its moment, and `decide` goes
        through them in order: what is written is the same, in fewer passes.
        """
        knobs, memory, token = stream.knobs, stream.memory, stream.next_token
        if stream.read < knobs.first(token) and not stream.source_read:
            return Read(knobs.first(token))
        until = computed_until(stream)
        end = until if stream.source_ended and until == len(stream.source) else None
        rows = []
        oldest = max(1, min(memory.token + 1, memory.moment - knobs.lower - knobs.states + 3))
        for i in range(oldest, token + 1):
            first, last = knobs.first(i), knobs.last(i)
            if end is not None:
                first = min(first, end)
            if i <= memory.token:
                first = max(first, memory.moment + 1)
            for t in range(first, min(last, until) + 1):
                rows.append(Row(i, t, last=last, copies=copies_of(knobs, i, t, end)))
        return Plan(rows)

    def decide(
        self, streams: Sequence[HMTStream], plans: Sequence[Plan], output: PassOutput
    ) -> list[Read | Write]:
        """Write at the first confident moment that is not before the last write (Algorithm 1)."""
        confidence = self.confidence(output.hidden, output.means()).sigmoid().tolist()
        decisions: list[Read | Write] = []
        start = 0
        for stream, plan in zip(streams, plans, strict=True):
            own = confidence[start : start + len(plan.rows)]
            decisions.append(self.decide_one(stream, plan, own))
            start += len(plan.rows)
        return decisions

    def decide_one(self, stream: HMTStream, plan: Plan, confidence: list[float]) -> Read | Write:
        """Decide for one stream and advance its memory; one confidence per row."""
        knobs, memory, token = stream.knobs, stream.memory, stream.next_token
        memory.token, memory.moment = token, computed_until(stream)
        end = len(stream.source) if stream.source_ended else None
        earliest = stream.reads[-1] if stream.reads else 0
        chosen: Read | Write = Read(memory.moment + 1)
        read = memory.moment
        for n, row in enumerate(plan.rows):
            is_last = row.moment == row.last or row.moment == end
            c = 1.0 if is_last else confidence[n]
            memory.ahead.append((row.target, row.moment, c))
            if row.target == token and row.moment >= earliest and isinstance(chosen, Read):
                is_confident = knobs.policy == "confidence" and c >= knobs.threshold
                if is_confident or is_last:
                    chosen, read = Write(n), max(row.moment, stream.read)
        for i, t, c in memory.ahead:
            if t <= read:
                stream.note(i, t, c)
        memory.ahead = [state for state in memory.ahead if state[1] > read]
        return chosen


def transitions(states: States) -> tuple[Tensor, Tensor]:
    """Eq. 6: log-probability of writing and of waiting in each cell. (N,) -> (B, I, J) twice

    p(n | m) = c(i, n) prod_{m <= l < n} (1 - c(i, l)) is a path that waits and then writes: it
    cannot write below lo_i and must at hi_i, so that every row of transitions sums to one.
    """
    confidence = states.spread(states.confidence, 0.0)
    return lattice.moves(confidence, states.table.first, states.table.last)


def log_likelihood(
    states: States, write: Tensor, wait: Tensor, target_length: Tensor, best: bool = False
) -> Tensor:
    """Eq. 7: log p(y | x), over all selections or the best. (B, I, J) twice, (B,) -> (B,)"""
    # Cells without a state can only be passed by waiting; their emission never counts.
    emission = states.spread(states.gold, NEVER)
    return lattice.log_likelihood(write + emission, wait, target_length, best)


def hmm_loss(
    states: States, write: Tensor, wait: Tensor, target_length: Tensor, best: bool = False
) -> Tensor:
    """Eq. 8: -log p(y | x). (B, I, J) twice, (B,) -> (B,)"""
    return -log_likelihood(states, write, wait, target_length, best)


def latency_loss(states: States, write: Tensor, wait: Tensor, target_length: Tensor) -> Tensor:
    """Eq. 9: mean over tokens of E[t] - lo_i. (B, I, J) twice, (B,) -> (B,)"""
    probability = lattice.moment_probability(write, wait)
    steps, moments = probability.shape[1:]
    moment = torch.arange(1, moments + 1, device=probability.device)
    lag = (moment - states.table.first[..., None]).clamp(min=0)  # (B, I, J)
    delay = (probability * lag).sum(-1)  # (B, I)
    return (delay * real_tokens(target_length, steps)).sum(1) / target_length


def state_loss(states: States, k: int, smoothing: float) -> Tensor:
    """Eq. 10: each of the K states should predict y_i, with label smoothing. (N,) -> (B,)"""
    log_prob = smoothed(states.gold, states.mean, smoothing)
    weighted = states.spread(log_prob * states.table.copies / k, 0.0)
    return -weighted.sum((1, 2))


def computed_until(stream: HMTStream) -> int:
    """The last moment whose states the next pass computes, or has just computed."""
    arrived = min(len(stream.source), stream.knobs.last(stream.next_token))
    return max(stream.read, arrived)


def copies_of(knobs: HMTKnobs, token: int, moment: int, end: int | None) -> int:
    """How many of the K states of a token fall on a moment; `end` is J once it is known."""
    start = knobs.lower + token - 1
    above = knobs.states if moment == end else min(max(moment - start + 1, 0), knobs.states)
    below = 0 if moment == 1 else min(max(moment - start, 0), knobs.states)
    return above - below
