"""Cutting a stream of words into sentences: definition, properties, bad input."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hmt.errors import UserError
from hmt.text.sentences import SentenceCutter


def cut(text: str, max_words: int = 80) -> list[str]:
    cutter = SentenceCutter(max_words)
    sentences, words = [], []
    for word in text.split():
        words.append(word)
        if cutter.push(word):
            sentences.append(" ".join(words))
            words = []
    return [*sentences, " ".join(words)]


@pytest.mark.parametrize(
    "text",
    [
        "Er kam. | Sie ging! | Wer? | Also… | ",
        "„Er kam.“ | (Sie ging!) | »Wer?« | ",
        "Er kam . | Sie ging ? | ",
        "我 知道。 | 你好！ | 谁？ | ",
        "Das ist z.B. gut. | Am 3. Mai kam Dr. Meier. | ",
        "Am 24. Dezember usw. bleibt es so. | ",
        "Am 31.12. ist Silvester, am 3.5. nicht. | Es kostet 3.50. | Um 14.30. | ",
        "In der Hauptstr. 5 wohnt Dipl.-Ing. Abg. Meier (BT-Drs. 12). | ",
        "Herr J. S. Bach und Ludwig XIV. sprachen. | ",
        "In the U.S. and elsewhere. | Mr. Smith (approx. five) said no. | ",
        "Es war 1999. | Wait... | What?! | noch offen",
        "He left ! | ! ” Then he came . | ",
    ],
)
def test_sentences_end_where_a_reader_ends_them(text: str) -> None:
    assert cut(text.replace("| ", "")) == [sentence.strip() for sentence in text.split("|")]


def test_a_long_sentence_is_cut_at_the_limit() -> None:
    assert cut("a b c d e", 2) == ["a b", "c d", "e"]


def test_the_count_starts_again_after_each_sentence_and_after_a_reset() -> None:
    assert cut("a bb. c d e f", 3) == ["a bb.", "c d e", "f"]
    cutter = SentenceCutter(2)
    assert not cutter.push("a")
    cutter.reset()
    assert not cutter.push("b")
    assert cutter.push("c")


@given(st.lists(st.text(min_size=1, max_size=5)), st.integers(1, 6))
def test_no_sentence_is_longer_than_the_limit_and_early_cuts_have_a_reason(
    words: list[str], limit: int
) -> None:
    cutter = SentenceCutter(limit)
    length = 0
    for word in words:
        length += 1
        if cutter.push(word):
            assert length == limit or any(c in ".!?…。！？｡؟।॥։" for c in word)
            length = 0
        assert length < limit


def test_an_impossible_limit_is_named() -> None:
    with pytest.raises(UserError, match="at most 0 words"):
        SentenceCutter(0)
