"""Opening a model named on the command line."""

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from hmt.errors import UserError

if TYPE_CHECKING:
    from hmt.models.model import Model

DEVICE = typer.Option("cpu", help="Where to compute: cpu, cuda, cuda:1 ...")
INT8 = typer.Option(False, "--int8", help="Linear layers in eight bits (CPU, large models).")
TRUST = typer.Option(
    False, "--trust", help="Allow a model whose system is code outside hmt; it runs on loading."
)


def open_model(
    path: Path | None, device: str = "cpu", int8: bool = False, trust: bool = False
) -> "Model":
    """Load a model onto a device that this machine has."""
    import torch

    from hmt.models.model import load

    try:
        kind = torch.device(device).type
    except RuntimeError:
        raise UserError(f"There is no device {device!r}; name one like cpu or cuda:0.") from None
    if kind != "cpu" and not (kind == "cuda" and torch.cuda.is_available()):
        raise UserError(f"The device {device!r} is not available on this machine; use cpu.")
    return load(path, device, int8, trust)
