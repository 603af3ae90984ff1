"""Guesses of a recogniser: what is final stays final, and nothing final is lost or doubled."""

import random
import time
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hmt.errors import UserError
from hmt.streaming.hypotheses import Hypotheses

WORDS = [f"w{n}" for n in range(30)]


def guesses(draw: random.Random, final: list[str]) -> Iterator[tuple[list[str], int]]:
    """Each the words that are right for good and a tail that is changed at random; the last one is
    the final text."""
    right = 0
    while right < len(final) and draw.random() < 0.8:  # the last words may stay unconfirmed
        right += draw.randint(0, 3)
        right = min(right, len(final))
        tail = final[right : right + draw.randint(0, 4)]
        for _ in range(draw.randint(0, 3)):
            at = draw.randint(0, len(tail))
            tail[at : at + draw.randint(0, 1)] = draw.choices(WORDS, k=draw.randint(0, 2))
        yield final[:right] + tail, right
    yield final, right


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 10**6))
def test_what_a_careful_recogniser_commits_is_the_final_text(seed: int) -> None:
    """Planted bugs: a committed word committed again; the tail lost at the commit."""
    draw, hypotheses = random.Random(seed), Hypotheses()
    for _ in range(3):
        final = draw.choices(WORDS, k=draw.randint(1, 12))
        found: list[str] = []
        for guess, right in guesses(draw, final):
            found += hypotheses.update(guess, right)
            assert found == final[:right] and hypotheses.tail == guess[right:]
        found += hypotheses.commit()
        assert found == final
    assert hypotheses.conflicts == 0


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 10**6))
def test_agreement_is_the_common_beginning_of_two_guesses(seed: int) -> None:
    """Against a slow reference, for a recogniser that never changes what two guesses agreed on."""
    draw, hypotheses = random.Random(seed), Hypotheses()
    final = draw.choices(WORDS, k=12)
    found: list[str] = []
    before: list[str] = []
    for guess, _ in guesses(draw, final):
        if guess[: len(found)] != found:
            continue  # it would contradict what was agreed on
        found += hypotheses.update(guess)
        agreed = 0
        while agreed < min(len(guess), len(before)) and guess[agreed] == before[agreed]:
            agreed += 1
        assert len(found) >= agreed and found == guess[: len(found)]
        before = guess
    assert hypotheses.conflicts == 0
    assert found + hypotheses.commit() == before


@settings(max_examples=100, deadline=None)
@given(st.lists(st.lists(st.sampled_from("abcd"), max_size=8), max_size=8), st.booleans())
def test_nothing_final_is_taken_back_whatever_comes(guesses: list[list[str]], says: bool) -> None:
    """Words only grow, and at the commit the tail is what was shown as tentative."""
    hypotheses, found = Hypotheses(), 0
    for guess in guesses:
        new = hypotheses.update(guess, len(guess) // 2 if says else None)
        found += len(new)
        assert len(new) + len(hypotheses.tail) <= len(guess)
        assert guess[len(guess) - len(new) - len(hypotheses.tail) :] == new + hypotheses.tail
        assert 0 <= hypotheses.conflicts <= found
    tail = list(hypotheses.tail)
    assert hypotheses.commit() == tail and hypotheses.tail == []


def test_marks_and_capitals_are_no_change() -> None:
    hypotheses = Hypotheses()
    assert hypotheses.update(["ich", "habe"]) == []
    assert hypotheses.update(["Ich", "habe,", "was"]) == ["Ich", "habe,"]
    assert hypotheses.update(["ich", "habe", "was"]) == ["was"]
    assert hypotheses.conflicts == 0


def test_conflicts_are_counted_once_and_the_rest_is_aligned() -> None:
    """Planted bugs: a conflict counted again with every guess; the rest cut by position."""
    hypotheses = Hypotheses()
    assert hypotheses.update(["a", "b", "c"], 3) == ["a", "b", "c"]
    assert hypotheses.update(["x", "a", "c", "d"], 4) == ["d"]
    assert hypotheses.conflicts == 1
    assert hypotheses.update(["x", "a", "c", "d", "e"], 5) == ["e"]
    assert hypotheses.conflicts == 1
    assert hypotheses.update(["x", "y", "a", "c", "d", "e", "f"], 7) == ["f"], "one more before"
    assert hypotheses.update(["c", "d", "e", "f", "g"], 5) == ["g"], "three less"
    assert hypotheses.conflicts == 2
    assert hypotheses.commit() == []
    assert hypotheses.update(["q"], 1) == ["q"]
    assert hypotheses.conflicts == 2


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 10**6))
def test_a_result_completes_what_was_final(seed: int) -> None:
    """Planted bug: a result is heard whole, whatever was final before."""
    draw, hypotheses = random.Random(seed), Hypotheses()
    for _ in range(3):
        final = draw.choices(WORDS, k=draw.randint(1, 12))
        found: list[str] = []
        for guess, right in guesses(draw, final):
            found += hypotheses.update(guess, right)
        found += hypotheses.settle(final)
        assert found == final and not hypotheses.is_open
    assert hypotheses.conflicts == 0


def test_long_utterances_are_aligned_at_their_end() -> None:
    """Planted bug: all of an utterance is aligned with each guess, in the square of its length."""
    hypotheses, words = Hypotheses(), [f"w{n}" for n in range(20_000)]
    assert hypotheses.update(words, len(words)) == words
    started = time.process_time()
    assert hypotheses.update([*words[:-2], "x", *words[-1:], "y"], len(words) + 1) == ["y"]
    assert hypotheses.update(["x", *words[1:], "y", "z"], len(words) + 2) == ["z"]
    assert hypotheses.conflicts == 1 and time.process_time() - started < 2


@pytest.mark.parametrize("committed", [-1, 3, True])
def test_impossible_counts_are_named(committed: int) -> None:
    with pytest.raises(UserError, match=f"{committed} words were committed of a guess that has 2"):
        Hypotheses().update(["a", "b"], committed)
