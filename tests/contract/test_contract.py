"""The contract that every system keeps, whatever its policy: a tenth is tested by being listed.

Each test names a bug that was planted and that it was seen to catch.
"""

import copy
import dataclasses
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from lively import DIMS, SYMBOLS, assert_close, ended, lively, sentences, translations
from model_directories import save
from torch import Tensor, nn

from hmt.errors import UserError
from hmt.model.attention import Attended, CrossAttention, join_heads
from hmt.model.passes import Pass
from hmt.models.directory import load_system
from hmt.plain import to_plain
from hmt.streaming.engine import Engine
from hmt.systems import SYSTEMS, build
from hmt.systems.batch import Batch, make_batch, pad
from hmt.systems.contract import Loss, PassOutput, System
from hmt.systems.stream import Plan, Read, Stream
from hmt.text.symbols import EOS

# Settings under which a small random model shows more of its policy than under the defaults.
CONFIGS: dict[str, dict[str, Any]] = {
    "hmt": {"lower": 1, "states": 4},
    "adaptive": {"lags": [1, 2, 4]},
    "moe-wait-k": {"lags": [1, 3]},
}
KNOBS: dict[str, dict[str, Any]] = {
    "hmt": {"threshold": 0.2},
    "adaptive": {"rho_a": 0.4, "rho_b": 0.2},
    "mma": {"threshold": 0.45},
    "gsimt": {"threshold": 0.4},
    "itst": {"threshold": 1.5},
}

every_system = pytest.mark.parametrize("name", SYSTEMS)


@pytest.fixture(autouse=True)
def _short_translations(monkeypatch: pytest.MonkeyPatch) -> None:
    """A random model rarely says the end: let it not talk for long."""
    monkeypatch.setattr("hmt.streaming.engine.LENGTH_EXTRA", 6)
    monkeypatch.setattr("hmt.streaming.engine.LENGTH_FACTOR", 1)


def sample_system(name: str) -> System:
    return lively(name, **CONFIGS.get(name, {}))


def knobs_of(system: System) -> Any:
    return system.knobs(**KNOBS.get(system.name, {}))


def stream_all(
    system: System,
    sources: Sequence[list[int]],
    forced: Sequence[list[int]] | None = None,
    slots: int = 1,
) -> list[Stream]:
    return translations(system, sources, forced, slots, **KNOBS.get(system.name, {}))


def assert_same(a: Stream, b: Stream) -> None:
    assert a.target == b.target
    assert a.reads == b.reads
    assert_close(a.log_probs, b.log_probs)


