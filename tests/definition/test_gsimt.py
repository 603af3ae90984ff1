"""GSiMT's lattice against enumeration, its prior, and streaming by columns."""

import dataclasses
import itertools
import math
from typing import Any

import pytest
import torch
from lively import DIMS, assert_padding_changes_nothing, enliven, padded_reads, pairs, streamed
from torch import Tensor

from hmt.errors import UserError
from hmt.model import lattice
from hmt.model.delays import divergence, expected_moment, poisson_hazards
from hmt.streaming.engine import Engine
from hmt.systems import build
from hmt.systems.full import Full, FullConfig
from hmt.systems.gsimt import GSiMT, GSiMTConfig, diagonal_delay


def paths(steps: int, moments: int) -> list[tuple[int, ...]]:
    """All ways to write `steps` tokens, as moments from 0."""
    return list(itertools.combinations_with_replacement(range(moments), steps))


def path_probability(path: tuple[int, ...], c: Tensor) -> Tensor:
    """Of these moments, with write probabilities c. (I, J) -> ()"""
    weight, start = torch.ones((), dtype=c.dtype), 0
    for i, stop in enumerate(path):
        weight = weight * (1 - c[i, start:stop]).prod() * c[i, stop]
        start = stop
    return weight


def certain_at_end(c: Tensor) -> Tensor:
    return torch.cat([c[:, :-1], torch.ones_like(c[:, -1:])], dim=1)


def moves(c: Tensor) -> tuple[Tensor, Tensor]:
    """One sentence's moves. (I, J) -> (1, I, J) twice"""
    last = torch.full((1, c.shape[0]), c.shape[1])
    return lattice.moves(c.logit()[None], torch.ones_like(last), last)


def likelihood(c: Tensor, emission: Tensor) -> float:
    write, wait = moves(c)
    length = torch.tensor([c.shape[0]])
    return lattice.log_likelihood(write + emission.log()[None], wait, length).exp().item()


def random_cells(steps: int, moments: int, seed: int) -> tuple[Tensor, Tensor]:
    torch.manual_seed(seed)
    return torch.rand(steps, moments).double(), torch.rand(steps, moments).double()


def test_worked_case() -> None:
    """GS-1."""
    c = torch.tensor([[0.5, 1.0], [0.5, 1.0]]).double()
    emission = torch.tensor([[0.2, 0.6], [0.3, 0.9]]).double()
    assert likelihood(c, emission) == pytest.approx(0.33)


@pytest.mark.parametrize(("steps", "moments"), [(3, 4), (4, 2), (1, 5), (5, 1)])
def test_lattice_is_the_sum_over_paths(steps: int, moments: int) -> None:
    """GS-2 and GS-3."""
    c, emission = random_cells(steps, moments, steps)
    sure = certain_at_end(c)
    every = {path: path_probability(path, sure) for path in paths(steps, moments)}
    expected = sum(
        p * math.prod(emission[i, j].item() for i, j in enumerate(path))
        for path, p in every.items()
    )
    assert likelihood(c, emission) == pytest.approx(float(expected))
    assert likelihood(c, torch.ones_like(emission)) == pytest.approx(1.0)
    delays = expected_moment(lattice.moment_probability(*moves(c)))[0]
    for i in range(steps):
        mean = sum(p.item() * (path[i] + 1) for path, p in every.items())
        assert delays[i].item() == pytest.approx(mean)


@pytest.mark.parametrize("k", [1, 2, 4])
def test_certain_moves_are_one_path(k: int) -> None:
    """GS-4: on a wait-k path the likelihood is the product of its emissions."""
    emission = random_cells(5, 6, k)[1]
    path = [min(k + i, 6) - 1 for i in range(5)]
    c = torch.full((5, 6), 1e-14).double()
    for i, j in enumerate(path):
        c[i, j] = 1 - 1e-14
    expected = math.prod(emission[i, j].item() for i, j in enumerate(path))
    assert likelihood(c, emission) == pytest.approx(expected, rel=1e-9)


