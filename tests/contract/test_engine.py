"""Streaming: one stream, many streams and the teacher-forced pass compute the same numbers."""

import itertools
import math
import random
import time
from collections import Counter
from functools import cache, partial
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from lively import lively_hmt, random_tokens, run_alone, small_dims
from naive_hmt import naive_moments, naive_pass
from torch import Tensor

from hmt.bench.setting import random_system
from hmt.errors import UserError
from hmt.model.attention import CrossAttention, Look
from hmt.model.dims import Dims
from hmt.model.passes import Pass
from hmt.model.transformer import Transformer
from hmt.streaming.cache import FIRST_CAPACITY
from hmt.streaming.engine import LENGTH_EXTRA, LENGTH_FACTOR, Engine
from hmt.systems.batch import make_batch
from hmt.systems.hmt import HMT, Attention, HMTKnobs
from hmt.systems.stream import Read, Stream
from hmt.systems.wait_k import WaitK, WaitKConfig, WaitKKnobs
from hmt.text.symbols import EOS

some = settings(max_examples=12, deadline=None, database=None, derandomize=True)
seeds = st.integers(0, 10**6)
model = cache(lively_hmt)


def random_knobs(
    draw: random.Random, attention: tuple[Attention, ...] = ("multiple", "max")
) -> HMTKnobs:
    return HMTKnobs(
        lower=draw.randint(-2, 6),
        states=draw.randint(1, 6),
        threshold=draw.choice([0.0, 0.3, 0.5, 0.7, 1.1]),
        attention=draw.choice(attention),
        policy="last" if draw.random() < 0.1 else "confidence",
    )


def random_sources(draw: random.Random, number: int, longest: int = 8) -> list[list[int]]:
    return [random_tokens(draw, draw.randint(0, longest)) for _ in range(number)]


def same(one: Stream, other: Stream) -> None:
    """Tokens and reads equal; confidences and log-probabilities equal but for rounding."""
    assert one.target == other.target
    assert one.reads == other.reads
    assert one.log_probs == pytest.approx(other.log_probs, abs=1e-9)
    written = len(one.target)
    for a, b in zip(one.states[:written], other.states[:written], strict=True):
        assert a == pytest.approx(b, abs=1e-9)


def run_mixed(
    system: HMT, sources: list[list[int]], knobs: list[HMTKnobs], draw: random.Random, slots: int
) -> tuple[list[Stream], Engine]:
    """Streams opened, fed in chunks, advanced and closed in random order."""
    engine = Engine(system, slots=slots)
    done: list[Stream | None] = [None] * len(sources)
    waiting = list(range(len(sources)))
    draw.shuffle(waiting)
    active: dict[int, Stream] = {}
    while waiting or active:
        if waiting and engine.free and draw.random() < 0.7:
            n = waiting.pop()
            active[n] = engine.open(knobs[n])
        for n, stream in active.items():
            left = sources[n][len(stream.source) :]
            if stream.source_ended or draw.random() < 0.3:
                continue
            if left:
                engine.push(stream, left[: draw.randint(1, 3)])
            if len(stream.source) == len(sources[n]) and draw.random() < 0.6:
                engine.finish(stream)
        group = [s for s in active.values() if draw.random() < 0.8]
        draw.shuffle(group)
        engine.advance(group)
        for n in [n for n, s in active.items() if s.target_ended]:
            engine.close(active[n])
            done[n] = active.pop(n)
    return [s for s in done if s is not None], engine


def test_the_models_of_these_tests_are_lively() -> None:
    """Planted bug: all states equally confident, so that the first one always writes."""
    draw = random.Random(1)
    tokens: Counter[int] = Counter()
    delays: Counter[int] = Counter()
    for seed in range(7):
        system = lively_hmt(seed)
        for source in random_sources(draw, 4, 10):
            stream = run_alone(system, source, HMTKnobs(lower=2, states=4))
            tokens.update(stream.target)
            delays.update(g - (1 + i) for i, g in enumerate(stream.reads, 1) if g <= len(source))
    assert len(tokens) >= 14
    assert all(delays[d] >= 3 for d in range(4)), delays


