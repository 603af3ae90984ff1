"""Quality of the policy: aligned source words read before writing, over latency."""

from pathlib import Path

from hmt.analysis.curves import Axes, Curve, read_curve
from hmt.analysis.figures import curve_figure, save_figure
from hmt.paper.blocks import Picture, Section, Table
from hmt.paper.parts.shown import with_interval
from hmt.paper.parts.systems import RIVALS, Rival
from hmt.paper.plan import Part, Place, Step
from hmt.paper.steps import analyse

SHOWN = ("hmt", "wait-k", "multipath", "mma", "gma", "itst")
AXES = Axes.named("aligned_sure", "token.AL")


def rivals() -> list[Rival]:
    """The systems of this figure."""
    return [rival for rival in RIVALS if rival.label in SHOWN]


def steps(place: Place) -> list[Step]:
    """Forced decoding of aligned pairs by every model."""
    if place.alignments is None:
        return []
    source, target, links = (place.alignments / f"test.{end}" for end in ("de", "en", "talp"))
    files = ("--source", str(source), "--target", str(target), "--alignment", str(links))
    found = []
    for model in (model for rival in rivals() for model in rival.models):
        trained = model.train(place)
        sweep = [word for key, values in model.sweep.items() for word in (f"--{key}", values)]
        words = (str(trained.output.parent), *files, *sweep)
        inputs = (source, target, links)
        found.append(
            analyse(
                place,
                "policy",
                f"policy/{model.run}",
                words,
                [trained],
                file="scores.json",
                inputs=inputs,
                seconds=60.0,
            )
        )
    return found


def section(place: Place) -> Section:
    """The figure, and the share that each system has read at like latencies."""
    there: dict[str, list[Path]] = {}
    missing = []
    for rival in rivals():
        every = [place.output / "policy" / model.run for model in rival.models]
        there[rival.label] = [path for path in every if (path / "scores.json").exists()]
        missing += [path.name for path in every if path not in there[rival.label]]
    curves = [read_curve(paths, AXES, label) for label, paths in there.items() if paths]
    if not curves:
        return Section((), "Not measured yet.", missing)
    save_figure(curve_figure(curves, AXES), place.output / "policy" / "policy.svg")
    rows = tuple(
        (
            c.label,
            f"{p.latency:.2f}",
            with_interval(p.quality, list(p.quality_interval) if p.quality_interval else None),
        )
        for c in curves
        for p in c.points
    )
    picture = Picture(place.output / "policy" / "policy.svg", "Aligned source read, sure links")
    table = Table(("system", "AL", "aligned source words read (%)"), rows)
    return Section((picture, table), _verdict(curves), missing)


def _verdict(curves: list[Curve]) -> str:
    """Whether HMT lies above the others where their latencies meet."""
    by_label = {curve.label: curve for curve in curves}
    own = by_label.pop("hmt", None)
    if own is None or not by_label:
        return "There are too few systems yet to compare."
    above: list[str] = []
    below: list[str] = []
    for label, curve in by_label.items():
        pairs = [(q, p.quality) for p in curve.points if (q := _height(own, p.latency)) is not None]
        if pairs:
            group = above if sum(a - b for a, b in pairs) > 0 else below
            group.append(label)
    as_there = "As" if above and not below else "Unlike"
    return (
        f"{as_there} in the paper, where HMT has read more than all others at every latency: at "
        f"equal AL it has read more than {', '.join(above) or 'none'} and less than "
        f"{', '.join(below) or 'none'}, on average over their points."
    )


def _height(curve: Curve, latency: float) -> float | None:
    """Quality of a curve at a latency, on the line between its points; None beyond its ends."""
    for a, b in zip(curve.points, curve.points[1:], strict=False):
        if a.latency <= latency <= b.latency and b.latency > a.latency:
            share = (latency - a.latency) / (b.latency - a.latency)
            return a.quality + share * (b.quality - a.quality)
    return None


PARTS = (
    Part(
        "policy",
        "Quality of the policy",
        "Figure 13: at equal latency HMT has read more aligned source words than the others (RWTH "
        "alignments, forced decoding)",
        steps,
        section,
        ("analyses",),
    ),
)
