"""The one read/write loop: it advances any set of streams together, each at its own position.

Shapes: B streams of this pass, Q rows (padded), N rows (packed), C cached rows, D width.

A round asks the system, for each stream, which rows it needs; computes them for all streams in one
decoder pass; and lets the system decide, per stream, to read on or to write.  A live session is a
batch of one, a server as many streams as there are listeners; a corpus keeps all slots full.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, islice

import torch
from torch import Tensor

from hmt.errors import UserError
from hmt.model.passes import Packing, Pass
from hmt.model.rows import PADDING, Row, Rows, source_bias
from hmt.model.vocabulary import at_least_float32
from hmt.streaming.cache import Cache
from hmt.streaming.choice import GREEDY, ChoiceRules, choose
from hmt.systems.contract import PassOutput, System, of_some_type
from hmt.systems.parameters import ConfigT, KnobsT, MemoryT
from hmt.systems.stream import Plan, Read, Stream, Write
from hmt.text.symbols import EOS, PAD

# A longer translation has gone astray: no language pair doubles the number of tokens.
LENGTH_FACTOR, LENGTH_EXTRA = 2, 20


@dataclass
class Counts:
    """Work done so far; tests count rows, not seconds."""

    passes: int = 0
    rows: int = 0
    encoder_tokens: int = 0
    written: int = 0


@dataclass(frozen=True)
class Placed:
    """The rows of a pass and their places in the cache."""

    counts: list[int]  # rows per stream
    used: list[int]  # rows per stream, the cached ones included
    records: Tensor  # (N, F) what each row is
    tokens: Tensor  # (N,) its input token
    owner: Tensor  # (N,) its slot
    at: Tensor  # (N,) its place in the slot


Watch = Callable[[Sequence[Stream], Sequence[Plan], PassOutput], None]
"""Called after every pass, before its decisions, with streams, planned rows and output."""


class Engine:
    """Slots for streams of one system, and the loop that advances them.

    If a `watch` is given, as by `hmt explain`, attention weights are computed too.
    """

    def __init__(
        self,
        system: System[ConfigT, KnobsT, MemoryT],
        slots: int = 1,
        clock: Callable[[], float] = time.monotonic,
        rules: ChoiceRules = GREEDY,
        watch: Watch | None = None,
    ) -> None:
        self.system = of_some_type(system.eval())
        self.rules = rules
        self.watch = watch
        self.transformers = system.transformers
        self.slots = slots
        self.clock = clock
        self.caches = self._empty_caches(slots)
        self.free = list(range(slots))[::-1]
        weight = self.transformers[0].output.weight
        self.device, self.dtype = weight.device, weight.dtype
        self.precise = torch.promote_types(self.dtype, torch.float32)  # of settings
        self.counts = Counts()

    @torch.inference_mode()
    def open(self, knobs: object = None, forced: Sequence[int] | None = None) -> Stream:
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
            memory=self.system.Memory(),
            forced=None if forced is None else list(forced),
            rows=[0] * len(self.transformers),
            encoded=[0] * len(self.transformers),
        )

    def close(self, stream: Stream) -> None:
        """Free a stream's slot."""
        assert stream.slot not in self.free, "a stream is closed once"
        self.free.append(stream.slot)

    @torch.inference_mode()
    def resize(self, slots: int, streams: Sequence[Stream]) -> None:
        """Change the number of slots; `streams` are all open ones, and caches shrink to fit."""
        assert len(streams) <= slots, "every open stream keeps a slot"
        old, taken = self.caches, self._tensor([s.slot for s in streams]).long()
        self.caches = self._empty_caches(slots)
        source = max((len(s.source) for s in streams), default=0)
        for n, (cache, before) in enumerate(zip(self.caches, old, strict=True)):
            rows = max((s.rows[n] for s in streams), default=0)
            cache.copy(before, taken, source, rows)
        for slot, stream in enumerate(streams):
            stream.slot = slot
        self.slots, self.free = slots, list(range(len(streams), slots))[::-1]

    def push(self, stream: Stream, tokens: Sequence[int]) -> None:
        """Source tokens have arrived."""
        assert not stream.source_ended, "the source of this stream has ended"
        stream.source.extend(tokens)
        stream.arrived_at.extend([self.clock()] * len(tokens))

    def finish(self, stream: Stream) -> None:
        """The source has ended."""
        self.push(stream, [EOS])
        stream.source_ended = True

    @torch.inference_mode()
    def advance(self, streams: Sequence[Stream]) -> None:
        """Run until each stream has ended or waits for source that has not arrived."""
        streams = list(streams)
        while streams := self.round(streams):
            pass

    @torch.inference_mode()
    def translate(
        self,
        sources: Sequence[Sequence[int]],
        knobs: object = None,
        forced: Sequence[Sequence[int]] | None = None,
    ) -> Iterator[tuple[int, Stream]]:
        """Translate whole sources (without end tokens), keeping slots full; yield as they end."""
        # Long ones first: sources of similar length share passes, and no long one runs alone at the
        # end.
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
            self.round([active[slot][1] for slot in sorted(active)])
            for n, stream in list(active.values()):
                if stream.target_ended:
                    del active[stream.slot]
                    self.close(stream)
                    yield n, stream

    @torch.inference_mode()
    def round(self, streams: Sequence[Stream]) -> list[Stream]:
        """Run one pass for all streams that can continue; return these streams."""
        planned: list[list[tuple[Stream, Plan]]] = [[] for _ in self.transformers]
        for stream in streams:
            plan = self._next_plan(stream)
            if plan is not None:
                planned[plan.transformer_index].append((stream, plan))
        for index, group in enumerate(planned):
            if group:
                self._encode(index, [stream for stream, _ in group])
                self._pass(index, [s for s, _ in group], [p for _, p in group])
        return [stream for group in planned for stream, _ in group]

    def _next_plan(self, stream: Stream) -> Plan | None:
        """Read what has arrived until the system plans rows or has to wait."""
        while not (stream.target_ended or stream.halted):
            step: Plan | Read = Read(stream.waits_for)
            if stream.read >= stream.waits_for or stream.source_read:
                step = self.system.plan(stream)
            if isinstance(step, Plan):
                return step
            reachable = min(step.until, len(stream.source))
            if reachable <= stream.read:
                return None
            stream.read = reachable
        return None

    def _encode(self, index: int, streams: Sequence[Stream]) -> None:
        """Encode what has arrived since the last call; causally, so nothing looks ahead."""
        new = [s for s in streams if s.encoded[index] < len(s.source)]
        if not new:
            return
        cache, transformer = self.caches[index], self.transformers[index]
        counts = [len(s.source) - s.encoded[index] for s in new]
        longest = max(len(s.source) for s in new)
        cache.make_room(longest, 0, self.free)
        packing = Packing.of(counts, self.device)
        columns = self._tensor(
            [
                [t for s in new for t in s.source[s.encoded[index] :]],
                owners(new, counts),
                [p for s in new for p in range(s.encoded[index], len(s.source))],
            ]
        )
        _, owner, at = columns.unbind()
        tokens, slot, position = packing.lay_out(columns, [PAD, 0, 0])
        remember = cache.encoder.remember(owner, at, self._slot_index(new), longest)
        hidden = transformer.encode(tokens, position, packing, longest, remember)
        place = cache.source.places(owner, at)
        for layer, kept in enumerate(transformer.keep(hidden)):
            cache.source.put(layer, place, kept)
        older = cache.sums.tensors[0][slot[:, 0], position[:, 0]]  # (B, D)
        sums = packing.unpack(hidden).cumsum(1) + older[:, None]
        cache.sums.put(0, cache.sums.places(owner, at + 1), packing.pack(sums))
        for s in new:
            s.encoded[index] = len(s.source)
        self.counts.encoder_tokens += sum(counts)

    def _pass(self, index: int, streams: list[Stream], plans: list[Plan]) -> None:
        """Compute the planned rows of all streams at once, then read or write."""
        for stream, plan in zip(streams, plans, strict=True):
            if plan.drops_earlier_rows:
                stream.rows[index] = 0
        output = self._decode(index, streams, plans)
        self.counts.passes += 1
        self.counts.rows += sum(output.counts)
        if self.watch is not None:
            self.watch(streams, plans, output)
        decisions = self.system.decide(streams, plans, output)
        first_rows = [0, *accumulate(output.counts)]
        writers = []
        for n, (stream, plan, decision) in enumerate(zip(streams, plans, decisions, strict=True)):
            if isinstance(decision, Write):
                stream.read = max(stream.read, plan.rows[decision.row].moment)
                at = stream.rows[index] + decision.row
                writers.append((n, first_rows[n] + decision.row, at))
            elif stream.source_read:
                raise UserError(
                    f"{type(self.system).__name__}.decide asks for more source of a sentence that "
                    "has been read to its end: return Write for such a stream."
                )
            else:
                stream.waits_for = decision.until
            if isinstance(decision, Write) or not plan.drops_unless_written:
                stream.rows[index] += len(plan.rows)
        if writers:
            self._write(index, streams, output, writers)

    def _place(self, index: int, streams: list[Stream], plans: list[Plan]) -> Placed:
        """Assign the planned rows their places in the cache."""
        counts = [len(plan.rows) for plan in plans]
        starts = [s.rows[index] for s in streams]
        used = [start + n for start, n in zip(starts, counts, strict=True)]
        records = self._tensor([row for plan in plans for row in plan.rows])
        tokens, owner, at = self._tensor(
            [
                [fed(s, row) for s, plan in zip(streams, plans, strict=True) for row in plan.rows],
                owners(streams, counts),
                [at for a, b in zip(starts, used, strict=True) for at in range(a, b)],
            ]
        ).unbind()
        cache = self.caches[index]
        cache.make_room(0, max(used), self.free)
        cache.describe(owner, at, records)
        return Placed(counts, used, records, tokens, owner, at)

    def _decode(self, index: int, streams: list[Stream], plans: list[Plan]) -> PassOutput:
        """One decoder pass over the planned rows. -> hidden vectors (N, D)"""
        cache, transformer = self.caches[index], self.transformers[index]
        new, slots = self._place(index, streams, plans), self._slot_index(streams)
        packing = Packing.of(new.counts, self.device)
        rows = Rows(*packing.lay_out(new.records.T, PADDING))
        moments = [[row.moment for row in plan.rows] for plan in plans]
        seen = [max(s.read, *own) for s, own in zip(streams, moments, strict=True)]
        length = max(seen)
        sees_all = min(map(min, moments)) == length
        settings = tuple([self.system.attention_setting(s.knobs) for s in streams])
        source_read = tuple([s.source_read for s in streams])
        at = Pass(
            rows=rows,
            packing=packing,
            row_packing=packing,
            row_bias=self.system.bias(rows, cache.key_rows(slots, new.used), streams, self.dtype),
            source_bias=None if sees_all else source_bias(rows.moment, length, self.dtype)[:, None],
            source_length=per_stream(tuple(seen), torch.long, self.device),
            source_read=per_stream(source_read, torch.bool, self.device),
            setting=per_stream(settings, self.precise, self.device),
            is_streaming=True,
            registers=cache.registers_of(slots),
            is_watched=self.watch is not None,
        )
        out = transformer.decode(
            new.tokens,
            [cache.source.get(n, slots, length) for n in range(len(transformer.decoder))],
            at,
            cache.rows.remember(new.owner, new.at, slots, max(new.used)),
        )

        def means() -> Tensor:
            return cache.source_means(new.owner, Rows(*new.records.unbind(1)).moment)

        return PassOutput(out.hidden, means, new.counts, out.reports, transformer, out.attention)

    def _write(
        self,
        index: int,
        streams: list[Stream],
        output: PassOutput,
        writers: list[tuple[int, int, int]],
    ) -> None:
        """Let streams write, each given as (stream, row of the pass, row in its cache).

        Only these rows go through the vocabulary, and only they leave registers behind.
        """
        rows = self._tensor([row for _, row, _ in writers])
        log_prob = at_least_float32(output.transformer.output(output.hidden[rows])).log_softmax(-1)
        tokens = choose([streams[n] for n, _, _ in writers], log_prob, self.rules)
        chosen = log_prob.gather(1, self._tensor(tokens)[:, None])[:, 0].tolist()
        now, cache = self.clock(), self.caches[index]
        cache.mark_written([(streams[n].slot, at) for n, _, at in writers])
        if cache.registers:
            chosen_streams = self._tensor([n for n, _, _ in writers])
            new = [report.register for report in output.reports]
            slots = self._tensor([streams[n].slot for n, _, _ in writers])
            cache.put_registers(
                slots, [value[chosen_streams] for value in new if value is not None]
            )
        for (n, _, _), token, value in zip(writers, tokens, chosen, strict=True):
            stream = streams[n]
            stream.target.append(token)
            stream.reads.append(stream.read)
            stream.log_probs.append(value)
            stream.written_at.append(now)
            stream.target_ended = self._is_over(stream)
            stream.halted = token in stream.stops and not stream.source_read
        self.counts.written += len(writers)

    @staticmethod
    def _is_over(stream: Stream) -> bool:
        if stream.forced is not None:
            return len(stream.target) == len(stream.forced)
        limit = LENGTH_FACTOR * stream.read + LENGTH_EXTRA
        return stream.target[-1] == EOS or len(stream.target) >= limit

    def _empty_caches(self, slots: int) -> list[Cache]:
        """One per Transformer."""
        shape = self.system.register_shape
        return [Cache(transformer, slots, shape) for transformer in self.transformers]

    def _tensor(self, values: Sequence[object]) -> Tensor:
        return torch.tensor(values, device=self.device)

    def _slot_index(self, streams: Sequence[Stream]) -> Tensor | None:
        """None if the streams are all slots in order, so that caches need no copy."""
        slots = [s.slot for s in streams]
        return None if slots == list(range(self.slots)) else self._tensor(slots)


@lru_cache(maxsize=256)  # most passes repeat the values of an earlier one
def per_stream(values: tuple[float, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    """One value per stream; read-only, because the tensor is shared. -> (B,)"""
    return torch.tensor(values, dtype=dtype, device=device)


def fed(stream: Stream, row: Row) -> int:
    """The input token of a row: the target token before its own."""
    return stream.target[row.target - 2] if row.target > 1 else EOS


def owners(streams: Sequence[Stream], counts: list[int]) -> list[int]:
    """The slot of each row."""
    return [s.slot for s, n in zip(streams, counts, strict=True) for _ in range(n)]
