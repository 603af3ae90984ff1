"""The one recursion over reading and writing, used by every system that has one.

Shapes: B batch (or batch x heads), I target tokens, J moments.

At cell (i, t) - about to produce target token i, having read t source tokens - a path either
*writes* (to cell (i+1, t)) or *waits* (to cell (i, t+1)); it starts in (1, 1).  With log-weights
for both moves one sweep over the anti-diagonals gives the weight of arriving in each cell.

- HMT: write = confidence x emission, waiting is free below the lower boundary, writing certain at
  the upper one.  GSiMT: the same on the full lattice.  MMA: write = stopping probability.
- Emission set to 1 gives the probability of each moment, hence expected delays.
- Maximum instead of sum gives the best path.  Posteriors are gradients of the log-likelihood.

Weights are log-probabilities; `rows.NEVER` stands for zero.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from hmt.model.rows import NEVER


def moves(confidence: Tensor, first: Tensor, last: Tensor) -> tuple[Tensor, Tensor]:
    """Log-probability to write and to wait in each cell. (B, I, J), (B, I) twice -> (B, I, J) twice

    `confidence` is the logit to write.  Below `first` a path waits, at `last` it must write.
    """
    moment = torch.arange(1, confidence.shape[-1] + 1, device=confidence.device)
    is_early, is_due = moment < first[..., None], moment >= last[..., None]
    write = F.logsigmoid(confidence).masked_fill(is_due, 0.0)
    write = write.masked_fill(is_early | (moment > last[..., None]), NEVER)
    wait = F.logsigmoid(-confidence).masked_fill(is_early, 0.0).masked_fill(is_due, NEVER)
    return write, wait


def arrive(log_write: Tensor, log_wait: Tensor, best: bool = False) -> Tensor:
    """Log-weight of all paths (or the best path) into each cell. (B, I, J) twice -> (B, I, J)"""
    batch, steps, moments = log_write.shape
    combine = torch.maximum if best else torch.logaddexp
    write = _skew(log_write).unbind(-1)
    wait = _skew(log_wait).unbind(-1)
    start = log_write.new_full((batch, steps), NEVER)
    start[:, 0] = 0.0
    diagonals = [start]
    for w, v in zip(write[:-1], wait[:-1], strict=True):
        here = diagonals[-1]
        from_above = F.pad((here + w)[:, :-1], (1, 0), value=NEVER)
        diagonals.append(combine(here + v, from_above))
    return _unskew(torch.stack(diagonals, dim=-1), moments)


def log_likelihood(
    log_write: Tensor, log_wait: Tensor, target_length: Tensor, best: bool = False
) -> Tensor:
    """Log-weight of writing all target tokens of each sentence. (B, I, J) twice, (B,) -> (B,)"""
    arrived = arrive(log_write, log_wait, best) + log_write
    last = arrived[torch.arange(len(arrived), device=arrived.device), target_length - 1]  # (B, J)
    return last.amax(-1) if best else last.logsumexp(-1)


def moment_probability(log_write: Tensor, log_wait: Tensor) -> Tensor:
    """Probability that token i is written at moment t. (B, I, J) twice -> (B, I, J)"""
    return (arrive(log_write, log_wait) + log_write).exp()


def _skew(x: Tensor) -> Tensor:
    """Put cell (i, t) into column i + t; cells outside get NEVER. (B, I, J) -> (B, I, I + J - 1)"""
    batch, steps, moments = x.shape
    width = moments + steps
    flat = F.pad(x, (0, steps), value=NEVER).reshape(batch, steps * width)
    return flat[:, : steps * (width - 1)].view(batch, steps, width - 1)


def _unskew(x: Tensor, moments: int) -> Tensor:
    """Undo _skew. (B, I, I + J - 1) -> (B, I, J)"""
    batch, steps, width = x.shape
    flat = F.pad(x.reshape(batch, steps * width), (0, steps), value=NEVER)
    return flat.view(batch, steps, width + 1)[..., :moments]
