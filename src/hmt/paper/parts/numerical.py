"""The numbers behind the main figure, with more metrics of latency."""

from hmt.analysis.published import published
from hmt.evaluation.points import read_points
from hmt.paper.blocks import Section, Table, Text
from hmt.paper.parts.budgets import lowest
from hmt.paper.parts.shown import AXES, bleu, lag
from hmt.paper.parts.systems import HMT
from hmt.paper.plan import Part, Place, Step

METRICS = ("CW", "AP", "AL", "DAL")


def core(place: Place) -> list[Step]:
    """HMT from scratch at all its lower boundaries."""
    return [HMT.evaluate(place)]


def steps(place: Place) -> list[Step]:
    """And a model for a boundary before the first token."""
    return [*core(place), lowest().evaluate(place)]


def section(place: Place) -> Section:
    """CW, AP, AL, DAL and BLEU of HMT beside the paper's."""
    models = (lowest(), HMT)
    folders = [path for model in models if (path := model.results(place)) is not None]
    ours = [point for folder in folders for point in read_points(folder / "scores.json")]
    rows = [
        (
            *("paper", str(p.settings["lower"]), str(p.settings["states"])),
            *(f"{p.values[f'token.{m}']:.2f}" for m in METRICS),
            f"{p.quality:.2f}",
        )
        for p in published("wmt15-base", AXES).points
    ]
    rows += [
        (
            *("ours", str(p["settings"]["lower"]), str(p["settings"]["states"])),
            *(lag(p, m) for m in METRICS),
            bleu(p),
        )
        for p in ours
    ]
    table = Table(("", "L", "K", *METRICS, "BLEU"), tuple(rows))
    missing = [model.run for model in models if model.results(place) is None]
    if not ours:
        return Section((table,), "Ours is not there yet.", missing)
    lags = [p["latency"]["token"]["AL"] for p in ours]
    reach = (
        f"here from AL {lags[0]:.2f} at L = {ours[0]['settings']['lower']} to {lags[-1]:.2f} at "
        f"L = {ours[-1]['settings']['lower']}"
    )
    verdict = (
        f"As in the paper, a larger L is later, {reach}; the numbers themselves are of another "
        "corpus, with sentences half as long, and cannot be compared."
        if lags == sorted(lags)
        else f"Unlike in the paper, a larger L is not always later, {reach}."
    )
    note = Text(
        "CW of sentences that end before the source: ours follows the printed formula, the "
        "authors' code counts the unread rest as read. L = -1 is a model of its own, from the "
        "shared start; the others are one model from scratch."
    )
    return Section((table, note), verdict, missing)


PARTS = (
    Part(
        "numerical",
        "Numerical results with more metrics",
        "Tables 8 to 10: CW, AP, AL, DAL and BLEU of HMT",
        steps,
        section,
        ("analyses",),
        core,
    ),
)
