"""Words in capitals are read as ordinary words; abbreviations and everything else stay."""

import pickle

import pytest

from hmt.models.model import load
from hmt.text.capitals import CapitalsReader
from hmt.text.symbols import UNK
from hmt.text.tokenizer import Tokenizer, train_words

MODEL = load()
READER = MODEL.source_tokenizer
PLAIN = Tokenizer(READER.backend)


@pytest.mark.parametrize("capitals", ["ICH", "ZEIT.", "ÜBERRASCHT,", "„WAS", "BAHNHOF"])
def test_capitals_become_the_word_that_is_known(capitals: str) -> None:
    """Which of its two forms is known better depends on the text that made the vocabulary."""
    ordinary = [PLAIN.encode(form) for form in (capitals.lower(), capitals.capitalize())]
    assert READER.encode(capitals) in ordinary
    assert READER.encode(capitals) != PLAIN.encode(capitals)


def test_among_equals_the_more_frequent_form_is_read() -> None:
    """Planted: small letters are always preferred."""
    reader = CapitalsReader(train_words(["Zeit Zeit zeit ich ich Ich"]).backend)
    assert reader.encode("ZEIT") == reader.encode("Zeit")
    assert reader.encode("ICH") == reader.encode("ich")


@pytest.mark.parametrize(
    "word", ["EU", "USA", "BMW", "SPD", "I", "A.", "42", "Zeit", "iPhone", "…"]
)
def test_other_words_stay(word: str) -> None:
    """Planted: LETTERS_PER_PIECE and SHORT of 0, which turn SPD into sp-d."""
    assert READER.encode(word) == PLAIN.encode(word)


def test_a_word_list_finds_its_word() -> None:
    reader = CapitalsReader(train_words(["ich habe Zeit"]).backend)
    assert reader.encode("ICH HABE ZEIT") == reader.encode("ich habe Zeit")
    assert reader.encode("NIE") == [UNK]


def test_pieces_depend_on_the_word_alone() -> None:
    """Planted: ids remembered under the word in capitals by the tokenizer itself."""
    words = ["ICH", "HABE", "EU", "ZEIT", "Zeit"]
    alone = [READER.encode(word) for word in words]
    assert READER.encode(" ".join(words)) == [id for ids in alone for id in ids]
    assert pickle.loads(pickle.dumps(READER)).encode("ICH") == alone[0]


def test_a_sentence_in_capitals_is_translated() -> None:
    text = "Ich habe keine Zeit."
    whole, shouted = MODEL.translate([text, text.upper()])
    assert shouted.source == text.upper() and "time" in shouted.prediction.lower()
    session = MODEL.session()
    assert session.push(text.upper()) + session.finish() == shouted.prediction
    assert whole.prediction == MODEL.translate([text])[0].prediction
