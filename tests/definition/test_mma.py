"""Monotonic multihead attention against enumeration, the scalar recursion and its own streaming."""

import dataclasses
import itertools
from functools import partial

import pytest
import torch
from lively import (
    DIMS,
    assert_padding_changes_nothing,
    crosses,
    enliven,
    padded_reads,
    pairs,
    streamed,
)
from torch import Tensor

from hmt.errors import UserError
from hmt.metrics.latency import differentiable_average_lagging as reference_dal
from hmt.model import lattice
from hmt.model.delays import differentiable_average_lagging, expected_moment
from hmt.model.passes import Pass
from hmt.model.transformer import Transformer
from hmt.systems import build
from hmt.systems.mma import (
    MMA,
    MMAConfig,
    Monotonic,
    all_delays,
    expected_alignment,
    head_divergence,
    look_back,
    move,
    weighted_delay,
)
from hmt.systems.wait_k import WaitK, WaitKConfig


def aligned(p: Tensor) -> Tensor:
    """alpha of one head; the end of the source keeps the mass. (I, J) -> (I, J)"""
    return expected_alignment(p.logit()[None, None], torch.tensor([p.shape[1]]))[0, 0].exp()


def by_paths(p: Tensor) -> Tensor:
    """alpha by summing over all monotone paths. (I, J) -> (I, J)"""
    steps, moments = p.shape
    alpha = torch.zeros_like(p)
    for path in itertools.combinations_with_replacement(range(moments), steps):
        weight, start, partial_weight = torch.ones((), dtype=p.dtype), 0, []
        for i, stop in enumerate(path):
            weight = weight * (1 - p[i, start:stop]).prod() * p[i, stop]
            start = stop
            partial_weight.append(weight)
        alpha[steps - 1, path[-1]] += partial_weight[-1]
    for i in range(steps - 1):
        alpha[i] = by_paths(p[: i + 1])[i]
    return alpha


def by_scalars(p: Tensor) -> Tensor:
    """alpha by the recursion over q, cell by cell. (I, J) -> (I, J)"""
    steps, moments = p.shape
    before = [torch.ones((), dtype=p.dtype), *[torch.zeros((), dtype=p.dtype)] * (moments - 1)]
    rows = []
    for i in range(steps):
        q = before[0]
        row = [p[i, 0] * q]
        for j in range(1, moments):
            q = (1 - p[i, j - 1]) * q + before[j]
            row.append(p[i, j] * q)
        rows.append(torch.stack(row))
        before = row
    return torch.stack(rows)


def certain_at_end(p: Tensor) -> Tensor:
    return torch.cat([p[:, :-1], torch.ones_like(p[:, -1:])], dim=1)


def test_worked_case() -> None:
    """MM-1."""
    half = torch.full((1, 2, 3), 0.5, dtype=torch.float64)
    alpha = lattice.moment_probability(half.log(), half.log())[0]
    expected = [[0.5, 0.25, 0.125], [0.25, 0.25, 0.1875]]
    torch.testing.assert_close(alpha, torch.tensor(expected, dtype=torch.float64))
    alpha = aligned(half[0])
    expected = [[0.5, 0.25, 0.25], [0.25, 0.25, 0.5]]
    torch.testing.assert_close(alpha, torch.tensor(expected, dtype=torch.float64))
    delays = expected_moment(alpha)
    torch.testing.assert_close(delays, torch.tensor([1.75, 2.25], dtype=torch.float64))


@pytest.mark.parametrize(("steps", "moments"), [(3, 4), (1, 5), (5, 1), (4, 3)])
def test_alignment_is_the_sum_over_paths(steps: int, moments: int) -> None:
    """MM-2."""
    torch.manual_seed(steps)
    p = torch.rand(steps, moments, dtype=torch.float64)
    torch.testing.assert_close(aligned(p), by_paths(certain_at_end(p)), rtol=0, atol=1e-12)
    log_p, log_not = p.log()[None], (1 - p).log()[None]
    exact = lattice.moment_probability(log_p, log_not)[0]
    torch.testing.assert_close(exact, by_paths(p), rtol=0, atol=1e-12)


