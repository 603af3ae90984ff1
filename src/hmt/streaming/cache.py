"""Pre-allocated memory of streams: one slot each, grown by doubling, never by concatenation.

Shapes: S slots, C capacity, B streams of this pass, N packed rows or tokens, D width, H heads, W
width of what a layer caches of a source token.

Numbers stored per slot: source tokens x (2D x encoder layers + W x decoder layers + D) plus rows x
2D x decoder layers.  W is 2D, or 3D where a system caches a projection besides keys and values.
"""

from collections.abc import Iterable
from typing import ClassVar

import torch
from torch import Tensor

from hmt.fast.untouched_zeros import zeros
from hmt.model.rows import NOBODY, Row, Rows
from hmt.model.transformer import Remember, Transformer

FIRST_CAPACITY = 128  # on a CPU, unused room takes no memory
WROTE = Row._fields.index("wrote")


class Shelf:
    """Tensors (S, C, ...) that share one capacity along C."""

    axis: ClassVar[int] = 1  # where the capacity is
    slot_axis: ClassVar[int] = 0

    def __init__(self, tensors: list[Tensor]) -> None:
        self.tensors = tensors

    @property
    def capacity(self) -> int:
        return self.tensors[0].shape[self.axis]

    def grow(self, needed: int, free: Iterable[int]) -> None:
        """Make room for `needed` entries; what is in free slots is not kept."""
        old = capacity = self.capacity
        if needed <= old:
            return
        while capacity < needed:
            capacity *= 2
        taken = set(range(self.tensors[0].shape[self.slot_axis])).difference(free)
        for n, kept in enumerate(self.tensors):
            shape = list(kept.shape)
            shape[self.axis] = capacity
            self.tensors[n] = zeros(tuple(shape), kept.dtype, kept.device)
            room = self.tensors[n].narrow(self.axis, 0, old)
            for slot in taken:  # one by one, so that nothing is allocated for the slots in between
                room.select(self.slot_axis, slot).copy_(kept.select(self.slot_axis, slot))

    def copy(self, other: "Shelf", slots: Tensor, length: int) -> None:
        """Fill the first slots with `length` entries of these slots of another shelf. (B,)"""
        for mine, theirs in zip(self.tensors, other.tensors, strict=True):
            chosen = theirs.narrow(self.axis, 0, length).index_select(self.slot_axis, slots)
            first = mine.narrow(self.slot_axis, 0, len(slots))
            first.narrow(self.axis, 0, length).copy_(chosen)

    def places(self, slots: Tensor, at: Tensor) -> Tensor:
        """Flat indices of rows, slot after slot. (N,) twice -> (N,)"""
        return torch.add(at, slots, alpha=self.capacity)

    def put(self, n: int, place: Tensor, values: Tensor) -> None:
        """Write rows at their places. (N,), (N, ...)"""
        self.tensors[n].flatten(0, 1).index_copy_(0, place, values)

    def get(self, n: int, slots: Tensor | None, length: int) -> Tensor:
        """The first `length` entries of some slots (None: all). -> (B, length, ...)"""
        seen = self.tensors[n][:, :length]
        return seen if slots is None else seen.index_select(0, slots)


class HeadShelf(Shelf):
    """What attention reads: P projections (keys, values, ...), (P, S, H, C, D / H) per layer.

    A head's keys are contiguous, so attending to hundreds of rows takes a third less time.
    """

    axis = 3
    slot_axis = 1

    def __init__(
        self, transformer: Transformer, slots: int, layers: int, projections: int = 2
    ) -> None:
        weight, dims = transformer.output.weight, transformer.dims
        self.heads, self.size = dims.heads, dims.width // dims.heads
        shape = (projections, slots, self.heads, FIRST_CAPACITY, self.size)
        device = weight.device
        super().__init__([zeros(shape, weight.dtype, device) for _ in range(layers)])
        self.slots_before = torch.arange(projections, device=device)[:, None] * slots  # (P, 1)
        # (P * H,) heads before each head of the first slot
        self.before = (
            self.slots_before * self.heads + torch.arange(self.heads, device=device)
        ).view(-1)

    def places(self, slots: Tensor, at: Tensor) -> Tensor:
        """Flat indices of rows in all heads and projections. (N,) twice -> (N * P * H,)"""
        first = torch.add(at, slots, alpha=self.heads * self.capacity)
        return torch.add(first[:, None], self.before, alpha=self.capacity).view(-1)

    def put(self, layer: int, place: Tensor, values: Tensor) -> None:
        """Write rows at their places. (N * P * H,), (N, W)"""
        kept = self.tensors[layer].view(-1, self.size)
        kept.index_copy_(0, place, values.reshape(-1, self.size))

    def get(self, layer: int, slots: Tensor | None, length: int) -> Tensor:
        """The first `length` rows of some slots (None: all). -> (P, B, H, length, D / H)"""
        kept = self.tensors[layer]
        if slots is None:
            return kept.narrow(3, 0, length)
        # selecting along the second dimension would touch all slots
        chosen = (self.slots_before + slots).view(-1)
        seen = kept.flatten(0, 1).narrow(2, 0, length).index_select(0, chosen)
        return seen.view(len(self.slots_before), len(slots), *seen.shape[1:])

    def remember(self, owner: Tensor, at: Tensor, slots: Tensor | None, length: int) -> Remember:
        """Write new rows, return all so far. (N,) twice, (B,) or all"""
        place = self.places(owner, at)

        def write_and_read(layer: int, new: Tensor) -> Tensor:
            self.put(layer, place, new)
            return self.get(layer, slots, length)

        return write_and_read


