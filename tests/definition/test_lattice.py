"""The recursion against enumeration: every monotone path of small sentences, in double precision.

Shapes: B sentences, I target tokens, J source tokens.
"""

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from hmt.model import lattice
from hmt.model.rows import NEVER
from hmt.systems.hmt import States, latency_loss, transitions
from hmt.systems.hmt_states import state_table

many = settings(max_examples=40, deadline=None, database=None, derandomize=True)
shapes = st.tuples(
    st.integers(-3, 6),  # L
    st.integers(1, 5),  # K
    st.lists(st.tuples(st.integers(1, 6), st.integers(1, 5)), min_size=1, max_size=3),  # J, I
    st.integers(0, 10**6),
)


@dataclass
class Case:
    """Random confidences and emissions on the states of a small batch."""

    states: States
    source: list[int]
    target: list[int]

    def values(self, b: int) -> list[dict[int, tuple[float, float]]]:
        """Per token of sentence b: moment -> (c, p(y)), the last c forced to one."""
        table = self.states.table
        found: list[dict[int, tuple[float, float]]] = [{} for _ in range(self.target[b])]
        confidence, emission = self.states.confidence.sigmoid(), self.states.gold.exp()
        for n in (table.sentence == b).nonzero()[:, 0].tolist():
            own = found[int(table.token[n])]
            own[int(table.moment[n])] = (confidence[n].item(), emission[n].item())
        for own in found:
            own[max(own)] = (1.0, own[max(own)][1])
        return found


def make_case(shape: tuple[int, int, list[tuple[int, int]], int]) -> Case:
    lower, states, lengths, seed = shape
    source, target = [j for j, _ in lengths], [i for _, i in lengths]
    steps = max(target)
    table = state_table(lower, states, torch.tensor(source), torch.tensor(target), steps)
    generator = torch.Generator().manual_seed(seed)
    logits, emission = torch.randn(2, len(table.sentence), generator=generator).double()
    size = (len(source), steps, max(source))
    confidence = (2 * logits).requires_grad_()
    gold = (-emission.abs() - 0.5).requires_grad_()
    return Case(States(table, confidence, gold, gold, size), source, target)


def transition(own: dict[int, tuple[float, float]], before: int, moment: int) -> float:
    """p(n | m) as the paper writes it (Eq. 6), for one token."""
    if moment < before:
        return 0.0
    waits = (1 - own[t][0] for t in range(max(before, min(own)), moment))
    return own[moment][0] * math.prod(waits)


def paths(values: list[dict[int, tuple[float, float]]]) -> Iterator[tuple[list[int], float, float]]:
    """Every monotone choice of moments, its probability, and that times the emissions."""

    def extend(chosen: list[int], selection: float, joint: float) -> Iterator[tuple]:
        i = len(chosen)
        if i == len(values):
            yield chosen, selection, joint
            return
        before = chosen[-1] if chosen else 0
        for moment in values[i]:
            p = transition(values[i], before, moment)
            if p:
                yield from extend(
                    [*chosen, moment], selection * p, joint * p * values[i][moment][1]
                )

    yield from extend([], 1.0, 1.0)


def weights(case: Case) -> tuple[Tensor, Tensor, Tensor]:
    write, wait = transitions(case.states)
    return write, wait, write + case.states.spread(case.states.gold, NEVER)


@many
@given(shapes)
def test_likelihood_is_the_sum_over_all_paths(shape: tuple) -> None:
    """Planted bugs: waiting costs nothing; nobody may wait below lo_i; a batch's shorter
    target is read at the padded length."""
    case = make_case(shape)
    _, wait, joint = weights(case)
    got = lattice.log_likelihood(joint, wait, torch.tensor(case.target))
    for b in range(len(case.source)):
        expected = math.log(sum(p for _, _, p in paths(case.values(b))))
        assert got[b].item() == pytest.approx(expected, abs=1e-10)


@many
@given(shapes)
def test_best_path_is_the_best_of_all_paths(shape: tuple) -> None:
    """Its weight, and the path itself as the gradient. Planted bug: sum in place of maximum."""
    case = make_case(shape)
    _, wait, joint = weights(case)
    got = lattice.log_likelihood(joint, wait, torch.tensor(case.target), best=True)
    (chosen,) = torch.autograd.grad(got.sum(), case.states.gold)
    for b in range(len(case.source)):
        moments, _, weight = max(paths(case.values(b)), key=lambda path: path[2])
        assert got[b].item() == pytest.approx(math.log(weight), abs=1e-10)
        assert posterior(case, chosen, b) == [{t: 1.0} for t in moments]


