"""Systems side by side: their curves, and HMT tested against each other system.

The first system is HMT.  The parts main, time, scratch, europarl and iwslt15 are such comparisons.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hmt.analysis.curves import Axes, Curve, CurvePoint, read_curve
from hmt.analysis.figures import curve_figure
from hmt.paper.blocks import Block, Table, Text
from hmt.paper.parts.drawn import drawn
from hmt.paper.parts.shown import AXES, read_data, with_interval
from hmt.paper.parts.systems import Rival, Trained
from hmt.paper.plan import Place, Step
from hmt.paper.steps import analyse

DIALS = ("lower", "k", "delta", "threshold", "rho_a")
LEVEL = 0.05  # of the tests
REACH = 4.0  # BLEU below HMT's lowest point that are drawn; with more, curves lie on each other


@dataclass(frozen=True)
class Comparison:
    """Systems that are drawn into one figure."""

    folder: str  # of figure and tests
    rivals: tuple[Rival, ...]
    axes: Axes = AXES
    is_seeded: bool = False  # HMT and the strongest two others are repeated with every seed
    tests_seconds: float = 60.0

    def steps(self, place: Place, *, only_core: bool = False) -> list[Step]:
        """Train and evaluate every system; test HMT against each once both exist."""
        found: list[Step] = []
        for seed in place.seeds if self.is_seeded else place.seeds[:1]:
            own, *others = self.rivals
            again = self.repeated(place) if seed != place.seeds[0] else None
            for rival in (own, *others):
                if (only_core and not rival.is_core) or (again and rival.label not in again):
                    continue
                evaluated = [model.evaluate(place, seed) for model in rival.models]
                found += evaluated
                if rival is not own:
                    found.append(self._test(place, rival, evaluated, seed))
        return found

    def repeated(self, place: Place) -> tuple[str, ...]:
        """HMT and the two systems that came nearest to it with the first seed."""
        tested = {t["first"]: t["difference"] for t in self.tests(place) if "difference" in t}
        nearest = sorted(tested, key=lambda label: tested[label])[:2]
        # a system whose latency cannot be swept has no curve to repeat
        usual = [r.label for r in self.rivals[1:] if not r.variant_of and r.models[0].sweep]
        return (self.rivals[0].label, *(nearest if len(nearest) == 2 else usual[:2]))

    def _test(self, place: Place, rival: Rival, evaluated: Sequence[Step], seed: int) -> Step:
        own = [model.evaluate(place, seed) for model in self.rivals[0].models]
        words = [
            f"{each.label}={','.join(str(step.output.parent) for step in steps)}"
            for each, steps in ((self.rivals[0], own), (rival, evaluated))
        ]
        words += ["--quality", self.axes.quality, "--latency", self.axes.latency]
        folder = self._test_folder(rival, seed)
        needs = [*own, *evaluated]
        return analyse(place, "rivals", folder, words, needs, seconds=self.tests_seconds)

    def _test_folder(self, rival: Rival, seed: int) -> str:
        suffix = "" if seed == 1 else f"-{seed}"
        return f"{self.folder}/against-{rival.label}{suffix}"

    def tests(self, place: Place, seed: int | None = None) -> list[dict[str, Any]]:
        """The tests that exist: HMT ("second") minus each other one ("first")."""
        seed = place.seeds[0] if seed is None else seed
        return [
            {**found, "seed": seed}
            for rival in self.rivals[1:]
            if (data := read_data(place.found / self._test_folder(rival, seed) / "rivals.json"))
            for found in data["differences"]
        ]

    def missing(self, place: Place) -> list[str]:
        """Systems without results of the first seed, or those of their models that have none."""
        found = []
        for rival in self.rivals:
            lacking = [m for m in rival.models if m.results(place, place.seeds[0]) is None]
            names = ", ".join(Path(model.run).name for model in lacking)
            if lacking:
                is_whole = len(lacking) == len(rival.models)
                found.append(rival.label if is_whole else f"{rival.label} ({names})")
        return found

    def curves(self, place: Place) -> list[Curve]:
        """The means over seeds of every system that has results."""
        found = []
        for rival in self.rivals:
            points = [p for model in rival.models for p in _means(model, place, self.axes)]
            if len(rival.models) > 1:
                points = [
                    replace(p, settings={"model": Path(model.run).name, **p.settings})
                    for model in rival.models
                    for p in _means(model, place, self.axes)
                ]
            if points:
                points.sort(key=lambda point: point.latency)
                found.append(Curve(rival.label, tuple(points)))
        return found

    def drawn(self, place: Place, curves: Sequence[Curve]) -> list[Curve]:
        """The best variant of each system: by the test against HMT, else by mean quality."""
        tested = {t["first"]: t["difference"] for t in self.tests(place) if "difference" in t}
        family = {rival.label: rival.variant_of or rival.label for rival in self.rivals}
        best: dict[str, Curve] = {}
        for curve in curves:
            name, other = family[curve.label], best.get(family[curve.label])
            if other is None or _rank(curve, tested) > _rank(other, tested):
                best[name] = curve
        return list(best.values())

    def blocks(self, place: Place, caption: str, published: Sequence[Curve] = ()) -> list[Block]:
        """The figure, all its points, the tests; nothing before the first results."""
        curves = self.curves(place)
        if not curves:
            return []
        best = self.drawn(place, curves)
        seen, note = in_reach(best, self.rivals[0].label)
        figure = curve_figure([*seen, *published], self.axes)
        blocks: list[Block] = [drawn(place, f"{self.folder}/curves.svg", figure, caption)]
        blocks += [Text(text) for text in [note] if text]
        left = [c.label for c in curves if c not in best]
        if left:
            named = f"{', '.join(left)} {_verb(left, 'is', 'are')}"
            text = f"{named} in the table but not drawn: another variant of the system is better."
            blocks.append(Text(text))
        tests = [test for seed in place.seeds for test in self.tests(place, seed)]
        if tests:
            blocks.append(tests_table(tests, self.rivals[0].label))
        blocks += [Text(text) for text in [above(curves, self.rivals[0].label)] if text]
        blocks.append(points_table([*curves, *published]))
        return blocks

    def verdict(self, place: Place, claim: str) -> str:
        """One sentence on where HMT stands so far, after the paper's `claim`."""
        return f"{claim}; {self.standing(place)}."

    def standing(self, place: Place) -> str:
        """Where HMT stands against each other system, of which the better variant counts."""
        curves = self.curves(place)
        tests = {t["first"]: t for t in self.tests(place)}
        if not tests:
            return said_of(curves, self.rivals[0].label)
        drawn = {curve.label for curve in self.drawn(place, curves)}
        shown = {label: test for label, test in tests.items() if label in drawn}
        sides = sides_of(list(shown.values()))
        apart = sides.pop("apart from")
        said = [f"{side} {', '.join(names)}" for side, names in sides.items() if names]
        clauses = [f"here, where they share AL, HMT is {', '.join(said)}"] if said else []
        if apart:
            clauses.append(
                f"{', '.join(apart)} {_verb(apart, 'has', 'have')} no AL in common with it"
            )
        clauses += [text for text in [self._other_seeds(place, shown)] if text]
        families = {rival.variant_of or rival.label for rival in self.rivals[1:]}
        tested = {r.variant_of or r.label for r in self.rivals if r.label in tests}
        if left := len(families - tested):
            clauses.append(
                f"{left} of {len(families)} others {_verb([''] * left, 'is', 'are')} not tested yet"
            )
        return "; ".join(clauses)

    def _other_seeds(self, place: Place, first: Mapping[str, Mapping[str, Any]]) -> str:
        """Where tests with other seeds disagree with those of the first."""
        later = [test for seed in place.seeds[1:] for test in self.tests(place, seed)]
        again = [test for test in later if test["first"] in first]
        other = [
            f"{side_of(test)} {test['first']} with seed {test['seed']}"
            for test in again
            if side_of(test) != side_of(first[test["first"]])
        ]
        if other:
            return f"it is {', '.join(other)}"
        return "other seeds say the same" if again else ""


