"""Training a segmenter: lines of written text are heard without capitals and punctuation.

Shapes: B talks, W words, T tokens.

A session forgets what it has heard when a sentence begins, so most examples are one sentence and
the first words of another; some are two, because a border may be missed, and some begin within
a sentence, because it may have been cut.  Half of the examples follow the order of their file; the
other half draw each sentence from anywhere in it, because many files are sorted.
"""

import logging
import random
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from hmt.errors import UserError
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
from hmt.streaming.segmentation import LEAST_BORDER, LEAST_MARK, UNSURE
from hmt.text.lines import open_lines, scan
from hmt.text.sentences import CLOSING, OPENING, ends_sentence
from hmt.text.spoken import spoken_tokens
from hmt.text.tokenizer import Tokenizer
from hmt.training.optimizer import autocast

logger = logging.getLogger(__name__)

WORDS = 4096  # of an update, with those of padding
LONGEST = 64  # words of an example
POOL = 16  # updates whose examples are drawn together, so that those of one are equally long
MISSED = 0.2  # share of examples of two sentences
CUT = 0.1  # share of examples that begin within a sentence
RATE, WARMUP, CLIP = 3e-3, 100, 1.0  # warm-up takes a tenth of a short training
RATE_OF_OLD = 7e-4  # of the weights that it has from the translation model
BETAS = 0.9, 0.98
LOG_EVERY = 100
UNKNOWN = -1  # a label that nothing is learned from
KINDS = CASING + 1  # of labels


@dataclass(frozen=True)
class Sentences:
    """The words of a file's lines as tokens, and how they were written: flat arrays."""

    tokens: np.ndarray  # of all words
    word_starts: np.ndarray  # first token of each word, and the end
    starts: np.ndarray  # first word of each sentence, and the end
    casings: np.ndarray  # of each word
    commas: np.ndarray  # whether one stands after each word
    questions: np.ndarray  # whether each sentence is one

    def __len__(self) -> int:
        return len(self.starts) - 1

    def length(self, number: int) -> int:
        """Words of a sentence."""
        return int(self.starts[number + 1] - self.starts[number])

    def talk(self, order: Sequence[int], skipped: int = 0) -> "Talk":
        """Some sentences in a row, without the first words of the first."""
        spans = [(self.starts[n], self.starts[n + 1]) for n in order]
        spans[0] = (spans[0][0] + skipped, spans[0][1])
        words = np.concatenate([np.arange(a, b) for a, b in spans])
        is_first = np.concatenate([np.arange(a, b) == a for a, b in spans])
        is_last = np.roll(is_first, -1)
        questions = np.repeat(self.questions[list(order)], [b - a for a, b in spans])
        lengths = self.word_starts[words + 1] - self.word_starts[words]
        ends = np.cumsum(lengths)
        where = np.arange(ends[-1]) + np.repeat(self.word_starts[words] - (ends - lengths), lengths)
        labels = np.full((OPINIONS * KINDS, len(words)), UNKNOWN)
        labels[BORDER] = is_first
        labels[BORDER, 0] = UNKNOWN  # nothing ends before the very first word
        # a first word has a capital and no comma before it, whatever it is
        labels[COMMA] = np.where(is_first, UNKNOWN, np.roll(self.commas[words], 1))
        labels[QUESTION] = np.where(is_last, questions, UNKNOWN)
        labels[CASING] = np.where(is_first, UNKNOWN, self.casings[words])
        for n in range(1, OPINIONS):
            labels[n * KINDS : (n + 1) * KINDS, n:] = labels[:KINDS, : max(0, len(words) - n)]
        return Talk(self.tokens[where], ends - lengths, labels)


@dataclass(frozen=True)
class Talk:
    """Words that are heard one after the other, and what should be found."""

    tokens: np.ndarray  # (T,)
    starts: np.ndarray  # first token of each word (W,)
    # (OPINIONS KINDS, W): border, comma, question and casing of each word, then of those before it
    labels: np.ndarray

    def first(self, words: int) -> "Talk":
        """Its first words alone."""
        if words >= len(self.starts):
            return self
        end = self.starts[words]
        return Talk(self.tokens[:end], self.starts[:words], self.labels[:, :words])