def posterior(case: Case, gradient: Tensor, b: int) -> list[dict[int, float]]:
    """Non-zero gradients of one sentence, per token by moment."""
    table = case.states.table
    found: list[dict[int, float]] = [{} for _ in range(case.target[b])]
    for n in (table.sentence == b).nonzero()[:, 0].tolist():
        if gradient[n] != 0:
            found[int(table.token[n])][int(table.moment[n])] = float(gradient[n])
    return found


@many
@given(shapes)
def test_posteriors_are_gradients(shape: tuple) -> None:
    """Planted bug: the emission enters twice at the last token."""
    case = make_case(shape)
    _, wait, joint = weights(case)
    got = lattice.log_likelihood(joint, wait, torch.tensor(case.target))
    (gradient,) = torch.autograd.grad(got.sum(), case.states.gold)
    for b in range(len(case.source)):
        all_paths = list(paths(case.values(b)))
        total = sum(p for _, _, p in all_paths)
        for i, own in enumerate(posterior(case, gradient, b)):
            assert sum(own.values()) == pytest.approx(1.0, abs=1e-9)
            for t, probability in own.items():
                share = sum(p for moments, _, p in all_paths if moments[i] == t) / total
                assert probability == pytest.approx(share, abs=1e-9)


@many
@given(shapes)
def test_expected_latency_is_the_mean_over_all_paths(shape: tuple) -> None:
    """Planted bugs: delays counted from L + i - 1, not from lo_i; divided by the padded length."""
    case = make_case(shape)
    write, wait, _ = weights(case)
    got = latency_loss(case.states, write, wait, torch.tensor(case.target))
    for b in range(len(case.source)):
        values = case.values(b)
        expected = sum(
            p * sum(t - min(own) for t, own in zip(moments, values, strict=True)) / len(values)
            for moments, p, _ in paths(values)
        )
        assert got[b].item() == pytest.approx(expected, abs=1e-10)


@many
@given(shapes)
def test_every_row_of_transitions_sums_to_one(shape: tuple) -> None:
    """From every moment that the token before can have. Planted bug: the last state's own
    confidence in place of one."""
    case = make_case(shape)
    write, wait = transitions(case.states)
    last = case.states.table.last
    for b in range(len(case.source)):
        for i in range(case.target[b]):
            for before in range(1, int(last[b, i]) + 1):
                free = torch.cat([wait.new_zeros(1), wait[b, i, before - 1 : -1]]).cumsum(0)
                row = (free + write[b, i, before - 1 :]).exp()
                assert row.sum().item() == pytest.approx(1.0, abs=1e-12)
        assert sum(p for _, p, _ in paths(case.values(b))) == pytest.approx(1.0, abs=1e-12)


def test_the_recursion_on_a_free_lattice() -> None:
    """Without boundaries: any path of reads and writes. Planted bug: a path may write twice at once
    from one cell (the column not shifted by a write)."""
    generator = torch.Generator().manual_seed(3)
    steps, moments = 3, 4
    logit = torch.randn(1, steps, moments, generator=generator).double()
    last = torch.full((1, steps), moments)
    write, wait = lattice.moves(logit, torch.ones_like(last), last)
    probability = lattice.moment_probability(write, wait)[0]
    c = logit[0].sigmoid()
    c[:, -1] = 1.0
    values = [{t + 1: (float(c[i, t]), 1.0) for t in range(moments)} for i in range(steps)]
    expected = torch.zeros(steps, moments, dtype=torch.double)
    for chosen, p, _ in paths(values):
        for i, t in enumerate(chosen):
            expected[i, t - 1] += p
    assert torch.allclose(probability, expected, atol=1e-12)


def test_extreme_confidences_stay_finite() -> None:
    """Planted bug: log(sigmoid(x)) in place of logsigmoid(x)."""
    draw = random.Random(0)
    case = make_case((1, 4, [(6, 5), (3, 5)], 1))
    with torch.no_grad():
        for n in range(len(case.states.confidence)):
            case.states.confidence[n] = draw.choice([-1000.0, -40.0, 40.0, 1000.0])
            case.states.gold[n] = draw.choice([-60.0, -0.01])
    _, wait, joint = weights(case)
    got = lattice.log_likelihood(joint, wait, torch.tensor(case.target))
    gradients = torch.autograd.grad(got.sum(), [case.states.confidence, case.states.gold])
    assert all(torch.isfinite(x).all() for x in (got, *gradients))
    assert (got > -1e6).all()
