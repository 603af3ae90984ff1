"""Attention of rows to rows and of rows to source, and how rows of unequal number are packed.

Shapes: B batch or streams, Q rows of this pass (padded), N rows of this pass (packed), C keys,
J source tokens, D width, H heads, W what a layer keeps of a source state.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hmt.fast.small_attention import PRECISE, SMALL_CELLS, small_attention
from hmt.model.dims import Dims
from hmt.model.rows import NEVER, Rows


@dataclass(frozen=True)
class Packing:
    """Where the N real rows stand in the padded rectangle (B, Q); index None means all of it."""

    batch: int
    width: int
    index: Tensor | None = None

    def pack(self, x: Tensor) -> Tensor:
        """The real rows. (B, Q, ...) -> (N, ...)"""
        flat = x.reshape(self.batch * self.width, *x.shape[2:])
        return flat if self.index is None else flat.index_select(0, self.index)

    def unpack(self, x: Tensor) -> Tensor:
        """The rectangle, zero where there is no row. (N, D) -> (B, Q, D)"""
        if self.index is not None:
            full = x.new_zeros(self.batch * self.width, x.shape[-1])
            x = full.index_copy(0, self.index, x)
        return x.view(self.batch, self.width, -1)


def split_heads(x: Tensor, heads: int) -> Tensor:
    """(B, Q, D) -> (B, H, Q, D / H)"""
    batch, rows, width = x.shape
    return x.view(batch, rows, heads, width // heads).transpose(1, 2)


def split_parts(x: Tensor, heads: int, width: int) -> Tensor:
    """Keys, values, and what else is kept: P parts. (B, J, P * D) -> (P, B, H, J, D / H)"""
    batch, length, kept = x.shape
    parts = x.view(batch, length, kept // width, heads, width // heads)
    return parts.permute(2, 0, 3, 1, 4)


def attend(query: Tensor, keys: Tensor, values: Tensor, bias: Tensor | None) -> Tensor:
    """Bias (B, 1 or H, Q, C) is added to the scores. (B, H, Q or C, D / H) thrice -> (B, Q, D)"""
    batch, heads, rows, _ = query.shape
    is_small = batch > 1 and batch * heads * rows * keys.shape[2] <= SMALL_CELLS
    if is_small and bias is not None and query.device.type == "cpu" and query.dtype in PRECISE:
        out = small_attention(query, keys, values, bias)
    else:
        out = F.scaled_dot_product_attention(query, keys, values, attn_mask=bias)
    return out.transpose(1, 2).flatten(2)


def source_bias(moment: Tensor, length: int, dtype: torch.dtype) -> Tensor:
    """A row sees the first `moment` source tokens. (B, ..., Q) -> (B, ..., Q, J)"""
    beyond = torch.arange(length, device=moment.device) >= moment[..., None]
    return torch.zeros(beyond.shape, dtype=dtype, device=moment.device).masked_fill_(beyond, NEVER)


class SelfAttention(nn.Module):
    """Rows (or source positions) look at one another as the bias says."""

    def __init__(self, dims: Dims) -> None:
        super().__init__()
        self.heads = dims.heads
        self.project = nn.Linear(dims.width, 3 * dims.width)
        self.output = nn.Linear(dims.width, dims.width)

    def forward(
        self,
        x: Tensor,
        bias: Tensor | None,
        packing: Packing,
        remember: Callable[[Tensor], Tensor] | None,
    ) -> Tensor:
        """(N, D) -> (N, D)"""
        projected = self.project(x)  # (N, 3D)
        if remember is None:
            query, keys, values = split_heads(packing.unpack(projected), 3 * self.heads).chunk(3, 1)
        else:
            new_query, new = projected.tensor_split((x.shape[-1],), dim=1)
            query = split_heads(packing.unpack(new_query), self.heads)
            keys, values = remember(new).unbind()
        out: Tensor = self.output(packing.pack(attend(query, keys, values, bias)))
        return out


@dataclass
class SourceView:
    """What cross-attention may use in one pass.

    `registers` is the per-layer memory of one stream that some systems need (pointers, running
    sums), None in a training pass; `complete` says per stream that the source has ended; `packing`
    is how rows stand beside their source where self-attention has them in another rectangle.
    """

    rows: Rows
    length: Tensor | None = None  # (B,) source tokens that may be looked at, if a system asks
    registers: Tensor | None = None  # (B, ...) of this layer
    complete: Tensor | None = None  # (B,)
    dial: Tensor | None = None  # (B,) the inference setting that matters here: a threshold, a delay
    packing: Packing | None = None
    sees_all: bool = False  # every row sees all the source that is given
    shared_bias: Tensor | None = None  # (B, 1, Q, J), the same in all layers

    def bias(self, length: int, dtype: torch.dtype) -> Tensor | None:
        """Each row sees the source up to its moment. -> (B, 1, Q, J), None if all see all"""
        if self.shared_bias is None and not self.sees_all:
            self.shared_bias = source_bias(self.rows.moment, length, dtype)[:, None]
        return self.shared_bias


class CrossAttention(nn.Module):
    """Rows look at the first `moment` source states; systems may bring modules of this shape."""

    def __init__(self, dims: Dims) -> None:
        super().__init__()
        self.heads = dims.heads
        self.query = nn.Linear(dims.width, dims.width)
        self.project = nn.Linear(dims.width, 2 * dims.width)
        self.output = nn.Linear(dims.width, dims.width)

    def read(self, h: Tensor) -> Tensor:
        """What a layer keeps of source states: keys and values. (..., D) -> (..., W)"""
        kept: Tensor = self.project(h)
        return kept

    def forward(
        self, x: Tensor, source: Tensor, view: SourceView, packing: Packing
    ) -> tuple[Tensor, Any]:
        """(N, D), source (P, B, H, J, D / H) -> (N, D) and nothing else to tell"""
        packing = view.packing or packing
        query = split_heads(packing.unpack(self.query(x)), self.heads)
        keys, values = source.unbind()
        bias = view.bias(source.shape[3], x.dtype)
        return self.output(packing.pack(attend(query, keys, values, bias))), None
