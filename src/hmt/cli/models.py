"""`hmt info` and `hmt convert`: what a model is, and models of other programs."""

import json
from enum import StrEnum
from pathlib import Path
from typing import Any

import typer

from hmt.cli.app import app
from hmt.cli.loading import TRUST, open_model

convert = typer.Typer(help="Turn a model of another program into a model directory.")
app.add_typer(convert, name="convert")


@convert.callback()
def _others() -> None:
    """Keep `fairseq` a command of its own; with one command alone typer would drop its name."""


class Format(StrEnum):
    """How to print."""

    text = "text"
    json = "json"


@app.command()
def info(
    model: Path = typer.Argument(None, help="A model directory; without, the one that ships."),
    style: Format = typer.Option(Format.text, "--format", help="For people or for programs."),
    trust: bool = TRUST,
) -> None:
    """Say what a model is: system, sizes, parameters, knobs, how it came about."""
    from hmt.models.directory import WEIGHTS
    from hmt.models.model import PRETRAINED
    from hmt.models.weights import count_parameters
    from hmt.plain import to_plain

    model = model or PRETRAINED
    loaded = open_model(model, trust=trust)
    described: dict[str, Any] = {
        "model": str(model),
        "system": loaded.config.system,
        "parameters": count_parameters(loaded.system),
        "weights_bytes": (model / WEIGHTS).stat().st_size,
        "vocabulary": {
            "source": loaded.source_tokenizer.size,
            "target": loaded.target_tokenizer.size,
            "is_shared": loaded.source_tokenizer is loaded.target_tokenizer,
        },
    }
    shown = ("languages", "avoids_loops", "config", "knobs", "facts")
    described |= {name: to_plain(getattr(loaded.config, name)) for name in shown}
    if style is Format.json:
        typer.echo(json.dumps(described, ensure_ascii=False))
        return
    lines = list(_flat(described))
    width = max(len(name) for name, _ in lines)
    for name, value in lines:
        typer.echo(f"{name:{width}}  {f'{value:,}' if type(value) is int else value}")


def _flat(table: dict[str, Any], where: str = "") -> list[tuple[str, Any]]:
    """Nested tables as lines with dotted names."""
    lines: list[tuple[str, Any]] = []
    for name, value in table.items():
        if isinstance(value, dict):
            lines += _flat(value, f"{where}{name}.")
        else:
            lines.append((where + name, value))
    return lines


@convert.command()
def fairseq(
    checkpoint: Path = typer.Argument(..., help="A .pt file of the authors' code or of fairseq."),
    source_dict: Path = typer.Option(..., help="The source dictionary, dict.XX.txt."),
    target_dict: Path = typer.Option(..., help="The target dictionary; may be the same file."),
    output: Path = typer.Option(..., help="Model directory to make."),
    bpe_codes: Path | None = typer.Option(None, help="Codes of subword-nmt, if pieces were used."),
) -> None:
    """Convert a checkpoint of HMT's authors, or a Transformer of that time's fairseq."""
    from hmt.models.fairseq import convert_fairseq

    convert_fairseq(checkpoint, source_dict, target_dict, output, bpe_codes)