def test_transitions_between_states_give_the_same_sum() -> None:
    """GS-5: as in HMT with a state per moment, token after token."""
    c, emission = random_cells(4, 5, 5)
    sure = certain_at_end(c)
    weight = torch.eye(5).double()[0]
    for i in range(4):
        transition = torch.zeros(5, 5).double()
        for a in range(5):
            for b in range(a, 5):
                transition[a, b] = sure[i, b] * (1 - sure[i, a:b]).prod()
        weight = (weight @ transition) * emission[i]
    assert likelihood(c, emission) == pytest.approx(weight.sum().item())


def test_poisson_hazards() -> None:
    """GS-6: the worked numbers; hazards give the truncated distribution back."""
    mean, length = torch.tensor([[3.0, 5.5]]).double(), torch.tensor([6])
    write, wait = poisson_hazards(mean, length, 8)
    expected = [0.1629, 0.2920, 0.4124, 0.5263, 0.6667, 1.0]
    assert write[0, 0, :6].exp().tolist() == pytest.approx(expected, abs=5e-5)
    for i, rate in enumerate(mean[0].tolist()):
        mass = [rate**j / math.factorial(j) for j in range(1, 7)]
        left = 1.0
        for j in range(6):
            assert left * write[0, i, j].exp().item() == pytest.approx(mass[j] / sum(mass))
            assert write[0, i, j].exp() + wait[0, i, j].exp() == pytest.approx(1.0)
            left *= wait[0, i, j].exp().item()


def test_prior_is_the_divergence_of_paths() -> None:
    """Visits times the divergence of each choice add up to that of the two path distributions."""
    c = random_cells(3, 4, 8)[0]
    prior = poisson_hazards(torch.tensor([[1.5, 2.5, 4.0]]).double(), torch.tensor([4]), 4)
    write, wait = moves(c)
    visits = lattice.arrive(write, wait).exp()
    got = (visits * (divergence(write, prior[0]) + divergence(wait, prior[1]))).sum().item()
    expected = 0.0
    for path in paths(3, 4):
        p = path_probability(path, certain_at_end(c))
        q = path_probability(path, prior[0][0].exp())
        expected += (p * (p.log() - q.log())).item()
    assert got == pytest.approx(expected)


def lattice_system(**config: Any) -> GSiMT:
    torch.manual_seed(12)
    return enliven(GSiMT(GSiMTConfig(DIMS, **config)))


def test_each_column_is_a_decoder_of_its_own() -> None:
    """Every cell against one pass per column in which all tokens see that much source."""
    system = lattice_system()
    full = Full(FullConfig(DIMS)).double().eval()
    full.transformer = system.transformer
    batch = pairs([5, 3, 6, 1], [4, 6, 3, 2])
    cells = system.forward_cells(batch)
    for j in range(1, 7):
        column = batch.source_length.clamp(max=j)[:, None].expand(batch.target.shape)
        scores = full.score(batch, full.knobs(), column)
        for n, (source, target) in enumerate(zip((5, 3, 6, 1), (4, 6, 3, 2), strict=True)):
            if j <= source:
                torch.testing.assert_close(cells.gold[n, :target, j - 1], scores[n, :target])
    assert (cells.gold[1, :, 3:] < -1e20).all(), "there is no cell beyond the source"


def test_losses_are_those_of_the_definition() -> None:
    """Of one sentence, with the cells of the model: marginal, prior and every cell's own."""
    system = lattice_system(zeta=1.5)
    batch = pairs([4], [3])
    cells = system.forward_cells(batch)
    c = certain_at_end(cells.confidence[0].sigmoid())
    parts = system.validation_loss(batch).terms
    every = {path: path_probability(path, c) for path in paths(3, 4)}
    emissions = {
        path: torch.stack([cells.gold[0, i, j] for i, j in enumerate(path)]).sum() for path in every
    }
    marginal = torch.stack([p * emissions[path].exp() for path, p in every.items()]).sum()
    torch.testing.assert_close(parts["marginal"][0], -marginal.log())
    mean = torch.tensor([[i * 4 / 3 + 1.5 for i in (1, 2, 3)]]).double()
    torch.testing.assert_close(diagonal_delay(batch) + 1.5, mean)
    prior = poisson_hazards(mean, torch.tensor([4]), 4)[0][0].exp()
    latency = sum(p * (p / path_probability(path, prior)).log() for path, p in every.items())
    torch.testing.assert_close(parts["latency"][0], latency)
    smooth = 0.9 * cells.gold[0] + 0.1 * cells.mean[0]
    torch.testing.assert_close(parts["state"][0], -smooth.mean(-1).sum())
    direct = lattice_system(latency="delay").validation_loss(batch).terms["latency"][0]
    delay = sum(
        p * sum(j + 1 - (i + 1) * 4 / 3 for i, j in enumerate(path)) / 3
        for path, p in every.items()
    )
    torch.testing.assert_close(direct, delay)


