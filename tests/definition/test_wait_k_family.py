"""Full-sentence, wait-k and multipath: worked cases and identities.

The contract tests run on all of them too; these are the cases in which the answer is known.
"""

import random
from collections import Counter
from typing import cast

import pytest
import torch
from lively import (
    assert_close,
    batch_of,
    ended,
    lively,
    reads_of,
    sentences,
    tokens,
    translations,
    with_weights,
)

from hmt.metrics.latency import average_lagging, differentiable_average_lagging
from hmt.model.rows import NEVER
from hmt.streaming.engine import Engine
from hmt.systems.batch import make_batch
from hmt.systems.mma import look_back
from hmt.systems.multipath import VALIDATION_LAGS, draw_lag
from hmt.systems.token_system import TokenSystem
from hmt.text.symbols import EOS, PAD

TOKEN = 5  # any word


# ---- full sentence


def test_source_states_do_not_depend_on_what_follows() -> None:
    """FS-1, FS-2"""
    encode = lively("full").transformer.encode
    source = torch.tensor([tokens(8)])
    with torch.no_grad():
        whole = encode(source)
        for j in range(1, 9):
            assert_close(encode(source[:, :j]), whole[:j])
            garbage = torch.tensor([[*tokens(j), *tokens(12, seed=9)]])
            assert_close(encode(garbage)[:j], whole[:j])


def test_source_states_computed_token_by_token_are_those_of_one_pass() -> None:
    """FS-3"""
    system = lively("wait-k", k=1)
    engine = Engine(system)
    stream = engine.open(forced=[TOKEN] * 20)
    for token in tokens(9):
        engine.push(stream, [token])
        engine.advance([stream])
    with torch.no_grad():
        states = system.transformer.encode(torch.tensor([tokens(9)]))
        expected = system.transformer.read(states[None])
    for layer, kept in enumerate(expected):
        assert_close(engine.caches[0].source.get(layer, None, 9), kept)


@pytest.mark.parametrize("target", [1, 4, 11])
def test_full_sentence_translation_lags_by_the_source(target: int) -> None:
    """FS-4"""
    reads = reads_of(lively("full"), 7, target)
    assert reads == [7] * target
    assert average_lagging(reads, 7, target) == 7
    assert differentiable_average_lagging(reads, 7) == 7


# ---- wait-k


@pytest.mark.parametrize("name", ["wait-k", "multipath", "moe-wait-k"])
def test_wait_k_reads_k_then_one_for_one(name: str) -> None:
    """WK-1, WK-2"""
    system = lively(name)
    assert reads_of(system, 6, 6, k=3) == [3, 4, 5, 6, 6, 6]
    assert reads_of(system, 6, 3, k=9) == [6, 6, 6]
    for k in range(1, 7):
        reads = reads_of(system, 6, 6, k=k)
        assert average_lagging(reads, 6, 6) == k
        assert differentiable_average_lagging(reads, 6) == k


def test_a_lag_beyond_the_source_is_full_sentence_translation() -> None:
    """WK-3, MP-3"""
    full, batch = lively("full"), batch_of()
    expected = full.loss(batch, full.knobs()).total
    longest = batch.source.shape[1]
    for name, k in ("wait-k", longest), ("wait-k", 40), ("multipath", longest):
        other = with_weights(lively(name, seed=8), full)
        assert_close(other.loss(batch, other.knobs(k=k)).total.detach(), expected.detach())
        assert other.loss(batch, other.knobs(k=1)).total[-2:].ne(expected[-2:]).all()


def test_unread_source_does_not_matter_in_training_either() -> None:
    """WK-4, MO-5"""
    source, target = [*tokens(9), EOS], [*tokens(5, seed=2), EOS]
    for name in "wait-k", "multipath", "moe-wait-k":
        system = lively(name)
        reads = torch.tensor([[min(3 + i, 10) for i in range(6)]])
        with torch.no_grad():
            scores = system.score(make_batch([source], [target]), system.knobs(k=3), reads)
            for i, read in enumerate(reads[0].tolist()):
                other = [*source[:read], *tokens(4, seed=i), EOS]
                changed = system.score(make_batch([other], [target]), system.knobs(k=3), reads)
                assert_close(changed[0, : i + 1], scores[0, : i + 1])


@pytest.mark.parametrize("name", ["full", "wait-k", "multipath", "moe-wait-k"])
def test_the_loss_is_what_streaming_says(name: str) -> None:
    """WK-5: without smoothing, minus the sum of the streamed log-probabilities."""
    system = lively(name, label_smoothing=0.0)
    sources, targets = sentences(6, seed=3), ended(sentences(6, seed=4)[::-1])
    streams = translations(system, sources, targets)
    loss = system.loss(make_batch(ended(sources), targets), system.knobs()).total
    assert_close(loss.detach(), [-sum(stream.log_probs) for stream in streams])


