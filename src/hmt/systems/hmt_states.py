"""HMT's states: which moments each target token has, and which states see one another.

Shapes: B batch, I target tokens, K states per token, J source tokens, Q query rows, C key rows.

A *moment* t is a number of source tokens read; a *state* (i, t) is one candidate moment of target
token i.  Token i has the moments clamp(L+i-1+k, 1, J), k = 0..K-1 (Eq. 1).  Where clamping
gives several k the same moment, they share one state, whose `copies` says how many k it stands for;
adding log(copies) to its attention score gives exactly the result of that many separate states.
"""

from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from hmt.model.rows import NOBODY, Rows, visible_bias

MOST_STATES = 100  # of a token; bounds the memory of a stream, the paper goes to 10


def boundaries(lower: Tensor, states: Tensor, source: Tensor, steps: int) -> tuple[Tensor, Tensor]:
    """Eq. 1: first and last moment of each target token. (B,) three times -> (B, I) twice"""
    i = torch.arange(1, steps + 1, device=source.device)
    first = (lower[:, None] + i - 1).clamp(min=1)
    last = (lower[:, None] + i + states[:, None] - 2).clamp(min=1)
    return first.minimum(source[:, None]), last.minimum(source[:, None])


def copies(lower: Tensor, states: Tensor, source: Tensor, target: Tensor, moment: Tensor) -> Tensor:
    """How many of the K states of token `target` fall on `moment`. broadcast of all -> same"""
    start = lower + target - 1  # the moment of k = 0 before clamping
    above = torch.where(moment >= source, states, moment - start + 1)
    below = torch.where(moment <= 1, torch.zeros_like(moment), moment - start)
    return above.clamp(min=0).minimum(states) - below.clamp(min=0).minimum(states)


@dataclass(frozen=True)
class StateTable:
    """The packed states of a batch: N states in all, at most R in one sentence."""

    rows: Rows  # (B, R)
    index: Tensor  # (N,) place of each state in the flattened (B, R)
    sentence: Tensor  # (N,) b
    token: Tensor  # (N,) i, from 0
    moment: Tensor  # (N,)
    copies: Tensor  # (N,)
    first: Tensor  # (B, I) lo
    last: Tensor  # (B, I) hi


def state_table(
    lower: int, states: int, source_length: Tensor, target_length: Tensor, steps: int
) -> StateTable:
    """All states (i, t) of a batch of sentence pairs. lengths (B,) -> rows (B, R)"""
    batch, device = source_length.shape[0], source_length.device
    lo, hi = boundaries(
        torch.full_like(source_length, lower),
        torch.full_like(source_length, states),
        source_length,
        steps,
    )
    slots = torch.arange(states, device=device)
    exists = lo[..., None] + slots <= hi[..., None]  # (B, I, K)
    exists &= (torch.arange(steps, device=device) < target_length[:, None])[..., None]
    b, i, s = exists.nonzero(as_tuple=True)  # in order of sentence, token, moment
    moment = lo[b, i] + s
    count = torch.bincount(b, minlength=batch)
    offset = count.cumsum(0) - count
    place = torch.arange(len(b), device=device) - offset[b]
    width = int(count.max())
    n_copies = copies(
        torch.tensor(lower, device=device),
        torch.tensor(states, device=device),
        source_length[b],
        i + 1,
        moment,
    )
    index = b * width + place

    def spread(values: Tensor, empty: int) -> Tensor:
        full = torch.full((batch * width,), empty, dtype=values.dtype, device=device)
        return full.index_copy(0, index, values).view(batch, width)

    rows = Rows.of(
        target=spread(i + 1, NOBODY),
        moment=spread(moment, 1),
        last=spread((lower + i + states - 1).clamp(min=1), 0),
        copies=spread(n_copies, 1),
    )
    return StateTable(rows, index, b, i, moment, n_copies, lo, hi)


def state_bias(query: Rows, keys: Rows, mode: str, dtype: torch.dtype) -> Tensor:
    """Eq. 2: attention between states, weighted by their copies. (B, Q), (B, C) -> (B, 1, Q, C)

    multiple: (i, t) sees (j, t') iff j <= i and t' <= t.  max: of each earlier token only its
    largest moment up to t.  selected: of each earlier token only the state that wrote it.
    """
    seen = keys.target[:, None] <= query.target[..., None]
    seen &= keys.moment[:, None] <= query.moment[..., None]
    weight = torch.take(log_copies(dtype, keys.copies.device), keys.copies)[:, None]
    if mode == "multiple":
        return visible_bias(seen, weight, dtype)
    own = keys.target[:, None] == query.target[..., None]
    if mode == "max":
        reached = keys.last[:, None].minimum(query.moment[..., None])
        chosen = keys.moment[:, None] == reached
    else:
        chosen = keys.wrote[:, None] > 0
    # One state of an earlier token is seen: it counts once, however many copies it stands for.
    return visible_bias(seen & (own | chosen), weight * own, dtype)


@lru_cache(maxsize=16)
def log_copies(dtype: torch.dtype, device: torch.device) -> Tensor:
    """log(copies) by copies; places of a cache that no row has used yet have none."""
    with torch.inference_mode(False):  # training may use a table that a stream computed
        counts = torch.arange(MOST_STATES + 1, dtype=torch.float64, device=device)
        return counts.clamp(min=1).log().to(dtype)
