"""A small network that hears words without punctuation and predicts where a new sentence begins.

Shapes: B talks, W words, T tokens.

A translation model notices too late that a sentence is over: by then it has read the next words and
blended them in.  This network decides before a word is given to the model, from the words up to and
including that one, so it costs no delay.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn


class Segmenter(nn.Module):
    """The sum of a word's token embeddings, a GRU over words, one logit per word."""

    def __init__(self, vocabulary: int, width: int = 128, memory: int = 256) -> None:
        super().__init__()
        self.words = nn.EmbeddingBag(vocabulary, width, mode="sum")
        nn.init.normal_(self.words.weight, std=0.1)
        self.memory = nn.GRU(width, memory, batch_first=True)
        self.border = nn.Linear(memory, 1)

    def forward(self, tokens: Tensor, starts: Tensor) -> Tensor:
        """Logits that a sentence begins with each word. (B, W)

        `tokens` (T,) are those of all talks one after the other, `starts` (B, W) the first of each
        word.
        """
        vectors = self.words(tokens, starts.flatten())
        heard, _ = self.memory(vectors.view(*starts.shape, -1))  # (B, W, memory)
        logits: Tensor = self.border(heard).squeeze(-1)
        return logits

    @torch.inference_mode()
    def hear(self, tokens: Sequence[int], memory: Tensor | None) -> tuple[float, Tensor]:
        """Hear one word of a talk. -> probability that a sentence begins with it, new memory"""
        vector = self.words.weight[list(tokens)].sum(0, keepdim=True)
        gru = self.memory
        if memory is None:
            memory = vector.new_zeros(1, gru.hidden_size)
        # one cell instead of the layer takes a bit more than half of the time
        memory = torch.gru_cell(vector, memory, *gru.all_weights[0])
        return float(self.border(memory).sigmoid()), memory
