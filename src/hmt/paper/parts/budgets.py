"""The systems of the main comparison: one start for all, then equal updates or equal time each.

The start is a long multipath training, which has seen every lag and favours no policy.  Where the
authors of a system train one model per latency, so does the plan.
"""

from dataclasses import dataclass, replace
from pathlib import Path

from hmt.paper.parts.systems import (
    DELTAS,
    GSIMT_THRESHOLDS,
    ITST_THRESHOLDS,
    LAGS,
    LOWERS,
    MMA_WEIGHTS,
    RHOS,
    WAIT_K_LAGS,
    Rival,
    Trained,
)

START_UPDATES = 8  # times the updates that follow
# Updates whose cost is stated at the head of the recipes; for GSiMT, updates of whole batches.
RECIPE_UPDATES = 2800
STATED = {"wait-k": 6500, "moe-wait-k": 6000, "gsimt": 960}
# Processor time of an update as a multiple of one of multipath, with batches of about 840 target
# tokens on one thread: full, gma, itst, mma and hmt measured over 30 updates each (busy AMD EPYC,
# 2026-11-17: 0.30, 0.35, 0.36, 0.51 and 0.69 s beside 0.34), the others estimated from what they
# compute.  The report has the times of whole runs.
COST = {
    "full": 1.0,
    "wait-k": 1.0,
    "multipath": 1.0,
    "gma": 1.05,
    "gma-drawn": 1.05,
    "moe-wait-k": 1.2,
    "mma": 1.5,
    "itst": 1.1,
    "hmt": 2.1,
    "gsimt": 6.0,
}
HALVES = "stage=[{model={config={gate=false}}}, {model={config={gate=true}}}]"
# GSiMT's lattice has a decoder pass per source token, so a batch is computed in four parts.
LATTICE = (
    "stage=[{model={config={zeta=2.0, latency_weight=1.0}}, "
    "training={batch_tokens=225, accumulate=4}}]"
)
START = Trained(
    "start",
    "multipath",
    updates=START_UPDATES,
    share=START_UPDATES * 1000 / RECIPE_UPDATES,
    is_shared=True,
)


@dataclass(frozen=True)
class Budget:
    """What every system may spend after the start; `name` is the folder of runs and results."""

    name: str
    title: str
    is_time: bool = False

    def updates(self, recipe: str) -> float:
        """In units of `place.updates`, which is what HMT makes in either budget."""
        return COST["hmt"] / COST[recipe] if self.is_time else 1.0

    def tuned(
        self,
        name: str,
        recipe: str,
        sweep: dict[str, str] | None = None,
        overrides: tuple[str, ...] = (),
        *,
        start: Trained = START,
        part: float = 1.0,
        stages: int = 1,
    ) -> Trained:
        """A model from `start`, with this part of the budget divided among its stages."""
        count = self.updates(recipe) * part
        share = count * 1000 / STATED.get(recipe, RECIPE_UPDATES)
        run = f"{self.name}/{name}"
        return Trained(run, recipe, sweep or {}, overrides, (), start, count / stages, share)


EQUAL_UPDATES = Budget("equal-updates", "equal updates")
EQUAL_TIME = Budget("equal-time", "equal processor time", is_time=True)


# The same run in both budgets: the others are measured against it, and all analyses use it.
HMT = EQUAL_UPDATES.tuned("hmt", "hmt", {"lower": LOWERS})
# An HMT that may write before the first token is read, as in the paper's first row.
LOWEST = EQUAL_UPDATES.tuned("hmt-lowest", "hmt", {}, ("model.config.lower=-1",))
MULTIPATH = EQUAL_UPDATES.tuned("multipath", "multipath", {"k": LAGS})


def refreshed(model: Trained) -> Trained:
    """The same model, with its prefix recomputed at each step on everything read."""
    sweep = {**model.sweep, "refresh": "true"}
    return replace(model, sweep=sweep, evaluated=f"{model.run}-refresh")