def test_a_bidirectional_encoder_sees_ahead_in_training_and_in_streaming() -> None:
    system = lively("full", label_smoothing=0.0, encoder="bidirectional")
    sources, targets = sentences(6, seed=3), ended(sentences(6, seed=4)[::-1])
    streams = translations(system, sources, targets)
    loss = system.loss(make_batch(ended(sources), targets), system.knobs()).total
    assert_close(loss.detach(), [-sum(stream.log_probs) for stream in streams])
    source = torch.tensor([[*tokens(5), EOS]])
    other = source.clone()
    other[0, 4] += 1
    with torch.no_grad():
        changed = system.transformer.encode(source) - system.transformer.encode(other)
        padded = torch.cat([source, torch.full((1, 3), PAD)], 1)
        assert_close(system.transformer.encode(padded)[:6], system.transformer.encode(source))
    assert changed.abs().amax(-1).gt(0).all()


@pytest.mark.parametrize("k", [1, 3, 7])
def test_infinite_lookback_from_the_wait_k_diagonal_is_wait_k(k: int) -> None:
    """WK-6"""
    torch.manual_seed(1)
    soft = torch.randn(1, 2, 5, 6, dtype=torch.float64)
    last = (k + torch.arange(5)).clamp(max=6)
    pointer = torch.arange(1, 7) == last[:, None]
    log_alpha = torch.zeros_like(soft).masked_fill(~pointer, NEVER)
    seen = torch.arange(1, 7) <= last[:, None]
    expected = soft.masked_fill(~seen, -torch.inf).softmax(-1)
    assert_close(look_back(log_alpha, soft, torch.tensor([6])).exp(), expected)


@pytest.mark.parametrize("k", [1, 3])
def test_hmt_with_one_state_is_wait_k(k: int) -> None:
    """INV-6"""
    wait_k = lively("wait-k", k=k, label_smoothing=0.0)
    hmt = with_weights(lively("hmt", seed=8, lower=k, states=1), wait_k)
    batch = batch_of()
    assert_close(
        hmt.loss(batch, hmt.knobs()).terms["hmm"].detach(),
        wait_k.loss(batch, wait_k.knobs()).total.detach(),
    )
    sources = sentences(5, seed=5)
    for ours, theirs in zip(translations(hmt, sources), translations(wait_k, sources), strict=True):
        assert (ours.target, ours.reads) == (theirs.target, theirs.reads)
        assert_close(ours.log_probs, theirs.log_probs)


@pytest.mark.parametrize("name", ["wait-k", "multipath", "moe-wait-k"])
def test_refreshed_decoding_shows_all_read_source_to_the_whole_prefix(name: str) -> None:
    system = cast(TokenSystem, lively(name))
    source, target = [*tokens(7), EOS], [*tokens(6, seed=2), EOS]
    refreshed, frozen = (
        translations(system, [source[:-1]], [target], k=2, refresh=refresh)[0]
        for refresh in (True, False)
    )
    batch, knobs = make_batch([source], [target]), system.knobs(k=2)
    expected = []
    with torch.no_grad():
        for i, read in enumerate(refreshed.reads):
            same = torch.full((1, len(target)), read)
            expected.append(float(system.score(batch, knobs, same)[0, i]))
    assert_close(refreshed.log_probs, expected)
    assert refreshed.reads == frozen.reads
    assert refreshed.log_probs[0] == frozen.log_probs[0]
    assert refreshed.log_probs[1:] != frozen.log_probs[1:]


# ---- multipath


def test_lags_are_drawn_uniformly_up_to_the_longest_source() -> None:
    """MP-1: chi-square with 4 degrees of freedom; 18.5 is exceeded once in a thousand."""
    batch = make_batch([[TOKEN, EOS], [*tokens(4), EOS]], [[EOS], [EOS]])
    draw = random.Random(1)
    drawn = Counter(draw_lag(draw, batch) for _ in range(10_000))
    assert sorted(drawn) == [1, 2, 3, 4, 5]
    assert sum((n - 2000) ** 2 / 2000 for n in drawn.values()) < 18.5


def test_multipath_with_a_given_lag_is_wait_k() -> None:
    """MP-2"""
    multipath, batch = lively("multipath"), batch_of()
    for k in 1, 2, 5:
        wait_k = with_weights(lively("wait-k", seed=8, k=k), multipath)
        drawn = next(n for n in range(100) if draw_lag(random.Random(n), batch) == k)
        expected = wait_k.validation_loss(batch).total.detach()
        assert_close(multipath.training_loss(batch, random.Random(drawn)).total.detach(), expected)


@pytest.mark.parametrize("name", ["multipath", "moe-wait-k"])
def test_validation_is_the_mean_over_fixed_lags(name: str) -> None:
    system, batch = lively(name), batch_of()
    each = [system.loss(batch, system.knobs(k=k)).total.detach() for k in VALIDATION_LAGS]
    assert_close(system.validation_loss(batch).total.detach(), torch.stack(each).mean(0))
