"""The ablation tables: HMT with one thing changed, the paper's AL and BLEU beside ours.

All models start from the full-sentence model, which knows the languages but has never seen a
prefix; L = 3 and K = 6 as in the paper unless stated otherwise.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from hmt.analysis.published import published_table
from hmt.paper.blocks import Section, Table
from hmt.paper.parts.shown import bleu, find_point, lag
from hmt.paper.parts.systems import FULL
from hmt.paper.plan import Part, Place, Step
from hmt.paper.steps import evaluate, train

FOLDER = "ablations"
REFERENCE = "reference"
LEVEL_LAG = 0.2  # tokens of AL that count as no difference


@dataclass(frozen=True)
class Ablation:
    """One row of a table: its label in the paper, the run, how it is evaluated."""

    label: str
    run: str = REFERENCE
    overrides: tuple[str, ...] = ()
    settings: dict[str, str] = field(default_factory=dict)
    share: float = 1.0  # of the reference's cost

    @property
    def folder(self) -> str:
        suffix = "".join(f"-{value}" for value in self.settings.values())
        return f"{FOLDER}/{self.run}{suffix}"

    def steps(self, place: Place) -> list[Step]:
        start = FULL.train(place)
        name = f"{FOLDER}/{self.run}"
        recipe = f"{FOLDER}/hmt"
        run = train(place, name, recipe, self.overrides, warm_start=start, share=self.share)
        return [evaluate(place, self.folder, run, self.settings)]


def _weights(key: str, values: Sequence[str]) -> tuple[Ablation, ...]:
    return tuple(
        Ablation(v)
        if v == "1.0"
        else Ablation(v, f"{key}-{v}", (f"model.config.{key}_weight={v}",))
        for v in values
    )


def _sizes(*pairs: tuple[int, int]) -> tuple[Ablation, ...]:
    return tuple(
        Ablation(
            f"L={lower} K={states}",
            f"L{lower}-K{states}",
            (f"model.config.lower={lower}", f"model.config.states={states}"),
            share=(states + 2) / 8,
        )
        for lower, states in pairs
    )


GRID = ("0.0", "0.5", "1.0", "1.5", "2.0")
MAX = ('model.config.attention="max"',)
TABLES: dict[str, tuple[str, str, int, tuple[Ablation, ...]]] = {
    # name: title, the paper's claim, index of the row that the others are compared with, rows
    "hmm-loss": (
        "HMM loss: all selections or the best one",
        "Table 2: with only the most probable selection, HMT always writes at the first state",
        0,
        (
            Ablation("all selections"),
            Ablation("most probable selection", "best-path", ('model.config.path="best"',)),
        ),
    ),
    "latency-weight": (
        "Weight of the latency loss",
        "Table 3: a larger weight gives lower latency and lower BLEU",
        2,
        _weights("latency", GRID),
    ),
    "state-weight": (
        "Weight of the state loss",
        "Table 4: without it, HMT loses 1.5 BLEU; its size matters little",
        2,
        _weights("state", GRID),
    ),
    "states": (
        "Number of states",
        "Table 5: one state is worst; few are best at low latency, more at high latency",
        6,
        (
            *_sizes((4, 1), (3, 2), (2, 4), (1, 6), (7, 1), (6, 4), (5, 6), (4, 8)),
            *_sizes((11, 1), (10, 6), (9, 8), (8, 10)),
        ),
    ),
    "attention": (
        "Attention between states",
        "Table 6: attention to multiple states in training and inference is best",
        0,
        (
            Ablation("multiple, multiple"),
            Ablation("multiple, max", settings={"attention": "max"}),
            Ablation("multiple, selected", settings={"attention": "selected"}),
            Ablation("max, max", "max", MAX, {"attention": "max"}),
            Ablation("max, selected", "max", MAX, {"attention": "selected"}),
        ),
    ),
}


def steps(name: str, place: Place) -> list[Step]:
    """Train and evaluate every row."""
    return [step for row in TABLES[name][3] for step in row.steps(place)]


CORE = {"latency-weight": ("1.0", "0.0", "2.0"), "state-weight": ("1.0", "0.0")}


def core(name: str, place: Place) -> list[Step]:
    """The rows that show most: the ends of a grid, the first third of the rows on states."""
    rows = TABLES[name][3]
    chosen = CORE.get(name, [row.label for row in (rows[:4] if name == "states" else rows)])
    return [step for row in rows if row.label in chosen for step in row.steps(place)]


@dataclass(frozen=True)
class Outcome:
    """AL and BLEU of a row in the paper and here, and the interval of our BLEU."""

    label: str
    paper: tuple[float, float]
    ours: tuple[float, float]
    interval: tuple[float, float]


def section(name: str, place: Place) -> Section:
    """Their numbers and ours, row by row."""
    _, _, reference, rows = TABLES[name]
    theirs = {label: (delay, score) for label, delay, score in published_table(name)}
    cells, outcomes, missing = [], {}, []
    for n, row in enumerate(rows):
        delay, score = theirs[row.label]
        point = find_point(place.found / row.folder, row.settings)
        ours = ("–", "–") if point is None else (lag(point), bleu(point))
        cells.append((row.label, f"{delay:.2f}", f"{score:.2f}", *ours))
        if point is None:
            missing.append(f"“{row.label}”")
            continue
        score_ours = point["quality"]["bleu"]
        ends = ((point.get("intervals") or {}).get("quality") or {}).get("bleu")
        low, high = ends or (score_ours, score_ours)
        found = (point["latency"]["token"]["AL"], score_ours)
        outcomes[n] = Outcome(row.label, (delay, score), found, (low, high))
    head = (name.replace("-", " "), "paper: AL", "BLEU", "ours: AL", "BLEU")
    said = levels(outcomes) if name == "states" else verdict(outcomes, reference)
    return Section((Table(head, tuple(cells)),), said, missing)


def levels(outcomes: dict[int, Outcome]) -> str:
    """Which number of states is best and which is worst at low, middle and high latency."""
    said = []
    for n, name in enumerate(("low", "middle", "high")):
        rows = [outcomes[i] for i in range(4 * n, 4 * n + 4) if i in outcomes]
        if len(rows) < 2:
            continue
        order = [sorted(rows, key=lambda row: row.paper[1]), sorted(rows, key=lambda o: o.ours[1])]
        theirs, ours = ((found[-1].label, found[0].label) for found in order)
        spread = order[1][-1].ours[1] - order[1][0].ours[1]
        said.append(
            f"at {name} latency {ours[0]} is best and {ours[1]} worst, {spread:.1f} BLEU apart "
            f"(paper, of the same rows: {theirs[0]} and {theirs[1]})"
        )
    if not said:
        return "There are too few rows yet to compare numbers of states."
    return f"Here {'; '.join(said)}."


def verdict(outcomes: dict[int, Outcome], reference: int) -> str:
    """Whether AL and BLEU differ from the reference row in the same direction as in the paper."""
    if reference not in outcomes or len(outcomes) < 2:
        rows = [f"{o.label} has {o.ours[1]:.1f} at AL {o.ours[0]:.2f}" for o in outcomes.values()]
        so_far = f"; ours so far: {', '.join(rows)}" if rows else ""
        return f"There are too few rows yet to compare directions with the paper{so_far}."
    base = outcomes[reference]
    others = [outcome for n, outcome in outcomes.items() if n != reference]
    said = []
    for what, place, still in (
        ("AL", 0, f"moves by less than {LEVEL_LAG}"),
        ("BLEU", 1, "stays within its interval"),
    ):
        groups: dict[str, list[str]] = {"moves as in the paper": [], still: []}
        groups["moves the other way"] = []
        low, high = base.interval
        for outcome in others:
            paper = outcome.paper[place] - base.paper[place]
            ours = outcome.ours[place] - base.ours[place]
            is_level = abs(ours) < LEVEL_LAG if what == "AL" else low <= outcome.ours[place] <= high
            way = "moves as in the paper" if paper * ours > 0 else "moves the other way"
            by = f"{ours:+.2f}" if what == "AL" else f"{ours:+.1f}"
            groups[still if is_level else way].append(f"{outcome.label}: {by}")
        parts = [f"{text} ({'; '.join(labels)})" for text, labels in groups.items() if labels]
        said.append(f"{what} {', '.join(parts)}")
    return f"Against the row {base.label}: {'; '.join(said)}."


PARTS = tuple(
    Part(
        name,
        title,
        claim,
        partial(steps, name),
        partial(section, name),
        ("ablations",),
        partial(core, name),
    )
    for name, (title, claim, _, _) in TABLES.items()
)
