"""One pass of the decoder: which rows, how they are packed, what they may see.

Shapes: B batch or streams, Q rows of this pass (padded), N rows of this pass (packed), C keys,
J source tokens, D width, F columns.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from hmt.model.rows import Rows, source_bias


@dataclass(frozen=True)
class Packing:
    """Where the N real rows stand in the padded rectangle (B, Q); index None means all of it."""

    batch: int
    width: int
    index: Tensor | None = None

    @classmethod
    def of(cls, counts: Sequence[int], device: torch.device) -> "Packing":
        """The packing of `counts` rows, left-aligned in each line of the rectangle."""
        batch, width = len(counts), max(counts)
        if sum(counts) == batch * width:
            return cls(batch, width)
        index = [b * width + r for b, n in enumerate(counts) for r in range(n)]
        return cls(batch, width, torch.tensor(index, device=device))

    @classmethod
    def where(cls, is_real: Tensor) -> "Packing":
        """The packing of the places of the rectangle where this is true. (B, Q)"""
        return cls(is_real.shape[0], is_real.shape[1], is_real.flatten().nonzero()[:, 0])

    def pack(self, x: Tensor) -> Tensor:
        """The real rows. (B, Q, ...) -> (N, ...)"""
        flat = x.reshape(self.batch * self.width, *x.shape[2:])
        return flat if self.index is None else flat.index_select(0, self.index)

    def unpack(self, x: Tensor) -> Tensor:
        """The rectangle, zero where there is no row. (N, D) -> (B, Q, D)"""
        if self.index is not None:
            full = x.new_zeros(self.batch * self.width, x.shape[-1])
            x = full.index_copy_(0, self.index, x)
        return x.view(self.batch, self.width, -1)

    def lay_out(self, columns: Tensor, padding: Sequence[int]) -> tuple[Tensor, ...]:
        """Columns as rectangles, `padding` where there is no row. (F, N), F -> (B, Q) each"""
        if self.index is not None:
            empty = torch.tensor(padding, device=columns.device)[:, None]
            full = empty.repeat(1, self.batch * self.width)
            columns = full.index_copy_(1, self.index, columns)
        return columns.view(-1, self.batch, self.width).unbind()


@dataclass(frozen=True)
class Pass:
    """All that the layers of the decoder know about one pass.

    In training and forced decoding B counts sentences, in streaming streams.  A *register* is what
    the cross-attention of one layer carries from one pass of a stream to the next (pointers, a
    running sum): one tensor per layer, or none at all in most systems.
    """

    rows: Rows
    packing: Packing  # of rows beside their source
    row_packing: Packing  # of rows beside the rows they see: the same but for GSiMT's columns
    row_bias: Tensor  # (B, 1, Q, C) which rows see which
    source_bias: Tensor | None  # (B, 1, Q, J) up to each row's moment; None if all rows see all
    source_length: Tensor  # (B,) source tokens that may be looked at
    source_read: Tensor  # (B,) whether the source has been read to its end
    setting: Tensor  # (B,) the knob that attention depends on: a threshold, a delay
    is_streaming: bool  # else attention may take expectations over what streaming would decide
    registers: tuple[Tensor, ...] = ()  # (B, ...) per layer
    is_watched: bool = False  # whether attention weights are requested


def whole_pass(
    rows: Rows,
    row_bias: Tensor,
    packing: Packing,
    source: Tensor,
    source_length: Tensor,
    row_packing: Packing | None = None,
    setting: float = 0.0,
    registers: tuple[Tensor, ...] = (),
    is_streaming: bool = False,
) -> Pass:
    """A pass over the rows of whole sentences, beside their encoded sources (B, J, D)."""
    precise = torch.promote_types(source.dtype, torch.float32)
    return Pass(
        rows=rows,
        packing=packing,
        row_packing=row_packing or packing,
        row_bias=row_bias,
        source_bias=source_bias(rows.moment, source.shape[1], source.dtype)[:, None],
        source_length=source_length,
        source_read=torch.ones_like(source_length, dtype=torch.bool),
        setting=torch.full_like(source_length, setting, dtype=precise),
        is_streaming=is_streaming,
        registers=registers,
    )
