"""Text without punctuation: the segmenter ends sentences, and no word is lost or read twice."""

import pytest
import torch
from lively import lively_hmt
from torch import Tensor

from hmt.model.segmenter import Segmenter
from hmt.models.model import Model
from hmt.streaming.events import Ended
from hmt.streaming.session import Session
from hmt.text.tokenizer import Tokenizer, train_bpe

WORDS = ["wir", "ka", "besi", "ihr", "tarum", "nolu", "pelo", "wir", "lim"]
OPENERS = ("wir", "ihr")


class KnowsOpeners(Segmenter):
    """A segmenter that needs no training: some words open sentences, others never do."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        super().__init__(tokenizer.size, 2, 2)
        self.opening = [tokenizer.encode(word) for word in OPENERS]

    def hear(self, tokens: list[int], memory: Tensor | None) -> tuple[float, Tensor]:  # type: ignore[override]
        return (0.9 if tokens in self.opening else 0.1), torch.zeros(1)


@pytest.fixture(autouse=True)
def _short_translations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hmt.streaming.engine.LENGTH_EXTRA", 8)
    monkeypatch.setattr("hmt.streaming.engine.LENGTH_FACTOR", 1)


@pytest.fixture(scope="module", params=[5, 6, 11])
def model(request: pytest.FixtureRequest) -> Model:
    """A model that hardly ever ends a sentence by itself."""
    tokenizer = train_bpe([" ".join(WORDS), "Wir, ka. Ihr!"], 60)
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


@pytest.mark.parametrize(
    "words",
    [
        ["Wir", "ka", "ihr", "besi"],  # a capital: written text
        ["wir", "ka,", "ihr", "besi"],  # a comma promises a full stop
    ],
)
def test_written_text_is_left_to_its_punctuation(model: Model, words: list[str]) -> None:
    plain = Model(model.system, model.tokenizers)
    assert played(model, words)[1] == played(plain, words)[1]
    assert sources(played(model, words)[0]) == sources(played(plain, words)[0])


def test_one_sentence_per_line_is_never_cut(model: Model) -> None:
    assert sources(played(model, WORDS, by_line=True)[0]) == [" ".join(WORDS)]
