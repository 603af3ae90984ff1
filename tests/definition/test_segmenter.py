"""The segmenter: what it hears, what it learns, and that hearing word by word changes nothing."""

from pathlib import Path

import pytest
import torch

from hmt.errors import UserError
from hmt.model.segmenter import Segmenter
from hmt.text.spoken import spoken_tokens
from hmt.text.tokenizer import Tokenizer, train_bpe, word_tokenizer
from hmt.training.segmenter import precision_and_recall, read_sentences, train_segmenter

# Sentences of one to five words, told apart by their first word alone.
OPENERS, OTHERS = ("wir", "ihr", "sie"), ("ka", "besi", "nolu", "tarum", "pelo")
LINES = [
    " ".join([opener.title(), *OTHERS[start : start + length]]) + "."
    for opener in OPENERS
    for start in range(3)
    for length in range(5)
]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return word_tokenizer([*OPENERS, *OTHERS])


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "lines"
    path.write_text("\n\n".join(LINES) + "\n?!\n", encoding="utf-8")
    return path


def test_words_one_by_one_are_words_all_at_once() -> None:
    torch.manual_seed(1)
    segmenter = Segmenter(20, width=6, memory=8).double().eval()
    words = [[3, 4], [5], [6, 7, 8], [3], [19, 0]]
    tokens = torch.tensor([token for word in words for token in word])
    expected = segmenter(tokens, torch.tensor([[0, 2, 3, 6, 7]])).sigmoid()[0]
    memory, found = None, []
    for word in words:
        probability, memory = segmenter.hear(word, memory)
        found.append(probability)
    assert found == pytest.approx(expected.tolist(), abs=1e-12)
    assert max(found) - min(found) > 1e-3, "a network that hears nothing would pass"


def test_a_word_is_heard_without_capitals_and_marks() -> None:
    tokenizer = train_bpe(["Wir sind da, um 14 35 Uhr."] * 3, 60)
    assert spoken_tokens(tokenizer, "„Wir,") == tokenizer.encode("wir")
    assert spoken_tokens(tokenizer, "14:35") == tokenizer.encode("14 35")
    assert spoken_tokens(tokenizer, "--") == tokenizer.encode("--")
    assert spoken_tokens(tokenizer, "?!") == []


def test_a_talk_marks_the_first_words_of_its_sentences(text: Path, tokenizer: Tokenizer) -> None:
    sentences = read_sentences(text, tokenizer)
    assert len(sentences) == len(LINES)
    tokens, starts, is_first = sentences.talk([2, 0, 4])
    words = [word for n in (2, 0, 4) for word in LINES[n].lower().rstrip(".").split()]
    assert tokens.tolist() == [id for word in words for id in tokenizer.encode(word)]
    assert starts.tolist() == list(range(len(words)))
    assert is_first.tolist() == [n > 0 and word in OPENERS for n, word in enumerate(words)]


def test_it_learns_where_sentences_begin_and_the_same_each_time(
    text: Path, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hmt.training.segmenter.TALKS", 8)
    monkeypatch.setattr("hmt.training.segmenter.WORDS", 16)
    monkeypatch.setattr("hmt.training.segmenter.RATE", 2e-2)
    sentences = read_sentences(text, tokenizer)
    first, second = (train_segmenter([sentences], tokenizer.size, 30, seed=2) for _ in range(2))
    assert precision_and_recall(first, sentences) == (1.0, 1.0)
    untrained = precision_and_recall(Segmenter(tokenizer.size).eval(), sentences)
    assert min(untrained) < 0.9
    for name, weights in first.state_dict().items():
        assert torch.equal(weights, second.state_dict()[name]), name


def test_one_sentence_has_no_border(tmp_path: Path, tokenizer: Tokenizer) -> None:
    path = tmp_path / "one"
    path.write_text("Wir ka besi.\n\n")
    with pytest.raises(UserError, match="fewer than two sentences"):
        read_sentences(path, tokenizer)
