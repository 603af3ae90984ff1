"""The systems of the comparison: which models each needs, and how its latency is swept.

Where the authors of a system train one model per latency, so does the plan.
"""

from dataclasses import dataclass, field

from hmt.paper.plan import Place, Step
from hmt.paper.steps import evaluate, train


@dataclass(frozen=True)
class Trained:
    """One model: its run, its recipe, and the settings at which it is evaluated."""

    run: str
    recipe: str
    sweep: dict[str, str] = field(default_factory=dict)
    overrides: tuple[str, ...] = ()
    made_of: tuple[str, ...] = ()  # runs that it is composed of

    def train(self, place: Place, seed: int = 1) -> Step:
        """The run of one seed; the first has the plain name."""
        models = [BY_RUN[run].train(place, seed) for run in self.made_of]
        settings = (*self.overrides, *((f"seed={seed}",) if seed != 1 else ()))
        return train(place, self.named(seed), self.recipe, settings, models=models)

    def evaluate(self, place: Place, seed: int = 1) -> Step:
        """Its points of the main figure."""
        return evaluate(place, f"main/{self.named(seed)}", self.train(place, seed), self.sweep)

    def named(self, seed: int) -> str:
        return self.run if seed == 1 else f"{self.run}-{seed}"


@dataclass(frozen=True)
class Rival:
    """One system of the figure."""

    label: str
    models: tuple[Trained, ...]
    note: str = ""


def _one_per(label: str, key: str, values: tuple[float, ...], default: float) -> Rival:
    """A system with one model per value of a setting; the recipe's own value has its plain name."""
    models = [
        Trained(
            label if value == default else f"{label}-{value:g}",
            label,
            overrides=() if value == default else (f"model.config.{key}={value}",),
        )
        for value in values
    ]
    return Rival(label, tuple(models), f"one model per {key} ({', '.join(map(str, values))})")


HMT = Trained("hmt", "hmt", {"lower": "1,2,3,4,5,6"})
MULTIPATH = Trained("multipath", "multipath", {"k": "1,2,3,4,5,7,9"})
FULL = Trained("full", "full")
WAIT_K = tuple(
    Trained(f"wait-{k}", "wait-k", overrides=(f"model.config.k={k}",)) for k in (1, 3, 5, 7, 9)
)
RIVALS = (
    Rival("hmt", (HMT,), "one model, lower drawn from 1 to 6 in training"),
    Rival("full", (FULL,), "waits for the whole sentence: the ceiling"),
    Rival("wait-k", WAIT_K, "one model per k (1, 3, 5, 7, 9)"),
    Rival("multipath", (MULTIPATH,), "one model"),
    Rival(
        "adaptive",
        (Trained("adaptive", "adaptive", {"rho-a": "0.3,0.5,0.7,0.9"}, made_of=("multipath",)),),
        "composed of the multipath model",
    ),
    Rival("moe-wait-k", (Trained("moe-wait-k", "moe-wait-k", {"k": "1,3,5,7,9"}),), "one model"),
    _one_per("mma", "latency_weight", (0.02, 0.05, 0.1, 0.2, 0.4), 0.1),
    _one_per("gma", "delta", (0.5, 1.0, 2.0, 3.0), 1.0),
    Rival(
        "gsimt",
        (Trained("gsimt", "gsimt", {"threshold": "0.3,0.5,0.7"}),),
        "a reconstruction: its authors' code is not public",
    ),
    Rival(
        "itst",
        (Trained("itst", "itst", {"threshold": "0.2,0.3,0.4,0.5,0.6,0.7,0.8"}),),
        "one model; not in the paper, which is as old",
    ),
)
BY_RUN = {model.run: model for rival in RIVALS for model in rival.models}
