"""`hmt info`: what a model is."""

import json
from enum import StrEnum
from pathlib import Path
from typing import Any

import typer

from hmt.cli._app import app
from hmt.cli._model import MODEL, TRUST, open_model


class Format(StrEnum):
    """How to print."""

    text = "text"
    json = "json"


@app.command()
def info(
    model: str | None = MODEL,
    style: Format = typer.Option(Format.text, "--format", help="text or json."),
    trust: bool = TRUST,
) -> None:
    """Describe a model: system, sizes, knobs, training."""
    from hmt.models.directory import WEIGHTS
    from hmt.models.model import PRETRAINED
    from hmt.models.weights import count_parameters
    from hmt.plain import to_plain

    loaded = open_model(model, trust=trust)
    described: dict[str, Any] = {
        "model": str(model or PRETRAINED),
        "system": loaded.config.system,
        "parameters": count_parameters(loaded.system),
    }
    # the name of a model on the hub is not a directory
    weights = Path(model or PRETRAINED) / WEIGHTS
    if weights.exists():
        described["weights_bytes"] = weights.stat().st_size
    described |= {
        "vocabulary": {
            "source": loaded.source_tokenizer.size,
            "target": loaded.target_tokenizer.size,
            "is_shared": loaded.source_tokenizer.pieces == loaded.target_tokenizer.pieces,
        },
    }
    described["has_segmenter"] = loaded.segmenter is not None
    shown = ("languages", "avoids_loops", "end_penalty", "config", "knobs", "facts")
    described |= {name: to_plain(getattr(loaded.config, name)) for name in shown}
    if style is Format.json:
        typer.echo(json.dumps(described, ensure_ascii=False))
        return
    lines = _flat(described)
    width = max(len(name) for name, _ in lines)
    texts = [f"{n:{width}}  {f'{v:,}' if type(v) is int else v}" for n, v in lines]
    # in one write: if the output fails, there is nothing rather than half of it
    typer.echo("\n".join(texts))


def _flat(table: dict[str, Any], where: str = "") -> list[tuple[str, Any]]:
    """Nested tables as lines with dotted names."""
    lines: list[tuple[str, Any]] = []
    for name, value in table.items():
        if isinstance(value, dict):
            lines += _flat(value, f"{where}{name}.")
        else:
            lines.append((where + name, value))
    return lines
