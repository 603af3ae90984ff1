"""HMT's training pass against the paper: K copies, one sentence at a time, every path.

Shapes: B sentences, I target tokens, J source tokens, K states.
"""

import dataclasses
import random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from lively import lively_hmt, random_tokens, run_alone, small_dims
from naive_hmt import naive_pass
from torch import Tensor

from hmt.errors import UserError
from hmt.model.vocabulary import smoothed
from hmt.systems import build
from hmt.systems.batch import Batch, make_batch
from hmt.systems.hmt import HMT, HMTConfig, HMTKnobs
from hmt.text.symbols import EOS, PAD

some = settings(max_examples=15, deadline=None, database=None, derandomize=True)
lowers, numbers, seeds = st.integers(-2, 6), st.integers(1, 5), st.integers(0, 10**6)
modes = st.sampled_from(["multiple", "max"])


def random_pairs(seed: int, number: int = 3) -> tuple[list[list[int]], list[list[int]]]:
    draw = random.Random(seed)
    sides = ([[*random_tokens(draw, draw.randint(0, 6)), EOS] for _ in range(number)] for _ in "xy")
    source, target = sides
    return source, target


def naive_losses(
    system: HMT, source: list[int], target: list[int], knobs: HMTKnobs
) -> dict[str, Tensor]:
    """Eq. 7-11 for one sentence from the K-copies pass, by explicit transition matrices."""
    done = naive_pass(system, source, target, knobs)
    gold = torch.stack([done.log_prob[i, :, y] for i, y in enumerate(target)])  # (I, K)
    mean = done.log_prob.mean(-1)
    state = -smoothed(gold, mean, system.config.label_smoothing).sum() / knobs.states
    likelihood: dict[int, Tensor] = {0: torch.ones((), dtype=torch.double)}
    reached = dict(likelihood)
    delay = torch.zeros((), dtype=torch.double)
    for i, own in enumerate(done.moments):
        first, last = own[0], own[-1]
        write = {
            t: torch.ones((), dtype=torch.double)
            if t == last
            else done.confidence[i, own.index(t)].sigmoid()
            for t in own
        }

        def move(m: int, n: int, first: int = first, write: dict = write) -> Tensor:
            waits = [1 - write[t] for t in range(max(m, first), n)]
            return write[n] * torch.stack([*waits, torch.ones((), dtype=torch.double)]).prod()

        def step(before: dict[int, Tensor], write: dict = write) -> dict[int, Tensor]:
            return {
                n: sum((p * move(m, n) for m, p in before.items() if m <= n), torch.zeros(()))
                for n in write
            }

        likelihood = {n: p * gold[i, own.index(n)].exp() for n, p in step(likelihood).items()}
        reached = step(reached)
        delay = delay + sum(p * (n - first) for n, p in reached.items())
    hmm = -torch.stack(list(likelihood.values())).sum().log()
    return {"hmm": hmm, "latency": delay / len(target), "state": state}


def gradients(system: HMT, value: Tensor) -> list[Tensor]:
    weights = list(system.parameters())
    found = torch.autograd.grad(value, weights, allow_unused=True)
    return [torch.zeros_like(w) if g is None else g for w, g in zip(weights, found, strict=True)]


def close(one: list[Tensor], other: list[Tensor], tolerance: float = 1e-9) -> None:
    assert len(one) == len(other)
    for a, b in zip(one, other, strict=True):
        assert torch.allclose(a, b, atol=tolerance, rtol=tolerance), (a - b).abs().max()


@some
@given(seeds, lowers, numbers, modes)
def test_packed_states_equal_the_copies_of_the_paper(
    seed: int, lower: int, states: int, mode: str
) -> None:
    """Losses and gradients of a padded batch against the naive computation, K copies of each token.

    Planted bugs: no log(copies) in the self-attention; copies not counted in the state loss; in
    `max` an earlier state counts as often as its copies; the mean of the source over the padded
    length.
    """
    system = lively_hmt(seed % 5, lower, states, attention=mode)
    knobs = system.knobs()
    sources, targets = random_pairs(seed)
    got = system.loss(make_batch(sources, targets), knobs)
    naive = [naive_losses(system, s, t, knobs) for s, t in zip(sources, targets, strict=True)]
    for name in ("hmm", "latency", "state"):
        expected = torch.stack([loss[name] for loss in naive])
        assert torch.allclose(got.terms[name], expected, atol=1e-9), name
    total = torch.stack([sum(loss.values(), torch.zeros(())) for loss in naive])
    assert torch.allclose(got.total, total, atol=1e-9)
    close(gradients(system, got.total.sum()), gradients(system, total.sum()))


