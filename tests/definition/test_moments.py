"""Which states exist, how many copies each stands for, who sees whom."""

import dataclasses
import itertools
import math
import random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from naive_hmt import naive_moments

from hmt.model.rows import NEVER, NOBODY, Row, Rows, plain_bias, same_lag_bias
from hmt.systems.hmt import HMTKnobs, copies_of
from hmt.systems.hmt_states import state_bias, state_table

many = settings(max_examples=60, deadline=None, database=None, derandomize=True)
lowers, numbers = st.integers(-4, 8), st.integers(1, 7)
lengths = st.lists(st.tuples(st.integers(1, 9), st.integers(1, 8)), min_size=1, max_size=3)


@many
@given(lowers, numbers, lengths)
def test_states_are_the_distinct_moments_with_their_copies(
    lower: int, states: int, pairs: list[tuple[int, int]]
) -> None:
    """Against the paper's clamped list. Planted bugs: clamped to the longest source of the batch;
    copies at moment 1 not counted when L < 1; states of padded targets exist."""
    source, target = (torch.tensor(side) for side in zip(*pairs, strict=True))
    table = state_table(lower, states, source, target, int(target.max()))
    found = {
        (b, i, t): c
        for b, i, t, c in zip(
            table.sentence.tolist(),
            table.token.tolist(),
            table.moment.tolist(),
            table.copies.tolist(),
            strict=True,
        )
    }
    expected: dict[tuple[int, int, int], int] = {}
    for b, (j, n) in enumerate(pairs):
        for i, own in enumerate(naive_moments(lower, states, j, n)):
            assert int(table.first[b, i]) == own[0]
            assert int(table.last[b, i]) == own[-1]
            for t in own:
                expected[b, i, t] = expected.get((b, i, t), 0) + 1
    assert found == expected
    assert list(found) == sorted(found)  # in order of sentence, token, moment


@many
@given(lowers, numbers, lengths)
def test_rows_hold_what_the_table_says(
    lower: int, states: int, pairs: list[tuple[int, int]]
) -> None:
    """Planted bug: padding rows that pass for target token 0, which everybody sees."""
    source, target = (torch.tensor(side) for side in zip(*pairs, strict=True))
    table = state_table(lower, states, source, target, int(target.max()))
    rows = table.rows
    assert torch.equal(rows.target.flatten()[table.index], table.token + 1)
    assert torch.equal(rows.moment.flatten()[table.index], table.moment)
    assert torch.equal(rows.copies.flatten()[table.index], table.copies)
    real = torch.zeros(rows.target.numel(), dtype=torch.bool).index_fill_(0, table.index, True)
    assert (rows.target.flatten()[~real] == NOBODY).all()


@many
@given(lowers, numbers, st.integers(1, 9), st.integers(1, 8))
def test_streaming_counts_copies_like_training(
    lower: int, states: int, source: int, target: int
) -> None:
    """Planted bug: before the end is known a state takes the copies beyond the last moment."""
    knobs = HMTKnobs(lower=lower, states=states)
    table = state_table(lower, states, torch.tensor([source]), torch.tensor([target]), target)
    for i, t, copies in zip(
        table.token.tolist(), table.moment.tolist(), table.copies.tolist(), strict=True
    ):
        assert copies_of(knobs, i + 1, t, source) == copies
        if t < source:
            assert copies_of(knobs, i + 1, t, None) == copies


@pytest.mark.parametrize(
    ("lower", "states", "length", "share"), [(5, 6, 12, 0.51), (9, 8, 28, 0.62), (2, 4, 12, 0.81)]
)
def test_packing_saves_what_it_should(lower: int, states: int, length: int, share: float) -> None:
    size = torch.tensor([length])
    table = state_table(lower, states, size, size, length)
    assert len(table.moment) / (states * length) == pytest.approx(share, abs=0.006)


