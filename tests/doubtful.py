"""A segmenter that needs no training and is often unsure, and where it would cut a talk."""

import random
from collections.abc import Sequence

import torch
from torch import Tensor

from hmt.model.segmenter import Casing, Heard, Segmenter
from hmt.streaming.segmentation import LEAST_BORDER, LEAST_SURE, LEAST_UNSURE
from hmt.text.spoken import spoken_tokens
from hmt.text.tokenizer import Tokenizer

# Well below, between and above the thresholds; a few words are first words for sure.
FIRST_OPINIONS = (0.0, 0.0, 0.0, LEAST_UNSURE, 0.3, 0.6, LEAST_SURE - 0.01, LEAST_SURE)
SECOND_OPINIONS = (0.0, LEAST_BORDER - 0.01, LEAST_BORDER, 1.0)


class Doubtful(Segmenter):
    """Two opinions of each word, drawn by the words of the sentence so far."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        super().__init__(tokenizer.size, 2, 2)

    def hear(self, tokens: Sequence[int], memory: Tensor | None) -> tuple[Heard, Heard, Tensor]:
        sums = 0 if memory is None else int(memory)
        sums = (sums * 31 + sum((n + 1) * token for n, token in enumerate(tokens))) % 100_003
        draw = random.Random(sums)
        heard, second = (
            Heard(draw.choice(borders), draw.random(), draw.random(), draw.choice(list(Casing)))
            for borders in (FIRST_OPINIONS, SECOND_OPINIONS)
        )
        return heard, second, torch.tensor(sums)


def cuts(segmenter: Segmenter, tokenizer: Tokenizer, words: Sequence[str]) -> list[str]:
    """The sentences of a talk by definition, and the words that waited, each marked with a star."""

    def opinions(first: int, last: int) -> tuple[Heard, Heard]:
        memory = None
        for word in words[first : last + 1]:
            heard, second, memory = segmenter.hear(spoken_tokens(tokenizer, word), memory)
        return heard, second

    starts, stars = [0], set()
    for n in range(1, len(words)):
        border = opinions(starts[-1], n)[0].border
        if LEAST_UNSURE <= border < LEAST_SURE:
            stars.add(n)
            if n + 1 < len(words):  # the last word is decided on without another
                border = opinions(starts[-1], n + 1)[1].border
        if border >= LEAST_BORDER:
            starts.append(n)
    marked = [word + "*" * (n in stars) for n, word in enumerate(words)]
    ends = [*starts[1:], len(words)]
    return [" ".join(marked[a:b]) for a, b in zip(starts, ends, strict=True)]
