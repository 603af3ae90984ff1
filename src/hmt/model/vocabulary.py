"""Log-probabilities of gold tokens without ever holding rows x vocabulary.

Shapes: N rows, D width, V vocabulary.

Only log p(gold) and, for label smoothing, the mean of log p over the vocabulary are needed.  Both
follow from the logits of a few hundred rows at a time; the backward pass computes those logits
again instead of keeping them.  mean log p = h . mean(W) - logsumexp needs no extra pass.
"""

from typing import Any

import torch
from torch import Tensor

from hmt.text.symbols import FIRST_WRITABLE

CHUNK_CELLS = 1 << 24  # logits held at a time; with fewer the gradient is summed up more often


def gold_log_prob(hidden: Tensor, weight: Tensor, gold: Tensor) -> tuple[Tensor, Tensor]:
    """log p(gold) and the mean log p over the vocabulary. (N, D), (V, D), (N,) -> (N,) twice"""
    if torch.is_autocast_enabled(hidden.device.type):  # for the backward pass too
        dtype = torch.get_autocast_dtype(hidden.device.type)
        hidden, weight = hidden.to(dtype), weight.to(dtype)
    apply: Any = _GoldLogProb.apply  # untyped in torch
    gold_and_mean: tuple[Tensor, Tensor] = apply(hidden, weight, gold)
    return gold_and_mean


def best_token(hidden: Tensor, weight: Tensor) -> Tensor:
    """The most probable token that can be written. (N, D), (V, D) -> (N,)"""
    size = max(1, CHUNK_CELLS // weight.shape[0])
    writable = weight[FIRST_WRITABLE:].T
    return torch.cat([(some @ writable).argmax(1) for some in hidden.split(size)]) + FIRST_WRITABLE


def smoothed(gold: Tensor, mean: Tensor, smoothing: float) -> Tensor:
    """Log-probability under label smoothing spread over all V symbols. (N,) twice -> (N,)"""
    return (1.0 - smoothing) * gold + smoothing * mean


def at_least_float32(x: Tensor) -> Tensor:
    """Half precision raised to single; double stays. same shape"""
    return x.to(torch.promote_types(x.dtype, torch.float32))


class _GoldLogProb(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, hidden: Tensor, weight: Tensor, gold: Tensor) -> tuple[Tensor, Tensor]:
        size = max(1, CHUNK_CELLS // weight.shape[0])
        log_prob = at_least_float32(hidden.new_empty(len(hidden)))
        normaliser = torch.empty_like(log_prob)
        for start in range(0, len(hidden), size):
            rows, index = slice(start, start + size), gold[start : start + size, None]
            logits = at_least_float32(hidden[rows] @ weight.T)
            # reads a row while it is in the processor's cache; logsumexp takes twice as long
            log_prob[rows] = logits.log_softmax(-1).gather(1, index)[:, 0]
            normaliser[rows] = logits.gather(1, index)[:, 0] - log_prob[rows]
        mean_logit = at_least_float32(hidden @ weight.mean(0))
        ctx.save_for_backward(hidden, weight, gold)
        ctx.size = size
        return log_prob, mean_logit - normaliser

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None]:
        hidden, weight, gold = ctx.saved_tensors
        for_gold, for_mean = grads
        to_hidden = torch.empty_like(hidden)
        to_weight = torch.zeros_like(weight)
        for start in range(0, len(hidden), ctx.size):
            rows = slice(start, start + ctx.size)
            # d/dlogits = g_gold (onehot - softmax) + g_mean (1/V - softmax); the 1/V part is below
            cells = at_least_float32(hidden[rows] @ weight.T).softmax(-1)
            cells.mul_(-(for_gold[rows] + for_mean[rows])[:, None])
            cells.scatter_add_(1, gold[rows, None], for_gold[rows, None])
            cells = cells.to(hidden.dtype)
            to_hidden[rows] = cells @ weight
            to_weight.addmm_(cells.T, hidden[rows])
        share = for_mean.to(hidden.dtype)
        to_hidden.addcmul_(share[:, None], weight.mean(0)[None])
        to_weight.add_((share @ hidden) / len(weight))
        return to_hidden, to_weight, None
