"""Rows: the decoder positions that one pass computes, and which of them see which.

Shapes: B batch or streams, Q query rows, C key rows, J source tokens, F columns of a row.

A *row* predicts one target token from the first `moment` source tokens and from the rows that it
sees.  A system plans `Row` records one by one; the engine, the caches and attention hold many of
them as the columns of `Rows`.  A new attribute of a row takes one line in each of the two classes.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

NEVER = -1e30  # a log-probability of zero that survives additions without turning into NaN
NOBODY = 2**30  # a target index that no row can see: marks rows that are padding


class Row(NamedTuple):
    """One decoder position, as a system plans it."""

    target: int  # i, from 1: the target token that it predicts
    moment: int  # t: how many source tokens it sees
    lag: int = 0  # k of the wait-k path that it lies on, where a stream follows several
    last: int = 0  # hi_i: the last moment of its target token while the source end is not known
    copies: int = 1  # how many coinciding states it stands for
    wrote: int = 0  # 1 once it has written its token; set by the cache, not by a plan


PADDING = Row(target=NOBODY, moment=1)
"""Stands in a rectangle where there is no row."""


@dataclass(frozen=True)
class Rows:
    """Many rows: the columns of `Row` as tensors of one shape, (B, Q)."""

    target: Tensor
    moment: Tensor
    lag: Tensor
    last: Tensor
    copies: Tensor
    wrote: Tensor

    @classmethod
    def of(
        cls,
        target: Tensor,
        moment: Tensor,
        last: Tensor | None = None,
        copies: Tensor | None = None,
    ) -> "Rows":
        """Rows of a training pass; other columns take the defaults of `Row`. (B, Q) each"""
        zeros = torch.zeros_like(target)
        if copies is None:
            copies = torch.ones_like(target)
        return cls(target, moment, zeros, zeros if last is None else last, copies, zeros)


def plain_bias(query: Rows, keys: Rows, dtype: torch.dtype) -> Tensor:
    """One row per token: it sees itself and all earlier ones. (B, Q), (B, C) -> (B, 1, Q, C)"""
    return visible_bias(keys.target[:, None] <= query.target[..., None], None, dtype)


def same_lag_bias(query: Rows, keys: Rows, dtype: torch.dtype) -> Tensor:
    """A row sees itself and earlier rows of its own lag. (B, Q), (B, C) -> (B, 1, Q, C)"""
    seen = keys.target[:, None] <= query.target[..., None]
    return visible_bias(seen & (keys.lag[:, None] == query.lag[..., None]), None, dtype)


def visible_bias(seen: Tensor, weight: Tensor | None, dtype: torch.dtype) -> Tensor:
    """Zero or a weight where a row is seen, NEVER elsewhere. (B, Q, C) -> (B, 1, Q, C)"""
    if weight is None:
        weight = torch.zeros((), dtype=dtype, device=seen.device)
    return torch.where(seen, weight.to(dtype), NEVER)[:, None]


def source_bias(moment: Tensor, length: int, dtype: torch.dtype) -> Tensor:
    """A row sees the first `moment` source tokens. (B, ..., Q) -> (B, ..., Q, J)"""
    beyond = torch.arange(length, device=moment.device) >= moment[..., None]
    return torch.zeros(beyond.shape, dtype=dtype, device=moment.device).masked_fill_(beyond, NEVER)
