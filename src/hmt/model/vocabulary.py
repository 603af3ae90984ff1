"""Log-probabilities of gold tokens without ever holding rows x vocabulary of a large batch.

Shapes: N rows, D width, V vocabulary.

Only log p(gold) and, for label smoothing, the mean of log p over the vocabulary are needed.  Both
follow from the logits of some hundred rows at a time.  The backward pass needs the probabilities
again: those of a small batch are kept (1.3 times as fast), those of a large one computed once more.
mean log p = h . mean(W) - logsumexp needs no extra pass.
"""

from typing import Any

import torch
from torch import Tensor

from hmt.text.symbols import FIRST_WRITABLE

CHUNK_CELLS = 1 << 24  # logits held at a time; with fewer the gradient is summed up more often
KEPT_CELLS = 1 << 25  # probabilities that are kept (128 MB in single precision)


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
    writable = weight[FIRST_WRITABLE:].T
    chunks = [hidden[rows] for rows in _chunks(len(hidden), weight)]
    return torch.cat([(some @ writable).argmax(1) for some in chunks]) + FIRST_WRITABLE


def smoothed(gold: Tensor, mean: Tensor, smoothing: float) -> Tensor:
    """Log-probability under label smoothing spread over all V symbols. (N,) twice -> (N,)"""
    return (1.0 - smoothing) * gold + smoothing * mean


def at_least_float32(x: Tensor) -> Tensor:
    """Half precision raised to single; double stays. same shape"""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def _chunks(rows: int, weight: Tensor) -> list[slice]:
    """Rows whose logits are held at a time."""
    size = max(1, CHUNK_CELLS // len(weight))
    return [slice(start, start + size) for start in range(0, rows, size)]


def _probabilities(hidden: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """Logits and their softmax, at least in single precision. (N, D), (V, D) -> (N, V) twice"""
    logits = at_least_float32(hidden @ weight.T)
    return logits, logits.softmax(-1)


class _GoldLogProb(torch.autograd.Function):
    """d/dlogits = g_gold (onehot - p) + g_mean (1/V - p), with p(gold) apart from the others.

    In half precision 1 - p(gold) would vanish where the model is certain; so p of the other symbols
    is rounded, as the products need it, and p(gold) is not.
    """

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, weight: Tensor, gold: Tensor) -> tuple[Tensor, Tensor]:
        log_prob = at_least_float32(hidden.new_empty(len(hidden)))
        normaliser = torch.empty_like(log_prob)
        needs_gradient = any(ctx.needs_input_grad)
        is_kept = needs_gradient and len(hidden) * len(weight) <= KEPT_CELLS
        ctx.others = hidden.new_empty(len(hidden), len(weight)) if is_kept else None
        for rows in _chunks(len(hidden), weight):
            logits, p = _probabilities(hidden[rows], weight)
            index = gold[rows, None]
            # logsumexp takes longer than what follows from the largest cell
            normaliser[rows] = logits.amax(-1) - p.amax(-1).log()
            log_prob[rows] = logits.gather(1, index)[:, 0] - normaliser[rows]
            if is_kept:
                ctx.others[rows] = p.scatter_(1, index, 0.0)
        ctx.save_for_backward(hidden, weight, gold, log_prob)
        mean_logit = at_least_float32(hidden @ weight.mean(0))
        return log_prob, mean_logit - normaliser

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None]:
        hidden, weight, gold, log_prob = ctx.saved_tensors
        for_gold, for_mean = (g[:, None] for g in grads)  # (N, 1)
        for_others = -(for_gold + for_mean)
        for_own = for_gold + for_others * log_prob.exp()[:, None]
        to_hidden = weight[gold] * for_own + for_mean * weight.mean(0)
        # a token is gold in many rows: its gradient is summed up at least in single precision
        to_weight = torch.zeros_like(weight, dtype=for_own.dtype)
        to_weight.index_add_(0, gold, hidden * for_own)
        to_weight.add_((for_mean * hidden).sum(0) / len(weight))
        scaled = (hidden * for_others).to(hidden.dtype)
        for rows in _chunks(len(hidden), weight):
            if ctx.others is None:
                p = _probabilities(hidden[rows], weight)[1].scatter_(1, gold[rows, None], 0.0)
                others = p.to(hidden.dtype)
            else:
                others = ctx.others[rows]
            to_hidden[rows] += for_others[rows] * (others @ weight)
            to_weight += others.T @ scaled[rows]
        return to_hidden.to(hidden.dtype), to_weight.to(weight.dtype), None
