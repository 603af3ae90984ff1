"""Case studies, and the effect of the state loss: sentences with all their states."""

from hmt.analysis.bars import places_figure
from hmt.paper.blocks import Block, Picture, Section, Table, Text
from hmt.paper.parts.ablations import TABLES
from hmt.paper.parts.budgets import HMT
from hmt.paper.parts.drawn import drawn, groups
from hmt.paper.parts.selection import point_folder
from hmt.paper.parts.shown import read_data, with_interval
from hmt.paper.plan import Part, Place, Step
from hmt.paper.steps import analyse, test_files


def case_steps(place: Place) -> list[Step]:
    """Four sentences of the main figure's records."""
    trained, evaluated = HMT.train(place), HMT.evaluate(place)
    words = (str(trained.output.parent), str(point_folder(place)))
    needs, private = [trained, evaluated], ("source", "prediction", "reference", "waits")
    return [analyse(place, "cases", "cases", words, needs, private=private)]


def cases(place: Place) -> Section:
    """Each case with its picture and its waits."""
    folder = place.found / "cases"
    data = read_data(folder / "cases.json")
    if data is None:
        return Section((), "Not made yet.", ["hmt"])
    blocks: list[Block] = []
    waits = 0
    for n, case in enumerate(data["cases"], 1):
        waits += case.get("waited", len(case.get("waits", ())))
        if "source" not in case:  # from the store, which keeps no sentences
            continue
        said = " ".join(case["waits"]) or "It never waited."
        texts = f"“{case['source']}” → “{case['prediction']}” (reference “{case['reference']}”)"
        blocks.append(Text(f"**{case['title']}** (sentence {case['index']}): {texts}. {said}"))
        blocks.append(Picture(folder / f"case-{n}.png", case["title"]))
    verdict = (
        "As in the paper, every wait can be explained by what it waited for"
        if waits
        else "Unlike in the paper, the model never waited"
    )
    if not blocks:
        rows = tuple((c["title"], str(c["index"]), str(c["waited"])) for c in data["cases"])
        note = (
            "Sentences of the test set are not kept with the results; `hmt paper cases --fresh` "
            "makes the pictures."
        )
        blocks = [Table(("case", "sentence of the test set", "waits"), rows), Text(note)]
    return Section(blocks, f"{verdict}: {waits} waits in {len(data['cases'])} sentences.")


def loss_steps(place: Place) -> list[Step]:
    """The reference model of the ablations beside the same model without the state loss."""
    rows = {row.label: row for row in TABLES["state-weight"][3]}
    runs = [rows[label].steps(place)[0].needs[0] for label in ("1.0", "0.0")]
    files = test_files(place)
    words = [str(run.output.parent) for run in runs]
    words += ["--source", str(files[0]), "--target", str(files[1])]
    return [
        analyse(
            place,
            "state-loss",
            "state-loss",
            words,
            runs,
            inputs=files,
            seconds=180.0,
            private=("predictions",),
        )
    ]


def loss(place: Place) -> Section:
    """Accuracy of the states by their place, and both pictures of one sentence."""
    folder = place.found / "state-loss"
    data = read_data(folder / "state-loss.json")
    if data is None:
        return Section((), "Not made yet.", ["ablations/reference", "ablations/state-0.0"])
    (first, with_loss), (second, without) = data["places"].items()
    pairs = list(zip(with_loss, without, strict=True))
    rows = tuple(
        (f"{a['low']:.0f}", *(with_interval(g["value"], g["interval"]) for g in (a, b)))
        for a, b in pairs
    )
    better = sum((a["value"] or 0) > (b["value"] or 0) for a, b in pairs)
    verdict = (
        "In the paper's picture, later states predict wrong words without the loss: here states "
        f"are more often correct with it at {better} of {len(pairs)} places."
    )
    figure = places_figure({name: groups(each) for name, each in data["places"].items()})
    blocks: list[Block] = [
        drawn(place, "state-loss/state-loss.svg", figure, "Correct states by their place"),
        Table(("state", first, second), rows),
    ]
    for name, text in data.get("predictions", {}).items():
        blocks.append(Text(f"{name.capitalize()} the state loss: “{text}”"))
        blocks.append(Picture(folder / f"{name}.png", f"{name} the state loss"))
    return Section(blocks, verdict)


PARTS = (
    Part(
        "cases",
        "Case studies",
        "Figures 10 and 11: all states of two sentences, with their confidences and attention",
        case_steps,
        cases,
        ("analyses",),
    ),
    Part(
        "state-loss",
        "Effect of the state loss",
        "Figure 12: without it, states that are rarely selected predict wrong words",
        loss_steps,
        loss,
        ("analyses",),
    ),
)