@pytest.mark.parametrize("bias", [40.0, -40.0])
def test_always_or_never_confident(bias: float) -> None:
    """GS-7; the threshold has the same two ends."""
    system = lattice_system()
    batch = pairs([7, 4, 1], [6, 5, 4])
    thresholds = {40.0: 0.0, -40.0: 1.1}
    by_threshold = [s.reads for s in streamed(system, batch, threshold=thresholds[bias])]
    with torch.no_grad():
        system.write.bias.fill_(bias)
        system.write.weight.zero_()
    lengths = [(7, 6), (4, 5), (1, 4)]
    expected = [[1 if bias > 0 else j] * i for j, i in lengths]
    assert [s.reads for s in streamed(system, batch)] == by_threshold == expected


@pytest.mark.parametrize("band", [None, (2, 3), (1, 1)])
def test_streaming_is_the_column_of_what_was_read(band: tuple[int, int] | None) -> None:
    """The whole prefix sees what y_i sees; the path is that of the first confident cells."""
    system = lattice_system(band=band)
    batch = pairs([7, 4, 12, 1, 9], [6, 8, 10, 3, 5])
    streams = streamed(system, batch, slots=3)
    scores = system.score(batch, system.knobs(), padded_reads(streams))
    shown = system.inspect(batch, system.knobs())
    for n, stream in enumerate(streams):
        expected = scores[n, : len(stream.reads)]
        torch.testing.assert_close(torch.tensor(stream.log_probs).to(expected), expected)
        before = 0
        for i, read in enumerate(stream.reads):
            cells = zip(shown[n]["moments"][i], shown[n]["confidence"][i], strict=True)
            assert read == next(t for t, c in cells if t >= before and c >= 0.5)
            before = read
    if band != (1, 1):
        assert len({tuple(s.reads) for s in streams}) > 3


def test_a_band_is_a_part_of_the_lattice() -> None:
    whole, part = lattice_system(), lattice_system(band=(2, 3))
    batch = pairs([7, 4, 1], [6, 5, 4])
    everywhere, inside = whole.forward_cells(batch), part.forward_cells(batch)
    assert inside.exists.sum() < everywhere.exists.sum()
    torch.testing.assert_close(
        inside.gold[inside.exists], everywhere.gold[inside.exists], rtol=0, atol=1e-12
    )
    assert_padding_changes_nothing(part, batch)


def test_rows_are_computed_once_per_column() -> None:
    """Within a column a token adds one row; a READ computes the prefix anew."""
    system = lattice_system()
    engine = Engine(system)
    batch = pairs([9], [6])
    [(_, stream)] = engine.translate(
        [batch.source[0, :-1].tolist()], system.knobs(), [batch.target[0].tolist()]
    )
    visited = [(i, t) for i, seen in enumerate(stream.states, 1) for t in seen]
    first_in_column = {t: max(i for i, u in visited if u == t) for _, t in visited}
    assert engine.counts.rows == sum(first_in_column.values())


def test_padding_changes_nothing() -> None:
    system = lattice_system()
    assert_padding_changes_nothing(system, pairs([7, 4, 9, 1], [6, 8, 5, 1]))


def test_settings_that_do_not_exist_are_told() -> None:
    dims = dataclasses.asdict(DIMS)
    for config in ({"latency": "none"}, {"zeta": -1.0}, {"band": [0, 3]}):
        with pytest.raises(UserError):
            build("gsimt", {"dims": dims, **config})
