"""Half the time per product in live passes of a few rows: pre-packed weights.

Shapes: N rows, D inputs, E outputs.

A live pass has as many rows as a token has states, four to eight.  With so few, an ordinary product
with a large matrix spends most of its time on packing the weights, so they are packed in advance,
in half precision where that loses nothing (half_weights.py).
With a small matrix, PyTorch's overhead per layer (hooks, looking up parameters) takes as long as
the product; a layer that holds its weights and is called directly avoids it.
"""

from collections.abc import Callable
from typing import Any, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hmt.fast.half_weights import half_linear, is_worthwhile, packed_halves

LEAST = 2**18  # numbers in a matrix that gains from pre-packing
ROWS = 8  # the packing is best for about this many rows, and correct for any number
HELD = ("held", "halves", "packed")  # what can be made again from the parameters


class Ready(nn.Module):
    """A module with a second copy of its weights, which must follow every change to them.

    Hooks are called where gradients are needed, not in live passes.
    """

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Called when weights are moved or converted."""
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        hold(self)
        return self

    def _load_from_state_dict(self, *args: Any) -> None:
        """Called when weights are replaced."""
        super()._load_from_state_dict(*args)
        hold(self)

    def __getstate__(self) -> dict[str, Any]:
        """For copies and pickles: what oneDNN has packed supports neither."""
        return {key: value for key, value in vars(self).items() if key not in HELD}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        hold(self)


class ReadyLinear(Ready, nn.Linear):
    """A linear layer that keeps a second copy of its weights: in half precision if that loses
    nothing, otherwise, for a large matrix, pre-packed for oneDNN."""

    held: tuple[Tensor, Tensor | None]
    halves: Tensor | None
    packed: Tensor | None

    def __call__(self, x: Tensor) -> Tensor:
        """(N, D) -> (N, E)"""
        out: Tensor
        if torch.is_grad_enabled():
            out = super().__call__(x)
        elif self.halves is not None and x.dtype == torch.float32 and is_worthwhile(x):
            out = half_linear(x, self.halves, self.held[1])
        elif self.packed is None or x.dtype != torch.float32:
            out = F.linear(x, *self.held)
        else:
            packed, bias = self.packed, self.held[1]
            out = torch.ops.mkldnn._linear_pointwise(x, packed, bias, "none", [], "")
        return out


class ReadyNorm(Ready, nn.LayerNorm):
    held: tuple[Tensor, Tensor]

    def __call__(self, x: Tensor) -> Tensor:
        """(N, D) -> (N, D)"""
        if torch.is_grad_enabled():
            out: Tensor = super().__call__(x)
            return out
        return torch.layer_norm(x, self.normalized_shape, *self.held, self.eps)


def hold(layer: nn.Module) -> None:
    """Keep direct references to the weights."""
    if isinstance(layer, ReadyNorm):
        layer.held = layer.weight.detach(), layer.bias.detach()
    elif isinstance(layer, ReadyLinear):
        weight = layer.weight.detach()
        layer.held = weight, None if layer.bias is None else layer.bias.detach()
        layer.halves = packed_halves(weight)
        is_large = weight.numel() >= LEAST and torch.backends.mkldnn.is_available()
        can = is_large and weight.device.type == "cpu" and weight.dtype == torch.float32
        can = can and layer.halves is None
        layer.packed = torch.ops.mkldnn._reorder_linear_weight(weight, ROWS) if can else None


def make_ready(module: nn.Module) -> None:
    """Change all linear layers and norms of a model in place; its parameters stay the same.

    After changing single parameters by hand, call this again.
    """
    for child in module.modules():
        if type(child) in (nn.Linear, nn.LayerNorm):
            child.__class__ = ReadyLinear if isinstance(child, nn.Linear) else ReadyNorm
        hold(child)
