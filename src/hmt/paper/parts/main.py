"""The main figure, quality over latency of all systems, and its numbers with more metrics."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hmt.analysis.curves import Curve, read_curve
from hmt.analysis.figures import curve_figure, save_figure
from hmt.analysis.published import published
from hmt.analysis.rivals import in_words
from hmt.evaluation.points import read_points
from hmt.paper.blocks import Block, Picture, Section, Table, Text
from hmt.paper.parts.shown import AXES, bleu, lag, read_data
from hmt.paper.parts.systems import RIVALS, Rival
from hmt.paper.plan import Part, Place, Step
from hmt.paper.steps import analyse, evaluate

SEEDED = ("hmt", "multipath", "mma")  # repeated with every seed that is asked for
DIALS = ("lower", "k", "delta", "threshold", "rho_a")
LOWEST = -1  # the paper's lower boundary for latencies below one token


def steps(place: Place) -> list[Step]:
    """Train and evaluate every system; test HMT against each other one."""
    evaluated = {rival.label: [m.evaluate(place) for m in rival.models] for rival in RIVALS}
    found = [step for each in evaluated.values() for step in each]
    for rival in RIVALS:
        if rival.label in SEEDED:
            found += [m.evaluate(place, seed) for seed in place.seeds[1:] for m in rival.models]
    own = evaluated[RIVALS[0].label]
    for rival in RIVALS[1:]:
        both = (RIVALS[0], own), (rival, evaluated[rival.label])
        words = [f"{each.label}={_joined(steps)}" for each, steps in both]
        needs = [*own, *evaluated[rival.label]]
        folder = f"main/against-{rival.label}"
        found.append(analyse(place, "rivals", folder, words, needs, seconds=60.0))
    return found


def _joined(steps: Sequence[Step]) -> str:
    return ",".join(str(step.output.parent) for step in steps)


def folders(place: Place, rival: Rival, seed: int = 1) -> list[Path]:
    """The evaluations of a system that are there."""
    every = [place.output / "main" / model.named(seed) for model in rival.models]
    return [folder for folder in every if (folder / "scores.json").exists()]


def section(place: Place) -> Section:
    """The figure of what is there, all points, and the tests."""
    there = [(rival, folders(place, rival)) for rival in RIVALS]
    missing = [
        model.run
        for rival, paths in there
        for model in rival.models
        if place.output / "main" / model.run not in paths
    ]
    curves = [read_curve(paths, AXES, rival.label) for rival, paths in there if paths]
    if not curves:
        return Section((), "Nothing has been evaluated yet.", missing)
    save_figure(curve_figure(curves, AXES), place.output / "main" / "main.svg")
    blocks: list[Block] = [
        Picture(place.output / "main" / "main.svg", "BLEU over AL in tokens, 95 % intervals"),
        Text("How each system is trained: " + "; ".join(f"{r.label}: {r.note}" for r in RIVALS)),
        _table(curves),
        *_seeds(place),
    ]
    tests = [
        found
        for rival in RIVALS[1:]
        if (data := read_data(place.output / f"main/against-{rival.label}/rivals.json"))
        for found in data["differences"]
    ]
    blocks += [Text(in_words(found)) for found in tests]
    return Section(blocks, _verdict(tests), missing)


def _table(curves: Sequence[Curve]) -> Table:
    rows = []
    for curve in curves:
        for point in curve.points:
            low, high = point.quality_interval or (point.quality, point.quality)
            quality = f"{point.quality:.1f} [{low:.1f}, {high:.1f}]"
            rows.append((curve.label, dial(point.settings), f"{point.latency:.2f}", quality))
    return Table(("system", "setting", "AL", "BLEU"), tuple(rows))


def dial(settings: Mapping[str, Any]) -> str:
    """The settings that set the latency of some system."""
    return ", ".join(f"{name} {value}" for name, value in settings.items() if name in DIALS)


def _seeds(place: Place) -> list[Block]:
    """BLEU at AL of every seed, and the mean, where there are several."""
    rows: list[tuple[str, ...]] = []
    for rival in RIVALS:
        by_setting: dict[str, list[dict[str, Any]]] = {}
        for seed in place.seeds:
            for folder in folders(place, rival, seed):
                for point in read_points(folder / "scores.json"):
                    by_setting.setdefault(dial(point["settings"]), []).append(point)
        for setting, points in by_setting.items():
            if len(points) > 1:
                scores = [point["quality"]["bleu"] for point in points]
                each = ", ".join(f"{bleu(p).split()[0]} at {lag(p)}" for p in points)
                mean = sum(scores) / len(scores)
                rows.append((rival.label, setting, f"{mean:.1f}", each))
    return [Table(("system", "setting", "mean BLEU", "each seed"), tuple(rows))] if rows else []


def _verdict(tests: Sequence[dict[str, Any]]) -> str:
    """One sentence: against whom HMT is above, level, below."""
    sides: dict[str, list[str]] = {"above": [], "level with": [], "below": [], "never beside": []}
    for found in tests:
        if "why_not" in found:
            side = "never beside"
        elif found["p"] >= 0.05:
            side = "level with"
        else:
            side = "above" if found["difference"] > 0 else "below"
        # the tests are of HMT (second) minus the other one
        sides[side].append(found["first"])
    said = [f"{side} {', '.join(names)}" for side, names in sides.items() if names]
    if not said:
        return "The paper has HMT above all others; it has not been tested against another one yet."
    agrees = not sides["below"] and not sides["level with"]
    start = "As in the paper" if agrees else "The paper has HMT above all others"
    return f"{start}{', ' if agrees else '; here '}HMT is {', '.join(said)} where they share AL."


def numerical_steps(place: Place) -> list[Step]:
    """HMT below one token of lag, beside its points of the main figure."""
    hmt = RIVALS[0].models[0]
    lowest = evaluate(place, "numerical/lowest", hmt.train(place), {"lower": str(LOWEST)})
    return [hmt.evaluate(place), lowest]


def numerical(place: Place) -> Section:
    """CW, AP, AL, DAL and BLEU of HMT beside the paper's tables."""
    ours = [
        point
        for folder in ("numerical/lowest", "main/hmt")
        for point in read_points(place.output / folder / "scores.json")
    ]
    theirs = published("wmt15-base", AXES)
    head = ("", "L", "K", "CW", "AP", "AL", "DAL", "BLEU")
    metrics = head[3:7]
    rows = [
        (
            *("paper", str(p.settings["lower"]), str(p.settings["states"])),
            *(f"{p.values[f'token.{m}']:.2f}" for m in metrics),
            f"{p.quality:.2f}",
        )
        for p in theirs.points
    ]
    rows += [
        (
            *("ours", str(p["settings"]["lower"]), str(p["settings"]["states"])),
            *(lag(p, m) for m in metrics),
            bleu(p),
        )
        for p in ours
    ]
    if not ours:
        return Section((Table(head, tuple(rows)),), "Ours is not there yet.", ["hmt"])
    lags = [p["latency"]["token"]["AL"] for p in ours]
    verdict = (
        "As in the paper, a larger L is later; the numbers themselves are of "
        "another corpus, with sentences half as long, and cannot be compared."
        if lags == sorted(lags)
        else "Unlike in the paper, a larger L is not always later."
    )
    note = Text("CW of sentences that end before the source: ours follows the printed formula.")
    return Section((Table(head, tuple(rows)), note), verdict)


PARTS = (
    Part(
        "main",
        "Quality over latency, all systems",
        "Figure 4: BLEU over AL on IWSLT15 En-Vi (Small), WMT15 De-En (Base and Big); HMT is above "
        "all others at every latency",
        steps,
        section,
    ),
    Part(
        "numerical",
        "Numerical results with more metrics",
        "Tables 8 to 10: CW, AP, AL, DAL and BLEU of HMT",
        numerical_steps,
        numerical,
    ),
)