def test_gradients_of_the_sweep_are_exact() -> None:
    """MM-3: gradients reach the stopping probabilities, and are those of the scalar recursion."""
    torch.manual_seed(3)
    logits = torch.randn(4, 6, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(4, 6, dtype=torch.float64)
    alpha = expected_alignment(logits[None, None], torch.tensor([6]))[0, 0].exp()
    (got,) = torch.autograd.grad((alpha * weight).sum(), logits)
    slow = by_scalars(certain_at_end(logits.sigmoid()))
    (expected,) = torch.autograd.grad((slow * weight).sum(), logits)
    assert expected.abs().max() > 0.01
    torch.testing.assert_close(got, expected)


def test_saturated_heads_lose_no_mass() -> None:
    """MM-4: in single precision, where dividing by a product of (1 - p) fails completely."""
    torch.manual_seed(4)
    logits = 6 * torch.randn(2, 3, 30, 60, requires_grad=True)
    length = torch.tensor([60, 41])
    alpha = expected_alignment(logits, length).exp()
    torch.testing.assert_close(alpha.sum(-1), torch.ones(2, 3, 30), rtol=0, atol=1e-4)
    assert not alpha[1, :, :, 41:].any()
    for b, n in enumerate(length.tolist()):
        p = certain_at_end(logits[b, 0, :, :n].double().sigmoid())
        torch.testing.assert_close(alpha[b, 0, :, :n], by_scalars(p).float(), rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("scale", [1.0, 300.0])
def test_lookback_is_a_mixture_of_prefix_softmaxes(scale: float) -> None:
    """MM-5, also where exp() of the energies under- and overflows."""
    torch.manual_seed(5)
    soft = (scale * torch.randn(1, 1, 4, 7)).requires_grad_()
    p = torch.rand(4, 7)
    alpha = aligned(p)
    beta = look_back(alpha.log()[None, None], soft, torch.tensor([7]))[0, 0].exp()
    prefix = [soft[0, 0, :, : n + 1].softmax(-1) for n in range(7)]
    padded = [torch.nn.functional.pad(x, (0, 6 - n)) for n, x in enumerate(prefix)]
    expected = sum(alpha[:, n, None] * padded[n] for n in range(7))
    torch.testing.assert_close(beta, expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(beta.sum(-1), torch.ones(4), rtol=1e-4, atol=1e-5)
    weight = torch.randn(4, 7)
    (got,) = torch.autograd.grad((beta * weight).sum(), soft)
    (slow,) = torch.autograd.grad((expected * weight).sum(), soft)
    torch.testing.assert_close(got, slow, rtol=1e-3, atol=1e-5)


def test_latency_of_several_heads() -> None:
    """MM-7: delays 1 and 3."""
    delays = torch.tensor([[[1.0], [3.0]]])
    assert weighted_delay(delays).item() == pytest.approx(2.7616, abs=1e-4)
    assert head_divergence(delays, torch.tensor([1])).item() == pytest.approx(2.0)
    assert head_divergence(delays[:, :1], torch.tensor([1])).item() == 0.0


def test_average_lagging_is_that_of_the_evaluation() -> None:
    torch.manual_seed(7)
    delays = (6 * torch.rand(3, 5, dtype=torch.float64)).cummax(1).values.requires_grad_()
    source, target = torch.tensor([6, 8, 9]), torch.tensor([5, 3, 1])
    got = differentiable_average_lagging(delays, source, target)
    for n in range(3):
        own = delays[n, : target[n]].tolist()
        assert got[n].item() == pytest.approx(reference_dal(own, int(source[n])))
    got.sum().backward()
    assert delays.grad is not None and not delays.grad[1, 3:].any(), "padding has no latency"
    assert torch.autograd.gradcheck(
        lambda d: differentiable_average_lagging(d, source, target),
        delays.detach().requires_grad_(),
    )


def saturated(kind: str, seed: int) -> MMA:
    """Heads whose stopping probabilities are 0 or 1."""
    torch.manual_seed(seed)
    system = enliven(MMA(MMAConfig(DIMS, kind=kind)))
    with torch.no_grad():
        for cross in crosses(system):
            own = cross.stop_query if kind == "lookback" else cross.query
            own.weight.mul_(1e6)
    return system


@pytest.mark.parametrize("kind", ["lookback", "hard"])
@pytest.mark.parametrize("seed", range(6))
def test_certain_heads_train_as_they_stream(kind: str, seed: int) -> None:
    """MM-6: alpha is one-hot at the pointer of inference, with the same outputs and delays."""
    system = saturated(kind, seed)
    batch = pairs([7, 4, 9, 1], [6, 8, 5, 3], seed)
    done = system.forward_tokens(batch, system.knobs())
    gold = done.spread(system.gold(batch, done)[0])
    delays = all_delays(done)
    delays = delays * done.is_real[:, None]
    torch.testing.assert_close(delays, delays.round())
    reads = delays.amax(1).cummax(1).values.round().long()
    streams = streamed(system, batch, slots=3)
    for n, stream in enumerate(streams):
        assert stream.reads == reads[n, : len(stream.reads)].tolist()
        expected = gold[n, : len(stream.reads)]
        torch.testing.assert_close(torch.tensor(stream.log_probs).to(expected), expected)
    assert len({tuple(stream.reads) for stream in streams}) > 1


@pytest.mark.parametrize("kind", ["lookback", "hard"])
def test_forced_pass_is_what_streaming_does(kind: str) -> None:
    torch.manual_seed(1)
    system = enliven(MMA(MMAConfig(DIMS, kind=kind)))
    batch = pairs([7, 4, 9, 1, 12], [6, 8, 5, 3, 9])
    streams = streamed(system, batch, slots=2)
    scores = system.score(batch, system.knobs(), padded_reads(streams))
    for stream, row in zip(streams, scores, strict=True):
        expected = row[: len(stream.reads)]
        torch.testing.assert_close(torch.tensor(stream.log_probs).to(expected), expected)


def constant(energy: float) -> MMA:
    """Every head stops with the same probability everywhere."""
    torch.manual_seed(2)
    system = enliven(MMA(MMAConfig(DIMS)))
    with torch.no_grad():
        for cross in crosses(system):
            for linear, value in ((cross.stop_query, 1.0), (cross.stop_project, energy)):
                linear.weight.zero_()
                linear.bias.fill_(value)
    return system


def test_heads_that_always_or_never_stop() -> None:
    """MM-8 and MM-9; the threshold has the same two ends."""
    batch = pairs([7, 4, 1], [6, 5, 4])
    lengths = [(7, 6), (4, 5), (1, 4)]
    at_once, at_end = [[1] * i for _, i in lengths], [[j] * i for j, i in lengths]
    assert [s.reads for s in streamed(constant(40.0), batch)] == at_once
    assert [s.reads for s in streamed(constant(-40.0), batch)] == at_end
    assert [s.reads for s in streamed(constant(0.1), batch, threshold=0.0)] == at_once
    assert [s.reads for s in streamed(constant(0.1), batch, threshold=1.1)] == at_end


def test_pointers_wait_at_the_end_of_what_was_read() -> None:
    stops = torch.tensor([[[[False, True, False, True], [False, False, False, True]]]])
    pointer, needs = move(stops, torch.tensor([[0]]), torch.tensor([[3, 3]]))
    assert pointer.tolist() == [[[1, 2]]]
    assert needs.tolist() == [[[False, True]]]
    pointer, needs = move(stops, torch.tensor([[1]]), torch.tensor([[4, 4]]))
    assert pointer.tolist() == [[[1, 3]]], "a head may stay where it is"
    assert not needs.any()


@pytest.mark.parametrize("kind", ["lookback", "hard"])
def test_padding_changes_nothing(kind: str) -> None:
    """MM-10."""
    torch.manual_seed(6)
    config = MMAConfig(DIMS, kind=kind, latency_weight=0.3, variance_weight=0.2)
    assert_padding_changes_nothing(enliven(MMA(config)), pairs([7, 4, 9, 1], [6, 8, 5, 1]))


@pytest.mark.parametrize(("kind", "weight"), [("lookback", "latency"), ("hard", "variance")])
def test_latency_losses_reach_the_stopping_probabilities(kind: str, weight: str) -> None:
    """Without this gradient heads cannot learn when to stop."""
    torch.manual_seed(7)
    system = MMA(MMAConfig(DIMS, kind=kind)).double().eval()
    system.validation_loss(pairs([7, 4], [6, 8])).terms[weight].sum().backward()
    for cross in crosses(system):
        own = cross.stop_query if kind == "lookback" else cross.query
        assert own.weight.grad.abs().max() > 1e-6


def test_noise_is_for_training_only() -> None:
    torch.manual_seed(8)
    system = enliven(MMA(MMAConfig(DIMS)))
    batch = pairs([7, 4], [6, 8])
    assert torch.equal(system.validation_loss(batch).total, system.validation_loss(batch).total)
    system.train()
    assert not torch.equal(system.validation_loss(batch).total, system.validation_loss(batch).total)
    stop = torch.zeros(1, 1, 200, 200)
    spread = Monotonic(DIMS, "hard", noise=2.0).train().disturbed(stop).std()
    assert spread.item() == pytest.approx(2.0, rel=0.02), "the noise is a standard deviation"


class OnDiagonal(Monotonic):
    """Heads that stop with certainty where wait-k writes."""

    k = 3

    def stop_scores(self, x: Tensor, keys: Tensor, at: Pass) -> Tensor:
        place = torch.arange(keys.shape[2])
        diagonal = at.rows.target + self.k - 2
        hits = (place == diagonal[..., None]).to(x.dtype)[:, None]
        return (200 * hits - 100).expand(-1, self.heads, -1, -1)


def test_certain_stops_on_the_diagonal_are_wait_k() -> None:
    """INV-9: losses of training and outputs of streaming."""
    torch.manual_seed(9)
    wait_k = enliven(WaitK(WaitKConfig(DIMS, k=OnDiagonal.k)))
    system = enliven(MMA(MMAConfig(DIMS, latency_weight=0.0)))
    cross = partial(OnDiagonal, kind="lookback", noise=0.0)
    system.transformer = Transformer(DIMS, cross).double()
    missing, unexpected = system.load_state_dict(wait_k.state_dict(), strict=False)
    assert not unexpected
    assert all("stop_" in name for name in missing)
    batch = pairs([7, 4, 9, 1], [6, 8, 5, 3])
    total = system.eval().validation_loss(batch).total
    torch.testing.assert_close(total, wait_k.validation_loss(batch).total)
    for one, other in zip(streamed(system, batch), streamed(wait_k, batch), strict=True):
        assert one.reads == other.reads
        assert one.log_probs == pytest.approx(other.log_probs)


def test_settings_that_do_not_exist_are_told() -> None:
    with pytest.raises(UserError, match="lookback"):
        build("mma", {"dims": dataclasses.asdict(DIMS), "kind": "soft"})
    with pytest.raises(UserError, match="threshold"):
        build("mma", {"dims": dataclasses.asdict(DIMS)}).knobs(k=3)
