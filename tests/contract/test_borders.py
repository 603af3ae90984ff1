"""A model that writes one sentence after another and never ends: where the session ends them."""

import math
import random
from collections.abc import Sequence
from typing import Any

import pytest
from lively import lively_hmt

from hmt.models.model import Model
from hmt.streaming import sentence as sentence_module
from hmt.streaming.borders import Border
from hmt.streaming.engine import Engine
from hmt.streaming.events import Ended, Event, Written
from hmt.streaming.session import Session
from hmt.systems.stream import Stream
from hmt.text.symbols import EOS
from hmt.text.tokenizer import Tokenizer, train_bpe

WORDS = ["nolu", "ka", "besi", "tarum", "pelo", "lim"]


@pytest.fixture(scope="module")
def model() -> Model:
    tokenizer = train_bpe([" ".join(WORDS), ". ".join(WORDS) + "."], 60)
    size = {"source_vocabulary": tokenizer.size, "target_vocabulary": tokenizer.size}
    return Model(lively_hmt(5, 2, 1, **size), (tokenizer, tokenizer))


class Interpreter(Engine):
    """Says a talk word for word, each sentence with a full stop, and has never heard of an end.

    It knows which words of its source a text translates.
    """

    def __init__(self, model: Model, talk: Sequence[str]) -> None:
        super().__init__(model.system)
        self.talk, self.tokenizer = talk, model.target_tokenizer
        self.said = 0  # sentences in streams that were closed

    def open(self, knobs: Any = None, forced: Sequence[int] | None = None) -> Stream:
        text = " ".join(f"{line}." for line in self.talk[self.said :])
        return super().open(knobs, [*self.tokenizer.encode(text), EOS])

    def close(self, stream: Stream) -> None:
        super().close(stream)
        self.said += sentences_in(self.tokenizer, stream.target)

    def border(
        self, _: object, __: object, words: Sequence[object], target: list[int], least: int
    ) -> Border:
        count = sentences_in(self.tokenizer, target)
        own = sum(len(line.split()) for line in self.talk[self.said : self.said + count])
        return Border(max(least, min(own, len(words))), math.log(0.9))


def sentences_in(tokenizer: Tokenizer, target: Sequence[int]) -> int:
    return tokenizer.decode(list(target)).count(".")


def talk_of(sizes: Sequence[int], seed: int = 1) -> list[str]:
    draw = random.Random(seed)
    return [" ".join(draw.choices(WORDS, k=size)) for size in sizes]


def heard(
    model: Model, talk: list[str], words: list[str], monkeypatch: pytest.MonkeyPatch, group: int
) -> tuple[list[Ended], str]:
    """The sentences that a session finds, and its text."""
    engine = Interpreter(model, talk)
    monkeypatch.setattr(sentence_module, "find_border", engine.border)
    found: list[Event] = []
    session = Session(engine, model.tokenizers, model.knobs, listener=found.append)
    groups = [" ".join(words[n : n + group]) for n in range(0, len(words), group)]
    text = "".join(map(session.push, groups)) + session.finish()
    assert "".join(e.text for e in found if isinstance(e, Written)) == text
    return [event for event in found if isinstance(event, Ended)], text


@pytest.mark.parametrize("group", [1, 7, 1000])
def test_each_full_stop_of_a_model_that_goes_on_ends_a_sentence(
    model: Model, monkeypatch: pytest.MonkeyPatch, group: int
) -> None:
    """Planted bugs: only the end token ends a sentence, so that all is one of 80 words; what was
    read of the next sentence is lost, or said twice."""
    talk = talk_of([5, 12, 3, 20, 9, 30, 4, 15])
    ends, text = heard(model, talk, " ".join(talk).split(), monkeypatch, group)
    assert [end.source for end in ends] == talk
    assert [end.text for end in ends] == [f"{line}." for line in talk]
    assert text == " ".join(f"{line}." for line in talk)
    assert [end.reason for end in ends] == ["model"] * 7 + ["finish"]


@pytest.mark.parametrize("group", [1, 1000])
def test_commas_promise_a_full_stop_but_not_for_ever(
    model: Model, monkeypatch: pytest.MonkeyPatch, group: int
) -> None:
    """A recogniser that writes commas only. Planted bug: its sentences are cut after 80 words."""
    talk = talk_of([10] * 9)
    words = " ".join(talk).split()
    words[1] += ","
    ends, text = heard(model, talk, words, monkeypatch, group)
    assert [end.source_words for end in ends] == [40, 10, 10, 10, 10, 10]
    assert [word for end in ends for word in end.source.split()] == words
    assert [end.reason for end in ends] == ["model"] * 5 + ["finish"]
    assert text == " ".join(f"{line}." for line in talk)
