"""The MODEL argument of a command, and opening what it names."""

from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from hmt.models.model import Model

HUB = "hf:"  # prefix of a model on the Hugging Face hub
MODEL_HELP = (
    "A model directory, or hf:USER/NAME[@REVISION] on the Hugging Face hub. "
    "Default: the German-English model that ships with hmt."
)
MODEL = typer.Argument(None, metavar="MODEL", help=MODEL_HELP)
DEVICE = typer.Option("cpu", help="Device to compute on: cpu, cuda, cuda:1 ...")
INT8 = typer.Option(
    False, "--int8", help="Store linear layers in 8 bits: faster for large models, CPU only."
)

TRUST = typer.Option(
    False, "--trust", help="Allow a model whose system is code outside hmt; loading runs it."
)


def names_model(text: str) -> bool:
    """Whether an argument is a model and not a sentence: a directory, or a name on the hub."""
    try:
        return text.startswith(HUB) or Path(text).is_dir()
    except OSError:  # a sentence may be longer than any path
        return False


def open_model(
    model: str | None, device: str = "cpu", int8: bool = False, trust: bool = False
) -> "Model":
    """Load a model; None is the one that ships."""
    from hmt.models.model import load

    return load(model, device, int8, trust)
