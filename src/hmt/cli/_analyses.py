"""What the analyses of the command line share: forced pairs, tested curves, their files."""

import dataclasses
import json
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from hmt.cli._progress import bars
from hmt.files import write_atomically

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from hmt.analysis.curves import Axes, Curve
    from hmt.models.model import Model
    from hmt.streaming.record import Record

logger = logging.getLogger(__name__)


def forced_pairs(
    model: "Model", source: Path, target: Path, chosen: Any, batch: int
) -> list[dict[str, Any]]:
    """Forced decoding of all pairs, as `hmt score` prints it."""
    from hmt.evaluation.evaluate import read_parallel
    from hmt.evaluation.forced import forced

    text = read_parallel(source, target)
    found = []
    with bars() as progress:
        for pair in forced(model, text.sources, text.references or (), chosen, batch):
            found.append(pair)
            progress("forced pairs", len(found), len(text.sources))
    return found


def translations(model: "Model", source: Path, target: Path) -> "list[Record]":
    """Translations with their references."""
    from hmt.evaluation.evaluate import read_parallel

    text = read_parallel(source, target)
    records = model.translate(list(text.sources))
    references = text.references or ()
    return [
        dataclasses.replace(record, reference=reference)
        for record, reference in zip(records, references, strict=True)
    ]


def compare_curves(
    name: str,
    texts: Sequence[str],
    pairs: Sequence[tuple[int, int]],
    axes: "Axes",
    output: Path,
    resamples: int,
) -> None:
    """Draw curves and test pairs of them."""
    from hmt.analysis.curves import read_curve
    from hmt.analysis.figures import curve_figure
    from hmt.analysis.rivals import Named, differences, in_words

    named = [Named.of(text) for text in texts]
    curves = [read_curve(each.directories, axes, each.label) for each in named]
    tested = differences(named, pairs, axes, resamples)
    for found in tested:
        typer.echo(in_words(found))
    data = {"quality": axes.quality, "latency": axes.latency, "curves": plain_curves(curves)}
    write_analysis(output, name, {**data, "differences": tested}, curve_figure(curves, axes))


def plain_curves(curves: "Sequence[Curve]") -> list[dict[str, Any]]:
    """Curves as data for a file."""
    return [{"label": c.label, "points": [dataclasses.asdict(p) for p in c.points]} for c in curves]


def write_analysis(output: Path, name: str, data: dict[str, Any], figure: "Figure | None") -> None:
    """Write NAME.json and NAME.svg into the output directory, the data last."""
    from hmt.analysis.figures import save_figure

    output.mkdir(parents=True, exist_ok=True)
    if figure is not None:
        save_figure(figure, output / f"{name}.svg")
        logger.info("Figure: %s", output / f"{name}.svg")
    text = json.dumps({"analysis": name, **data}, indent=1, default=dataclasses.asdict)
    write_atomically(output / f"{name}.json", text + "\n")
    logger.info("Data: %s", output / f"{name}.json")