@some
@given(seeds)
def test_many_streams_equal_one_stream(seed: int) -> None:
    """In any mixture of settings, slots, chunks and order of opening, advancing and closing.

    Planted bugs: the encoder's packed sums added without the older ones; cached rows of the
    stream that had the slot before are seen; `selected` not cleared in a reused slot.
    """
    draw = random.Random(seed)
    system = model(seed % 7)
    sources = random_sources(draw, 5)
    knobs = [random_knobs(draw, ("multiple", "max", "selected")) for _ in sources]
    alone = [run_alone(system, s, k) for s, k in zip(sources, knobs, strict=True)]
    mixed, _ = run_mixed(system, sources, knobs, draw, slots=draw.randint(1, 4))
    for one, other in zip(alone, mixed, strict=True):
        same(one, other)


@some
@given(seeds)
def test_streaming_equals_the_teacher_forced_pass(seed: int) -> None:
    """What the engine wrote, given to the training pass in one padded batch.

    Planted bugs: copies that fall on the source end are not counted; moments clamped to the
    longest source of the batch; the state of moment t sees t + 1 source tokens.
    """
    draw = random.Random(seed)
    system = model(seed % 7)
    knobs = random_knobs(draw)
    sources = random_sources(draw, 5)
    streams = dict(Engine(system, slots=3).translate(sources, knobs))
    batch = make_batch([[*s, EOS] for s in sources], [streams[n].target for n in range(5)])
    with torch.no_grad():
        states = system.forward_states(batch, knobs)
        shown = system.inspect(batch, knobs)
    gold = states.spread(states.gold, math.nan)  # (B, I, J)
    for n, source in enumerate(sources):
        same(streams[n], run_alone(system, source, knobs))
        check_against(streams[n], shown[n], gold[n], knobs)


def check_against(stream: Stream, shown: dict, gold: torch.Tensor, knobs: HMTKnobs) -> None:
    """Redo the policy from the confidences of the teacher-forced pass."""
    before = 0
    for i, (moments, confidence) in enumerate(
        zip(shown["moments"], shown["confidence"], strict=True)
    ):
        chosen = next(
            t
            for t, c in zip(moments, confidence, strict=True)
            if t >= before
            and (t == moments[-1] or (knobs.policy == "confidence" and c >= knobs.threshold))
        )
        assert stream.reads[i] == before or chosen > before
        assert stream.reads[i] == chosen
        assert stream.log_probs[i] == pytest.approx(float(gold[i, chosen - 1]), abs=1e-9)
        expected = dict(zip(moments, confidence, strict=True))
        for t, c in stream.states[i].items():
            assert c == pytest.approx(expected[t], abs=1e-9)
        before = chosen


@some
@given(seeds)
def test_streaming_equals_the_copies_of_the_paper(seed: int) -> None:
    """Every confidence and token against the naive pass over K copies, all attention modes.

    Planted bugs: `selected` shows the last state of a token, not the one that wrote; `max` shows
    all states of earlier tokens; the second best token is written.
    """
    draw = random.Random(seed)
    system = model(seed % 7)
    knobs = random_knobs(draw, ("multiple", "max", "selected"))
    source = random_tokens(draw, draw.randint(0, 9))
    stream = run_alone(system, source, knobs)
    with torch.no_grad():
        naive = naive_pass(system, [*source, EOS], stream.target, knobs, stream.reads)
    for i, token in enumerate(stream.target):
        at = naive.moments[i].index(stream.reads[i])
        log_prob = naive.log_prob[i, at]
        log_prob[:2] = -math.inf  # the start and padding symbols are never written
        assert int(log_prob.argmax()) == token
        assert stream.log_probs[i] == pytest.approx(float(log_prob[token]), abs=1e-9)
        for t, c in stream.states[i].items():
            forced = t == naive.moments[i][-1]
            expected = (
                1.0 if forced else float(naive.confidence[i, naive.moments[i].index(t)].sigmoid())
            )
            assert c == pytest.approx(expected, abs=1e-9)


@some
@given(seeds)
def test_each_state_is_computed_exactly_once(seed: int) -> None:
    """Rows counted, not seconds; and never more passes than tokens read and written.

    Planted bugs: the wavefront computes all states of older tokens again; one row too many per
    write; the oldest token that still has new states is left out.
    """
    draw = random.Random(seed)
    system = model(seed % 7)
    knobs = random_knobs(draw, ("multiple", "max", "selected"))
    source = random_tokens(draw, draw.randint(0, 12))
    engine = Engine(system)
    stream = run_alone(system, source, knobs, engine=engine)
    moments = naive_moments(knobs.lower, knobs.states, len(source) + 1, len(stream.target))
    exist = {(i, t) for i, own in enumerate(moments, 1) for t in own if t <= stream.read}
    noted = {(i, t) for i, own in enumerate(stream.states, 1) for t in own}
    assert noted == exist
    assert engine.counts.rows == len(exist) <= (knobs.states + 1) * len(stream.target)
    assert engine.counts.passes <= len(stream.target) + stream.read
    assert engine.counts.encoder_tokens <= len(source) + 1
    assert engine.counts.written == len(stream.target)