def one_sentence(lower: int, states: int, source: int, target: int) -> Rows:
    lengths = torch.tensor([source]), torch.tensor([target])
    return state_table(lower, states, *lengths, target).rows


def seen(bias: torch.Tensor) -> torch.Tensor:
    return bias[0, 0] > NEVER / 2


@pytest.mark.parametrize("mode", ["multiple", "max", "selected"])
def test_who_sees_whom(mode: str) -> None:
    """Pair by pair for many L, K, lengths. Planted bugs: t' < t in place of t' <= t; `max` takes
    the last moment of a token although it lies beyond t; `selected` hides own states."""
    draw = random.Random(0)
    for lower, states, source, target in itertools.product((-2, 1, 4), (1, 3), (1, 5), (1, 4)):
        rows = one_sentence(lower, states, source, target)
        place = list(zip(rows.target[0].tolist(), rows.moment[0].tolist(), strict=True))
        moments = {i: sorted(t for j, t in place if j == i) for i, _ in place}
        wrote = {i: draw.choice(own) for i, own in moments.items()}
        selected = torch.tensor([[int(wrote[i] == t) for i, t in place]])
        keys = dataclasses.replace(rows, wrote=selected)
        bias = state_bias(rows, keys, mode, torch.double)
        for (q, (i, t)), (k, (j, u)) in itertools.product(enumerate(place), enumerate(place)):
            sees = j <= i and u <= t
            if j < i and mode == "max":
                sees = sees and u == max(m for m in moments[j] if m <= t)
            if j < i and mode == "selected":
                sees = sees and u == wrote[j]
            assert bool(seen(bias)[q, k]) == sees
            if sees:
                counts = mode == "multiple" or i == j
                expected = math.log(rows.copies[0, k]) if counts else 0.0
                assert float(bias[0, 0, q, k]) == pytest.approx(expected)


def test_every_row_sees_itself() -> None:
    for mode in ("multiple", "max"):
        rows = one_sentence(-1, 4, 6, 9)
        assert seen(state_bias(rows, rows, mode, torch.double)).diagonal().all()


def test_padding_is_seen_by_nobody() -> None:
    """Planted bug: padding marked by target 0."""
    table = state_table(1, 3, torch.tensor([2, 7]), torch.tensor([1, 6]), 6)
    pad = table.rows.target[0] == NOBODY
    assert pad.any()
    visible = seen(state_bias(table.rows, table.rows, "multiple", torch.double))
    assert not visible[~pad][:, pad].any()


def test_plain_rows_see_themselves_and_earlier_ones_of_their_lag() -> None:
    target = torch.tensor([[1, 2, 3, 1, 2]])
    lag = torch.tensor([[0, 0, 0, 1, 1]])
    rows = dataclasses.replace(Rows.of(target, torch.ones_like(target)), lag=lag)
    plain = seen(plain_bias(rows, rows, torch.double))
    apart = seen(same_lag_bias(rows, rows, torch.double))
    for q, k in itertools.product(range(5), range(5)):
        earlier = target[0, k] <= target[0, q]
        assert plain[q, k] == earlier
        assert apart[q, k] == (earlier and lag[0, k] == lag[0, q])


def test_rows_have_the_columns_of_a_row() -> None:
    """In the same order: caches store records and return columns. Planted bug: two exchanged."""
    assert tuple(field.name for field in dataclasses.fields(Rows)) == Row._fields
    target = torch.tensor([[1, 2]])
    rows = Rows.of(target, target + 3)
    assert [int(getattr(rows, name)[0, 1]) for name in Row._fields] == list(Row(2, 5))


def test_bias_is_exact_for_many_copies() -> None:
    rows = one_sentence(50, 9, 3, 2)
    assert rows.copies[0].tolist() == [9, 9]
    bias = state_bias(rows, rows, "multiple", torch.double)
    assert float(bias[0, 0, 1, 0]) == pytest.approx(math.log(9), abs=1e-15)
