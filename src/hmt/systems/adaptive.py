"""Adaptive wait-k (Zheng et al. 2020): the current lag selects one of several wait-k models.

Shapes: B sentences, I target tokens.

With s tokens read and t written the lag is k = s - t, and M_k predicts y_{t+1}.  The token is
written if M_k is sure enough (p >= rho_k), otherwise one more source token is read.  Nothing is
trained: the M_k are wait-k models, or one multipath model.  M_k computes the target prefix with its
own wait-k spans, which do not depend on the path actually taken, so the rows of lag k stay valid in
the cache.  With `ensemble`, the models of the three lags nearest to k predict together, all of them
with the spans of wait-k.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import torch
from torch import Tensor, nn

from hmt.errors import UserError
from hmt.limits import MOST_TRANSFORMERS
from hmt.model.dims import Dims
from hmt.model.ensemble import Ensemble
from hmt.model.rows import Row, Rows, same_lag_bias
from hmt.model.transformer import Transformer
from hmt.model.vocabulary import at_least_float32
from hmt.systems.batch import Batch
from hmt.systems.contract import Loss, PassOutput, System, mean_loss
from hmt.systems.multipath import Multipath
from hmt.systems.stream import Plan, Read, Stream, Write
from hmt.systems.token_system import ALL, TokenPass, TokenSystem, scheduled
from hmt.systems.wait_k import WaitK
from hmt.text.symbols import EOS, FIRST_WRITABLE


@dataclass(frozen=True)
class AdaptiveConfig:
    dims: Dims
    lags: tuple[int, ...] = ()  # the k of each wait-k model; empty: one multipath model
    label_smoothing: float = 0.1

    def __post_init__(self) -> None:
        if len(self.lags) > MOST_TRANSFORMERS:
            raise UserError(f"lags has {len(self.lags)} numbers: give at most {MOST_TRANSFORMERS}.")


@dataclass(frozen=True)
class AdaptiveKnobs:
    k_min: int = 1  # never write at a smaller lag
    k_max: int = 10  # never read on at this lag
    rho_a: float = 0.7  # probability that suffices to write at lag k_min ...
    rho_b: float = 0.0  # ... and at lag k_max, linear between
    ensemble: bool = False  # the three models nearest to a lag predict together

    def __post_init__(self) -> None:
        if not 1 <= self.k_min <= self.k_max:
            raise UserError(
                f"k_min = {self.k_min} and k_max = {self.k_max}: need 1 <= k_min <= k_max."
            )

    def threshold(self, k: int) -> float:
        """rho_k"""
        if self.k_min == self.k_max:
            return self.rho_b
        share = (k - self.k_min) / (self.k_max - self.k_min)
        return self.rho_a - (self.rho_a - self.rho_b) * share


Computed = dict[int, int]
"""Memory of a stream: how many target tokens each M_k has computed."""

NEAREST = 3  # models of an ensemble

AdaptiveStream = Stream[AdaptiveKnobs, Computed]


class Adaptive(TokenSystem[AdaptiveConfig, AdaptiveKnobs, Computed]):
    """Composed of wait-k models, each with its own encoder and caches."""

    name: ClassVar[str] = "adaptive"
    Config: ClassVar[type] = AdaptiveConfig
    Knobs: ClassVar[type] = AdaptiveKnobs
    MOVABLE: ClassVar[frozenset[str]] = frozenset({"rho_a", "rho_b"})
    Memory: ClassVar[type] = dict

    def __init__(self, config: AdaptiveConfig) -> None:
        super().__init__(config)
        self.others = nn.ModuleList(Transformer(config.dims) for _ in config.lags[1:])

    @classmethod
    def compose(cls, models: Sequence[System]) -> Self:
        """Combine wait-k models with different k, or wrap one multipath model."""
        names = [model.name for model in models]
        lags = tuple(model.config.k for model in models if isinstance(model, WaitK))
        if names != [Multipath.name] and (not lags or len(set(lags)) < len(names)):
            raise UserError(
                f"The {cls.name} system was given {', '.join(names) or 'no models'}"
                f"{f' with k = {lags}' if lags else ''}: give one {Multipath.name} model, or "
                f"{WaitK.name} models that differ in k."
            )
        dims = models[0].config.dims
        for model in models:
            if model.config.dims != dims:
                raise UserError(
                    f"Models of different shape cannot be composed: {model.config.dims} beside "
                    f"{dims}; train them with the same dims."
                )
        made = cls(AdaptiveConfig(dims, lags, models[0].config.label_smoothing))
        made.to(models[0].transformer.output.weight)  # its precision and device
        for transformer, model in zip(made.models, models, strict=True):
            transformer.load_state_dict(model.transformer.state_dict())
        return made

    @property
    def models(self) -> list[Transformer]:
        """The M_k, in the order of the config's lags."""
        return [self.transformer, *self.others]

    @property
    def transformers(self) -> list[Transformer]:
        """Every model alone, then every ensemble of neighbours."""
        models = self.models
        return [*models, *(Ensemble([models[n] for n in each]) for each in self.neighbours)]

    @property
    def neighbours(self) -> list[list[int]]:
        """Indices of the models of each ensemble, from small lags to large; empty for one model."""
        lags = self.config.lags
        if len(lags) < 2:
            return []
        order = sorted(range(len(lags)), key=lambda n: lags[n])
        return [order[n : n + NEAREST] for n in range(max(1, len(lags) - NEAREST + 1))]

    def default_knobs(self) -> dict[str, object]:
        lags = self.config.lags
        return {"k_min": min(lags), "k_max": max(lags)} if lags else {}

    def doubts(self, knobs: AdaptiveKnobs) -> list[str]:
        if knobs.ensemble and not self.neighbours:
            return ["ensemble = true changes nothing: there is one model for all lags."]
        return []

    def nearest(self, k: int, ensemble: bool = False) -> int:
        """Index of what serves lag k: the model, or the ensemble, that is nearest to it."""
        lags = self.config.lags or (k,)
        if ensemble and self.neighbours:
            far = [
                (max(abs(lags[n] - k) for n in each), place)
                for place, each in enumerate(self.neighbours)
            ]
            return len(lags) + min(far)[1]
        return min(range(len(lags)), key=lambda n: (abs(lags[n] - k), lags[n]))

    # ---- forced decoding with the composed models

    def forward_lag(self, batch: Batch, k: int, knobs: AdaptiveKnobs) -> TokenPass:
        """M_k on its own wait-k spans."""
        moments = scheduled(batch, lambda token: k + token - 1)
        index = self.nearest(k, knobs.ensemble)
        return self.forward_at(batch, moments, transformer_index=index)

    def gold(self, batch: Batch, done: TokenPass) -> tuple[Tensor, Tensor]:
        if not isinstance(done.transformer, Ensemble):
            return super().gold(batch, done)
        log_prob = done.transformer.output(done.hidden)  # (N, V)
        gold = log_prob.gather(1, batch.target[done.is_real][:, None])[:, 0]
        return gold, log_prob.mean(-1)

    def loss(self, batch: Batch, knobs: AdaptiveKnobs) -> Loss:
        """The mean over all lags: nothing is trained, so no lag is preferred."""
        each = [
            self.cross_entropy(batch, self.forward_lag(batch, k, knobs))
            for k in range(knobs.k_min, knobs.k_max + 1)
        ]
        return mean_loss([Loss(total, {"cross_entropy": total}) for total in each])

    def score(self, batch: Batch, knobs: AdaptiveKnobs, reads: Tensor) -> Tensor:
        before = torch.arange(reads.shape[1], device=reads.device)  # tokens written, t
        lag = (reads - before).clamp(max=knobs.k_max)
        lag = lag.masked_fill(reads == batch.source_length[:, None], knobs.k_max)
        found = torch.zeros_like(lag, dtype=self.transformer.output.weight.dtype)
        for k in range(knobs.k_min, knobs.k_max + 1):
            done = self.forward_lag(batch, k, knobs)
            found = torch.where(lag == k, done.spread(self.gold(batch, done)[0]), found)
        return found

    # ---- streaming

    def bias(
        self, query: Rows, keys: Rows, streams: Sequence[AdaptiveStream], dtype: torch.dtype
    ) -> Tensor:
        return same_lag_bias(query, keys, dtype)

    def plan(self, stream: AdaptiveStream) -> Plan | Read:
        """The rows that M_k lacks up to the next token, all in one pass."""
        knobs, token = stream.knobs, stream.next_token
        k = min(stream.read - token + 1, knobs.k_max)
        if stream.source_read:
            k = knobs.k_max
        elif k < knobs.k_min:
            return Read(knobs.k_min + token - 1)
        missing = range(stream.memory.get(k, 0) + 1, token + 1)
        rows = [Row(i, min(k + i - 1, stream.read), lag=k) for i in missing]
        # M_{k_max} may be asked once more when the source has ended: see `decide_one`.
        index = self.nearest(k, knobs.ensemble)
        return Plan(rows, transformer_index=index, drops_unless_written=k == knobs.k_max)

    def top(self, output: PassOutput) -> tuple[list[int], list[float]]:
        """The most probable next token of each stream, and its probability."""
        probability = at_least_float32(output.transformer.output(output.last_rows())).softmax(-1)
        probability[:, :FIRST_WRITABLE] = 0.0
        best = probability.max(-1)
        return best.indices.tolist(), best.values.tolist()

    def decide(
        self, streams: Sequence[AdaptiveStream], plans: Sequence[Plan], output: PassOutput
    ) -> list[Read | Write]:
        decisions: list[Read | Write] = []
        for stream, plan, token, p in zip(streams, plans, *self.top(output), strict=True):
            decision = self.decide_one(stream, plan, token, p)
            if isinstance(decision, Write) or not plan.drops_unless_written:
                stream.memory[plan.rows[-1].lag] = plan.rows[-1].target
            decisions.append(decision)
        return decisions

    def decide_one(self, stream: AdaptiveStream, plan: Plan, token: int, p: float) -> Read | Write:
        """Write if M_k is sure of the token; an end token is ignored until the source has ended."""
        knobs, k = stream.knobs, plan.rows[-1].lag
        has_choice = not stream.source_read and knobs.k_min < knobs.k_max
        is_early_end = has_choice and token == EOS
        is_forced = not is_early_end and (not has_choice or k == knobs.k_max)
        stream.note(plan.rows[-1].target, stream.read, 1.0 if is_forced else p)
        if is_forced or (not is_early_end and p >= knobs.threshold(k)):
            return Write(len(plan.rows) - 1)
        # At k_max nothing but the end of the source can change the answer.
        return Read(ALL if k == knobs.k_max else stream.read + 1)