@some
@given(seeds)
def test_source_that_has_arrived_saves_passes_and_changes_nothing(seed: int) -> None:
    """One pass per written token, each state at most once, and the record of a word at a time.

    Planted bugs: the last confident state of the pass writes; states beyond what was read are noted
    at once.
    """
    draw = random.Random(seed)
    system = model(seed % 7)
    knobs = random_knobs(draw, ("multiple", "max", "selected"))
    source = random_tokens(draw, draw.randint(0, 12))
    live = Engine(system)
    one = run_alone(system, source, knobs, engine=live)
    engine = Engine(system)
    [(_, stream)] = engine.translate([source], knobs)
    assert (stream.target, stream.reads) == (one.target, one.reads)
    assert [sorted(own) for own in stream.states] == [sorted(own) for own in one.states]
    assert engine.counts.passes == len(stream.target)
    assert engine.counts.rows <= live.counts.rows + knobs.states * (knobs.states + 1) // 2
    assert engine.counts.encoder_tokens == len(source) + 1


@some
@given(seeds)
def test_nothing_written_depends_on_source_not_yet_read(seed: int) -> None:
    """Planted bugs: a bidirectional encoder; cross-attention over all that has arrived."""
    draw = random.Random(seed)
    system = model(seed % 7)
    knobs = random_knobs(draw, ("multiple", "max", "selected"))
    source = random_tokens(draw, 10)
    cut = draw.randint(0, 9)
    changed = [*source[:cut], *random_tokens(draw, draw.randint(1, 12))]
    [(_, one)] = Engine(system).translate([source], knobs)
    [(_, other)] = Engine(system).translate([changed], knobs)
    early = [sum(g <= cut for g in stream.reads) for stream in (one, other)]
    assert early[0] == early[1]
    assert one.target[: early[0]] == other.target[: early[0]]
    assert one.log_probs[: early[0]] == pytest.approx(other.log_probs[: early[0]], abs=1e-12)


@pytest.mark.parametrize("length", [0, 1, 2, *range(FIRST_CAPACITY - 1, FIRST_CAPACITY + 2)])
def test_lengths_around_the_capacity_of_caches(length: int) -> None:
    """Planted bug: cached keys lost when a cache grows."""
    draw = random.Random(length)
    system = lively_hmt(3)
    source = random_tokens(draw, length)
    forced = [*random_tokens(draw, length), EOS]
    knobs = HMTKnobs(lower=2, states=3)
    stream = run_alone(system, source, knobs, forced)
    batch = make_batch([[*source, EOS]], [forced])
    with torch.no_grad():
        states = system.forward_states(batch, knobs)
        check_against(
            stream,
            system.inspect(batch, knobs)[0],
            states.spread(states.gold, math.nan)[0],
            knobs,
        )


def test_a_sentence_of_500_tokens() -> None:
    """Planted bug: cached keys lost when a cache grows."""
    draw = random.Random(5)
    system = lively_hmt(2)
    source, forced = random_tokens(draw, 500), [*random_tokens(draw, 400), EOS]
    knobs = HMTKnobs(lower=3, states=2)
    engine = Engine(system, slots=2)
    streams = dict(engine.translate([source, source[:7]], knobs, [forced, forced[:5]]))
    assert engine.caches[0].rows.capacity >= 400 > FIRST_CAPACITY
    batch = make_batch([[*source, EOS]], [forced])
    with torch.no_grad():
        states = system.forward_states(batch, knobs)
        gold = states.spread(states.gold, math.nan)[0]
        check_against(streams[0], system.inspect(batch, knobs)[0], gold, knobs)
    same(streams[1], run_alone(system, source[:7], knobs, forced[:5]))


def test_an_empty_source_is_one_end_token() -> None:
    system = lively_hmt(0)
    stream = run_alone(system, [], system.knobs())
    assert stream.source == [EOS]
    assert set(stream.reads) == {1}
    assert 1 <= len(stream.target) <= LENGTH_FACTOR + LENGTH_EXTRA


