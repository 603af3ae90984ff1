"""Muon: momentum whose update is made orthogonal, for the matrices of the layers.

Keller Jordan and others, "Muon: an optimizer for hidden layers in neural networks", 2024; the scale
of the update is that of Liu and others, "Muon is scalable for LLM training", 2025, so that one
learning rate serves these matrices and what AdamW updates beside them.  PyTorch's own Muon always
computes in bfloat16, which is slow on processors without instructions for it; this one computes in
the precision of the training.
"""

from collections.abc import Iterable

import torch
from torch import Tensor, nn

MOMENTUM = 0.95
STEPS = 5
# The quintic of Jordan: it brings singular values from (0, 1] close to 1 in five steps.
QUINTIC = (3.4445, -4.7750, 2.0315)
Stacked = tuple[nn.Parameter, int]  # a matrix, and how many are stored in it below each other
ADAM_SIZE = 0.2  # root mean square of an update of AdamW, by which Liu and others scale


def orthogonal(matrices: Tensor) -> Tensor:
    """Nearly the orthogonal matrix closest to each. (N, rows, columns) -> the same"""
    is_tall = matrices.shape[-2] > matrices.shape[-1]
    x = matrices.mT if is_tall else matrices
    x = x / x.norm(dim=(-2, -1), keepdim=True).clamp_min(1e-12)
    a, b, c = QUINTIC
    for _ in range(STEPS):
        squares = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(squares, squares, squares, beta=b, alpha=c), x, beta=a)
    return x.mT if is_tall else x


class Muon(torch.optim.Optimizer):
    """Updates matrices; where several are stored in one, each is made orthogonal separately."""

    def __init__(
        self,
        matrices: Iterable[Stacked],
        lr: float,
        weight_decay: float,
        dtype: torch.dtype = torch.float32,  # in which updates are made orthogonal
    ):
        self.dtype = dtype
        groups = [{"params": [matrix], "stacked": stacked} for matrix, stacked in matrices]
        super().__init__(groups, {"lr": lr, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """One update, from the gradients that exist."""
        for group in self.param_groups:
            (matrix,) = group["params"]
            state = self.state[matrix]
            if not state:
                state["momentum"] = torch.zeros_like(matrix)
            momentum = state["momentum"].lerp_(matrix.grad, 1 - MOMENTUM)
            ahead = matrix.grad.lerp(momentum, MOMENTUM)  # Nesterov's momentum
            blocks = ahead.view(group["stacked"], -1, matrix.shape[1])
            size = ADAM_SIZE * max(blocks.shape[1:]) ** 0.5
            matrix.mul_(1 - group["lr"] * group["weight_decay"])
            update = orthogonal(blocks.to(self.dtype)).view_as(matrix)
            matrix.add_(update, alpha=-group["lr"] * size)
