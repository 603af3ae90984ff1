"""`hmt explain`: why the model waited, for every decision of one sentence."""

import logging
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from hmt.cli import _knobs as knobs
from hmt.cli._app import app
from hmt.cli._model import DEVICE, MODEL, TRUST, names_model, open_model
from hmt.errors import UserError
from hmt.files import write_atomically

if TYPE_CHECKING:
    from hmt.analysis.explanation import Explanation
    from hmt.streaming.record import Record

logger = logging.getLogger(__name__)


@app.command(cls=knobs.KnobCommand, epilog=knobs.HELP)
def explain(
    context: typer.Context,
    model: str | None = MODEL,
    sentence: str | None = typer.Argument(
        None,
        metavar="SENTENCE",
        help="Sentence to translate and explain, in quotation marks. A single argument is the "
        "SENTENCE, unless it is a directory or begins with hf:.",
    ),
    output: Path | None = typer.Option(
        None, help="Page to write: an .html file that needs no network."
    ),
    png: Path | None = typer.Option(None, help="Picture to write: .png, .pdf or .svg."),
    data: Path | None = typer.Option(None, help="Data behind the page and picture: a .json file."),
    record: Path | None = typer.Option(
        None, help="Explain a translation of this records.jsonl instead of a new one."
    ),
    index: int | None = typer.Option(
        None, min=0, help="Index of the record, from 0. Default: the only one."
    ),
    layer: int | None = typer.Option(
        None, min=1, help="Decoder layer whose attention is shown, from 1. Default: mean of all."
    ),
    device: str = DEVICE,
    trust: bool = TRUST,
) -> None:
    """Show why the model waited, word by word.

    For every target word: the moments at which it could have been written, what would have been
    written then, and where the model looked. A record alone shows reads and confidences; with the
    model that made it, everything.

    \b
    Examples:
      hmt explain "Ich habe keine Zeit ." --output why.html
      hmt explain model "Ich habe keine Zeit ." --lower 2 --png why.png
      hmt explain model --record curve/lower=3/records.jsonl --index 7 --output why.html
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
        explanation = explain_record(found, loaded, layer)
    else:
        model, sentence = _model_and_sentence(model, sentence)
        loaded = open_model(model, device, trust=trust)
        settings = knobs.settings(chosen, loaded.system.Knobs, loaded.system.name)
        explanation = explained(loaded, sentence, layer, **settings)
    _write(explanation, output, png, data)


def _model_and_sentence(first: str | None, second: str | None) -> tuple[str | None, str]:
    """Two arguments are a model and a sentence; one is the sentence, unless it names a model."""
    if first is not None and second is None and not names_model(first):
        return None, first
    if second is None:
        raise UserError(
            'Give a sentence, as in `hmt explain "Ein Satz ."` or `hmt explain MODEL "Ein Satz ."`,'
            " or a record with --record FILE --index N."
        )
    return first, second


def _check_outputs(output: Path | None, png: Path | None, data: Path | None) -> None:
    from hmt.analysis.figures import FORMATS, check_format

    for path, formats in ((output, (".html", ".htm")), (png, FORMATS), (data, (".json",))):
        if path is not None:
            check_format(path, formats)


def _record(path: Path, index: int | None) -> "Record":
    from hmt.evaluation.records import read_records

    records = {record.index: record for record in read_records(path)}
    if not records:
        raise UserError(f"{path} holds no records; give a records.jsonl of hmt evaluate.")
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
        write_atomically(output, html_page(explanation))
        logger.info("Page: %s", output)
    if png:
        save_figure(picture(explanation), png)
        logger.info("Picture: %s", png)
    if data:
        write_atomically(data, explanation.to_json() + "\n")
        logger.info("Data: %s", data)
    reasons = [wait.sentence for wait in waits(explanation)]
    typer.echo("\n".join([explanation.prediction, *reasons]))