def test_a_translation_that_never_ends_is_cut() -> None:
    system = lively_hmt(0)
    with torch.no_grad():
        system.transformer.output.weight[EOS] = 0.0
    stream = run_alone(system, random_tokens(random.Random(0), 5), system.knobs())
    assert stream.target_ended
    assert len(stream.target) <= LENGTH_FACTOR * 6 + LENGTH_EXTRA
    if stream.target[-1] != EOS:
        assert len(stream.target) == LENGTH_FACTOR * 6 + LENGTH_EXTRA


class Hearing(CrossAttention):
    """Cross-attention that passes on what it is asked with."""

    def __init__(self, dims: Dims, heard: list[Pass]) -> None:
        super().__init__(dims)
        self.heard = heard

    def look(self, x: Tensor, query: Tensor, kept: Any, at: Pass, register: Any) -> Look:
        self.heard.append(at)
        return super().look(x, query, kept, at, register)


class Heard(WaitK):
    """Wait-k, which has no registers, with a setting for attention."""

    def attention_setting(self, knobs: WaitKKnobs) -> float:
        return knobs.k / 10


def test_attention_is_given_the_state_of_every_stream() -> None:
    """Each stream's own setting, source and whether it was read, in any system.

    Planted bugs: a setting only for systems with registers; all that has arrived passes for read.
    """
    system = Heard(WaitKConfig(small_dims()))
    heard: list[Any] = []
    system.transformer = Transformer(small_dims(), partial(Hearing, heard=heard))
    engine = Engine(system, slots=2)
    streams = [engine.open(WaitKKnobs(k=k), forced=[4] * 9) for k in (2, 3)]
    for stream in streams:
        engine.push(stream, [5, 6, 7, 8])
    engine.finish(streams[0])
    engine.advance(streams)
    first, last = heard[0], heard[-1]
    assert first.is_streaming and first.registers == () and not first.is_watched
    assert first.setting.tolist() == pytest.approx([0.2, 0.3])
    assert first.source_length.tolist() == [2, 3]
    assert first.source_read.tolist() == [False, False]
    assert last.setting.tolist() == pytest.approx([0.2])
    assert last.source_length.tolist() == [5]
    assert last.source_read.tolist() == [True]


def test_a_policy_that_never_writes_is_refused_at_the_end_of_its_source(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Planted bug: without the check, the engine computes the same rows for ever."""
    system = lively_hmt(5, 2, 3)
    monkeypatch.setattr(
        HMT, "decide", lambda self, streams, plans, output: [Read(s.read + 1) for s in streams]
    )
    engine = Engine(system)
    stream = engine.open()
    engine.push(stream, [5, 6, 7])
    engine.advance([stream])  # waits, as it may
    engine.finish(stream)
    with pytest.raises(UserError, match=r"HMT\.decide asks for more source"):
        engine.advance([stream])


def test_all_slots_taken_is_reported() -> None:
    engine = Engine(lively_hmt(0), slots=1)
    stream = engine.open()
    with pytest.raises(UserError, match="slots"):
        engine.open()
    engine.close(stream)
    engine.open()


def test_translate_keeps_slots_full_and_gives_every_sentence() -> None:
    """Planted bug: the slot of an ended stream is refilled only when all have ended."""
    draw = random.Random(2)
    system = lively_hmt(1)
    sources = [random_tokens(draw, 6) for _ in range(12)]
    forced = [[*random_tokens(draw, n % 5), EOS] for n in range(12)]
    engine = Engine(system, slots=4)
    numbers = [n for n, _ in engine.translate(sources, None, forced)]
    assert sorted(numbers) == list(range(12))
    one_by_one = Engine(system, slots=1)
    list(itertools.chain(one_by_one.translate(sources, None, forced)))
    assert engine.counts.rows == one_by_one.counts.rows
    assert engine.counts.passes <= one_by_one.counts.passes / 2.5


def test_a_stream_does_not_pay_for_the_slots_of_others() -> None:
    """Planted bug: `HeadShelf.get` selects along its second dimension, going through all slots."""
    system = random_system("hmt", "tiny", lower=1, states=3)

    def seconds(slots: int) -> float:
        engine = Engine(system, slots)
        engine.open()  # so that the stream is not all there is
        best = math.inf
        for _ in range(5):
            stream = engine.open(forced=[4] * 30)
            start = time.process_time()
            for _ in range(20):
                engine.push(stream, [5])
                engine.advance([stream])
            best = min(best, time.process_time() - start)
            engine.close(stream)
        return best

    assert seconds(256) < 2.5 * seconds(2)
