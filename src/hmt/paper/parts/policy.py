"""Quality of the policy: aligned source words read before writing, over latency."""

from pathlib import Path

from hmt.analysis.curves import Axes, Curve, read_curve
from hmt.analysis.figures import curve_figure
from hmt.paper.blocks import Section, Table
from hmt.paper.parts.budgets import EQUAL_UPDATES, rivals
from hmt.paper.parts.comparison import height
from hmt.paper.parts.drawn import drawn
from hmt.paper.parts.shown import with_interval
from hmt.paper.parts.systems import Rival
from hmt.paper.plan import Part, Place, Step
from hmt.paper.steps import analyse

ALIGNMENTS = "alignments"  # the option that names their folder
SHOWN = ("hmt", "multipath", "itst", "gma-drawn", "mma", "wait-k", "gma")
AXES = Axes.named("aligned_sure", "token.AL")


def shown() -> list[Rival]:
    """The systems of this figure, from cheap to expensive."""
    return sorted(
        (rival for rival in rivals(EQUAL_UPDATES) if rival.label in SHOWN),
        key=lambda rival: SHOWN.index(rival.label),
    )


def core(place: Place) -> list[Step]:
    """The first systems of the main figure."""
    return _steps(place, [rival for rival in shown() if rival.is_core])


def steps(place: Place) -> list[Step]:
    """Forced decoding of aligned pairs by every model."""
    return _steps(place, shown())


def _steps(place: Place, every: list[Rival]) -> list[Step]:
    if ALIGNMENTS not in place.texts:
        return []
    folder = place.texts[ALIGNMENTS]
    source, target, links = (folder / f"test.{end}" for end in ("de", "en", "talp"))
    files = ("--source", str(source), "--target", str(target), "--alignment", str(links))
    found = []
    for model in (model for rival in every for model in rival.models):
        trained = model.train(place)
        sweep = [word for key, values in model.sweep.items() for word in (f"--{key}", values)]
        words = (str(trained.output.parent), *files, *sweep)
        inputs = (source, target, links)
        found.append(
            analyse(
                place,
                "policy",
                f"policy/{Path(model.run).name}",
                words,
                [trained],
                file="scores.json",
                inputs=inputs,
                seconds=60.0,
            )
        )
    return found


def section(place: Place) -> Section:
    """The figure, and the share of aligned words that each system has read at each latency."""
    there: dict[str, list[Path]] = {}
    missing = []
    for rival in shown():
        every = [place.found / "policy" / Path(model.run).name for model in rival.models]
        there[rival.label] = [path for path in every if (path / "scores.json").exists()]
        missing += [path.name for path in every if path not in there[rival.label]]
    curves = [read_curve(paths, AXES, label) for label, paths in there.items() if paths]
    if not curves:
        return Section((), "Not measured yet.", missing)
    rows = tuple(
        (
            c.label,
            f"{p.latency:.2f}",
            with_interval(p.quality, list(p.quality_interval) if p.quality_interval else None),
        )
        for c in curves
        for p in c.points
    )
    figure = curve_figure(curves, AXES)
    picture = drawn(place, "policy/policy.svg", figure, "Aligned source read, sure links")
    table = Table(("system", "AL", "aligned source words read (%)"), rows)
    return Section((picture, table), _verdict(curves), missing)


def _verdict(curves: list[Curve]) -> str:
    """Whether HMT lies above the others where their latencies overlap."""
    by_label = {curve.label: curve for curve in curves}
    own = by_label.pop("hmt", None)
    if own is None or not by_label:
        first = own or curves[0]
        reach = ", ".join(f"{p.quality:.0f} % at AL {p.latency:.2f}" for p in first.points)
        return f"{first.label} has read {reach}; there is no second system to compare with yet."
    above: list[str] = []
    below: list[str] = []
    for label, curve in by_label.items():
        pairs = [(q, p.quality) for p in curve.points if (q := height(own, p.latency)) is not None]
        if pairs:
            group = above if sum(a - b for a, b in pairs) > 0 else below
            group.append(label)
    if not above and not below:
        return "No other system has been measured at the latencies of HMT yet."
    sides = (("more", above), ("less", below))
    said = [f"{side} than {', '.join(names)}" for side, names in sides if names]
    as_there = "As" if not below else "Unlike"
    return (
        f"{as_there} in the paper, where HMT has read more than all others at every latency: at "
        f"equal AL it has read {' and '.join(said)}, on average over their points."
    )


PARTS = (
    Part(
        "policy",
        "Quality of the policy",
        "Figure 13: at equal latency HMT has read more aligned source words than the others (RWTH "
        "alignments, forced decoding)",
        steps,
        section,
        ("analyses",),
        core,
        (ALIGNMENTS,),
    ),
)
