"""The numbers behind the main figure, with more latency metrics."""

from hmt.analysis.published import published
from hmt.evaluation.points import read_points
from hmt.paper.blocks import Section, Table, Text
from hmt.paper.parts.budgets import HMT, LOWEST
from hmt.paper.parts.shown import AXES, bleu, lag
from hmt.paper.plan import Part, Place, Step

METRICS = ("CW", "AP", "AL", "DAL")


def core(place: Place) -> list[Step]:
    """HMT at all its lower boundaries."""
    return [HMT.evaluate(place)]


def steps(place: Place) -> list[Step]:
    """The same, and a model whose lower boundary is before the first token."""
    return [*core(place), LOWEST.evaluate(place)]


def section(place: Place) -> Section:
    """CW, AP, AL, DAL and BLEU of HMT beside the paper's."""
    models = (LOWEST, HMT)
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
        return Section((table,), "There are no results of ours yet.", missing)
    lags = [p["latency"]["token"]["AL"] for p in ours]
    reach = (
        f"here from AL {lags[0]:.2f} at L = {ours[0]['settings']['lower']} to {lags[-1]:.2f} at "
        f"L = {ours[-1]['settings']['lower']}"
    )
    verdict = (
        f"As in the paper, a larger L gives higher latency, {reach}; the numbers themselves are "
        "from another corpus, with sentences half as long, and cannot be compared."
        if lags == sorted(lags)
        else f"Unlike in the paper, a larger L does not always give higher latency, {reach}."
    )
    note = Text(
        "For sentences that end before the source, our CW follows the printed formula; the "
        "authors' code counts the unread rest as read. L = -1 is a separate model; the other rows "
        "are one model."
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
