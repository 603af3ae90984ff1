"""Layers made ready for live passes of a few rows, when their weights will not change any more.

Shapes: N rows, D inputs, E outputs.

A live pass has as many rows as a token has states, four to eight.  With so few, an ordinary product
with a large matrix spends most of its time on arranging the weights; arranged once, it takes half
the time.  With a small matrix the way of PyTorch to its layers (hooks, parameters that are looked
up) takes as long as the product; a layer that holds its weights and is called directly does not.
"""

from collections.abc import Callable
from typing import Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

LEAST = 2**18  # numbers in a matrix that gains by being arranged
ROWS = 8  # the arrangement is best for about so many rows, and right for any number


class ReadyLinear(nn.Linear):
    """A linear layer; a large one keeps its weights a second time, arranged for oneDNN."""

    held: tuple[Tensor, Tensor | None]
    arranged: Tensor | None

    def __call__(self, x: Tensor) -> Tensor:
        """(N, D) -> (N, E)"""
        if torch.is_grad_enabled():
            return self.forward(x)
        if self.arranged is None:
            return F.linear(x, *self.held)
        out: Tensor = torch.ops.mkldnn._linear_pointwise(
            x, self.arranged, self.held[1], "none", [], ""
        )
        return out

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Weights are moved or converted."""
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        hold_linear(self)
        return self


class ReadyNorm(nn.LayerNorm):
    held: tuple[Tensor, Tensor]

    def __call__(self, x: Tensor) -> Tensor:
        """(N, D) -> (N, D)"""
        if torch.is_grad_enabled():
            return self.forward(x)
        return torch.layer_norm(x, self.normalized_shape, *self.held, self.eps)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Weights are moved or converted."""
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        hold_norm(self)
        return self


def hold_linear(layer: ReadyLinear) -> None:
    """Put the weights where they are found at once, arranged if that helps."""
    weight = layer.weight.detach()
    layer.held = weight, None if layer.bias is None else layer.bias.detach()
    is_large = weight.numel() >= LEAST and torch.backends.mkldnn.is_available()
    can = is_large and weight.device.type == "cpu" and weight.dtype == torch.float32
    layer.arranged = torch.ops.mkldnn._reorder_linear_weight(weight, ROWS) if can else None


def hold_norm(layer: ReadyNorm) -> None:
    """Put the weights where they are found at once."""
    layer.held = layer.weight.detach(), layer.bias.detach()


def make_ready(module: nn.Module) -> None:
    """Change all linear layers and norms of a model in place; its parameters stay what they are."""
    for child in module.modules():
        if type(child) is nn.Linear:
            child.__class__ = ReadyLinear
            assert isinstance(child, ReadyLinear)
            hold_linear(child)
        elif type(child) is nn.LayerNorm:
            child.__class__ = ReadyNorm
            assert isinstance(child, ReadyNorm)
            hold_norm(child)
