"""Words that wait for the next one, because it is uncertain whether they begin a sentence."""

import random
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from doubtful import Doubtful, cuts
from lively import lively_hmt
from torch import Tensor

from hmt.model.segmenter import Casing, Heard, Segmenter
from hmt.models.model import Model
from hmt.streaming.events import Ended, Written
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


def test_sentences_begin_where_the_second_opinion_says(tokenizer: Tokenizer) -> None:
    """Planted bugs: the first opinion counts; a word that opens a sentence is lost."""
    segmenter = Doubtful(tokenizer)
    model = model_with(segmenter, tokenizer)
    stayed, opened = 0, 0
    for words in TALKS:
        expected = cuts(segmenter, tokenizer, words)
        session = talk(model, words, lower=200)  # it reads to the end, so it ends nothing itself
        assert sources(session) == [sentence.replace("*", "") for sentence in expected]
        opened += sum("*" in sentence.split()[0] for sentence in expected)
        stayed += sum("*" in word for sentence in expected for word in sentence.split()[1:])
    assert opened > 10 and stayed > 10, "too few words waited"


def test_a_word_waits_for_one_word_and_others_for_none(tokenizer: Tokenizer) -> None:
    segmenter = Doubtful(tokenizer)
    model = model_with(segmenter, tokenizer)
    for words in TALKS:
        session = model.session(lower=200)
        for n, word in enumerate(words, 1):
            session.push(word)
            waits = cuts(segmenter, tokenizer, words[:n])[-1].endswith("*")
            assert session._live.waiting_words == waits
            assert session._live.sentence is not None
            given = [*" ".join(sources(session)).split(), *session.record.source.split()]
            assert given == words[: n - waits]


@pytest.mark.parametrize("end", ["pause", "finish", "commit"])
def test_an_end_releases_a_word_that_waits(model: Model, end: str) -> None:
    """Planted bug: the word is lost, or opens the sentence after the end."""
    waited = 0
    for words in TALKS:
        session = model.session()
        for n in (2, 3, 6):
            session.push(" ".join(words[:n]))
            waited += session._live.waiting_words
            getattr(session, end)()
            assert session._live.waiting_words == 0
            assert " ".join(sources(session)).split()[-n:] == words[:n]
            assert session._live.sentence is None
    assert waited > 5


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


# ---- how it is written, and where nothing waits


class Hesitant(Segmenter):
    """It is unsure of "besi" and, once it hears more, takes it for a name after a comma."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        super().__init__(tokenizer.size, 2, 2)
        self.unsure = tokenizer.encode("besi")

    def hear(self, tokens: Sequence[int], memory: Tensor | None) -> tuple[Heard, Heard, Tensor]:
        border = 0.5 if list(tokens) == self.unsure else 0.0
        heard = Heard(border, 0.0, 0.0, Casing.SMALL)
        return heard, Heard(0.0, 1.0, 0.0, Casing.CAPITALISED), torch.zeros(1)


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
