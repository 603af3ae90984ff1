"""What a system in a comparison is: which models it needs, and how its latency is swept.

SCRATCH has the systems as their recipes train them, from random weights; budgets.py has the same
systems from a start that all share.
"""

from dataclasses import dataclass, field
from pathlib import Path

from hmt.paper.parts.benchmarks import FLICKR, Benchmark
from hmt.paper.plan import Place, Step
from hmt.paper.steps import evaluate, train

# When starting from trained weights: no long warm-up, a lower rate, and no validation.
TUNING = ("training.learning_rate=1e-3", "training.warmup=100", "training.validate_every=0")


@dataclass(frozen=True)
class Trained:
    """One model: its run, its recipe, and the settings at which it is evaluated."""

    run: str
    recipe: str
    sweep: dict[str, str] = field(default_factory=dict)
    overrides: tuple[str, ...] = ()
    made_of: "tuple[Trained, ...]" = ()  # models that it is composed of
    start: "Trained | None" = None  # whose weights it starts from
    updates: float = 0.0  # in units of `place.updates`; 0: those of the recipe
    # cost as a multiple of the one stated at the head of the recipe; with `updates`, for 1,000
    share: float = 1.0
    evaluated: str = ""  # folder of its results; empty: named like the run
    on: Benchmark = FLICKR  # what it is trained and tested on
    tuning: tuple[str, ...] = TUNING  # settings of a model with a start
    is_shared: bool = False  # one run, of the first seed, serves all seeds

    def train(self, place: Place, seed: int = 1) -> Step:
        """The run of one seed; that of the first has the plain name."""
        seed = 1 if self.is_shared else seed
        settings = [*self.overrides, *((f"seed={seed}",) if seed != 1 else ())]
        share = self.share
        if self.updates:
            share *= place.updates / 1000
            count = max(1, round(self.updates * place.updates))
            settings += [f"training.updates={count}", f"training.save_every={max(1, count // 10)}"]
        if self.start is not None:
            settings += self.tuning
        return train(
            place,
            self.named(seed),
            self.recipe,
            settings,
            data=self.on.prepare(place),
            models=[model.train(place, seed) for model in self.made_of],
            warm_start=self.start.train(place, seed) if self.start else None,
            share=share,
        )

    def evaluate(self, place: Place, seed: int = 1) -> Step:
        """Its points of the figure."""
        return evaluate(
            place,
            self.folder(seed),
            self.train(place, seed),
            self.sweep,
            self.on.files(place),
            self.on.seconds_per_point,
        )

    def named(self, seed: int) -> str:
        """The name of a seed's run."""
        return _seeded(self.run, seed)

    def folder(self, seed: int = 1) -> str:
        """Where its results are, inside the folder of all results."""
        return _seeded(
            self.evaluated or (self.run if "/" in self.run else f"main/{self.run}"), seed
        )

    def results(self, place: Place, seed: int = 1) -> Path | None:
        """Its results, if they exist."""
        path = place.found / self.folder(seed)
        return path if (path / "scores.json").exists() else None


def _seeded(name: str, seed: int) -> str:
    return name if seed == 1 else f"{name}-{seed}"


@dataclass(frozen=True)
class Rival:
    """One system of the figure."""

    label: str
    models: tuple[Trained, ...]
    note: str = ""
    variant_of: str = ""  # label of the system of which only the better variant is drawn
    is_core: bool = False  # made before the rest

    def results(self, place: Place, seed: int = 1) -> list[Path]:
        """The existing results of its models."""
        every = (model.results(place, seed) for model in self.models)
        return [path for path in every if path is not None]


def _one_per(label: str, key: str, values: tuple[float, ...], default: float) -> Rival:
    """A system with one model per value of a setting; the recipe's value has the plain name."""
    models = [
        Trained(
            label if value == default else f"{label}-{value:g}",
            label,
            overrides=() if value == default else (f"model.config.{key}={value}",),
        )
        for value in values
    ]
    return Rival(label, tuple(models), f"one model per {key} ({', '.join(map(str, values))})")


LOWERS, LAGS = "1,2,3,4,5,6", "1,2,3,4,5,7,9"
WAIT_K_LAGS = (1, 3, 5, 7, 9)
DELTAS = (0.5, 1.0, 2.0, 3.0)
MMA_WEIGHTS = (0.02, 0.05, 0.1, 0.2, 0.4)
RHOS, GSIMT_THRESHOLDS = "0.3,0.5,0.7,0.9", "0.3,0.5,0.7"
ITST_THRESHOLDS = "0.2,0.3,0.4,0.5,0.6,0.7,0.8"

HMT = Trained("hmt", "hmt", {"lower": LOWERS})
MULTIPATH = Trained("multipath", "multipath", {"k": LAGS})
FULL = Trained("full", "full")
WAIT_K = tuple(
    Trained(f"wait-{k}", "wait-k", overrides=(f"model.config.k={k}",)) for k in WAIT_K_LAGS
)
SCRATCH = (
    Rival("hmt", (HMT,), "one model, lower drawn from 1 to 6 in training", is_core=True),
    Rival("multipath", (MULTIPATH,), "one model", is_core=True),
    Rival("full", (FULL,), "waits for the whole sentence", is_core=True),
    Rival("gma-drawn", (Trained("gma-drawn", "gma-drawn", {"delta": "0.5,1,2,3"}),), "one model"),
    Rival("itst", (Trained("itst", "itst", {"threshold": ITST_THRESHOLDS}),), "one model"),
    Rival("wait-k", WAIT_K, "one model per k (1, 3, 5, 7, 9), 6,500 updates each"),
    Rival(
        "adaptive",
        (Trained("adaptive", "adaptive", {"rho-a": RHOS}, made_of=(MULTIPATH,)),),
        "composed of the multipath model",
    ),
    Rival(
        "moe-wait-k", (Trained("moe-wait-k", "moe-wait-k", {"k": "1,3,5,7,9"}),), "6,000 updates"
    ),
    _one_per("mma", "latency_weight", MMA_WEIGHTS, 0.1),
    _one_per("gma", "delta", DELTAS, 1.0),
    Rival("gsimt", (Trained("gsimt", "gsimt", {"threshold": GSIMT_THRESHOLDS}),), "reconstruction"),
)
