"""Text without punctuation: the segmenter ends sentences, and no word is lost or read twice."""

from collections.abc import Sequence

import pytest
import torch
from doubtful import tiny
from lively import lively_hmt

from hmt.model.segmenter import OPINIONS, Casing, Heard, Memory, Segmenter
from hmt.models.model import Model
from hmt.streaming.events import Ended
from hmt.streaming.session import Session
from hmt.text.tokenizer import Tokenizer, train_bpe

WORDS = ["wir", "ka", "besi", "ihr", "tarum", "nolu", "pelo", "wir", "lim"]
OPENERS = ("wir", "ihr")


class KnowsOpeners(Segmenter):
    """A segmenter that needs no training: some words open sentences, others never do."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        super().__init__(tiny(tokenizer))
        self.opening = [tokenizer.encode(word) for word in OPENERS]

    def hear(self, tokens: Sequence[int], memory: Memory | None) -> tuple[list[Heard], Memory]:
        heard = Heard(float(list(tokens) in self.opening), 0.0, 0.0, Casing.SMALL)
        return [heard] * OPINIONS, Memory(torch.zeros(1))


class KnowsWriting(KnowsOpeners):
    """Besides, a comma stands before "besi", "ka" is a name, "lim" an abbreviation and asks."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        super().__init__(tokenizer)
        self.spelled = {tuple(tokenizer.encode(word)): word for word in WORDS}

    def hear(self, tokens: Sequence[int], memory: Memory | None) -> tuple[list[Heard], Memory]:
        (heard, *before), memory = super().hear(tokens, memory)
        word = self.spelled[tuple(tokens)]
        casings = {"ka": Casing.CAPITALISED, "lim": Casing.CAPITALS}
        casing = casings.get(word, Casing.SMALL)
        comma, question = float(word == "besi"), float(word == "lim")
        return [Heard(heard.border, comma, question, casing), *before], memory


@pytest.fixture(autouse=True)
def _short_translations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hmt.streaming.engine.LENGTH_EXTRA", 8)
    monkeypatch.setattr("hmt.streaming.engine.LENGTH_FACTOR", 1)


@pytest.fixture(scope="module", params=[5, 6, 11])
def model(request: pytest.FixtureRequest) -> Model:
    """A model that hardly ever ends a sentence by itself."""
    tokenizer = train_bpe([" ".join(WORDS), "Wir, ka. Ihr! Ka? LIM"], 60)
    size = {"source_vocabulary": tokenizer.size, "target_vocabulary": tokenizer.size}
    system = lively_hmt(request.param, 2, 3, **size)
    return Model(system, (tokenizer, tokenizer), segmenter=KnowsOpeners(tokenizer))


def sources(session: Session) -> list[str]:
    return [event.source for event in session.events if isinstance(event, Ended)]


def played(model: Model, words: list[str], by: int = 1, **options: bool) -> tuple[Session, str]:
    session = model.session(**options)  # type: ignore[arg-type]
    groups = [" ".join(words[n : n + by]) for n in range(0, len(words), by)]
    text = "".join(session.push(group) for group in groups) + session.finish()
    return session, text


def test_sentences_begin_where_the_segmenter_hears_it(model: Model) -> None:
    session, _ = played(model, WORDS)
    assert " ".join(sources(session)).split() == WORDS
    begins = {source.split()[0] for source in sources(session)}
    # the model itself may end a sentence earlier, never later
    assert all(word not in OPENERS for source in sources(session) for word in source.split()[1:])
    assert begins >= set(OPENERS)


def test_its_sentences_are_those_of_sentences_alone(model: Model) -> None:
    """A sentence that the segmenter ended is translated as if the caller had paused there."""
    session, text = played(model, WORDS)
    alone = model.session()
    parts = []
    for n, word in enumerate(WORDS):
        if n and word in OPENERS:
            parts.append(alone.pause())
        parts.append(alone.push(word))
    assert "".join(parts) + alone.finish() == text
    reasons = [event.reason for event in session.events if isinstance(event, Ended)]
    assert set(reasons) <= {"model", "finish"}


@pytest.mark.parametrize("by", [2, 3, 9])
def test_groups_of_words_change_nothing(model: Model, by: int) -> None:
    one, text = played(model, WORDS)
    many, same = played(model, WORDS, by)
    assert (sources(many), same) == (sources(one), text)


def test_written_text_is_left_to_its_punctuation(model: Model) -> None:
    words = ["Wir", "ka", "ihr", "besi"]
    plain = Model(model.system, model.tokenizers)
    assert played(model, words)[1] == played(plain, words)[1]
    assert sources(played(model, words)[0]) == sources(played(plain, words)[0])


def test_a_comma_promises_a_full_stop(model: Model) -> None:
    session = model.session(lower=50)
    session.push("wir ka, ihr besi")
    session.finish()
    assert sources(session) == ["wir ka, ihr besi"]


def test_one_sentence_per_line_is_never_cut(model: Model) -> None:
    assert sources(played(model, WORDS, by_line=True)[0]) == [" ".join(WORDS)]


# ---- words are given to the model as they would be written


@pytest.fixture(scope="module")
def writing(model: Model) -> Model:
    return Model(model.system, model.tokenizers, segmenter=KnowsWriting(model.tokenizers[0]))


@pytest.mark.parametrize(
    ("heard", "given"),
    [
        ("wir ka besi", "Wir Ka, besi."),  # a first word has a capital, a name, a comma, an end
        ("wir pelo lim", "Wir pelo LIM?"),
        ("wir Ka besi", "Wir Ka, besi."),
        ("wir ka, besi", "Wir Ka, besi"),  # what has marks of its own gets no others
        ("besi KA besi", "Besi KA, besi."),  # nothing before the first word; capitals stay
        ("Wir ka besi", "Wir ka besi"),  # written text
    ],
)
def test_speech_is_given_to_the_model_as_it_would_be_written(
    writing: Model, heard: str, given: str
) -> None:
    """Planted bugs: the mark of the next sentence's first word; no end at a pause."""
    tokenizer = writing.tokenizers[0]
    for end in ("pause", "finish"):
        session = writing.session(lower=50)  # reads all before it writes
        session.push(heard)
        getattr(session, end)()
        (record,) = session.records
        assert record.source == heard
        assert record.source_tokens == [
            *(tokenizer.piece(id) for id in tokenizer.encode(given)),
            "</s>",
        ]


def test_a_sentence_keeps_its_own_end_mark_where_the_next_one_begins(writing: Model) -> None:
    session = writing.session(lower=50)
    session.push("wir lim ihr")
    session.finish()
    marks = [record.source_tokens[-2] for record in session.records]
    assert [record.source for record in session.records] == ["wir lim", "ihr"]
    assert marks == ["?", "."]


def test_words_are_counted_with_the_marks_before_them(writing: Model) -> None:
    """A comma is known once the word behind it is heard, so it is read with that word."""
    session = writing.session(lower=50)
    session.push("wir ka besi")
    session.finish()
    (record,) = session.records
    lengths = [len(writing.tokenizers[0].encode(word)) for word in ("Wir", "Ka", "besi")]
    first, second = lengths[0] - 1, lengths[0] + lengths[1] - 1
    assert record.source_word_ends == [first, second, len(record.source_tokens) - 2]


def test_one_sentence_per_line_is_given_as_it_is(writing: Model) -> None:
    session, _ = played(writing, ["wir", "ka", "besi"], by_line=True)
    tokenizer = writing.tokenizers[0]
    pieces = [tokenizer.piece(id) for id in tokenizer.encode("wir ka besi")]
    assert session.records[0].source_tokens == [*pieces, "</s>"]
