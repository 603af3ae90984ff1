"""A small network that hears words without punctuation and predicts how they would be written.

Shapes: B talks, W words, T tokens, L tokens of a talk (padded), D width, H heads.

A translation model notices too late that a sentence is over: by then it has read the next words and
blended them in.  And it was trained on written text: without capitals and commas it understands
less.  This network decides both before a word is given to the model, from the words up to and
including that one, so it adds no delay.  If a border is uncertain, the next words help: each word
heard also gives a second opinion on the one before, and a third on the one before that.

It begins as the first layers of the translation model's own encoder, which has read far more text
and knows which words belong together.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

import torch
from torch import Tensor, nn

from hmt.model.attention import split_projections
from hmt.model.dims import Dims
from hmt.model.passes import Packing
from hmt.model.rows import source_bias
from hmt.model.transformer import EncoderLayer, Remember, Transformer, embedded, encoded


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
LAYERS = 2  # of the model's encoder that it begins with; fewer if the model has fewer
# Shares that are dropped while it learns: everyday text is small, and is heard many times.
DROPPED_INPUTS, DROPPED_MEMORY = 0.1, 0.2


class Memory(NamedTuple):
    """What it keeps of the words heard so far."""

    state: Tensor  # of the GRU (1, memory)
    tokens: tuple[Tensor, ...] = ()  # keys and values of all tokens, per layer (2, 1, H, L, D / H)


class Segmenter(nn.Module):
    """A causal encoder of tokens, a GRU over the last token of each word, logits for each word."""

    def __init__(self, dims: Dims, layers: int = LAYERS, memory: int = 384) -> None:
        super().__init__()
        self.dims = dims  # those of the model, of which it has only the source side
        self.embedding = nn.Embedding(dims.source_vocabulary, dims.width)
        self.encoder = nn.ModuleList(EncoderLayer(dims) for _ in range(layers))
        self.norm = nn.LayerNorm(dims.width)
        self.memory = nn.GRU(dims.width, memory, batch_first=True)
        self.outputs = nn.Linear(memory, OPINIONS * OUTPUTS)

    @classmethod
    def beginning_with(cls, transformer: Transformer) -> "Segmenter":
        """One that has the source embeddings and the first encoder layers of this model."""
        made = cls(transformer.dims, min(LAYERS, len(transformer.encoder)))
        made.embedding.load_state_dict(transformer.source_embedding.state_dict())
        for layer, theirs in zip(made.encoder, transformer.encoder, strict=False):
            layer.load_state_dict(theirs.state_dict())
        if isinstance(transformer.encoder_norm, nn.LayerNorm):
            made.norm.load_state_dict(transformer.encoder_norm.state_dict())
        return made

    def forward(self, tokens: Tensor, starts: Tensor) -> Tensor:
        """Logits for each word, and for those before it. (B, W, OPINIONS OUTPUTS)

        `tokens` (T,) are those of all talks one after the other, `starts` (B, W) the first of each
        word; where a word starts with the next one it has no tokens, as after the end of a talk.
        """
        first = starts[:, :1]
        ends = torch.cat([first[1:, 0], first.new_tensor([len(tokens)])])[:, None]  # (B, 1)
        places = torch.arange(int((ends - first).max()))  # (L,)
        of_talk = tokens[(first + places).clamp_max(len(tokens) - 1)]  # (B, L)
        packing = Packing.where(places < ends - first)
        vectors = self._encode(of_talk, places.expand_as(of_talk), packing)
        last = torch.cat([starts[:, 1:], ends], 1) - first - 1  # token of each word (B, W)
        words = vectors.take_along_dim(last.clamp_min(0)[..., None], 1)  # (B, W, D)
        words = nn.functional.dropout(words, DROPPED_INPUTS, self.training)
        heard, _ = self.memory(words)  # (B, W, memory)
        logits: Tensor = self.outputs(nn.functional.dropout(heard, DROPPED_MEMORY, self.training))
        return logits

    @torch.inference_mode()
    def hear(self, tokens: Sequence[int], memory: Memory | None) -> tuple[list[Heard], Memory]:
        """Hear one word of a talk. -> how it, and those before, would be written; new memory"""
        if memory is None:
            memory = Memory(self.norm.weight.new_zeros(1, self.memory.hidden_size))
        before = memory.tokens[0].shape[-2] if memory.tokens else 0
        places = torch.arange(before, before + len(tokens))[None]
        kept: list[Tensor] = []

        def remember(layer: int, new: Tensor) -> Tensor:
            seen = split_projections(new[None], self.dims.heads, self.dims.width)
            if before:
                seen = torch.cat([memory.tokens[layer], seen], dim=-2)
            kept.append(seen)
            return seen

        packing = Packing(1, len(tokens))
        vectors = self._encode(torch.tensor([tokens]), places, packing, remember)
        # one cell instead of the layer takes a bit more than half of the time
        state = torch.gru_cell(vectors[:, -1], memory.state, *self.memory.all_weights[0])
        logits = self.outputs(state)[0].tolist()
        opinions = [_heard(logits[n : n + OUTPUTS]) for n in range(0, len(logits), OUTPUTS)]
        return opinions, Memory(state, tuple(kept))

    def _encode(
        self,
        tokens: Tensor,
        places: Tensor,
        packing: Packing,
        remember: Remember | None = None,
    ) -> Tensor:
        """Tokens (B, L) at these places of their talks, each seeing those before. -> (B, L, D)"""
        x = embedded(self.embedding, packing.pack(tokens), packing.pack(places))
        bias = None
        if tokens.numel() > 1:  # a single new token sees all that came before it
            bias = source_bias(places + 1, int(places[0, -1]) + 1, x.dtype)[:, None]
        return packing.unpack(encoded(self.encoder, self.norm, x, bias, packing, remember))


def _heard(logits: list[float]) -> Heard:
    border, comma, question = (_sigmoid(logit) for logit in logits[:CASING])
    casings = logits[CASING:]
    return Heard(border, comma, question, Casing(casings.index(max(casings))))


def _sigmoid(logit: float) -> float:
    return 1 / (1 + math.exp(-logit)) if logit > -700 else 0.0  # below, exp has no number
