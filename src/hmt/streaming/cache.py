"""Pre-allocated memory of streams: one slot each, grown by doubling, never by concatenation.

Shapes: S slots, C capacity, B streams of this pass, N packed rows or tokens, D width, W key width.

Memory of one slot, in numbers: source tokens x (2D x encoder layers + 2D x decoder layers + D)
plus rows x 2D x decoder layers.
"""

import torch
from torch import Tensor

from hmt.model.moments import NOBODY, Rows
from hmt.model.transformer import Remember, Transformer

FIRST_CAPACITY = 64


class Shelf:
    """Tensors (S, C, ...) that share one capacity along C."""

    def __init__(self, tensors: list[Tensor]) -> None:
        self.tensors = tensors

    @property
    def capacity(self) -> int:
        return self.tensors[0].shape[1]

    def grow(self, needed: int) -> None:
        capacity = self.capacity
        if needed <= capacity:
            return
        while capacity < needed:
            capacity *= 2
        for n, old in enumerate(self.tensors):
            new = old.new_zeros(old.shape[0], capacity, *old.shape[2:])
            new[:, : old.shape[1]] = old
            self.tensors[n] = new

    def put(self, n: int, place: Tensor, values: Tensor) -> None:
        """Write rows at flat places slot * C + position. (N,), (N, ...)"""
        self.tensors[n].flatten(0, 1).index_copy_(0, place, values)

    def get(self, n: int, slots: Tensor | None, length: int) -> Tensor:
        """The first `length` entries of some slots (None: all). -> (B, length, ...)"""
        seen = self.tensors[n][:, :length]
        return seen if slots is None else seen.index_select(0, slots)


class Cache:
    """What one Transformer has computed for each slot."""

    def __init__(
        self, transformer: Transformer, slots: int, register_shape: tuple[int, ...] | None
    ) -> None:
        weight = transformer.output.weight
        dims, width = transformer.dims, transformer.dims.width

        def empty(*shape: int, dtype: torch.dtype = weight.dtype) -> Tensor:
            return torch.zeros(slots, *shape, dtype=dtype, device=weight.device)

        sample = transformer.read(weight.new_zeros(1, width))
        c = FIRST_CAPACITY
        self.encoder = Shelf([empty(c, 2 * width) for _ in range(dims.encoder_layers)])
        self.source = Shelf([empty(c, kept.shape[-1]) for kept in sample])
        self.sums = Shelf([empty(c, width)])
        self.rows = Shelf([empty(c, 2 * width) for _ in range(dims.decoder_layers)])
        self.facts = Shelf([empty(c, 3, dtype=torch.long), empty(c), empty(c, dtype=torch.bool)])
        # half precision could not hold a pointer beyond 256
        precise = torch.promote_types(weight.dtype, torch.float32)
        self.registers = (
            None
            if register_shape is None
            else [empty(*register_shape, dtype=precise) for _ in range(dims.decoder_layers)]
        )

    def clear(self, slot: int) -> None:
        """Make a slot fit for a new stream; rows and source are overwritten as it grows."""
        for register in self.registers or []:
            register[slot] = 0

    def make_room(self, source: int, rows: int) -> None:
        for shelf in (self.encoder, self.source, self.sums):
            shelf.grow(source)
        self.rows.grow(rows)
        self.facts.grow(rows)

    def remember(self, shelf: Shelf, place: Tensor, slots: Tensor | None, length: int) -> Remember:
        """Write new keys and values, give back all so far."""

        def write_and_read(layer: int, new: Tensor) -> Tensor:
            shelf.put(layer, place, new)
            return shelf.get(layer, slots, length)

        return write_and_read

    def put_facts(self, place: Tensor, facts: Tensor, log_copies: Tensor) -> None:
        """(N,), (N, 3), (N,)"""
        self.facts.put(0, place, facts)
        self.facts.put(1, place, log_copies)
        self.facts.tensors[2].flatten(0, 1).index_fill_(0, place, False)

    def key_rows(self, slots: Tensor | None, used: Tensor, length: int) -> Rows:
        """Facts of cached rows; those beyond what a stream uses are NOBODY. -> (B, length)"""
        facts = self.facts.get(0, slots, length)
        outside = torch.arange(length, device=used.device) >= used[:, None]
        return Rows(
            target=facts[..., 0].masked_fill(outside, NOBODY),
            moment=facts[..., 1],
            column=facts[..., 2],
            log_copies=self.facts.get(1, slots, length),
            selected=self.facts.get(2, slots, length),
        )
