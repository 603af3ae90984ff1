"""Differentiable latency, for training losses.

Shapes: B sentences, I target tokens, J source tokens.  A *delay* is the number of source tokens
read when a target token is written: here its expectation, a fraction with a gradient.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from hmt.model.rows import NEVER


def real_tokens(length: Tensor, steps: int) -> Tensor:
    """True where a padded sequence has a token. (B,) -> (B, steps)"""
    return torch.arange(steps, device=length.device) < length[:, None]


def expected_moment(probability: Tensor) -> Tensor:
    """Mean of the moments t = 1..J under their probabilities. (..., J) -> (...)"""
    moment = torch.arange(1, probability.shape[-1] + 1, device=probability.device)
    return (probability * moment).sum(-1)


def differentiable_average_lagging(
    delays: Tensor, source_length: Tensor, target_length: Tensor
) -> Tensor:
    """DAL: the mean over tokens of the largest lag so far. (B, I), (B,), (B,) -> (B,)

    The lag of token i is its delay minus (i - 1) J / I.  The usual recursion, in which every
    token takes at least one step of time, equals the running maximum of these lags.
    """
    steps = delays.shape[1]
    pace = source_length / target_length.to(delays.dtype)  # source tokens per target token
    lag = delays - torch.arange(steps, device=delays.device) * pace[:, None]
    worst = lag.cummax(1).values
    return (worst * real_tokens(target_length, steps)).sum(1) / target_length


def poisson_hazards(mean: Tensor, length: Tensor, moments: int) -> tuple[Tensor, Tensor]:
    """Log-probability of writing at j, and of waiting, for Poisson delays on 1..J_b.

    (B, I), (B,) -> (B, I, J) twice; at and beyond the last moment writing is certain
    """
    j = torch.arange(1, moments + 1, device=mean.device, dtype=mean.dtype)
    log_mass = j * mean[..., None].log() - torch.lgamma(j + 1)
    log_mass = log_mass.masked_fill(j > length[:, None, None], NEVER)
    at_least = log_mass.flip(-1).logcumsumexp(-1).flip(-1)  # of delays >= j
    more = F.pad(at_least[..., 1:], (0, 1), value=NEVER)
    is_last = j >= length[:, None, None]
    write = (log_mass - at_least).masked_fill(is_last, 0.0)
    return write, (more - at_least).masked_fill(is_last, NEVER)


def divergence(log_p: Tensor, log_q: Tensor) -> Tensor:
    """One outcome's share of a KL divergence, p (log p - log q). (...) twice -> (...)"""
    return log_p.exp() * (log_p - log_q).masked_fill(log_p <= NEVER, 0.0)
