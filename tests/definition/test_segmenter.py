"""The segmenter: what it hears, what it learns, and that hearing word by word changes nothing."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from hmt.errors import UserError
from hmt.model.dims import Dims
from hmt.model.passes import Packing
from hmt.model.segmenter import (
    BORDER,
    CASING,
    COMMA,
    OPINIONS,
    OUTPUTS,
    QUESTION,
    Casing,
    Segmenter,
)
from hmt.model.transformer import Transformer
from hmt.text.spoken import spoken_tokens
from hmt.text.tokenizer import Tokenizer, train_bpe, word_tokenizer
from hmt.training.segmenter import (
    KINDS,
    RATE_OF_OLD,
    UNKNOWN,
    examine,
    read_sentences,
    segmenter_loss,
    train_segmenter,
)

# Sentences of one to six words, told apart by their first word alone; "sie" asks, "Nolu" is a
# name, "EU" is written in capitals, and a comma stands before "pelo".
OPENERS, OTHERS = ("wir", "ihr", "sie"), ("ka", "Nolu", "EU", "tarum,", "pelo")
LINES = [
    " ".join([opener.title(), *OTHERS[start : start + length]]).rstrip(",")
    + ("?" if opener == "sie" else ".")
    for opener in OPENERS
    for start in range(3)
    for length in range(6 - start)
]
HEARD = ("ka", "nolu", "eu", "tarum", "pelo")


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return word_tokenizer([*OPENERS, *HEARD])


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "lines"
    path.write_text("\n\n".join(LINES) + "\n?!\n", encoding="utf-8")
    return path


def dims(vocabulary: int, width: int = 8) -> Dims:
    return Dims(vocabulary, vocabulary, width, 2 * width, 2, encoder_layers=3, decoder_layers=1)


def test_words_one_by_one_are_words_all_at_once() -> None:
    torch.manual_seed(1)
    segmenter = Segmenter(dims(20), memory=8).double().eval()
    words = [[3, 4], [5], [6, 7, 8], [3], [19, 0]]
    tokens = torch.tensor([token for word in words for token in word])
    expected = segmenter(tokens, torch.tensor([[0, 2, 3, 6, 7]]))[0].detach()
    shorter = segmenter(
        torch.cat([tokens[:3], tokens]), torch.tensor([[0, 2, 3, 3, 3], [3, 5, 6, 9, 10]])
    )
    torch.testing.assert_close(shorter[1], expected)  # whatever talk is heard beside it
    torch.testing.assert_close(shorter[0, :2], expected[:2])
    memory, found = None, []
    for word in words:
        opinions, memory = segmenter.hear(word, memory)
        found.append([[h.border, h.comma, h.question, h.casing] for h in opinions])
    for n in range(OPINIONS):  # of the word itself, of those before
        logits = expected[:, n * OUTPUTS : (n + 1) * OUTPUTS]
        probabilities = logits[:, :CASING].sigmoid()
        for row, expected_row in zip(found, probabilities.tolist(), strict=True):
            assert row[n][:3] == pytest.approx(expected_row, abs=1e-12)
        assert [row[n][3] for row in found] == logits[:, CASING:].argmax(1).tolist()
        spread = probabilities.max(0).values - probabilities.min(0).values
        assert float(spread.min()) > 1e-3, "a network that hears nothing would pass"


def test_a_word_that_is_surely_no_border_is_no_error() -> None:
    """An exponential of the negative logit would have no number."""
    segmenter = Segmenter(dims(4), memory=2)
    with torch.no_grad():
        segmenter.outputs.bias.fill_(-1e4)
    opinions, _ = segmenter.hear([1], None)
    assert [heard.border for heard in opinions] == [0.0] * OPINIONS


def test_a_word_is_heard_without_capitals_and_marks() -> None:
    tokenizer = train_bpe(["Wir sind da, um 14 35 Uhr."] * 3, 60)
    assert spoken_tokens(tokenizer, "„Wir,") == tokenizer.encode("wir")
    assert spoken_tokens(tokenizer, "14:35") == tokenizer.encode("14 35")
    assert spoken_tokens(tokenizer, "--") == tokenizer.encode("--")
    assert spoken_tokens(tokenizer, "?!") == []


def test_a_talk_marks_what_was_written(text: Path, tokenizer: Tokenizer) -> None:
    """Planted bugs: commas before their word; first words count as capitalised."""
    sentences = read_sentences(text, tokenizer)
    assert len(sentences) == len(LINES)
    long = LINES.index("Sie ka Nolu EU tarum, pelo?")
    short = LINES.index("Wir Nolu.")
    talk = sentences.talk([short, long])
    words = ["wir", "nolu", "sie", "ka", "nolu", "eu", "tarum", "pelo"]
    assert talk.tokens.tolist() == [id for word in words for id in tokenizer.encode(word)]
    assert talk.starts.tolist() == list(range(len(words)))
    x = UNKNOWN
    assert talk.labels[BORDER].tolist() == [x, 0, 1, 0, 0, 0, 0, 0]
    assert talk.labels[COMMA].tolist() == [x, 0, x, 0, 0, 0, 0, 1]
    assert talk.labels[QUESTION].tolist() == [x, 0, x, x, x, x, x, 1]
    small, title, capitals = Casing
    expected = [x, title, x, small, title, capitals, small, small]
    assert talk.labels[CASING].tolist() == expected
    for n in range(1, OPINIONS):  # of the words before
        later = talk.labels[n * KINDS : (n + 1) * KINDS]
        assert later[:, n:].tolist() == talk.labels[:KINDS, :-n].tolist()
        assert (later[:, :n] == x).all(), "before the first word there is none"
    assert sentences.talk([LINES.index("Wir.")]).labels.shape == (OPINIONS * KINDS, 1)
    assert talk.first(3).labels[BORDER].tolist() == [x, 0, 1]
    assert talk.first(3).tokens.tolist() == talk.tokens[:3].tolist()
    cut = sentences.talk([long, short], skipped=3)
    assert cut.tokens.tolist() == talk.tokens[[5, 6, 7, 0, 1]].tolist()
    assert cut.labels[BORDER].tolist() == [x, 0, 0, 1, 0]
    assert cut.labels[CASING].tolist() == [x, small, small, x, title]
    assert cut.labels[QUESTION].tolist() == [x, x, 1, x, 0]


def test_a_line_of_two_sentences_has_a_border(tmp_path: Path, tokenizer: Tokenizer) -> None:
    """Planted bug: a line is a sentence. Then real ends of sentences count as none."""
    path = tmp_path / "lines"
    path.write_text("Wir ka. Sie Nolu? „Ihr ka!“ – ihr pelo\nWir Dr. ka ?\n", encoding="utf-8")
    sentences = read_sentences(path, tokenizer)
    assert [sentences.length(n) for n in range(len(sentences))] == [2, 2, 2, 2, 3]
    assert sentences.questions.tolist() == [0, 1, 0, 0, 1]


def test_what_is_unknown_is_not_learned() -> None:
    logits = torch.randn(2, 3, OPINIONS * OUTPUTS, generator=torch.Generator().manual_seed(1))
    labels = torch.full((OPINIONS * KINDS, 2, 3), UNKNOWN)
    labels[:KINDS, 0, 0] = torch.tensor([1, 0, 1, 2])
    labels[-KINDS:, 0, 0] = torch.tensor([0, UNKNOWN, 1, 1])
    one = segmenter_loss(logits, labels)
    logits[1], logits[0, 1:] = 7.0, -7.0
    assert torch.equal(segmenter_loss(logits, labels), one)
    p, q = logits[0, 0, :3].sigmoid(), logits[0, 0, -OUTPUTS:][:3].sigmoid()
    now = p[0].log() + (1 - p[1]).log() + p[2].log() + logits[0, 0, 3:OUTPUTS].log_softmax(0)[2]
    later = (1 - q[0]).log() + q[2].log() + logits[0, 0, 3 - OUTPUTS :].log_softmax(0)[1]
    torch.testing.assert_close(one, -(now + later))


def test_it_learns_how_text_is_written_and_the_same_each_time(
    text: Path, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hmt.training.segmenter.WORDS", 128)
    monkeypatch.setattr("hmt.training.segmenter.RATE", 2e-2)
    monkeypatch.setattr("hmt.training.segmenter.RATE_OF_OLD", 1e-2)
    sentences = read_sentences(text, tokenizer)
    torch.manual_seed(1)
    model = Transformer(dims(tokenizer.size, 16))
    first, second = (train_segmenter([sentences], model, 60, seed=2) for _ in range(2))
    found = examine(first, sentences)
    assert (found.precision, found.recall) == (1.0, 1.0)
    assert (found.comma_precision, found.comma_recall) == (1.0, 1.0)
    assert (found.casing, found.questions) == (1.0, 1.0)
    untrained = examine(Segmenter.beginning_with(model).eval(), sentences)
    assert max(untrained.precision, untrained.casing) < 0.9
    for name, weights in first.state_dict().items():
        assert torch.equal(weights, second.state_dict()[name]), name


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_it_begins_as_the_first_layers_of_the_model(
    norm: str, text: Path, tokenizer: Tokenizer
) -> None:
    """Planted bug: it begins with random vectors."""
    torch.manual_seed(1)
    model = Transformer(replace(dims(tokenizer.size), norm=norm))
    begun = train_segmenter([read_sentences(text, tokenizer)], model, updates=1)
    theirs = {"embedding.weight": model.source_embedding.weight}
    theirs |= {f"encoder.{name}": weights for name, weights in model.encoder[:2].named_parameters()}
    theirs |= {f"norm.{name}": weights for name, weights in model.encoder_norm.named_parameters()}
    own = dict(begun.named_parameters())
    assert len(begun.encoder) == 2 and len(theirs) > 20
    for name, weights in theirs.items():
        torch.testing.assert_close(own[name], weights, rtol=0, atol=1.01 * RATE_OF_OLD)
    encoded = model.eval().encode(torch.tensor([[1, 2, 3]]), remember=None)
    model.encoder = model.encoder[:2]
    first = model.encode(torch.tensor([[1, 2, 3]]))
    fresh = Segmenter.beginning_with(model).eval()
    tokens, places = torch.tensor([[1, 2, 3]]), torch.tensor([[0, 1, 2]])
    heard = fresh._encode(tokens, places, Packing(1, 3))[0]
    torch.testing.assert_close(heard, first if norm == "pre" else fresh.norm(first))
    assert not torch.allclose(encoded, first)


def test_half_precision_learns_the_same(text: Path, tokenizer: Tokenizer) -> None:
    sentences = read_sentences(text, tokenizer)
    model = Transformer(dims(tokenizer.size))
    single, half = (
        train_segmenter([sentences], model, 3, precision=precision).state_dict()
        for precision in ("fp32", "bf16")
    )
    for name, weights in single.items():
        assert half[name].dtype == torch.float32
        torch.testing.assert_close(half[name], weights, rtol=0, atol=0.02)
    assert any(not torch.equal(half[name], weights) for name, weights in single.items())


class NeedsTheNextWords(Segmenter):
    """Of every word but one it is unsure, until the next one comes, or two; then it is right."""

    def __init__(self, tokenizer: Tokenizer, second: float) -> None:
        super().__init__(dims(tokenizer.size), memory=2)
        self.openers = torch.tensor([tokenizer.encode(word)[0] for word in OPENERS])
        self.sure = tokenizer.encode("nolu")[0]
        self.second = second  # how sure it is with one word more

    def forward(self, tokens: Tensor, starts: Tensor) -> Tensor:
        right = torch.where(torch.isin(tokens, self.openers), 9.0, -9.0)
        logits = torch.zeros(1, len(tokens), OPINIONS * OUTPUTS)
        logits[0, tokens == self.sure, BORDER] = -9.0
        logits[0, 1:, OUTPUTS + BORDER] = right[:-1] * self.second
        logits[0, 2:, 2 * OUTPUTS + BORDER] = right[:-2]
        return logits


@pytest.mark.parametrize("second", [1.0, 0.0])
def test_words_of_which_it_is_unsure_wait_for_the_next(
    text: Path, tokenizer: Tokenizer, second: float
) -> None:
    """Planted bug: the first opinion counts."""
    sentences = read_sentences(text, tokenizer)
    found = examine(NeedsTheNextWords(tokenizer, second), sentences)
    assert (found.precision, found.recall) == (1.0, 1.0)
    words = [word for line in LINES for word in line.split()[1:]]
    waiting = sum(word.strip(".?") != "Nolu" for word in words) + len(LINES)
    assert found.waiting == pytest.approx(waiting / (len(words) + 2 * len(LINES)))
    assert found.waiting_on == (0.0 if second else found.waiting)


def test_one_sentence_has_no_border(tmp_path: Path, tokenizer: Tokenizer) -> None:
    path = tmp_path / "one"
    path.write_text("Wir ka besi.\n\n")
    with pytest.raises(UserError, match="fewer than two sentences"):
        read_sentences(path, tokenizer)