def rivals(budget: Budget) -> tuple[Rival, ...]:
    """All systems, HMT first, then from cheap to expensive."""
    multipath = budget.tuned("multipath", "multipath", {"k": LAGS})
    moe = budget.tuned("moe-wait-k", "moe-wait-k", {"k": "1,3,5,7,9"}, (HALVES,), stages=2)
    drawn = budget.tuned("gma-drawn", "gma-drawn", {"delta": "0.5,1,1.5,2,3"})
    wait_k = tuple(
        budget.tuned(f"wait-{k}", "wait-k", {}, (f"model.config.k={k}",)) for k in WAIT_K_LAGS
    )
    composed = "composed of the wait-k models"
    by_lag = _adaptive(budget, "adaptive-wait-k", wait_k, composed, "adaptive")
    return (
        Rival("hmt", (HMT,), "one model, lower drawn from 1 to 6", is_core=True),
        Rival("multipath", (multipath,), "one model, k drawn", is_core=True),
        Rival(
            "multipath-refresh",
            (refreshed(multipath),),
            "the same, with the prefix recomputed at each step",
            variant_of="multipath",
        ),
        Rival(
            "full",
            (budget.tuned("full", "full"),),
            "waits for the whole sentence: the ceiling",
            is_core=True,
        ),
        Rival(
            "itst",
            (budget.tuned("itst", "itst", {"threshold": ITST_THRESHOLDS}),),
            "one model",
            is_core=True,
        ),
        Rival(
            "gma-drawn",
            (drawn,),
            "one model, delta drawn from 0.5 to 3: an addition of ours",
            is_core=True,
        ),
        _adaptive(budget, "adaptive", (multipath,), "composed of the multipath model"),
        Rival("moe-wait-k", (moe,), "one model, k drawn; the first half trained without the gate"),
        Rival(
            "moe-wait-k-refresh",
            (refreshed(moe),),
            "the same, with the prefix recomputed at each step",
            variant_of="moe-wait-k",
        ),
        _mma(budget, "mma", 1.0),
        Rival("wait-k", wait_k, "one model per k (1, 3, 5, 7, 9)"),
        by_lag,
        _together(by_lag),
        Rival("gma", _gma(budget), "one model per delta (0.5, 1, 2, 3), as published"),
        Rival(
            "gsimt",
            (budget.tuned("gsimt", "gsimt", {"threshold": GSIMT_THRESHOLDS}, (LATTICE,)),),
            "one model; a reconstruction, because the authors' code is not public",
        ),
        _mma(budget, "mma-noise-1.5", 1.5, "mma"),
    )


def _gma(budget: Budget) -> tuple[Trained, ...]:
    return tuple(
        budget.tuned(f"gma-{delta:g}", "gma", {}, (f"model.config.delta={delta}",))
        for delta in DELTAS
    )


def _mma(budget: Budget, label: str, noise: float, variant_of: str = "") -> Rival:
    """First without the latency loss, then one model per weight, half of the budget each."""
    settings = (f"model.config.noise={noise}",) if noise != 1.0 else ()
    first = budget.tuned(
        f"{label}-0", "mma", {}, ("model.config.latency_weight=0.0", *settings), part=0.5
    )
    models = tuple(
        budget.tuned(
            f"{label}-{weight:g}",
            "mma",
            {},
            (f"model.config.latency_weight={weight}", *settings),
            start=first,
            part=0.5,
        )
        for weight in MMA_WEIGHTS
    )
    note = (
        f"first latency weight 0, then one model per weight ({', '.join(map(str, MMA_WEIGHTS))}), "
        f"half of the budget each, threshold 0.5, noise {noise:g}"
    )
    return Rival(label, models, note, variant_of)


def _adaptive(
    budget: Budget, label: str, made_of: tuple[Trained, ...], note: str, variant_of: str = ""
) -> Rival:
    model = Trained(f"{budget.name}/{label}", "adaptive", {"rho-a": RHOS}, made_of=made_of)
    return Rival(label, (model,), note, variant_of)


def _together(adaptive: Rival) -> Rival:
    """The same models, with neighbours predicting together."""
    models = tuple(
        replace(
            model,
            sweep={**model.sweep, "ensemble": "true"},
            evaluated=f"{Path(model.run).parent}/adaptive-ensemble",
        )
        for model in adaptive.models
    )
    note = "the same, but the three models nearest to a lag predict together"
    return Rival("adaptive-ensemble", models, note, variant_of="adaptive")
