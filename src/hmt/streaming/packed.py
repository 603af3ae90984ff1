"""Large matrices in the order in which the processor reads them, for passes of a few rows.

Shapes: N rows, D inputs, E outputs.

A live pass has as many rows as a token has states, four to eight.  With so few, an ordinary matrix
product spends most of its time on arranging the weights; arranged once, they take half the time.
Small matrices gain nothing, and other devices and precisions have ways of their own.
"""

import torch
from torch import Tensor, nn

LEAST = 2**18  # numbers in a matrix that gains
ROWS = 8  # the arrangement is best for about so many rows, and right for any number


class PackedLinear(nn.Linear):
    """A linear layer that keeps its weights a second time, arranged for oneDNN."""

    arranged: Tensor

    @classmethod
    def of(cls, linear: nn.Linear) -> "PackedLinear":
        with torch.device("meta"):
            packed = cls(linear.in_features, linear.out_features, bias=linear.bias is not None)
        packed.weight, packed.bias = linear.weight, linear.bias
        packed.arranged = torch.ops.mkldnn._reorder_linear_weight(linear.weight.detach(), ROWS)
        return packed.train(linear.training)

    def forward(self, x: Tensor) -> Tensor:
        """(N, D) -> (N, E)"""
        if torch.is_grad_enabled() or x.device.type != "cpu" or x.dtype != torch.float32:
            return super().forward(x)
        out: Tensor = torch.ops.mkldnn._linear_pointwise(
            x, self.arranged, self.bias, "none", [], ""
        )
        return out


def pack(module: nn.Module) -> None:
    """Arrange the large matrices of a model whose weights will not change any more."""
    if not torch.backends.mkldnn.is_available():
        return
    for name, child in module.named_children():
        if type(child) is not nn.Linear:
            pack(child)
        elif child.weight.numel() >= LEAST and child.weight.dtype == torch.float32:
            setattr(module, name, PackedLinear.of(child))