def read_sentences(path: Path, tokenizer: Tokenizer) -> Sentences:
    """The sentences of a text file: those of each line, as punctuation divides it."""
    scan(path)
    known: dict[str, tuple[list[int], int, bool, bool]] = {}
    tokens, word_starts, starts = array("i"), array("q", [0]), array("q", [0])
    casings, commas, questions = array("b"), array("b"), array("b")

    def end(asks: bool) -> None:
        if len(word_starts) - 1 > starts[-1]:
            starts.append(len(word_starts) - 1)
            questions.append(asks)

    with open_lines(path) as file:
        for line in file:
            for word in line.decode("utf-8").split():
                if word not in known:
                    known[word] = (
                        spoken_tokens(tokenizer, word),
                        *_written(word),
                        ends_sentence(word),
                    )
                spoken, casing, has_comma, ends = known[word]
                if spoken:
                    tokens.extend(spoken)
                    word_starts.append(len(tokens))
                    casings.append(casing)
                    commas.append(has_comma)
                if ends:
                    end(asks=word.rstrip(CLOSING).endswith("?"))
            end(asks=False)
    if len(starts) < 3:
        raise UserError(f"{path} holds fewer than two sentences: there is no border to learn.")
    counts = map(np.array, (tokens, word_starts, starts, casings, commas, questions))
    return Sentences(*counts)


def _written(word: str) -> tuple[int, bool]:
    """The casing of a word, and whether a comma follows it."""
    letters = "".join(filter(str.isalpha, word))
    if len(letters) > 1 and letters.isupper():
        casing = Casing.CAPITALS
    elif word.lstrip(OPENING)[:1].isupper():
        casing = Casing.CAPITALISED
    else:
        casing = Casing.SMALL
    return int(casing), word.rstrip(CLOSING).endswith((",", ";"))


