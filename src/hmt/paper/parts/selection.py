"""Figures about confidence: accuracy, selections, architecture against policy, the threshold."""

from itertools import pairwise
from pathlib import Path
from typing import Any

from hmt.analysis.bars import accuracy_figure, selection_figure
from hmt.analysis.rivals import in_words
from hmt.evaluation.evaluate import folder_name
from hmt.paper.blocks import Block, Section, Table, Text
from hmt.paper.parts.budgets import HMT, MULTIPATH
from hmt.paper.parts.drawn import curves, drawn
from hmt.paper.parts.drawn import groups as read_groups
from hmt.paper.parts.shown import read_data, with_interval
from hmt.paper.plan import Part, Place, Step
from hmt.paper.steps import analyse, evaluate, test_files

LOWER = 3
THRESHOLDS = "0.2,0.3,0.4,0.5,0.6,0.7,0.8"
STATES = 4  # of the recipe, so `--policy last` is wait-(lower + 3)
SELECTED = {"lower": LOWER, "states": STATES, "threshold": 0.5}


def accuracy_steps(place: Place) -> list[Step]:
    """Forced decoding of the test set."""
    source, target = test_files(place)
    trained = HMT.train(place)
    words = [str(trained.output.parent), "--source", str(source), "--target", str(target)]
    words += ["--lower", str(LOWER)]
    files = (source, target)
    return [analyse(place, "accuracy", "accuracy", words, [trained], inputs=files, seconds=60.0)]


def accuracy(place: Place) -> Section:
    """Percentage of correct states per tenth of confidence."""
    data = read_data(place.found / "accuracy" / "accuracy.json")
    if data is None:
        return Section((), "Not analysed yet.", ["hmt"])
    groups = [g for g in data["groups"] if g["value"] is not None]
    values = [g["value"] for g in groups]
    rises = sum(a < b for a, b in pairwise(values))
    sure = [g for g in groups if g["low"] >= 0.5]
    share = sum(g["value"] * g["count"] for g in sure) / max(1, sum(g["count"] for g in sure))
    as_there = values[-1] > values[0] and share > 60
    verdict = (
        f"{_as(as_there)} in the paper, where accuracy rises with confidence and is above 60 % "
        f"from 0.5 on: here it goes from {values[0]:.0f} to {values[-1]:.0f} %, rises from one "
        f"band to the next in {rises} of {len(values) - 1} places, and is {share:.0f} % over all "
        "states with a confidence of 0.5 or more."
    )
    rows = tuple(
        (f"{g['low']:.1f} to {g['high']:.1f}", f"{g['count']:,}", _value(g)) for g in groups
    )
    figure = accuracy_figure(read_groups(data["groups"]))
    return Section(
        (
            drawn(place, "accuracy/accuracy.svg", figure, "Correct states by confidence"),
            Table(("confidence", "states", "correct (%)"), rows),
        ),
        verdict,
    )


def _as(agrees: bool) -> str:
    return "As" if agrees else "Unlike"


def _value(group: dict[str, Any]) -> str:
    return with_interval(group["value"], group["interval"])


def selection_steps(place: Place) -> list[Step]:
    """From the records of the main figure."""
    evaluated = HMT.evaluate(place)
    folder = point_folder(place)
    return [analyse(place, "selection", "selection", (str(folder),), [evaluated])]


def point_folder(place: Place) -> Path:
    """The records of HMT at the setting that the analyses use."""
    return place.output / HMT.folder() / folder_name({"lower": LOWER}, {})


def selection(place: Place) -> Section:
    """BLEU of each quarter of the sentences, by the probability of their selections."""
    data = read_data(place.found / "selection" / "selection.json")
    if data is None:
        return Section((), "Not analysed yet.", ["hmt"])
    values = [g["value"] for g in data["groups"]]
    rising = values == sorted(values)
    verdict = (
        f"{_as(rising)} in the paper, where more probable selections have a higher BLEU: here the "
        f"quarters have {', '.join(f'{v:.1f}' for v in values)}."
    )
    rows = tuple(
        (f"{g['low']:.3f} to {g['high']:.3f}", str(g["count"]), _value(g)) for g in data["groups"]
    )
    figure = selection_figure(read_groups(data["groups"]))
    picture = drawn(place, "selection/selection.svg", figure, "BLEU by selection probability")
    return Section((picture, Table(("probability per token", "sentences", "BLEU"), rows)), verdict)


