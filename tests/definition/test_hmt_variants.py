"""HMT's inference variants: always the last state, other thresholds, other attention."""

import itertools

import pytest
import torch
from lively import DIMS, enliven, pairs, streamed

from hmt.errors import UserError
from hmt.streaming.engine import Engine
from hmt.systems.hmt import HMT, HMTConfig
from hmt.systems.wait_k import WaitK, WaitKConfig

LENGTHS = [7, 4, 12, 1, 9], [6, 8, 10, 3, 5]


def states_system(lower: int = 2) -> HMT:
    torch.manual_seed(7)
    return enliven(HMT(HMTConfig(DIMS, lower=lower, states=4)))


@pytest.mark.parametrize(("lower", "states"), [(2, 4), (1, 1), (3, 2), (0, 3), (20, 2)])
def test_reads_of_the_last_state_are_those_of_wait_k(lower: int, states: int) -> None:
    """The last state of HMT is at the moment of wait-(L+K-1), the first at that of wait-L."""
    system, batch = states_system(lower), pairs(*LENGTHS)
    last = WaitK(WaitKConfig(DIMS, k=max(lower + states - 1, 1))).double()
    expected = [s.reads for s in streamed(last, batch)]
    chosen = {"lower": lower, "states": states}
    assert [s.reads for s in streamed(system, batch, policy="last", **chosen)] == expected
    assert [s.reads for s in streamed(system, batch, threshold=1.1, **chosen)] == expected
    at_once = [s.reads for s in streamed(system, batch, threshold=0.0, **chosen)]
    assert at_once == [
        [min(max(lower + i, 1), source) for i in range(target)]
        for source, target in zip(*LENGTHS, strict=True)
    ]


def test_a_higher_threshold_never_writes_earlier() -> None:
    """With the targets forced, so that only the policy differs."""
    system, batch = states_system(), pairs(*LENGTHS)
    reads = [
        [g for s in streamed(system, batch, threshold=t) for g in s.reads]
        for t in (0.0, 0.4, 0.5, 0.6, 1.1)
    ]
    for lower, higher in itertools.pairwise(reads):
        assert all(a <= b for a, b in zip(lower, higher, strict=True))
    assert sum(reads[0]) < sum(reads[2]) < sum(reads[-1])


@pytest.mark.parametrize("attention", ["multiple", "max"])
def test_attention_modes_are_those_of_the_forced_pass(attention: str) -> None:
    system, batch = states_system(), pairs(*LENGTHS)
    streams = streamed(system, batch, slots=3, attention=attention)
    shown = system.inspect(batch, system.knobs(attention=attention))
    for stream, seen in zip(streams, shown, strict=True):
        for i, own in enumerate(stream.states[: len(stream.reads)]):
            expected = dict(zip(seen["moments"][i], seen["confidence"][i], strict=True))
            assert own == pytest.approx({t: expected[t] for t in own})


def test_attention_modes_differ_and_share_a_pass() -> None:
    """Streams with different modes in one batch do what they do alone."""
    system, batch = states_system(), pairs([9], [6])
    source, target = batch.source[0, :-1].tolist(), batch.target[0].tolist()
    modes = ("multiple", "max", "selected")
    alone = [streamed(system, batch, attention=mode)[0] for mode in modes]
    engine = Engine(system, slots=3)
    streams = [engine.open(system.knobs(attention=mode), target) for mode in modes]
    for stream in streams:
        engine.push(stream, source)
        engine.finish(stream)
    engine.advance(streams)
    for one, other in zip(streams, alone, strict=True):
        assert one.log_probs == pytest.approx(other.log_probs)
        assert one.reads == other.reads
    assert len({round(stream.log_probs[-1], 6) for stream in streams}) == 3


def test_one_state_needs_no_attention_mode() -> None:
    """With K = 1 every token has one state: all modes are wait-L."""
    system, batch = states_system(), pairs(*LENGTHS)
    modes = ("multiple", "max", "selected")
    found = [streamed(system, batch, states=1, lower=3, attention=mode) for mode in modes]
    for streams in found[1:]:
        for one, other in zip(streams, found[0], strict=True):
            assert one.log_probs == pytest.approx(other.log_probs)


def test_variants_that_do_not_exist_are_told() -> None:
    system = states_system()
    for wrong in ({"policy": "first"}, {"attention": "all"}, {"states": 0}, {"k": 3}):
        with pytest.raises(UserError):
            system.knobs(**wrong)
