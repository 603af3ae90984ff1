"""Which states exist and who sees whom.

Shapes: B batch, I target tokens, K states per token, J source tokens, Q query rows, C key rows.

A *moment* t is a number of source tokens read; a *state* (i, t) is one candidate moment of target
token i.  In HMT (Zhang & Feng 2023) token i has the moments clamp(L+i-1+k, 1, J), k = 0..K-1.
Moments that coincide after clamping are one state here, with `copies` counting how many k it
stands for; adding log(copies) to its attention score gives exactly the result of the copies.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

NEVER = -1e30  # a log-probability of zero that survives additions without turning into NaN
NOBODY = 2**30  # a target index that no row can see: marks rows that are padding


@dataclass(frozen=True)
class Rows:
    """A rectangle of decoder rows, each field (B, Q)."""

    target: Tensor  # i, from 1; NOBODY where there is no row
    moment: Tensor  # t, source tokens it sees
    column: Tensor  # what else the system's rule compares: a lag, a column, a last moment
    log_copies: Tensor | None = None  # log of the number of coinciding states it stands for (keys)
    selected: Tensor | None = None  # not 0: the row wrote its token (cached keys)


def plain_bias(query: Rows, keys: Rows, dtype: torch.dtype) -> Tensor:
    """One row per token: it sees itself and all earlier ones. (B, Q), (B, C) -> (B, 1, Q, C)"""
    return visible_bias(keys.target[:, None] <= query.target[..., None], None, dtype)


def column_bias(query: Rows, keys: Rows, dtype: torch.dtype) -> Tensor:
    """A row sees earlier rows of its own column only. (B, Q), (B, C) -> (B, 1, Q, C)"""
    seen = keys.target[:, None] <= query.target[..., None]
    return visible_bias(seen & (keys.column[:, None] == query.column[..., None]), None, dtype)


def visible_bias(seen: Tensor, weight: Tensor | None, dtype: torch.dtype) -> Tensor:
    """Zero or a weight where a row is seen, NEVER elsewhere. (B, Q, C) -> (B, 1, Q, C)"""
    if weight is None:
        weight = torch.zeros((), dtype=dtype, device=seen.device)
    return torch.where(seen, weight.to(dtype), NEVER)[:, None]