def architecture_steps(place: Place) -> list[Step]:
    """HMT with wait-k inference at the same lower boundaries, beside HMT and multipath."""
    own, wait_k = HMT.evaluate(place), MULTIPATH.evaluate(place)
    sweep = {"policy": "last", "lower": HMT.sweep["lower"]}
    last = evaluate(place, "architecture-last", HMT.train(place), sweep)
    dirs = [str(step.output.parent) for step in (own, last, wait_k)]
    words = ("--own", dirs[0], "--last", dirs[1], "--wait-k", dirs[2])
    needs = [own, last, wait_k]
    return [analyse(place, "architecture", "architecture", words, needs, seconds=90.0)]


def architecture(place: Place) -> Section:
    """What the architecture contributes, and what the policy contributes."""
    data = read_data(place.found / "architecture" / "architecture.json")
    if data is None:
        return Section((), "Not analysed yet.", ["hmt", "multipath"])
    tests = data["differences"]
    gains = [t.get("difference") for t in tests]
    both = all(gain is not None and gain > 0 for gain in gains)
    shown = ["no common latency" if g is None else f"{g:+.1f}" for g in gains]
    verdict = (
        f"{_as(both)} in the paper, where the architecture adds 0.8 BLEU and the policy another "
        f"2.8: here {shown[0]} and {shown[1]}."
    )
    caption = "Multipath wait-k, HMT that always writes at its last state, HMT"
    picture = drawn(place, "architecture/architecture.svg", curves(data["curves"]), caption)
    blocks: list[Block] = [picture, *(Text(in_words(test)) for test in tests)]
    return Section(blocks, verdict)


def threshold_steps(place: Place) -> list[Step]:
    """Thresholds from 0.2 to 0.8 at low, middle and high latency."""
    sweep = {"threshold": THRESHOLDS, "lower": "1,3,5"}
    swept = evaluate(place, "threshold-points", HMT.train(place), sweep)
    return [analyse(place, "threshold", "threshold", (str(swept.output.parent),), [swept])]


def threshold(place: Place) -> Section:
    """A curve per threshold."""
    data = read_data(place.found / "threshold" / "threshold.json")
    if data is None:
        return Section((), "Not analysed yet.", ["hmt"])
    rows = []
    at: dict[str, dict[str, float]] = {}
    for curve in data["curves"]:
        for point in curve["points"]:
            lower, value = point["settings"]["lower"], point["settings"]["threshold"]
            score = with_interval(point["quality"], point["quality_interval"])
            rows.append((str(value), str(lower), f"{point['latency']:.2f}", score))
            if lower == LOWER:
                at[str(value)] = {"AL": point["latency"], "BLEU": point["quality"]}
    low, middle, high = (at.get(name) for name in ("0.2", "0.5", "0.8"))
    figure = curves(data["curves"])
    picture = drawn(place, "threshold/threshold.svg", figure, "BLEU over AL by threshold")
    blocks = (picture, Table(("threshold", "L", "AL", "BLEU"), tuple(rows)))
    if not (low and middle and high):
        return Section(blocks, "There are too few thresholds yet to compare.")
    as_there = low["AL"] < middle["AL"] < high["AL"] and high["BLEU"] - middle["BLEU"] < 1
    verdict = (
        f"{_as(as_there)} in the paper, where 0.2 is earlier and slightly worse "
        f"and 0.8 later and hardly better than 0.5: here, at L = {LOWER}, "
        + ", ".join(
            f"{name} has {p['BLEU']:.1f} BLEU at AL {p['AL']:.2f}"
            for name, p in (("0.2", low), ("0.5", middle), ("0.8", high))
        )
        + "."
    )
    return Section(blocks, verdict)


PARTS = (
    Part(
        "accuracy",
        "Token accuracy by confidence",
        "Figure 5: accuracy rises with confidence; above 60 % where HMT writes",
        accuracy_steps,
        accuracy,
        ("analyses",),
    ),
    Part(
        "selection",
        "BLEU by probability of the selection",
        "Figure 6: more probable selections have a higher BLEU",
        selection_steps,
        selection,
        ("analyses",),
    ),
    Part(
        "architecture",
        "Architecture against policy",
        "Figure 8: wait-k, HMT with wait-k inference (+0.8 BLEU), HMT (another +2.8)",
        architecture_steps,
        architecture,
        ("analyses",),
    ),
    Part(
        "threshold",
        "Threshold of confidence",
        "Figure 9: 0.4 and 0.5 are alike; 0.2 is earlier and slightly worse, 0.8 later and hardly "
        "better",
        threshold_steps,
        threshold,
        ("analyses",),
    ),
)
