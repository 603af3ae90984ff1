"""Latency against worked examples, identities, and definitions written out a second time."""

from fractions import Fraction

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hmt.errors import UserError
from hmt.metrics.latency import (
    average_token_delay,
    computing_seconds,
    differentiable_average_lagging,
    elapsed_words,
    latency,
    word_reads,
    words_read,
    yaal,
)

# X, delays, and AL, AP, CW, DAL, ATD as exact fractions
EXAMPLES = {
    "A wait-3": (
        6,
        [3, 4, 5, 6, 6, 6],
        (Fraction(3), Fraction(5, 6), Fraction(3, 2), Fraction(3), Fraction(3)),
    ),
    "B wait-1": (
        6,
        [1, 2, 3, 4],
        (Fraction(1, 4), Fraction(5, 12), Fraction(1), Fraction(1), Fraction(1)),
    ),
    "C wait-2": (
        4,
        [2, 3, 4, 4, 4, 4],
        (Fraction(7, 3), Fraction(7, 8), Fraction(4, 3), Fraction(5, 2), Fraction(5, 2)),
    ),
    "D adaptive": (
        5,
        [1, 1, 4, 4, 5],
        (Fraction(1), Fraction(3, 5), Fraction(5, 3), Fraction(8, 5), Fraction(11, 5)),
    ),
    "E full": (5, [5, 5, 5, 5], (Fraction(5), Fraction(1), Fraction(5), Fraction(5), Fraction(5))),
    "F early stop": (
        6,
        [1, 2, 3],
        (Fraction(0), Fraction(1, 3), Fraction(1), Fraction(1), Fraction(1)),
    ),
}


@st.composite
def runs(draw: st.DrawFn) -> tuple[int, list[int]]:
    """A source length and delays that never fall."""
    X = draw(st.integers(1, 30))
    return X, sorted(draw(st.lists(st.integers(0, X), min_size=1, max_size=40)))


def scores(*arguments: object, **options: object) -> dict[str, float]:
    found = latency(*arguments, **options)  # type: ignore[arg-type]
    assert found is not None
    return found  # type: ignore[return-value]


@pytest.mark.parametrize("name", EXAMPLES)
def test_worked_examples_are_exact(name: str) -> None:
    X, delays, expected = EXAMPLES[name]
    found = scores(delays, X)
    for metric, value in zip(("AL", "AP", "CW", "DAL", "ATD"), expected, strict=True):
        assert found[metric] == float(value), metric
    assert found["LAAL"] == found["AL"]


def test_reference_length() -> None:
    X, delays, _ = EXAMPLES["A wait-3"]
    longer, shorter = scores(delays, X, 8), scores(delays, X, 4)
    assert (longer["AL"], longer["LAAL"], longer["AP"]) == (27 / 8, 27 / 8, 5 / 8)
    assert (shorter["AL"], shorter["LAAL"]) == (9 / 4, 3)
    assert shorter["DAL"] == longer["DAL"] == 3
    assert scores(delays, X, 0) == scores(delays, X), "an empty reference is no reference"


def test_end_tokens_shift_ap_and_cw_only() -> None:
    plain, ended = scores([2, 3, 4, 5, 5], 5), scores([2, 3, 4, 5, 6, 6], 6)
    names = ("AL", "DAL", "AP", "CW")
    assert [plain[n] for n in names] == [2, 2, 19 / 25, 5 / 4]
    assert [ended[n] for n in names] == [2, 2, 13 / 18, 6 / 5]


def test_yaal_leaves_out_what_was_written_after_the_end() -> None:
    # wait-3 of 6 words: lags 3, 3, 3 before the end
    assert yaal([3, 4, 5, 6, 6, 6], 6, 6) == 3
    # lags 1 and 2 - 4/8, then the source has ended
    assert yaal([1, 2, 4, 4], 4, 8) == 1.25
    assert yaal([4, 4], 4, 2) is None


@given(st.integers(1, 30), st.data())
def test_wait_k_and_full_sentence(X: int, data: st.DataObject) -> None:
    k = data.draw(st.integers(1, X))
    wait = scores([min(k + i, X) for i in range(X)], X)
    assert wait["AL"] == wait["DAL"] == k
    full = scores([X] * data.draw(st.integers(1, 30)), X)
    assert (full["AL"], full["DAL"], full["AP"], full["CW"]) == (X, X, 1, X)
    assert full["YAAL"] is None


@given(runs(), st.integers(1, 40))
def test_definitions_written_out(run: tuple[int, list[int]], R: int) -> None:
    X, delays = run
    Y = len(delays)
    found = scores(delays, X, R)

    def lag(Y_: int, through: int) -> float:
        return float(
            sum(Fraction(delays[i]) - Fraction(i * X, Y_) for i in range(through)) / through
        )

    tau = next((i for i in range(1, Y + 1) if delays[i - 1] >= X), Y)
    assert found["AL"] == lag(R, tau)
    assert found["LAAL"] == lag(max(R, Y), tau)
    assert found["AP"] == float(Fraction(sum(delays), X * R))
    early = sum(d < X for d in delays)
    assert found["YAAL"] == (lag(max(R, Y), early) if early else None)
    reads = len(set(delays) - {0})
    assert found["CW"] == (float(Fraction(delays[-1], reads)) if reads else 0)
    held = [Fraction(delays[0])]
    for d in delays[1:]:
        held.append(max(Fraction(d), held[-1] + Fraction(X, Y)))
    assert found["DAL"] == float(sum(h - Fraction(i * X, Y) for i, h in enumerate(held)) / Y)


