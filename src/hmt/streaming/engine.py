"""The one read/write loop: it advances any set of streams together, each at its own place.

Shapes: B streams of this pass, Q rows (padded), N rows (packed), C cached rows, D width.

A round asks the system, for each stream, which rows it needs; computes them for all streams in one
decoder pass; and lets the system decide, per stream, to read on or to write.  A live session is a
batch of one, a server as many streams as there are listeners; a corpus keeps all slots full.
"""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, islice
from typing import Any

import torch
from torch import Tensor

from hmt.errors import UserError
from hmt.model.moments import NOBODY, Rows
from hmt.model.transformer import Packing, SourceView
from hmt.model.vocabulary import at_least_float32
from hmt.streaming.cache import Cache
from hmt.streaming.loops import loop_token
from hmt.systems.system import PassOutput, Plan, Read, Stream, System, Write
from hmt.text.tokenizer import BOS, EOS, PAD

# A translation longer than this has lost itself: no language pair doubles the number of tokens.
LENGTH_FACTOR, LENGTH_EXTRA = 2, 20


@dataclass
class Counts:
    """Work done so far; tests count rows, not seconds."""

    passes: int = 0
    rows: int = 0
    encoder_passes: int = 0
    encoder_tokens: int = 0
    written: int = 0


class Engine:
    """Slots for streams of one system, and the loop that advances them."""

    def __init__(
        self,
        system: System,
        slots: int = 1,
        clock: Callable[[], float] = time.monotonic,
        avoids_loops: bool = False,
    ) -> None:
        self.system = system.eval()
        self.avoids_loops = avoids_loops
        self.parts = system.parts
        self.slots = slots
        self.clock = clock
        self.caches = [Cache(part, slots, system.register_shape) for part in self.parts]
        self.free = list(range(slots))[::-1]
        self.device = self.parts[0].output.weight.device
        self.counts = Counts()

    @torch.inference_mode()
    def open(self, knobs: Any = None, forced: Sequence[int] | None = None) -> Stream:
        """Start a translation in a free slot."""
        if not self.free:
            raise UserError(f"All {self.slots} slots are taken; close a stream or open more slots.")
        knobs = self.system.knobs() if knobs is None else knobs
        slot = self.free.pop()
        for cache in self.caches:
            cache.clear(slot)
        return Stream(
            slot=slot,
            knobs=knobs,
            memory=self.system.begin(knobs),
            forced=None if forced is None else list(forced),
            rows=[0] * len(self.parts),
            encoded=[0] * len(self.parts),
        )

    def close(self, stream: Stream) -> None:
        """Give a stream's slot back."""
        assert stream.slot not in self.free, "a stream is closed once"
        self.free.append(stream.slot)

    def push(self, stream: Stream, tokens: Sequence[int]) -> None:
        """Source tokens have arrived."""
        assert not stream.is_finished, "the source of this stream has ended"
        stream.source.extend(tokens)
        stream.arrived_at.extend([self.clock()] * len(tokens))

    def finish(self, stream: Stream) -> None:
        """The source has ended."""
        self.push(stream, [EOS])
        stream.is_finished = True

    @torch.inference_mode()
    def advance(self, streams: Sequence[Stream]) -> None:
        """Go on until every stream has ended or waits for source that has not arrived."""
        streams = list(streams)
        while streams := self._round(streams):
            pass

    @torch.inference_mode()
    def translate(
        self,
        sources: Sequence[Sequence[int]],
        knobs: Any = None,
        forced: Sequence[Sequence[int]] | None = None,
    ) -> Iterator[tuple[int, Stream]]:
        """Translate whole sources (without end tokens), all slots kept full, in order of ending."""
        # Long ones first: neighbours of like length share passes, and no long one is left alone.
        waiting = iter(sorted(range(len(sources)), key=lambda n: -len(sources[n])))
        active: dict[int, tuple[int, Stream]] = {}
        while True:
            for n in islice(waiting, len(self.free)):
                stream = self.open(knobs, None if forced is None else forced[n])
                self.push(stream, sources[n])
                self.finish(stream)
                active[stream.slot] = n, stream
            if not active:
                return
            # in order of their slots, so that full slots need no copy of the caches
            self._round([active[slot][1] for slot in sorted(active)])
            for n, stream in list(active.values()):
                if stream.has_ended:
                    del active[stream.slot]
                    self.close(stream)
                    yield n, stream

    def _round(self, streams: Sequence[Stream]) -> list[Stream]:
        """One pass for every stream that can go on; gives back those that could."""
        planned: list[list[tuple[Stream, Plan]]] = [[] for _ in self.parts]
        for stream in streams:
            plan = self._next_plan(stream)
            if plan is not None:
                planned[plan.part].append((stream, plan))
        for part, group in enumerate(planned):
            if group:
                self._encode(part, [stream for stream, _ in group])
                self._pass(part, [s for s, _ in group], [p for _, p in group])
        return [stream for group in planned for stream, _ in group]

    def _next_plan(self, stream: Stream) -> Plan | None:
        """Read what has arrived until the system wants rows, or nothing more can be done."""
        while not stream.has_ended:
            step: Plan | Read = Read(stream.wants)
            if stream.read >= stream.wants or stream.is_complete:
                step = self.system.plan(stream)
            if isinstance(step, Plan):
                return step
            reachable = min(step.until, len(stream.source))
            if reachable <= stream.read:
                return None
            stream.read = reachable
        return None

    def _encode(self, part: int, streams: Sequence[Stream]) -> None:
        """Encode what has arrived since last time; causal, so nothing looks ahead."""
        new = [s for s in streams if s.encoded[part] < len(s.source)]
        if not new:
            return
        cache, transformer = self.caches[part], self.parts[part]
        counts = [len(s.source) - s.encoded[part] for s in new]
        longest = max(len(s.source) for s in new)
        cache.make_room(longest, 0)
        packing, padded = self._packing(counts)
        tokens = padded([t for s in new for t in s.source[s.encoded[part] :]], PAD)
        at = [p for s in new for p in range(s.encoded[part], len(s.source))]
        place = self._places([s.slot for s in new], counts, at, cache.encoder.capacity)
        slots = self._slot_index(new)
        states = transformer.encode(
            tokens,
            padded(at, 0),
            packing,
            longest,
            cache.remember(cache.encoder, place, slots, longest),
        )
        for layer, kept in enumerate(transformer.read(states)):
            cache.source.put(layer, place, kept)
        before = [s.encoded[part] for s in new]
        self._add_sums(cache, new, packing.unpack(states), before, place, packing)
        for s in new:
            s.encoded[part] = len(s.source)
        self.counts.encoder_passes += 1
        self.counts.encoder_tokens += len(at)

    def _add_sums(
        self,
        cache: Cache,
        streams: Sequence[Stream],
        states: Tensor,
        before: list[int],
        place: Tensor,
        packing: Packing,
    ) -> None:
        """Running sums of source states, for their means. (B, Q, D)"""
        sums = states.cumsum(1)
        if any(before):
            capacity = cache.sums.capacity
            index = [
                s.slot * capacity + max(b - 1, 0) for s, b in zip(streams, before, strict=True)
            ]
            older = cache.sums.tensors[0].flatten(0, 1)[self._tensor(index)]  # (B, D)
            has_older = self._tensor([float(b > 0) for b in before], older.dtype)
            sums = sums + (older * has_older[:, None])[:, None]
        cache.sums.put(0, place, packing.pack(sums))

    def _pass(self, part: int, streams: list[Stream], plans: list[Plan]) -> None:
        """Compute the planned rows of all streams at once, then read or write."""
        cache = self.caches[part]
        for stream, plan in zip(streams, plans, strict=True):
            if plan.forgets:
                stream.rows[part] = 0
        counts = [len(plan.targets) for plan in plans]
        starts = [s.rows[part] for s in streams]
        used = [a + n for a, n in zip(starts, counts, strict=True)]
        cache.make_room(0, max(used))
        at = [r for a, n in zip(starts, counts, strict=True) for r in range(a, a + n)]
        place = self._places([s.slot for s in streams], counts, at, cache.rows.capacity)
        output = self._decode(part, streams, plans, place, counts, used)
        self.counts.passes += 1
        self.counts.rows += len(at)
        decisions = self.system.decide(streams, plans, output)
        first_rows = [0, *accumulate(counts)]
        writers = []
        for n, (stream, plan, decision) in enumerate(zip(streams, plans, decisions, strict=True)):
            if isinstance(decision, Write) or not plan.is_tentative:
                stream.rows[part] = used[n]
            if isinstance(decision, Read):
                stream.wants = decision.until
            else:
                stream.read = max(stream.read, plan.moments[decision.row])
                writers.append((n, first_rows[n] + decision.row))
        if writers:
            self._commit(cache, streams, output, writers, place)
            self._write([streams[n] for n, _ in writers], output, [row for _, row in writers])

    def _decode(
        self,
        part: int,
        streams: list[Stream],
        plans: list[Plan],
        place: Tensor,
        counts: list[int],
        used: list[int],
    ) -> PassOutput:
        """One decoder pass over the planned rows. -> states (N, D)"""
        cache, transformer = self.caches[part], self.parts[part]
        packing, padded = self._packing(counts)
        flat = [
            [x for p in plans for x in p.targets],
            [x for p in plans for x in p.moments],
            [x for p in plans for x in p.columns],
        ]
        log_copies = [math.log(c) for p in plans for c in (p.copies or [1] * len(p.targets))]
        tokens = [
            s.target[i - 2] if i > 1 else EOS
            for s, p in zip(streams, plans, strict=True)
            for i in p.targets
        ]
        dtype = transformer.output.weight.dtype
        precise = torch.promote_types(dtype, torch.float32)
        cache.put_facts(place, self._tensor(flat).T, self._tensor(log_copies, dtype))
        slots, longest = self._slot_index(streams), max(used)
        query = Rows(
            padded(flat[0], NOBODY), padded(flat[1], 1), padded(flat[2], 0), padded(log_copies, 0.0)
        )
        keys = cache.key_rows(slots, self._tensor(used), longest)
        seen = [max(s.read, *p.moments) for s, p in zip(streams, plans, strict=True)]
        registers = cache.registers
        if registers is not None and slots is not None:
            registers = [r.index_select(0, slots) for r in registers]
        out = transformer.decode(
            padded(tokens, PAD),
            self.system.bias(query, keys, streams, dtype),
            [cache.source.get(n, slots, max(seen)) for n in range(len(transformer.decoder))],
            SourceView(
                query,
                self._tensor(seen),
                complete=self._tensor([s.is_complete for s in streams]),
                dial=self._tensor([self.system.dial(s.knobs) for s in streams], precise),
            ),
            packing,
            registers,
            cache.remember(cache.rows, place, slots, longest),
        )
        moment = self._tensor(flat[1])
        owners = [s.slot for s, n in zip(streams, counts, strict=True) for _ in range(n)]
        last = self._tensor(owners) * cache.sums.capacity + moment - 1
        means = cache.sums.tensors[0].flatten(0, 1)[last] / moment[:, None]
        return PassOutput(out.states, means, counts, out.told, transformer)

    def _commit(
        self,
        cache: Cache,
        streams: list[Stream],
        output: PassOutput,
        writers: list[tuple[int, int]],
        place: Tensor,
    ) -> None:
        """Keep what the writing rows leave behind: that they wrote, and their registers."""
        rows = self._tensor([row for _, row in writers])
        cache.facts.tensors[2].flatten(0, 1).index_fill_(0, place[rows], True)
        if cache.registers is not None:
            slots = self._tensor([streams[n].slot for n, _ in writers])
            index = self._tensor([n for n, _ in writers])
            for register, told in zip(cache.registers, output.told, strict=True):
                register.index_copy_(0, slots, told.register[index].to(register.dtype))

    def _write(self, streams: list[Stream], output: PassOutput, rows: list[int]) -> None:
        """Only the rows that write go through the vocabulary."""
        states = output.states[self._tensor(rows)]
        log_prob = at_least_float32(output.transformer.output(states)).log_softmax(-1)
        choice = log_prob.clone()
        choice[:, [BOS, PAD]] = -math.inf
        if self.avoids_loops:
            for n, stream in enumerate(streams):
                if (token := loop_token(stream.target)) is not None:
                    choice[n, token] = -math.inf
        tokens = choice.argmax(-1).tolist()
        for n, stream in enumerate(streams):
            if stream.forced is not None:
                tokens[n] = stream.forced[len(stream.target)]
        chosen = log_prob.gather(1, self._tensor(tokens)[:, None])[:, 0].tolist()
        now = self.clock()
        for stream, token, value in zip(streams, tokens, chosen, strict=True):
            stream.target.append(token)
            stream.reads.append(stream.read)
            stream.log_probs.append(value)
            stream.written_at.append(now)
            stream.has_ended = self._is_over(stream)
        self.counts.written += len(streams)

    @staticmethod
    def _is_over(stream: Stream) -> bool:
        if stream.forced is not None:
            return len(stream.target) == len(stream.forced)
        limit = LENGTH_FACTOR * stream.read + LENGTH_EXTRA
        return stream.target[-1] == EOS or len(stream.target) >= limit

    def _tensor(self, values: Sequence[Any], dtype: torch.dtype | None = None) -> Tensor:
        return torch.tensor(values, dtype=dtype, device=self.device)

    def _slot_index(self, streams: Sequence[Stream]) -> Tensor | None:
        """None when the streams are all slots in order, so that caches need no copy."""
        slots = [s.slot for s in streams]
        return None if slots == list(range(self.slots)) else self._tensor(slots)

    def _places(self, slots: list[int], counts: list[int], at: list[int], capacity: int) -> Tensor:
        owners = [slot for slot, n in zip(slots, counts, strict=True) for _ in range(n)]
        return self._tensor([s * capacity + p for s, p in zip(owners, at, strict=True)])

    def _packing(self, counts: list[int]) -> tuple[Packing, Callable[[list[Any], Any], Tensor]]:
        """How rows of unequal number stand in a rectangle, and a function that puts them there."""
        batch, width = len(counts), max(counts)
        if sum(counts) == batch * width:
            packing = Packing(batch, width)
            return packing, lambda values, _: self._tensor(values).view(batch, width)
        index = self._tensor([b * width + r for b, n in enumerate(counts) for r in range(n)])

        def padded(values: list[Any], empty: Any) -> Tensor:
            real = self._tensor(values)
            full = real.new_full((batch * width,), empty)
            return full.index_copy_(0, index, real).view(batch, width)

        return Packing(batch, width, index), padded