def _verb(names: Sequence[str], one: str, several: str) -> str:
    return one if len(names) == 1 else several


def _means(model: Trained, place: Place, axes: Axes) -> list[CurvePoint]:
    """The points of a model as means over its seeds; their band is the range of the seeds."""
    found: dict[str, list[CurvePoint]] = {}
    for seed in place.seeds:
        path = model.results(place, seed)
        for point in read_curve([path], axes, "").points if path else ():
            found.setdefault(json.dumps(point.settings, sort_keys=True), []).append(point)
    return [_mean(points) for points in found.values()]


def _mean(points: Sequence[CurvePoint]) -> CurvePoint:
    if len(points) == 1:
        return points[0]
    x, y = [p.latency for p in points], [p.quality for p in points]
    values = {"seeds": float(len(points))}
    return CurvePoint(
        sum(x) / len(x),
        sum(y) / len(y),
        (min(x), max(x)),
        (min(y), max(y)),
        points[0].settings,
        values,
    )


def _rank(curve: Curve, tested: Mapping[str, float]) -> tuple[bool, float]:
    if curve.label in tested:
        return True, -tested[curve.label]
    return False, sum(p.quality for p in curve.points) / len(curve.points)


def height(curve: Curve, latency: float) -> float | None:
    """Quality of a curve at a latency, on the line between its points; None beyond its ends."""
    for a, b in zip(curve.points, curve.points[1:], strict=False):
        if a.latency <= latency <= b.latency and b.latency > a.latency:
            share = (latency - a.latency) / (b.latency - a.latency)
            return a.quality + share * (b.quality - a.quality)
    return None


