"""Words that wait for the next one, because it is uncertain whether they begin a sentence."""

import random
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from doubtful import Doubtful, cuts, tiny, waiting
from lively import lively_hmt

from hmt.model.segmenter import OPINIONS, Casing, Heard, Memory, Segmenter
from hmt.models.model import Model
from hmt.streaming.events import Ended, Notice, Written
from hmt.streaming.session import Session
from hmt.text.tokenizer import Tokenizer, train_bpe

WORDS = ["wir", "ka", "besi", "ihr", "tarum", "nolu", "pelo", "lim"]
TALKS = [random.Random(seed).choices(WORDS, k=14) for seed in range(8)]


@pytest.fixture(autouse=True)
def _short_translations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hmt.streaming.engine.LENGTH_EXTRA", 8)
    monkeypatch.setattr("hmt.streaming.engine.LENGTH_FACTOR", 1)


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return train_bpe([" ".join(WORDS), "Wir, Ka. Ihr! Ka? LIM Besi Tarum"], 60)


def model_with(segmenter: Segmenter, tokenizer: Tokenizer, seed: int = 5) -> Model:
    size = {"source_vocabulary": tokenizer.size, "target_vocabulary": tokenizer.size}
    system = lively_hmt(seed, 2, 3, **size)
    return Model(system, (tokenizer, tokenizer), segmenter=segmenter)


@pytest.fixture(scope="module", params=[3, 6])
def model(request: pytest.FixtureRequest, tokenizer: Tokenizer) -> Model:
    """A model that sometimes ends a sentence by itself."""
    return model_with(Doubtful(tokenizer), tokenizer, request.param)


def sources(session: Session) -> list[str]:
    return [event.source for event in session.events if isinstance(event, Ended)]


def text(session: Session) -> str:
    return "".join(event.text for event in session.events if isinstance(event, Written))


def talk(model: Model, words: Sequence[str], by: int = 1, **knobs: Any) -> Session:
    session = model.session(**knobs)
    for n in range(0, len(words), by):
        session.push(" ".join(words[n : n + by]))
    session.finish()
    return session


def test_sentences_begin_where_the_last_opinion_says(tokenizer: Tokenizer) -> None:
    """Planted bugs: the first opinion counts; a word that opens a sentence is lost."""
    segmenter = Doubtful(tokenizer)
    model = model_with(segmenter, tokenizer)
    stayed, opened, third = 0, 0, 0
    for words in TALKS:
        expected = cuts(segmenter, tokenizer, words)
        session = talk(model, words, lower=200)  # it reads to the end, so it ends nothing itself
        assert sources(session) == [sentence.replace("*", "") for sentence in expected]
        opened += sum("*" in sentence.split()[0] for sentence in expected)
        stayed += sum("*" in word for sentence in expected for word in sentence.split()[1:])
        third += sum("**" in sentence for sentence in expected)
    assert min(opened, stayed, third) > 10, "too few words waited"


def test_a_word_waits_for_one_word_or_two_and_others_for_none(tokenizer: Tokenizer) -> None:
    """Planted bug: words overtake one that waits for a third opinion."""
    segmenter = Doubtful(tokenizer)
    model = model_with(segmenter, tokenizer)
    numbers = set()
    for words in TALKS:
        session = model.session(lower=200)
        for n, word in enumerate(words, 1):
            session.push(word)
            waits = waiting(segmenter, tokenizer, words[:n])
            assert session._live.waiting_words == waits
            assert session._live.sentence is not None
            given = [*" ".join(sources(session)).split(), *session.record.source.split()]
            assert given == words[: n - waits]
            numbers.add(waits)
    assert numbers == {0, 1, 2}


@pytest.mark.parametrize("end", ["pause", "finish", "commit"])
def test_an_end_releases_words_that_wait(model: Model, end: str) -> None:
    """Planted bugs: a word is lost, or opens the sentence after the end; two are turned round."""
    waited, two = 0, 0
    for words in TALKS:
        session = model.session()
        for n in (2, 3, 6):
            session.push(" ".join(words[:n]))
            waited += session._live.waiting_words
            two += session._live.waiting_words == 2
            getattr(session, end)()
            assert session._live.waiting_words == 0
            assert " ".join(sources(session)).split()[-n:] == words[:n]
            assert session._live.sentence is None
    assert waited > 5 and two > 0


def test_no_word_is_lost_whatever_comes_between(model: Model) -> None:
    """Planted bug: a word that waits is lost where the model ends the sentence by itself."""
    by_itself = 0
    for seed, words in enumerate(TALKS * 2):
        draw = random.Random(seed)
        session = model.session(lower=draw.randint(1, 3))
        for word in words:
            session.push(word)
            if draw.random() < 0.1:
                session.pause()
            if draw.random() < 0.1:
                session.set(lower=draw.randint(1, 3), threshold=draw.random())
        session.finish()
        assert " ".join(sources(session)).split() == words
        reads = [event.read_words for event in session.events if isinstance(event, Written)]
        assert reads == sorted(reads) and (not reads or reads[-1] <= len(words))
        ends = [event for event in session.events if isinstance(event, Ended)]
        by_itself += sum(event.reason == "model" for event in ends)
    assert by_itself > 20


@pytest.mark.parametrize("by", [2, 14])
def test_groups_of_words_change_nothing(model: Model, by: int) -> None:
    for words in TALKS:
        one, many = talk(model, words), talk(model, words, by)
        assert (sources(many), text(many)) == (sources(one), text(one))


