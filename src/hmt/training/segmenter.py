"""Training of a segmenter: lines of text, joined to talks without punctuation, are the examples.

Half of the talks follow the order of their file; the other half draw each sentence from anywhere in
it, because many files are sorted.
"""

import logging
import random
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from hmt.errors import UserError
from hmt.model.segmenter import Segmenter
from hmt.text.lines import open_lines, scan
from hmt.text.spoken import spoken_tokens
from hmt.text.tokenizer import Tokenizer

logger = logging.getLogger(__name__)

TALKS, WORDS = 64, 64  # of an update
RATE, WARMUP, CLIP = 2e-3, 100, 1.0  # warm-up takes a tenth of a short training
LOG_EVERY = 100


@dataclass(frozen=True)
class Sentences:
    """The words of a file's lines as tokens: three flat arrays."""

    tokens: np.ndarray  # of all words
    word_starts: np.ndarray  # first token of each word, and the end
    starts: np.ndarray  # first word of each sentence, and the end

    def __len__(self) -> int:
        return len(self.starts) - 1

    def talk(self, order: Sequence[int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Some sentences in a row. -> tokens, first token of each word, whether it is a first word

        The very first word is not marked: nothing ends before it.
        """
        spans = [(self.starts[n], self.starts[n + 1]) for n in order]
        lengths = np.concatenate([np.diff(self.word_starts[a : b + 1]) for a, b in spans])
        tokens = np.concatenate(
            [self.tokens[self.word_starts[a] : self.word_starts[b]] for a, b in spans]
        )
        is_first = np.concatenate([np.arange(a, b) == a for a, b in spans])
        is_first[0] = False
        return tokens, np.cumsum(lengths) - lengths, is_first


def read_sentences(path: Path, tokenizer: Tokenizer) -> Sentences:
    """The sentences of a text file, one per line; empty ones are left out."""
    scan(path)
    known: dict[str, list[int]] = {}
    tokens, word_starts, starts = array("i"), array("q", [0]), array("q", [0])
    with open_lines(path) as file:
        for line in file:
            for word in line.decode("utf-8").split():
                if word not in known:
                    known[word] = spoken_tokens(tokenizer, word)
                if known[word]:
                    tokens.extend(known[word])
                    word_starts.append(len(tokens))
            if len(word_starts) - 1 > starts[-1]:
                starts.append(len(word_starts) - 1)
    if len(starts) < 3:
        raise UserError(f"{path} holds fewer than two sentences: there is no border to learn.")
    return Sentences(np.array(tokens), np.array(word_starts), np.array(starts))


def train_segmenter(
    files: Sequence[Sentences], vocabulary: int, updates: int, seed: int = 1
) -> Segmenter:
    """A segmenter that knows the sentence borders of these files, each drawn equally often."""
    torch.manual_seed(seed)
    draw = random.Random(seed)
    segmenter = Segmenter(vocabulary)
    adam = torch.optim.Adam(segmenter.parameters(), RATE)
    warmup = min(WARMUP, max(1, updates // 10))
    total = 0.0
    for step in range(1, updates + 1):
        for group in adam.param_groups:
            group["lr"] = RATE * min(1.0, step / warmup) * (1 - (step - 1) / updates)
        tokens, starts, is_first = _batch(files, draw)
        logits = segmenter(tokens, starts)
        loss = nn.functional.binary_cross_entropy_with_logits(logits, is_first)
        adam.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(segmenter.parameters(), CLIP)
        adam.step()
        total += loss.item()
        if step % LOG_EVERY == 0:
            logger.info("step %6d/%d  loss %.4f", step, updates, total / LOG_EVERY)
            total = 0.0
    return segmenter.eval()


def _batch(files: Sequence[Sentences], draw: random.Random) -> tuple[Tensor, Tensor, Tensor]:
    """Talks of equal length. -> tokens (T,), starts (B, W), whether a sentence begins (B, W)"""
    all_tokens, all_starts, all_firsts, at = [], [], [], 0
    for _ in range(TALKS):
        sentences = draw.choice(files)
        tokens, starts, is_first = sentences.talk(_order(sentences, draw))
        end = starts[WORDS] if len(starts) > WORDS else len(tokens)
        all_tokens.append(tokens[:end])
        all_starts.append(starts[:WORDS] + at)
        all_firsts.append(is_first[:WORDS])
        at += end
    return (
        torch.from_numpy(np.concatenate(all_tokens)).long(),
        torch.from_numpy(np.stack(all_starts)),
        torch.from_numpy(np.stack(all_firsts)).float(),
    )


def _order(sentences: Sentences, draw: random.Random) -> list[int]:
    """Numbers of sentences that are a talk of WORDS words or more."""
    is_in_order = draw.random() < 0.5
    order = [draw.randrange(len(sentences))]
    words = 0
    while True:
        words += int(sentences.starts[order[-1] + 1] - sentences.starts[order[-1]])
        if words >= WORDS:
            return order
        following = (order[-1] + 1) % len(sentences)
        order.append(following if is_in_order else draw.randrange(len(sentences)))


@torch.inference_mode()
def precision_and_recall(segmenter: Segmenter, sentences: Sentences) -> tuple[float, float]:
    """How many found borders are right, how many are found, in all sentences as one talk."""
    tokens, starts, is_first = sentences.talk(range(len(sentences)))
    logits = segmenter(torch.from_numpy(tokens).long(), torch.from_numpy(starts)[None])[0]
    found = logits.numpy() >= 0
    right = int((found & is_first).sum())
    return right / max(1, int(found.sum())), right / max(1, int(is_first.sum()))