def above(curves: Sequence[Curve], own: str) -> str:
    """Which points of others lie above HMT's line, and by how much; empty if there is no line."""
    line = next((curve for curve in curves if curve.label == own and len(curve.points) > 1), None)
    others = [curve for curve in curves if curve.label != own]
    if line is None or not others:
        return ""
    beside = [
        (curve.label, point.latency, point.quality - own_height)
        for curve in others
        for point in curve.points
        if (own_height := height(line, point.latency)) is not None
    ]
    over = [f"{label} at AL {x:.2f} ({more:+.1f} BLEU)" for label, x, more in beside if more > 0]
    if not beside:
        return "No point of another system lies within the latencies of HMT."
    listed = f": {', '.join(over)}" if over else ""
    return (
        f"Of {len(beside)} points of others within HMT's latencies {len(over) or 'none'} "
        f"{'lies' if len(over) in (0, 1) else 'lie'} above its line{listed}."
    )


def said_of(curves: Sequence[Curve], own: str) -> str:
    """The results while nothing can be tested yet."""
    if not curves:
        return "nothing has been evaluated here yet"
    shown = next((curve for curve in curves if curve.label == own), curves[0])
    first, last = shown.points[0], shown.points[-1]
    reach = f"{shown.label} has {first.quality:.1f} at AL {first.latency:.2f}"
    if len(shown.points) > 1:
        reach += f" to {last.quality:.1f} at AL {last.latency:.2f}"
    others = [curve.label for curve in curves if curve is not shown]
    return f"here {reach}; beside it so far: {', '.join(others) or 'no other system'}"


def sides_of(tests: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    """The systems that HMT is above, level with, or below, by tests of HMT minus the other."""
    sides: dict[str, list[str]] = {"above": [], "level with": [], "below": [], "apart from": []}
    for found in tests:
        sides[side_of(found)].append(found["first"])
    return sides


def side_of(found: Mapping[str, Any]) -> str:
    """Where HMT stands by one test."""
    if "why_not" in found:
        return "apart from"
    if found["p"] >= LEVEL:
        return "level with"
    return "above" if found["difference"] > 0 else "below"


def difference(found: Mapping[str, Any] | None) -> str:
    """As in +0.85 [+0.12, +1.60], p = 0.020."""
    if found is None:
        return "–"
    if "why_not" in found:
        return "no common latency"
    low, high = found["interval"]
    return f"{found['difference']:+.2f} [{low:+.2f}, {high:+.2f}], p = {found['p']:.3f}"


def in_reach(curves: Sequence[Curve], own: str) -> tuple[list[Curve], str]:
    """The curves without their points far below HMT's, and which these are; empty if none."""
    lowest = [p.quality for curve in curves if curve.label == own for p in curve.points]
    floor = min(lowest) - REACH if lowest else float("-inf")
    seen = [
        replace(curve, points=tuple(p for p in curve.points if p.quality >= floor))
        for curve in curves
    ]
    cut = [a.label for a, b in zip(curves, seen, strict=True) if len(b.points) < len(a.points)]
    note = f"Points of {', '.join(cut)} below {floor:.1f} BLEU are in the table but not drawn."
    return [curve for curve in seen if curve.points], note if cut else ""


def tests_table(tests: Sequence[Mapping[str, Any]], own: str) -> Table:
    """Every test of HMT against another system, seed by seed."""
    rows = []
    for found in tests:
        reach = "–" if "why_not" in found else "{:.1f} to {:.1f}".format(*found["range"])
        rows.append((found["first"], str(found["seed"]), reach, difference(found), side_of(found)))
    head = ("other system", "seed", "common AL", f"{own} minus it", f"{own} is")
    return Table(head, tuple(rows))


def points_table(curves: Sequence[Curve]) -> Table:
    """All points; for several seeds, their mean and range."""
    rows = []
    for curve in curves:
        swept = dials(curve)
        for point in curve.points:
            ends = list(point.quality_interval) if point.quality_interval else None
            seeds = int(point.values.get("seeds", 1))
            count = "–" if curve.is_published else str(seeds)
            quality = with_interval(point.quality, ends)
            setting = ", ".join(f"{name} {point.settings[name]}" for name in swept)
            rows.append((curve.label, setting, f"{point.latency:.2f}", quality, count))
    head = ("system", "setting", "AL", "BLEU", "seeds")
    return Table(head, tuple(rows), f"All {len(rows)} points")


def dials(curve: Curve) -> list[str]:
    """The settings in which the points of a curve differ; the model only if nothing else does."""
    names = [name for name in DIALS if all(name in point.settings for point in curve.points)]
    differ = [name for name in names if len({p.settings[name] for p in curve.points}) > 1]
    has_models = all("model" in point.settings for point in curve.points)
    return differ or (["model"] if has_models else [])


def on(rivals: Sequence[Rival], folder: str, **changes: Any) -> tuple[Rival, ...]:
    """The same systems, their models changed, their results in another folder."""
    return tuple(
        replace(
            rival,
            models=tuple(
                replace(m, evaluated=f"{folder}/{Path(m.evaluated or m.run).name}", **changes)
                for m in rival.models
            ),
        )
        for rival in rivals
    )
