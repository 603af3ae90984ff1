"""`hmt convert`: models of other programs become model directories."""

from pathlib import Path

import typer

from hmt.cli._app import app

convert = typer.Typer(help="Convert a model of another program into a model directory.")
app.add_typer(convert, name="convert")


@convert.callback()
def _programs() -> None:
    """Keep `fairseq` a command of its own; with one command alone typer would drop its name."""


@convert.command()
def fairseq(
    checkpoint: Path = typer.Argument(
        ..., metavar="CHECKPOINT", help="A .pt file of the HMT authors' code or of fairseq."
    ),
    source_dict: Path = typer.Option(..., help="Source dictionary, dict.XX.txt."),
    target_dict: Path = typer.Option(..., help="Target dictionary; may be the same file."),
    output: Path = typer.Option(..., help="Model directory to write."),
    bpe_codes: Path | None = typer.Option(
        None, help="Codes of subword-nmt, if the text was split into pieces. Default: whole words."
    ),
) -> None:
    """Convert a checkpoint of the HMT authors or of fairseq.

    \b
    Example:
      hmt convert fairseq model.pt --source-dict dict.de.txt \\
        --target-dict dict.en.txt --output model
    """
    from hmt.models.fairseq import convert_fairseq

    convert_fairseq(checkpoint, source_dict, target_dict, output, bpe_codes)