@given(runs())
def test_inequalities(run: tuple[int, list[int]]) -> None:
    X, delays = run
    Y = len(delays)
    dal = differentiable_average_lagging(delays, X)
    assert dal >= delays[0]
    assert dal >= sum(d - i * X / Y for i, d in enumerate(delays)) / Y - 1e-9
    found = scores(delays, X)
    assert 0 <= found["AP"] <= 1
    assert found["CW"] >= 1 or not delays[-1]


@given(runs())
def test_token_delay_written_out(run: tuple[int, list[int]]) -> None:
    """By chunks and cumulative sums, as in the definition."""
    _, delays = run
    levels = sorted(set(delays))
    total, end = 0, 0
    for t, delay in enumerate(delays, 1):
        chunk = levels.index(delay)
        read_before = levels[chunk - 1] if chunk else 0
        written_before = sum(d < delay for d in delays)
        partner = min(t - max(0, written_before - read_before), delay)
        end = max(delay, end) + 1
        total += end - partner
    assert average_token_delay(delays) == float(Fraction(total, len(delays)))


def test_tensors_and_lists_agree() -> None:
    assert scores(torch.tensor([1, 1, 4, 4, 5]), 5) == scores([1, 1, 4, 4, 5], 5)


def test_nothing_written_or_nothing_to_read_has_no_latency() -> None:
    assert latency([], 5) is None
    assert latency([0, 0], 0) is None
    one = scores([1], 1)
    assert (one["AL"], one["AP"], one["CW"], one["DAL"], one["ATD"]) == (1, 1, 1, 1, 1)


@pytest.mark.parametrize(
    ("reads", "message"),
    [([2, 1], "never decrease"), ([1, 7], "past the end"), ([-1], "whole"), ([1.5], "whole")],
)
def test_impossible_reads_are_refused(reads: list[int], message: str) -> None:
    with pytest.raises(UserError, match=message):
        latency(reads, 5)


def test_clipping_must_be_asked_for() -> None:
    assert latency([1, 7], 5, clip=True) == latency([1, 5], 5)
    with pytest.raises(UserError, match="never decrease"):
        latency([2, 1], 5, clip=True)


def test_a_word_waits_for_its_last_piece() -> None:
    # target pieces "a@@ b c", source pieces are words
    assert word_reads([1, 2, 4], [0, 1, 2, 3], [1, 2]) == [2, 4]


def test_source_words_count_from_their_first_piece() -> None:
    ends = [1, 2, 5]  # pieces 0-1, 2, 3-5, then the end token
    assert words_read([0, 1, 2, 3, 4, 6, 7], ends) == [0, 1, 1, 2, 3, 3, 3]


def test_a_word_waits_until_it_is_sure() -> None:
    ends = [1, 2, 5]
    # "▁x y ▁z </s>": y is known to be the word's end when ▁z is written
    assert word_reads([1, 2, 4, 7], ends, [2, 3]) == [3, 3]
    assert word_reads([1, 1], ends, [1, 2]) == [1, 1], "cut: the end of the translation shows it"


def test_computation_time_delays_what_follows() -> None:
    work = computing_seconds([0.5, 0.5, 2.5], [1, 2, 3])
    assert work == [0.5, 0.0, 2.0]
    out = elapsed_words([1, 2, 3], work, seconds_per_word=0.5)
    assert out == [2.0, 2.0, 7.0]
    assert elapsed_words([1, 2], [1.0, 0.5], 0.5) == [3.0, 4.0], "work queues behind work"
    found = scores([1, 2, 3], 4, 4, elapsed=out)
    assert found["AL_CA"] == pytest.approx((2 + 1 + 5) / 3)
    # ends 3, 4, 8 against partners 1, 2, 3
    assert found["ATD_CA"] == pytest.approx((2 + 2 + 5) / 3)
    assert "CW_CA" not in found


def test_waiting_for_speech_is_no_computing() -> None:
    work = computing_seconds([1.25, 2.25, 2.5], [1, 2, 2], arrivals=[1.0, 2.0])
    assert work == [0.25, 0.25, 0.25]


@given(runs(), st.integers(1, 40))
def test_without_computing_nothing_changes(run: tuple[int, list[int]], R: int) -> None:
    X, delays = run
    found = scores(delays, X, R, elapsed=elapsed_words(delays, [0.0] * len(delays), 0.4))
    for name in ("AL", "LAAL", "AP", "DAL", "ATD", "YAAL"):
        assert found[f"{name}_CA"] == pytest.approx(found[name])


def test_rate_must_be_positive() -> None:
    with pytest.raises(UserError, match="above zero"):
        elapsed_words([1], [0.1], 0)