class Cache:
    """What one Transformer has computed for each slot."""

    def __init__(
        self, transformer: Transformer, slots: int, register_shape: tuple[int, ...] | None
    ) -> None:
        weight = transformer.output.weight
        dims, width = transformer.dims, transformer.dims.width

        def empty(*shape: int, dtype: torch.dtype = weight.dtype) -> Tensor:
            return zeros((slots, *shape), dtype, weight.device)

        kept = transformer.keep(weight.new_zeros(1, width))[0].shape[-1]
        c = FIRST_CAPACITY
        self.encoder = HeadShelf(transformer, slots, dims.encoder_layers)
        self.source = HeadShelf(transformer, slots, dims.decoder_layers, kept // width)
        self.sums = Shelf([empty(c, width)])  # of the first n encoded source tokens at n
        self.rows = HeadShelf(transformer, slots, dims.decoder_layers)
        self.records = Shelf([empty(c, len(Row._fields), dtype=torch.long)])  # what each row is
        # bfloat16 could not hold every pointer beyond 256
        precise = torch.promote_types(weight.dtype, torch.float32)
        layers = 0 if register_shape is None else dims.decoder_layers
        self.registers = [empty(*(register_shape or ()), dtype=precise) for _ in range(layers)]

    def copy(self, other: "Cache", slots: Tensor, source: int, rows: int) -> None:
        """Fill the first slots with these slots of another cache. (B,)

        None of them has more than `source` source tokens or `rows` rows.
        """
        self.make_room(source, rows, range(self.sums.tensors[0].shape[0]))
        self.encoder.copy(other.encoder, slots, source)
        self.source.copy(other.source, slots, source)
        self.sums.copy(other.sums, slots, source + 1)
        self.rows.copy(other.rows, slots, rows)
        self.records.copy(other.records, slots, rows)
        for register, value in zip(self.registers, other.registers, strict=True):
            register[: len(slots)] = value.index_select(0, slots)

    @property
    def bytes(self) -> int:
        """Memory used by all slots."""
        shelves = (self.encoder, self.source, self.sums, self.rows, self.records)
        tensors = [tensor for shelf in shelves for tensor in shelf.tensors] + self.registers
        return sum(tensor.numel() * tensor.element_size() for tensor in tensors)

    def clear(self, slot: int) -> None:
        """Prepare a slot for a new stream; rows and source are overwritten as it grows."""
        for register in self.registers:
            register[slot] = 0

    def make_room(self, source: int, rows: int, free: Iterable[int]) -> None:
        """Make room for this many source tokens and rows; what is in free slots is not kept."""
        self.encoder.grow(source, free)
        self.source.grow(source, free)
        self.sums.grow(source + 1, free)
        self.rows.grow(rows, free)
        self.records.grow(rows, free)

    def describe(self, slots: Tensor, at: Tensor, rows: Tensor) -> None:
        """Store the columns of new rows. (N,) twice, (N, F)"""
        self.records.put(0, self.records.places(slots, at), rows)

    def mark_written(self, rows: list[tuple[int, int]]) -> None:
        """Mark these rows (slot, place in it) as having written their tokens."""
        records, capacity = self.records.tensors[0], self.records.capacity
        columns = records.shape[-1]
        index = [(slot * capacity + at) * columns + WROTE for slot, at in rows]
        records.view(-1).index_fill_(0, torch.tensor(index, device=records.device), 1)

    def key_rows(self, slots: Tensor | None, used: list[int]) -> Rows:
        """The cached rows; those beyond what a stream uses are NOBODY. -> (B, length)"""
        length = max(used)
        target, *others = self.records.get(0, slots, length).unbind(-1)
        if min(used) < length:
            at = torch.arange(length, device=target.device)
            outside = at >= torch.tensor(used, device=target.device)[:, None]
            target = target.masked_fill(outside, NOBODY)
        return Rows(target, *others)

    def source_means(self, slots: Tensor, moment: Tensor) -> Tensor:
        """Means of the first `moment` encoded source tokens. (N,) twice -> (N, D)"""
        sums = self.sums.tensors[0].flatten(0, 1)
        return sums.index_select(0, self.sums.places(slots, moment)) / moment[:, None]

    def registers_of(self, slots: Tensor | None) -> tuple[Tensor, ...]:
        """What each layer carries from pass to pass, if anything. -> (B, ...) per layer"""
        if slots is None:
            return tuple(self.registers)
        return tuple(register.index_select(0, slots) for register in self.registers)

    def put_registers(self, slots: Tensor, new: list[Tensor]) -> None:
        """Replace the registers of some slots, per layer. (B,), (B, ...) each"""
        for register, value in zip(self.registers, new, strict=True):
            register.index_copy_(0, slots, value.to(register.dtype))
