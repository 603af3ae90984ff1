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
from hmt.model.attention import Packing, SourceView
from hmt.model.rows import NOBODY, Rows
from hmt.model.vocabulary import at_least_float32
from hmt.streaming.cache import Cache
from hmt.streaming.choice import loop_token
from hmt.systems.contract import PassOutput, System
from hmt.systems.stream import Plan, Read, Stream, Write
from hmt.text.symbols import EOS, FIRST_WRITABLE, PAD

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
        weight = self.parts[0].output.weight
        self.device, self.dtype = weight.device, weight.dtype
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
        facts = self._tensor(
            [
                [t for s in new for t in s.source[s.encoded[part] :]],
                owners(new, counts),
                [p for s in new for p in range(s.encoded[part], len(s.source))],
            ]
        )
        owner, at = facts[1:].unbind()
        tokens, slot, position = padded(facts, [PAD, 0, 0])
        remember = cache.encoder.remember(owner, at, self._slot_index(new), longest)
        states = transformer.encode(tokens, position, packing, longest, remember)
        place = cache.source.places(owner, at)
        for layer, kept in enumerate(transformer.keep(states)):
            cache.source.put(layer, place, kept)
        older = cache.sums.tensors[0][slot[:, 0], position[:, 0]]  # (B, D)
        sums = packing.unpack(states).cumsum(1) + older[:, None]
        cache.sums.put(0, cache.sums.places(owner, at + 1), packing.pack(sums))
        for s in new:
            s.encoded[part] = len(s.source)
        self.counts.encoder_passes += 1
        self.counts.encoder_tokens += sum(counts)

    def _pass(self, part: int, streams: list[Stream], plans: list[Plan]) -> None:
        """Compute the planned rows of all streams at once, then read or write."""
        for stream, plan in zip(streams, plans, strict=True):
            if plan.forgets:
                stream.rows[part] = 0
        output = self._decode(part, streams, plans)
        self.counts.passes += 1
        self.counts.rows += sum(output.counts)
        decisions = self.system.decide(streams, plans, output)
        first_rows = [0, *accumulate(output.counts)]
        writers = []
        for n, (stream, plan, decision) in enumerate(zip(streams, plans, decisions, strict=True)):
            if isinstance(decision, Write):
                stream.read = max(stream.read, plan.moments[decision.row])
                at = stream.rows[part] + decision.row
                writers.append((n, first_rows[n] + decision.row, at))
            else:
                stream.wants = decision.until
            if isinstance(decision, Write) or not plan.is_tentative:
                stream.rows[part] += len(plan.targets)
        if writers:
            self._write(part, streams, output, writers)

    def _decode(self, part: int, streams: list[Stream], plans: list[Plan]) -> PassOutput:
        """One decoder pass over the planned rows. -> states (N, D)"""
        cache, transformer = self.caches[part], self.parts[part]
        counts = [len(plan.targets) for plan in plans]
        starts = [s.rows[part] for s in streams]
        used = [a + n for a, n in zip(starts, counts, strict=True)]
        cache.make_room(0, max(used))
        packing, padded = self._packing(counts)
        facts = self._tensor(
            [
                [x for p in plans for x in p.targets],
                [x for p in plans for x in p.moments],
                [x for p in plans for x in p.columns],
                [0] * sum(counts),  # not written yet
                [previous(s, i) for s, p in zip(streams, plans, strict=True) for i in p.targets],
                owners(streams, counts),
                [r for a, n in zip(starts, counts, strict=True) for r in range(a, a + n)],
            ]
        )
        owner, at = facts[5:].unbind()
        cache.put_facts(owner, at, facts[:4], [c for p in plans for c in p.copies])
        target, moment, column, _, tokens = padded(facts[:5], [NOBODY, 1, 0, 0, PAD])
        query, slots = Rows(target, moment, column), self._slot_index(streams)
        seen = [max(s.read, *p.moments) for s, p in zip(streams, plans, strict=True)]
        view = SourceView(query, sees_all=min(min(p.moments) for p in plans) == max(seen))
        registers = cache.registers
        if registers is not None:
            self._show_registers(view, streams, seen)
            if slots is not None:
                registers = [r.index_select(0, slots) for r in registers]
        out = transformer.decode(
            tokens,
            self.system.bias(query, cache.key_rows(slots, used), streams, self.dtype),
            [cache.source.get(n, slots, max(seen)) for n in range(len(transformer.decoder))],
            view,
            packing,
            registers,
            cache.rows.remember(owner, at, slots, max(used)),
        )

        def means() -> Tensor:
            place = cache.sums.places(owner, facts[1])
            return cache.sums.tensors[0].flatten(0, 1).index_select(0, place) / facts[1][:, None]

        return PassOutput(out.states, means, counts, out.told, transformer)

    def _show_registers(self, view: SourceView, streams: list[Stream], seen: list[int]) -> None:
        """What the cross-attention of systems with registers has to know besides them."""
        view.length = self._tensor(seen)
        view.complete = self._tensor([s.is_complete for s in streams])
        precise = torch.promote_types(self.dtype, torch.float32)
        view.dial = self._tensor([self.system.dial(s.knobs) for s in streams], precise)

    def _write(
        self,
        part: int,
        streams: list[Stream],
        output: PassOutput,
        writers: list[tuple[int, int, int]],
    ) -> None:
        """Let streams write: (stream, row of the pass, row of its own) each; only these rows go
        through the vocabulary, and only they leave registers behind."""
        rows = self._tensor([row for _, row, _ in writers])
        log_prob = at_least_float32(output.transformer.output(output.states[rows])).log_softmax(-1)
        tokens = self._choose([streams[n] for n, _, _ in writers], log_prob)
        chosen = log_prob.gather(1, self._tensor(tokens)[:, None])[:, 0].tolist()
        now, cache = self.clock(), self.caches[part]
        cache.select([(streams[n].slot, at) for n, _, at in writers])
        if cache.registers is not None:
            slots = self._tensor([streams[n].slot for n, _, _ in writers])
            index = self._tensor([n for n, _, _ in writers])
            for register, told in zip(cache.registers, output.told, strict=True):
                register.index_copy_(0, slots, told.register[index].to(register.dtype))
        for (n, _, _), token, value in zip(writers, tokens, chosen, strict=True):
            stream = streams[n]
            stream.target.append(token)
            stream.reads.append(stream.read)
            stream.log_probs.append(value)
            stream.written_at.append(now)
            stream.has_ended = self._is_over(stream)
        self.counts.written += len(writers)

    def _choose(self, streams: list[Stream], log_prob: Tensor) -> list[int]:
        """The most probable token of each stream that it may write. (B, V) -> B tokens"""
        choice = log_prob[:, FIRST_WRITABLE:]
        banned = [loop_token(s.target) if self.avoids_loops else None for s in streams]
        if any(token is not None for token in banned):
            choice = choice.clone()
            for n, token in enumerate(banned):
                if token is not None:
                    choice[n, token - FIRST_WRITABLE] = -math.inf
        best = choice.argmax(-1).tolist()
        return [
            token + FIRST_WRITABLE if s.forced is None else s.forced[len(s.target)]
            for s, token in zip(streams, best, strict=True)
        ]

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

    def _packing(
        self, counts: list[int]
    ) -> tuple[Packing, Callable[[Tensor, list[int]], Sequence[Tensor]]]:
        """How rows of unequal number stand in a rectangle, and a function that puts them there."""
        batch, width = len(counts), max(counts)
        if sum(counts) == batch * width:
            return Packing(batch, width), lambda facts, _: facts.view(-1, batch, width).unbind()
        index = self._tensor([b * width + r for b, n in enumerate(counts) for r in range(n)])

        def padded(facts: Tensor, empty: list[int]) -> Sequence[Tensor]:
            """(F, N) and what stands where no row is (F) -> (B, Q), F times"""
            full = self._tensor(empty)[:, None].repeat(1, batch * width)
            return full.index_copy_(1, index, facts).view(-1, batch, width).unbind()

        return Packing(batch, width, index), padded


def previous(stream: Stream, token: int) -> int:
    """The token that the row of target token i is fed with."""
    return stream.target[token - 2] if token > 1 else EOS


def owners(streams: Sequence[Stream], counts: list[int]) -> list[int]:
    """The slot of each row."""
    return [s.slot for s, n in zip(streams, counts, strict=True) for _ in range(n)]