def train_segmenter(
    files: Sequence[Sentences],
    transformer: Transformer,
    updates: int,
    seed: int = 1,
    precision: str = "fp32",
) -> Segmenter:
    """A segmenter trained on the sentences of these files, with equally many words from each.

    It begins as the first layers of the translation model, which has read far more text.
    """
    torch.manual_seed(seed)
    segmenter = Segmenter.beginning_with(transformer)
    adam = _adam(segmenter)
    warmup = min(WARMUP, max(1, updates // 10))
    total = 0.0
    batches = _batches(files, random.Random(seed))
    for step in range(1, updates + 1):
        share = min(1.0, step / warmup) * (1 - (step - 1) / updates)
        for group in adam.param_groups:
            group["lr"] = group["rate"] * share
        tokens, starts, labels = _batch(next(batches))
        with autocast(precision, tokens.device):
            logits = segmenter(tokens, starts)
        loss = segmenter_loss(logits.float(), labels)
        adam.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(segmenter.parameters(), CLIP)
        adam.step()
        total += loss.item()
        if step % LOG_EVERY == 0:
            logger.info("step %6d/%d  loss %.4f", step, updates, total / LOG_EVERY)
            total = 0.0
    return segmenter.eval()


def _adam(segmenter: Segmenter) -> torch.optim.Adam:
    """What it has from the translation model changes more slowly than what is new."""
    new = [*segmenter.memory.parameters(), *segmenter.outputs.parameters()]
    ids = set(map(id, new))
    old = [weights for weights in segmenter.parameters() if id(weights) not in ids]
    groups = [{"params": new, "rate": RATE}, {"params": old, "rate": RATE_OF_OLD}]
    return torch.optim.Adam(groups, RATE, BETAS)


def segmenter_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """Sum of the cross-entropies per word.

    `logits` (B, W, OPINIONS OUTPUTS), `labels` (OPINIONS KINDS, B, W).
    """
    words = (labels != UNKNOWN).any(0).sum()
    parts = zip(logits.split(OUTPUTS, dim=-1), labels.split(KINDS), strict=True)
    return torch.stack([_loss(*part) for part in parts]).sum() / words


def _loss(logits: Tensor, labels: Tensor) -> Tensor:
    total = nn.functional.cross_entropy(
        logits[..., CASING:].flatten(0, 1),
        labels[CASING].flatten(),
        ignore_index=UNKNOWN,
        reduction="sum",
    )
    for kind in (BORDER, COMMA, QUESTION):
        label = labels[kind].float()
        loss = nn.functional.binary_cross_entropy_with_logits(
            logits[..., kind], label.clamp_min(0), reduction="none"
        )
        total = total + (loss * (label != UNKNOWN)).sum()
    return total


def _batches(files: Sequence[Sentences], draw: random.Random) -> Iterator[list[Talk]]:
    """The talks of each update in turn, with equally many words from each file."""
    while True:
        pool: list[Talk] = []
        for sentences in files:
            words = 0
            while words < POOL * WORDS / len(files):
                pool.append(_example(sentences, draw))
                words += len(pool[-1].starts)
        pool.sort(key=lambda talk: len(talk.starts))
        batches: list[list[Talk]] = [[]]
        for talk in pool:
            if (len(batches[-1]) + 1) * len(talk.starts) > WORDS:
                batches.append([])
            batches[-1].append(talk)
        draw.shuffle(batches)
        yield from batches


def _example(sentences: Sentences, draw: random.Random) -> Talk:
    """One or two sentences, and the words after them that later opinions need."""
    order = _order(sentences, draw)
    length = sentences.length(order[0])
    skipped = draw.randrange(length) if draw.random() < CUT else 0
    heard = sum(map(sentences.length, order[:-OPINIONS])) - skipped + OPINIONS
    return sentences.talk(order, skipped).first(min(heard, LONGEST))


def _order(sentences: Sentences, draw: random.Random) -> list[int]:
    """Numbers of one or two sentences, and of those after them, which may be single words."""
    count = OPINIONS + (2 if draw.random() < MISSED else 1)
    if draw.random() < 0.5:
        first = draw.randrange(len(sentences))
        return [(first + n) % len(sentences) for n in range(count)]
    return [draw.randrange(len(sentences)) for _ in range(count)]


def _batch(talks: Sequence[Talk]) -> tuple[Tensor, Tensor, Tensor]:
    """Talks padded to one length. -> tokens (T,), starts (B, W), labels (OPINIONS KINDS, B, W)"""
    longest = max(len(talk.starts) for talk in talks)
    starts = np.empty((len(talks), longest), np.int64)
    labels = np.full((OPINIONS * KINDS, len(talks), longest), UNKNOWN, np.int64)
    at = 0
    for n, talk in enumerate(talks):
        words = len(talk.starts)
        starts[n, :words] = talk.starts + at
        at += len(talk.tokens)
        starts[n, words:] = at  # padding has no tokens
        labels[:, n, :words] = talk.labels
    tokens = np.concatenate([talk.tokens for talk in talks])
    return torch.from_numpy(tokens).long(), torch.from_numpy(starts), torch.from_numpy(labels)


@dataclass(frozen=True)
class Found:
    """How often a segmenter was right: shares from 0 to 1."""

    precision: float  # of the borders that it found
    recall: float  # of the borders that there are
    waiting: float  # words that waited for the next one
    waiting_on: float  # and for one more
    casing: float  # words within sentences written as in the file
    comma_precision: float
    comma_recall: float
    questions: float  # sentences correctly recognised as questions, or as none


@torch.inference_mode()
def examine(segmenter: Segmenter, sentences: Sentences) -> Found:
    """How well it does on sentences in their order, each heard with the first words of the next.

    As in a session, a word that it is not sure of is decided once the words after it are heard.
    """
    count = len(sentences)
    orders = [[(n + k) % count for k in range(OPINIONS + 1)] for n in range(count)]
    talks = [sentences.talk(order).first(sentences.length(order[0]) + OPINIONS) for order in orders]
    batches = [_batch([talk]) for talk in talks]
    last = 1 - OPINIONS  # words at the end that are heard for opinions of earlier ones alone
    heard = [segmenter(*batch[:2])[0].split(OUTPUTS, -1) for batch in batches]
    opinions = [
        torch.cat([parts[n][n : last + n or None] for parts in heard]) for n in range(OPINIONS)
    ]
    labels = torch.cat([batch[2][:KINDS, 0, :last] for batch in batches], 1).numpy()
    logits, waiting = opinions[0], torch.from_numpy(labels[BORDER] != UNKNOWN)
    waits: list[float] = []
    for (low, high), later in zip(UNSURE, opinions[1:], strict=True):
        border = logits[:, BORDER].sigmoid()
        waiting = waiting & (border >= low) & (border < high)
        logits = torch.where(waiting[:, None], later, logits)
        waits.append(float(waiting.float().mean()))
    borders, commas, questions = logits[:, :CASING].sigmoid().T.numpy()
    return Found(
        *_precision_and_recall(borders >= LEAST_BORDER, labels[BORDER]),
        waits[0],
        waits[1],
        _share_right(logits[:, CASING:].argmax(1).numpy(), labels[CASING]),
        *_precision_and_recall(commas >= LEAST_MARK, labels[COMMA]),
        _share_right(questions >= LEAST_MARK, labels[QUESTION]),
    )


def _share_right(found: np.ndarray, labels: np.ndarray) -> float:
    return float((found == labels)[labels != UNKNOWN].mean())


def _precision_and_recall(found: np.ndarray, labels: np.ndarray) -> tuple[float, float]:
    found, true = found & (labels != UNKNOWN), labels == 1
    right = int((found & true).sum())
    return right / max(1, int(found.sum())), right / max(1, int(true.sum()))