@some
@given(seeds, lowers, numbers, modes)
def test_a_sentence_alone_equals_itself_in_a_batch(
    seed: int, lower: int, states: int, mode: str
) -> None:
    """Losses and gradients, and nothing depends on what stands in the padding.

    Planted bugs: hi clamped to the longest source; padding rows visible; a latency divided by the
    longest target.
    """
    system = lively_hmt(seed % 5, lower, states, attention=mode)
    sources, targets = random_pairs(seed, 4)
    together = system.loss(make_batch(sources, targets), system.knobs())
    alone = [
        system.loss(make_batch([s], [t]), system.knobs())
        for s, t in zip(sources, targets, strict=True)
    ]
    for name, value in together.terms.items():
        close([value], [torch.cat([loss.terms[name] for loss in alone])], 1e-10)
    total = torch.cat([loss.total for loss in alone]).sum()
    close(gradients(system, together.total.sum()), gradients(system, total))


def test_padding_may_hold_anything() -> None:
    """Planted bug: encoded padding in the keys of the cross-attention."""
    system = lively_hmt(1, 3, 4)
    batch = make_batch(*random_pairs(4))
    dirty = Batch(
        batch.source.masked_fill(batch.source == PAD, 7),
        batch.source_length,
        batch.target.masked_fill(batch.target == PAD, 9),
        batch.target_length,
    )
    assert not torch.equal(batch.source, dirty.source)
    one, other = (system.loss(b, system.knobs()).total for b in (batch, dirty))
    assert torch.equal(one, other)


def test_pre_norm_and_shared_embeddings_compute_the_same_way() -> None:
    """Planted bug: the last norm of a pre-norm decoder left out of the states' confidence."""
    changed = {"norm": "pre", "share_embeddings": True, "tie_output": True}
    system = lively_hmt(2, 1, 3, **changed)
    sources, targets = random_pairs(8)
    got = system.loss(make_batch(sources, targets), system.knobs())
    for n, (s, t) in enumerate(zip(sources, targets, strict=True)):
        naive = naive_losses(system, s, t, system.knobs())
        assert float(got.terms["hmm"][n].detach()) == pytest.approx(naive["hmm"].item(), abs=1e-9)


def test_best_path_variant_is_below_the_sum_over_paths() -> None:
    system = lively_hmt(1, 2, 4)
    best = HMT(dataclasses.replace(system.config, path="best")).double().eval()
    best.load_state_dict(system.state_dict())
    batch = make_batch(*random_pairs(3, 6))
    one, other = (s.loss(batch, s.knobs()).terms["hmm"] for s in (system, best))
    assert (other >= one - 1e-12).all()
    assert (other > one + 1e-3).any()
    assert all(torch.isfinite(g).all() for g in gradients(best, other.sum()))


def test_score_and_inspect_show_what_streaming_does() -> None:
    """Planted bug: `score` at the first moment of a token."""
    system = lively_hmt(3, 1, 4)
    knobs = system.knobs(threshold=0.6)
    sources, targets = random_pairs(5, 4)
    batch = make_batch(sources, targets)
    streams = [run_alone(system, s[:-1], knobs, t) for s, t in zip(sources, targets, strict=True)]
    width = batch.target.shape[1]
    reads = torch.tensor([[*s.reads, *[1] * (width - len(s.reads))] for s in streams])
    with torch.no_grad():
        scores = system.score(batch, knobs, reads)
    for row, stream in zip(scores.tolist(), streams, strict=True):
        assert row[: len(stream.reads)] == pytest.approx(stream.log_probs, abs=1e-9)
        assert not any(row[len(stream.reads) :])


def test_a_range_of_lower_is_sampled_per_batch() -> None:
    """Planted bug: the upper end of the range never drawn."""
    system = HMT(HMTConfig(small_dims(), lower=(1, 4), states=2))
    batch = make_batch(*random_pairs(1))
    drawn = {system.sample(random.Random(n), batch).lower for n in range(60)}
    assert drawn == {1, 2, 3, 4}
    assert system.knobs().lower == 2
    assert torch.equal(system.validation_loss(batch).total, system.validation_loss(batch).total)


def test_dropout_is_off_outside_training() -> None:
    system = HMT(HMTConfig(small_dims(dropout=0.5)))
    batch = make_batch(*random_pairs(1))
    system.train()
    assert not torch.equal(system.validation_loss(batch).total, system.validation_loss(batch).total)
    system.eval()
    assert torch.equal(system.validation_loss(batch).total, system.validation_loss(batch).total)


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"lower": [4, 2]}, "range"),
        ({"lower": 1.5}, "lower"),
        ({"attention": "selected"}, "attention"),
        ({"path": "worst"}, "path"),
        ({"stages": 3}, "stages"),
    ],
)
def test_wrong_settings_are_named(changed: dict, named: str) -> None:
    dims = dataclasses.asdict(small_dims())
    with pytest.raises(UserError, match=named):
        build("hmt", {"dims": dims, **changed})


@pytest.mark.parametrize(
    ("chosen", "named"),
    [({"states": 0}, "states"), ({"attention": "all"}, "attention"), ({"k": 3}, "k")],
)
def test_wrong_knobs_are_named(chosen: dict, named: str) -> None:
    with pytest.raises(UserError, match=named):
        lively_hmt(0).knobs(**chosen)


def test_selected_attention_is_for_inference_only() -> None:
    system = lively_hmt(0)
    with pytest.raises(UserError, match="inference"):
        system.loss(make_batch(*random_pairs(0)), system.knobs(attention="selected"))
