"""`hmt plot` and `hmt explain`: curves of systems, and the decisions of one sentence."""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from hmt.cli import knobs
from hmt.cli.app import app
from hmt.cli.loading import DEVICE, TRUST, open_model
from hmt.errors import UserError

if TYPE_CHECKING:
    from hmt.analysis.curves import Curve
    from hmt.analysis.explanation import Explanation
    from hmt.streaming.record import Record

logger = logging.getLogger(__name__)


@app.command()
def plot(
    directories: list[Path] = typer.Argument(
        ..., metavar="DIR...", help="What `hmt evaluate --output` wrote, one directory per system."
    ),
    quality: str = typer.Option("bleu", help="bleu, chrf or bleu_tokenised_lc."),
    latency: str = typer.Option(
        "", help="token.AL, word.LAAL ...; by default word.LAAL, beside --paper its token.AL."
    ),
    output: Path | None = typer.Option(None, help="The figure: a .pdf, .png or .svg file."),
    table: Path | None = typer.Option(None, help="The numbers: a .md or .tex file."),
    labels: list[str] = typer.Option(
        [], "--label", help="A system's name instead of its folder's; one per directory, in order."
    ),
    paper: list[str] = typer.Option(
        [], help="Show HMT's published points: iwslt15-small, wmt15-base, wmt15-big."
    ),
) -> None:
    """Draw quality over latency, with confidence bands; without files, print the table."""
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
    if output:
        save_figure(curve_figure(curves, axes), output)
        logger.info("Figure: %s", output)
    if table:
        draw = latex_table if table.suffix.lower() == ".tex" else markdown_table
        table.write_text(draw(curves, axes), encoding="utf-8")
        logger.info("Table: %s", table)
    if not (output or table):
        typer.echo(markdown_table(curves, axes), nl=False)


def _warn_of_differences(curves: "Sequence[Curve]") -> None:
    for curve in curves:
        if other := sorted(set(curve.notes) ^ set(curves[0].notes)):
            logger.warning(
                "%s and %s do not compare: they differ in %s.",
                curves[0].label,
                curve.label,
                " | ".join(other),
            )


@app.command(cls=knobs.KnobCommand, epilog=knobs.HELP)
def explain(
    context: typer.Context,
    model: Path | None = typer.Argument(None, help="A model directory."),
    sentence: str | None = typer.Argument(None, help="A sentence to translate and explain."),
    output: Path | None = typer.Option(None, help="The page: an .html file that needs no network."),
    png: Path | None = typer.Option(None, help="The picture: a .png (or .pdf, .svg) file."),
    data: Path | None = typer.Option(None, help="What both are drawn from: a .json file."),
    record: Path | None = typer.Option(
        None, help="Explain a translation of this records.jsonl instead of a new one."
    ),
    index: int | None = typer.Option(None, help="Which record, by its index (from 0)."),
    layer: int | None = typer.Option(
        None, help="Show the attention of this decoder layer (from 1), not the mean of all."
    ),
    device: str = DEVICE,
    trust: bool = TRUST,
) -> None:
    """Show why the model waited: its candidate moments, their words and where they looked.

    A record alone shows reads and confidences; with the model that made it, everything.
    """
    from hmt.analysis.explanation import explain as explained
    from hmt.analysis.explanation import explain_record

    _check_outputs(output, png, data)
    chosen = knobs.given(context)
    if record is not None:
        if sentence is not None or chosen:
            raise UserError(
                "With --record the sentence and the settings are those of the record; leave out "
                f"{'the sentence' if sentence is not None else '--' + next(iter(chosen))}."
            )
        found = _record(record, index)
        loaded = open_model(model, device, trust=trust) if model is not None else None
        told = explain_record(found, loaded, layer)
    elif sentence is None or model is None:
        raise UserError(
            'Give a model directory and a sentence, as in `hmt explain MODEL "Ein Satz ."`, or '
            "--record FILE --index N."
        )
    else:
        loaded = open_model(model, device, trust=trust)
        settings = knobs.settings(chosen, loaded.system.Knobs, loaded.system.name)
        told = explained(loaded, sentence, layer, **settings)
    _write(told, output, png, data)


def _check_outputs(output: Path | None, png: Path | None, data: Path | None) -> None:
    from hmt.analysis.figures import FORMATS, check_format

    for path, formats in ((output, (".html", ".htm")), (png, FORMATS), (data, (".json",))):
        if path is not None:
            check_format(path, formats)


def _record(path: Path, index: int | None) -> "Record":
    from hmt.evaluation.records import read_records

    records = {record.index: record for record in read_records(path)}
    if not records:
        raise UserError(f"{path} holds no records.")
    if index is None and len(records) == 1:
        return next(iter(records.values()))
    if index not in records:
        asked = "Name a record with --index" if index is None else f"There is no record {index}"
        raise UserError(f"{asked}; {path} has {min(records)} to {max(records)}.")
    return records[index]


def _write(
    explanation: "Explanation", output: Path | None, png: Path | None, data: Path | None
) -> None:
    from hmt.analysis.figures import save_figure
    from hmt.analysis.html_page import html_page
    from hmt.analysis.picture import picture
    from hmt.analysis.waits import waits

    if output:
        output.write_text(html_page(explanation), encoding="utf-8")
        logger.info("Page: %s", output)
    if png:
        save_figure(picture(explanation), png)
        logger.info("Picture: %s", png)
    if data:
        data.write_text(explanation.to_json() + "\n", encoding="utf-8")
        logger.info("Data: %s", data)
    typer.echo(explanation.prediction)
    for wait in waits(explanation):
        typer.echo(wait.sentence)