def gradients(system: System, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
    """Losses of the sentences and the gradient of their sum."""
    system.zero_grad()
    total = system.loss(batch, knobs_of(system)).total
    total.sum().backward()
    return total.detach(), {
        name: torch.zeros_like(p) if p.grad is None else p.grad.clone()
        for name, p in system.named_parameters()
    }


@every_system
def test_the_random_model_is_lively(name: str) -> None:
    """The other tests mean nothing on a model that says the same whatever it hears.

    Planted: all weights multiplied by 0.01.
    """
    system = sample_system(name)
    streams = stream_all(system, sentences(9, seed=2), slots=4)
    assert len({token for s in streams for token in s.target}) >= 4
    assert len({tuple(s.target) for s in streams}) >= 6
    assert torch.tensor([p for s in streams for p in s.log_probs]).exp().std() > 0.05


@every_system
def test_streaming_equals_the_parallel_pass(name: str) -> None:
    """Cached step-by-step numbers are those of one teacher-forced pass at the same reads.

    Planted: decoder positions counted from 1 in streaming only; cached rows overwritten at the
    slot's first place; a row's moment one less than what was read.
    """
    system = sample_system(name)
    sources = sentences(7, seed=3)
    free = stream_all(system, sources, slots=2)
    given = stream_all(system, sources, ended(sentences(7, seed=4)))
    for streams in (free, given):
        batch = make_batch([s.source for s in streams], [s.target for s in streams])
        reads = pad([s.reads for s in streams])[0]
        with torch.no_grad():
            scores = system.score(batch, knobs_of(system), reads)
        for stream, row in zip(streams, scores, strict=True):
            assert_close(stream.log_probs, row[: len(stream.target)])
            assert not row[len(stream.target) :].any()


def beside_one_that_is_ahead(system: System, source: list[int]) -> Stream:
    """A stream whose passes it shares with another that has read more."""
    engine = Engine(system, slots=2)
    ahead, stream = engine.open(knobs_of(system)), engine.open(knobs_of(system))
    engine.push(ahead, [4, 5, 6, 7, 8, 9, 10])
    engine.advance([ahead])
    engine.push(ahead, [4, 5, 6, 7, 8])
    engine.push(stream, source)
    engine.finish(stream)
    engine.advance([ahead, stream])
    return stream


@every_system
def test_nothing_depends_on_source_that_was_not_read(name: str) -> None:
    """Whatever follows the first n tokens, all that is written after n reads is the same.

    The other sentence is longer or shorter, so its end is no hint either.
    Planted: rows that see one source token more than was read; an encoder that is not causal.
    """
    system = sample_system(name)
    draw = random.Random(5)
    compared = 0
    for n in 2, 4, 7, 9:
        source, other = ([draw.randrange(4, SYMBOLS) for _ in range(size)] for size in (10, 14))
        other = [*source[:n], *other[: draw.randint(0, 14 - n)]]
        whole, changed = (beside_one_that_is_ahead(system, x) for x in (source, other))
        early = sum(g <= n for g in whole.reads)
        assert sum(g <= n for g in changed.reads) == early
        assert changed.target[:early] == whole.target[:early]
        assert changed.reads[:early] == whole.reads[:early]
        assert_close(changed.log_probs[:early], whole.log_probs[:early])
        compared += early
    assert compared >= 4 or name == "full", "nothing was written early"


@every_system
def test_how_the_source_arrives_does_not_matter(name: str) -> None:
    """Token by token or all at once: the same reads, the same words.

    Planted: the engine reads all that has arrived instead of what was asked for.
    """
    system = sample_system(name)
    for source in sentences(4, seed=6):
        at_once = stream_all(system, [source])[0]
        engine = Engine(system)
        stream = engine.open(knobs_of(system))
        for token in source:
            engine.push(stream, [token])
            engine.advance([stream])
            if stream.target_ended:
                break
        else:
            engine.finish(stream)
            engine.advance([stream])
        assert_same(stream, at_once)


@every_system
def test_a_plan_changes_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Asked twice, a system plans the same, and the stream is as it was.

    Planted: memory moved on by `plan`.
    """
    system = sample_system(name)
    plan, asked = system.plan, 0

    def plan_twice(stream: Stream) -> Plan | Read:
        nonlocal asked
        asked += 1
        before = copy.deepcopy(stream)
        first, second = plan(stream), plan(stream)
        assert first == second
        assert stream == before
        return first

    monkeypatch.setattr(system, "plan", plan_twice)
    stream_all(system, sentences(5, seed=16), slots=2)
    assert asked > 10


def checked_attention(
    self: CrossAttention, x: Tensor, source: Tensor, at: Pass, register: Tensor | None
) -> Attended:
    """Cross-attention whose output must be the sum of the values by the weights that it shows."""
    done = attention_forward(self, x, source, at, register)
    assert (done.weights is not None) == at.is_watched
    if done.weights is not None:
        full = at.packing.unpack(done.weights.flatten(1)).unflatten(-1, done.weights.shape[1:])
        context = full.transpose(1, 2) @ source[1]  # (B, H, Q, D / H)
        assert_close(self.output(at.packing.pack(join_heads(context))), done.out)
    return done


attention_forward = CrossAttention.forward


@every_system
def test_watching_shows_every_row_and_changes_nothing(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Attention of every layer and head, all of it on source that was read.

    Planted: weights shown without the shares of heads; rows of a pass shown in another order.
    """
    monkeypatch.setattr(CrossAttention, "forward", checked_attention)
    system = sample_system(name)
    sources = sentences(5, seed=17)
    rows = 0

    def watch(streams: Sequence[Stream], plans: Sequence[Plan], output: PassOutput) -> None:
        nonlocal rows
        assert len(output.attention) == DIMS.decoder_layers
        planned = [row for plan in plans for row in plan.rows]
        rows += len(planned)
        for weights in output.attention:
            assert weights.shape[:2] == (len(planned), DIMS.heads)
            assert_close(weights.sum(-1).mean(1), torch.ones(len(planned)))
            for row, own in zip(planned, weights, strict=True):
                assert not own[:, row.moment :].any()

    engine = Engine(system, 3, watch=watch)
    watched = dict(engine.translate(sources, knobs_of(system)))
    assert rows == engine.counts.rows > 0
    alone = Engine(system, 3)
    for n, stream in alone.translate(sources, knobs_of(system)):
        assert_same(stream, watched[n])
        assert stream.log_probs == watched[n].log_probs


@every_system
def test_reads_never_decrease_and_stay_within_the_source(name: str) -> None:
    """1 <= g_1 <= g_2 <= ... <= J.

    Planted: `reads` records how much the row saw, less one, instead of how much was read.
    """
    system = sample_system(name)
    for stream in stream_all(system, sentences(8, seed=7, longest=12), slots=4):
        assert len(stream.reads) == len(stream.target) == len(stream.log_probs)
        assert stream.reads == sorted(stream.reads)
        assert stream.reads[0] >= 1 and stream.reads[-1] <= len(stream.source)


@every_system
def test_padding_changes_nothing(name: str) -> None:
    """Losses and gradients of a batch are those of its sentences alone, and of a wider batch.

    Planted: moments bounded by the padded source length instead of the sentence's own; the loss
    summed over padded target tokens too.
    """
    system = sample_system(name)
    sources, targets = ended(sentences(6, seed=8)), ended(sentences(6, seed=9)[::-1])
    batch = make_batch(sources, targets)
    together, gradient = gradients(system, batch)
    wide = Batch(
        nn.functional.pad(batch.source, (0, 3), value=1),
        batch.source_length,
        nn.functional.pad(batch.target, (0, 2), value=1),
        batch.target_length,
    )
    alone = [gradients(system, make_batch([x], [y])) for x, y in zip(sources, targets, strict=True)]
    assert_close(torch.cat([loss for loss, _ in alone]), together)
    wider, wide_gradient = gradients(system, wide)
    assert_close(wider, together)
    for key, value in gradient.items():
        summed = torch.stack([each[key] for _, each in alone]).sum(0)
        assert_close(summed, value)
        assert_close(wide_gradient[key], value)


@every_system
def test_streams_do_not_disturb_each_other(name: str) -> None:
    """A stream among others, in a slot that was used before, does what it does alone.

    Planted: a new stream goes on with the rows that its slot has from before; caches of a pass
    taken in the order of slots instead of that of its streams.
    """
    system = sample_system(name)
    sources = sentences(7, seed=10, longest=12)
    alone = [stream_all(system, [source])[0] for source in sources]
    for stream, expected in zip(stream_all(system, sources, slots=3), alone, strict=True):
        assert_same(stream, expected)


@every_system
def test_every_parameter_gets_a_gradient(name: str) -> None:
    """Nothing is built that cannot learn.

    Planted: the cross-attention's output detached from the graph in one layer.
    """
    system = sample_system(name).train()
    batch = make_batch(ended(sentences(6, seed=11)), ended(sentences(6, seed=12)))
    system.training_loss(batch, random.Random(1)).total.sum().backward()
    idle = [n for n, p in system.named_parameters() if p.grad is None or not p.grad.any()]
    assert not idle


def loss_of(system: System, batch: Batch, draw: int | None) -> Loss:
    """The loss of validation, or that of training under a draw."""
    if draw is None:
        return system.validation_loss(batch)
    return system.training_loss(batch, random.Random(draw))


@every_system
def test_draws_decide_the_loss(name: str) -> None:
    """The same draw gives the same loss, and validation does not depend on any draw.

    Planted: a draw taken from the global generator.
    """
    system = sample_system(name)
    batch = make_batch(ended(sentences(6, seed=13)), ended(sentences(6, seed=14)))
    with torch.no_grad():
        for draw in (None, 1, 2):
            random.seed(5)
            first = loss_of(system, batch, draw)
            random.seed(6)
            again = loss_of(system, batch, draw)
            assert torch.equal(first.total, again.total)
            assert first.terms.keys() == again.terms.keys()
            assert first.total.shape == (6,)
            assert all(term.shape == (6,) for term in first.terms.values())
            assert first.total.isfinite().all()


@every_system
def test_saving_and_loading_give_the_same_output(name: str, tmp_path: Path) -> None:
    """A model directory is all that a model is.

    Planted: a weight left out when saving and its absence ignored when loading; a Config field
    that is not written to config.json.
    """
    system = sample_system(name).float()
    save(tmp_path, system, facts={"made": "by a test"})
    loaded, config = load_system(tmp_path)
    assert loaded.config == system.config
    assert config.knobs == to_plain(system.knobs())
    sources = sentences(5, seed=15)
    for before, after in zip(stream_all(system, sources), stream_all(loaded, sources), strict=True):
        assert (before.target, before.reads) == (after.target, after.reads)
        assert before.log_probs == after.log_probs


@every_system
def test_sentences_of_one_token_work(name: str) -> None:
    """J = 1 (nothing but the end token) and I = 1, in training and in streaming.

    Planted: an empty source ends its stream at once; losses divided by the target without its end.
    """
    system = sample_system(name)
    long = [4, 5, 6, 7, EOS]
    for source, target in ([EOS], [EOS]), ([EOS], long), (long, [EOS]):
        loss, gradient = gradients(system, make_batch([source], [target]))
        assert loss.isfinite().all()
        assert all(g.isfinite().all() for g in gradient.values())
        stream = stream_all(system, [source[:-1]], [target])[0]
        assert stream.target == target
        assert stream.reads == [1] * len(target) or len(source) > 1
        assert stream_all(system, [source[:-1]])[0].target


@every_system
def test_an_unknown_knob_is_named_with_those_that_exist(name: str) -> None:
    """Planted: unknown settings ignored."""
    system = sample_system(name)
    with pytest.raises(UserError, match=rf'{name} model has no knob "fluency"') as caught:
        system.knobs(fluency=2)
    for field in dataclasses.fields(system.Knobs):
        assert field.name in str(caught.value)


@every_system
def test_an_unknown_config_key_is_named_with_those_that_exist(name: str) -> None:
    """Planted: unknown keys of a config ignored."""
    with pytest.raises(UserError, match=r'"config\.fluency" is unknown') as caught:
        build(name, {"dims": dataclasses.asdict(DIMS), "fluency": 2})
    assert "dims" in str(caught.value)


def test_an_unknown_system_is_named_with_those_that_exist() -> None:
    with pytest.raises(UserError, match=r'"wait-less" is unknown; known are .*wait-k'):
        build("wait-less", {})
