"""`hmt plot`: curves of quality over latency."""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from hmt.cli._app import app
from hmt.cli._scores import QUALITY_HELP
from hmt.files import write_atomically

if TYPE_CHECKING:
    from hmt.analysis.curves import Curve

logger = logging.getLogger(__name__)

OTHER_BLEU = (
    "The paper's points are its own BLEU, which is not the %s of this axis: compare shapes and "
    "latencies, not heights."
)


@app.command()
def plot(
    directories: list[Path] = typer.Argument(
        ...,
        metavar="DIR",
        help="Directories that `hmt evaluate --output` wrote, one per system.",
    ),
    quality: str = typer.Option("bleu", help=QUALITY_HELP),
    latency: str = typer.Option(
        "",
        help="Measure of latency, as in token.AL or word.LAAL. "
        "Default: word.LAAL; with --paper token.AL.",
    ),
    output: Path | None = typer.Option(None, help="Figure to write: .pdf, .png or .svg."),
    table: Path | None = typer.Option(None, help="Table to write: .md or .tex."),
    labels: list[str] = typer.Option(
        [],
        "--label",
        help="Name of a system; repeat once per directory, in order. Default: the folder's name.",
    ),
    paper: list[str] = typer.Option(
        [], help="Add HMT's published points: iwslt15-small, wmt15-base or wmt15-big; repeatable."
    ),
) -> None:
    """Plot quality over latency, with confidence bands.

    Without --output and --table the table is printed.

    \b
    Example:
      hmt plot curves/hmt curves/wait-k --output curves.pdf
    """
    from hmt.analysis.curves import Axes, read_curves
    from hmt.analysis.figures import check_format, curve_figure, save_figure
    from hmt.analysis.published import published
    from hmt.analysis.tables import latex_table, markdown_table

    if output:
        check_format(output)
    if table:
        check_format(table, (".md", ".tex"))
    axes = Axes.named(quality, latency or ("token.AL" if paper else "word.LAAL"))
    curves = read_curves(directories, axes, labels)
    _warn_of_differences(curves)
    curves += [published(name, axes) for name in dict.fromkeys(paper)]
    if paper:
        logger.warning(OTHER_BLEU, axes.quality_name)
    if output:
        save_figure(curve_figure(curves, axes), output)
        logger.info("Figure: %s", output)
    if table:
        draw = latex_table if table.suffix.lower() == ".tex" else markdown_table
        write_atomically(table, draw(curves, axes))
        logger.info("Table: %s", table)
    if not (output or table):
        typer.echo(markdown_table(curves, axes), nl=False)


def _warn_of_differences(curves: "Sequence[Curve]") -> None:
    for curve in curves:
        if other := sorted(set(curve.notes) ^ set(curves[0].notes)):
            logger.warning(
                "%s and %s are not comparable: they differ in %s.",
                curves[0].label,
                curve.label,
                " | ".join(other),
            )
