"""Attention of rows to rows and of rows to source.

Shapes: B batch or streams, Q rows of this pass (padded), N rows of this pass (packed), C keys,
J source tokens, D width, H heads, W what a layer keeps of a source token.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import torch.nn.functional as F
from torch import Tensor, nn

from hmt.fast.small_attention import SMALL_CELLS, SUPPORTED, small_attention
from hmt.model.dims import Dims
from hmt.model.passes import Packing, Pass


def split_heads(x: Tensor, heads: int) -> Tensor:
    """(B, Q, D) -> (B, H, Q, D / H)"""
    batch, rows, width = x.shape
    return x.view(batch, rows, heads, width // heads).transpose(1, 2)


def join_heads(x: Tensor) -> Tensor:
    """(B, H, Q, D / H) -> (B, Q, D)"""
    return x.transpose(1, 2).flatten(2)


def split_projections(x: Tensor, heads: int, width: int) -> Tensor:
    """Keys, values and anything else kept: P projections. (B, J, P * D) -> (P, B, H, J, D / H)"""
    batch, length, kept = x.shape
    projections = x.view(batch, length, kept // width, heads, width // heads)
    return projections.permute(2, 0, 3, 1, 4)


def attend(query: Tensor, keys: Tensor, values: Tensor, bias: Tensor | None) -> Tensor:
    """Bias (B, 1 or H, Q, C) is added to the scores. (B, H, Q or C, D / H) thrice -> (B, Q, D)"""
    batch, heads, rows, _ = query.shape
    is_small = batch > 1 and batch * heads * rows * keys.shape[2] <= SMALL_CELLS
    if is_small and bias is not None and query.device.type == "cpu" and query.dtype in SUPPORTED:
        out = small_attention(query, keys, values, bias)
    else:
        out = F.scaled_dot_product_attention(query, keys, values, attn_mask=bias)
    return out.transpose(1, 2).flatten(2)


def attention_weights(query: Tensor, keys: Tensor, bias: Tensor | None) -> Tensor:
    """The weights that `attend` gives to values. (B, H, Q or C, D / H) twice -> (B, H, Q, C)"""
    scores: Tensor = query @ keys.transpose(-1, -2) * query.shape[-1] ** -0.5
    return (scores if bias is None else scores + bias).softmax(-1)


class SelfAttention(nn.Module):
    """Rows (or source positions) look at one another as far as the bias lets them."""

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


@dataclass(frozen=True, kw_only=True)
class Report:
    """What the cross-attention of one layer reports of a pass; systems add fields of their own."""

    register: Tensor | None = None  # (B, ...) what it passes on to the stream's next pass


ReportT = TypeVar("ReportT", bound=Report)
NOTHING = Report()


def reports_of(kind: type[ReportT], reports: Sequence[Report]) -> list[ReportT]:
    """The reports of all layers, as the type that the system's own attention makes."""
    own = [report for report in reports if isinstance(report, kind)]
    assert len(own) == len(reports), f"every layer reports a {kind.__name__}"
    return own


class Look(NamedTuple):
    """How the rows look at the source in one layer.

    Attention is the softmax of the scores plus `bias`, unless `weights` gives it directly.
    """

    bias: Tensor | None = None  # (B, 1 or H, Q, J) added to the scores; None: all is seen
    weights: Tensor | None = None  # (B, H, Q, J)
    shares: Tensor | None = None  # (B, Q, H) how much each head counts; None: all count 1
    report: Report = NOTHING


class Attended(NamedTuple):
    """What the cross-attention of one layer returns."""

    out: Tensor  # (N, D)
    report: Report
    weights: Tensor | None  # (N, H, J) shares included; only if the pass is watched


class CrossAttention(nn.Module):
    """Rows look at the encoded source.  A system that attends differently overrides `look`."""

    def __init__(self, dims: Dims) -> None:
        super().__init__()
        self.heads = dims.heads
        self.query = nn.Linear(dims.width, dims.width)
        self.project = nn.Linear(dims.width, 2 * dims.width)
        self.output = nn.Linear(dims.width, dims.width)

    def keep(self, h: Tensor) -> Tensor:
        """What the layer keeps of the encoded source: keys, values, ... (..., D) -> (..., W)"""
        kept: Tensor = self.project(h)
        return kept

    def look(
        self,
        x: Tensor,
        query: Tensor,
        kept: Sequence[Tensor],
        at: Pass,
        register: Tensor | None,
    ) -> Look:
        """How rows look at the source: here, all at the source up to their moments.

        x (N, D), query (B, H, Q, D / H), what `keep` kept (B, H, J, D / H) each, register (B, ...)
        """
        return Look(at.source_bias)

    def forward(self, x: Tensor, source: Tensor, at: Pass, register: Tensor | None) -> Attended:
        """(N, D), source (P, B, H, J, D / H), register (B, ...) -> (N, D)"""
        query = split_heads(at.packing.unpack(self.query(x)), self.heads)
        kept = source.unbind()
        look = self.look(x, query, kept, at, register)
        if look.weights is None:
            out = attend(query, kept[0], kept[1], look.bias)
        else:
            out = join_heads(look.weights.to(kept[1].dtype) @ kept[1])
        if look.shares is not None:
            out = (out.unflatten(-1, (self.heads, -1)) * look.shares[..., None]).flatten(-2)
        weights = shown_weights(query, kept[0], look, at.packing) if at.is_watched else None
        return Attended(self.output(at.packing.pack(out)), look.report, weights)


def shown_weights(query: Tensor, keys: Tensor, look: Look, packing: Packing) -> Tensor:
    """How much each head of each row takes from each source token. -> (N, H, J)"""
    weights = look.weights
    if weights is None:
        weights = attention_weights(query, keys, look.bias)
    weights = weights.transpose(1, 2)  # (B, Q, H, J)
    if look.shares is not None:
        weights = weights * look.shares[..., None]
    return packing.pack(weights)