def test_a_sentence_that_is_read_again_ends_where_it_did(model: Model) -> None:
    """After a lost connection the open sentence is pushed again: a word that waited as well."""
    for words in TALKS[:3]:
        whole = talk(model, words)
        for n in range(1, len(words)):
            first = model.session()
            first.push(" ".join(words[:n]))
            done = len(" ".join(sources(first)).split())
            again = talk(model, words[done:])
            assert sources(first) + sources(again) == sources(whole)
            assert text(again) in text(whole)


# ---- words without end


class NeverSure(Segmenter):
    """Of no word it is sure, whatever comes after it; it takes none for the first of a sentence."""

    def hear(self, tokens: Sequence[int], memory: Memory | None) -> tuple[list[Heard], Memory]:
        return [Heard(0.45, 0.0, 0.0, Casing.SMALL)] * OPINIONS, Memory(torch.zeros(1))


def test_words_without_end_of_which_it_is_never_sure(tokenizer: Tokenizer) -> None:
    """Planted bug: words pile up."""
    model = model_with(NeverSure(tiny(tokenizer)), tokenizer)
    session = model.session(lower=200)
    words = [WORDS[n % len(WORDS)] for n in range(200)]
    for word in words:
        session.push(word)
        assert session._live.waiting_words <= 2
    session.finish()
    assert " ".join(sources(session)).split() == words
    lengths = [len(source.split()) for source in sources(session)]
    assert lengths == [80, 80, 40]
    reasons = [event.reason for event in session.events if isinstance(event, Ended)]
    assert reasons == ["length", "length", "finish"]


@pytest.mark.parametrize("word", ["besi" * 25_000, "x" * 100_000, "besi-" * 20_000])
def test_a_word_of_100_000_characters_among_words_that_wait(
    tokenizer: Tokenizer, word: str
) -> None:
    """Its beginning is read and kept, and it is in nobody's way; words may wait for it."""
    for segmenter in (Doubtful(tokenizer), NeverSure(tiny(tokenizer))):
        session = model_with(segmenter, tokenizer).session()
        session.push(f"wir ka {word} ihr besi {word}")
        assert session._live.waiting_words <= 2
        session.push("nolu")
        session.finish()
        given = ["wir", "ka", word[:300], "ihr", "besi", word[:300], "nolu"]
        assert " ".join(sources(session)).split() == given
        codes = [event.code for event in session.events if isinstance(event, Notice)]
        assert codes == ["long_word"] * 2


def test_a_sentence_that_is_full_ends_with_the_words_that_waited(tokenizer: Tokenizer) -> None:
    """However many tokens its words have, a sentence has no more than the model takes."""
    model = model_with(NeverSure(tiny(tokenizer)), tokenizer)
    words = ["besi" * 70] * 20  # of some 70 tokens each
    session = talk(model, words, lower=2000)
    assert " ".join(sources(session)).split() == words
    tokens = [len(record.source_tokens) for record in session.records]
    assert len(tokens) > 1 and max(tokens) <= 1024


# ---- how it is written, and where nothing waits


class Hesitant(Segmenter):
    """It is unsure of "besi" and, once it hears more, takes it for a name after a comma."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        super().__init__(tiny(tokenizer))
        self.unsure = tokenizer.encode("besi")

    def hear(self, tokens: Sequence[int], memory: Memory | None) -> tuple[list[Heard], Memory]:
        border = 0.5 if list(tokens) == self.unsure else 0.0
        heard = Heard(border, 0.0, 0.0, Casing.SMALL)
        second = Heard(0.0, 1.0, 0.0, Casing.CAPITALISED)
        return [heard, second, second], Memory(torch.zeros(1))


@pytest.mark.parametrize(
    ("heard", "given"),
    [
        ("wir besi ka", ["Wir, Besi ka."]),  # as the second opinion says
        ("wir besi", ["Wir.", "Besi."]),  # the first one is all there is
        ("wir besi , ka", ["Wir.", "Besi , ka"]),  # a mark gives no second opinion
        ("wir ka, besi nolu", ["Wir ka, besi nolu"]),  # punctuation is relied on, nothing waits
        ("wir besi, nolu", ["Wir.", "Besi, nolu"]),  # nor does a word with a mark of its own
        ("Wir besi nolu", ["Wir besi nolu"]),
    ],
)
def test_a_word_that_waited_is_written_as_the_second_opinion_says(
    tokenizer: Tokenizer, heard: str, given: list[str]
) -> None:
    session = model_with(Hesitant(tokenizer), tokenizer).session(lower=200)
    session.push(heard)
    session.finish()
    pieces = [[*(tokenizer.piece(id) for id in tokenizer.encode(text)), "</s>"] for text in given]
    assert [record.source_tokens for record in session.records] == pieces


@pytest.mark.parametrize("words", ["wir ka, besi", "wir besi.", "Wir besi", "besi"])
def test_text_with_punctuation_never_waits(tokenizer: Tokenizer, words: str) -> None:
    session = model_with(Hesitant(tokenizer), tokenizer).session(lower=200)
    session.push(words)
    assert session._live.waiting_words == 0
    lined = model_with(Hesitant(tokenizer), tokenizer).session(lower=200, by_line=True)
    lined.push("wir besi")
    assert lined._live.waiting_words == 0
