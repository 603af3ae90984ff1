"""Up to half the time for attention of many small batches on a CPU: batched matrix products.

Shapes: B batch or streams, H heads, Q rows, C keys, E = D / H width of a head.

PyTorch's own attention goes through heads one by one and never holds the scores; for a few dozen
rows per sentence that takes up to twice the time of three products over all heads at once.  Scores
of this size may be held.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

SMALL_CELLS = 1 << 24  # scores that are held (64 MB in single precision)
SUPPORTED = (torch.bfloat16, torch.float32, torch.float64)


def small_attention(query: Tensor, keys: Tensor, values: Tensor, bias: Tensor) -> Tensor:
    """(B, H, Q, E), (B, H, C, E) twice, bias (B, 1 or H, Q, C) -> (B, H, Q, E)"""
    if not torch.is_grad_enabled():  # saves streams 60 microseconds per call, ten calls per pass
        return _weighted(query, keys, values, bias)[0]
    apply: Any = _SmallAttention.apply  # untyped in torch
    out: Tensor = apply(query, keys, values, bias)
    return out


def _weighted(
    query: Tensor, keys: Tensor, values: Tensor, bias: Tensor
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """The same, and what its gradient needs: query, keys, values, weights (BH, ...)"""
    batch, heads, rows, size = query.shape
    q, k, v = (x.flatten(0, 1) for x in (query * size**-0.5, keys, values))  # (BH, Q or C, E)
    scores = torch.bmm(q, k.transpose(1, 2)).view(batch, heads, rows, -1).add_(bias)
    weights = torch.softmax(scores, -1, query.dtype).flatten(0, 1)  # (BH, Q, C)
    return torch.bmm(weights, v).view(query.shape), (q, k, v, weights)


class _SmallAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, query: Tensor, keys: Tensor, values: Tensor, bias: Tensor) -> Tensor:
        out, kept = _weighted(query, keys, values, bias)
        ctx.save_for_backward(*kept)
        ctx.bias_shape = bias.shape
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, to_out: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
        q, k, v, weights = ctx.saved_tensors
        (batch, heads, _, size), g = to_out.shape, to_out.flatten(0, 1)
        to_weights = torch.bmm(g, v.transpose(1, 2))
        to_scores = torch._softmax_backward_data(to_weights, weights, -1, weights.dtype)
        to_bias = None
        if ctx.needs_input_grad[3]:
            to_bias = to_scores.unflatten(0, (batch, heads)).sum_to_size(ctx.bias_shape)
        grads = (
            torch.bmm(to_scores, k).mul_(size**-0.5),
            torch.bmm(to_scores.transpose(1, 2), q),
            torch.bmm(weights.transpose(1, 2), g),
        )
        to_query, to_keys, to_values = (x.unflatten(0, (batch, heads)) for x in grads)
        return to_query, to_keys, to_values, to_bias
