"""A small network that hears words without punctuation and predicts how they would be written.

Shapes: B talks, W words, T tokens.

A translation model notices too late that a sentence is over: by then it has read the next words and
blended them in.  And it was trained on written text: without capitals and commas it understands
less.  This network decides both before a word is given to the model, from the words up to and
including that one, so it adds no delay.  If a border is uncertain, the next words help: each word
heard also gives a second opinion on the one before, and a third on the one before that.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

import torch
from torch import Tensor, nn


class Casing(IntEnum):
    """How a word is written within a sentence."""

    SMALL = 0
    CAPITALISED = 1
    CAPITALS = 2


@dataclass(frozen=True, slots=True)
class Heard:
    """How a word would be written."""

    border: float  # probability that a sentence begins with it
    comma: float  # that a comma stands before it
    question: float  # that its sentence, should it end here, is a question
    casing: Casing


# What the outputs are: a logit each for the three probabilities, then one for each casing; and the
# same again for the word before, and for the one before that.
BORDER, COMMA, QUESTION, CASING = range(4)
OUTPUTS = CASING + len(Casing)
OPINIONS = 3  # of each word: as it is heard, and with each of the next two
# Shares that are dropped while it learns: everyday text is small, and is heard many times.
DROPPED_INPUTS, DROPPED_MEMORY = 0.1, 0.2


class Segmenter(nn.Module):
    """The sum of a word's token embeddings, a GRU over words, logits for each word."""

    def __init__(self, vocabulary: int, width: int, memory: int = 384) -> None:
        super().__init__()
        self.words = nn.EmbeddingBag(vocabulary, width, mode="sum")
        self.memory = nn.GRU(width, memory, batch_first=True)
        self.outputs = nn.Linear(memory, OPINIONS * OUTPUTS)

    def forward(self, tokens: Tensor, starts: Tensor) -> Tensor:
        """Logits for each word, and for those before it. (B, W, OPINIONS OUTPUTS)

        `tokens` (T,) are those of all talks one after the other, `starts` (B, W) the first of each
        word; where a word starts with the next one it has no tokens, as after the end of a talk.
        """
        vectors = self.words(tokens, starts.flatten())
        vectors = nn.functional.dropout(vectors, DROPPED_INPUTS, self.training)
        heard, _ = self.memory(vectors.view(*starts.shape, -1))  # (B, W, memory)
        logits: Tensor = self.outputs(nn.functional.dropout(heard, DROPPED_MEMORY, self.training))
        return logits

    @torch.inference_mode()
    def hear(self, tokens: Sequence[int], memory: Tensor | None) -> tuple[list[Heard], Tensor]:
        """Hear one word of a talk. -> how it, and those before, would be written; new memory"""
        vector = self.words.weight[list(tokens)].sum(0, keepdim=True)
        gru = self.memory
        if memory is None:
            memory = vector.new_zeros(1, gru.hidden_size)
        # one cell instead of the layer takes a bit more than half of the time
        memory = torch.gru_cell(vector, memory, *gru.all_weights[0])
        logits = self.outputs(memory)[0].tolist()
        return [_heard(logits[n : n + OUTPUTS]) for n in range(0, len(logits), OUTPUTS)], memory


def _heard(logits: list[float]) -> Heard:
    border, comma, question = (_sigmoid(logit) for logit in logits[:CASING])
    casings = logits[CASING:]
    return Heard(border, comma, question, Casing(casings.index(max(casings))))


def _sigmoid(logit: float) -> float:
    return 1 / (1 + math.exp(-logit)) if logit > -700 else 0.0  # below, exp has no number
