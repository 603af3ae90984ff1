"""A segmenter that needs no training and is often unsure, and where it would cut a talk."""

import random
from collections.abc import Sequence

import torch

from hmt.model.dims import Dims
from hmt.model.segmenter import Casing, Heard, Memory, Segmenter
from hmt.streaming.segmentation import LEAST_BORDER, UNSURE, is_unsure
from hmt.text.spoken import spoken_tokens
from hmt.text.tokenizer import Tokenizer

# Well below, between and above the thresholds; a few words are first words for sure.
(FIRST, FIRST_SURE), (SECOND, SECOND_SURE) = UNSURE
OPINIONS = (
    (0.0, 0.0, 0.0, FIRST, 0.3, 0.6, FIRST_SURE - 0.01, FIRST_SURE),
    (0.0, SECOND - 0.01, SECOND, LEAST_BORDER, SECOND_SURE - 0.01, SECOND_SURE, 1.0),
    (0.0, LEAST_BORDER - 0.01, LEAST_BORDER, 1.0),
)


def tiny(tokenizer: Tokenizer) -> Dims:
    """Of a model as small as can be."""
    size = tokenizer.size
    return Dims(size, size, width=2, ffn=2, heads=1, encoder_layers=1, decoder_layers=1)


class Doubtful(Segmenter):
    """Three opinions of each word, drawn by the words of the sentence so far."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        super().__init__(tiny(tokenizer))

    def hear(self, tokens: Sequence[int], memory: Memory | None) -> tuple[list[Heard], Memory]:
        sums = 0 if memory is None else int(memory.state)
        sums = (sums * 31 + sum((n + 1) * token for n, token in enumerate(tokens))) % 100_003
        draw = random.Random(sums)
        opinions = [
            Heard(draw.choice(borders), draw.random(), draw.random(), draw.choice(list(Casing)))
            for borders in OPINIONS
        ]
        return opinions, Memory(torch.tensor(sums))


def cuts(segmenter: Segmenter, tokenizer: Tokenizer, words: Sequence[str]) -> list[str]:
    """The sentences of a talk by definition, each word with a star for each word it waited for."""
    starts, stars, _ = _decisions(segmenter, tokenizer, words)
    marked = [word + "*" * count for word, count in zip(words, stars, strict=True)]
    ends = [*starts[1:], len(words)]
    return [" ".join(marked[a:b]) for a, b in zip(starts, ends, strict=True)]


def waiting(segmenter: Segmenter, tokenizer: Tokenizer, words: Sequence[str]) -> int:
    """How many words wait if the talk goes on behind these."""
    return len(words) - _decisions(segmenter, tokenizer, words)[2]


def _decisions(
    segmenter: Segmenter, tokenizer: Tokenizer, words: Sequence[str]
) -> tuple[list[int], list[int], int]:
    """First words of the sentences, how long each word waited, words that no longer do."""

    def opinions(first: int, last: int) -> list[Heard]:
        memory: Memory | None = None
        found: list[Heard] = []
        for word in words[first : last + 1]:
            found, memory = segmenter.hear(spoken_tokens(tokenizer, word), memory)
        return found

    starts, stars, settled, last = [0], [0], len(words), 0
    for n in range(1, len(words)):
        last = max(last, n)  # heard by the time when the words before are decided on
        border = opinions(starts[-1], last)[last - n].border
        while is_unsure(border, last - n):
            if last + 1 == len(words):  # the last opinion counts
                settled = min(settled, n)
                break
            last += 1
            border = opinions(starts[-1], last)[last - n].border
        stars.append(last - n)
        if border >= LEAST_BORDER:
            starts.append(n)
            last = n  # those behind it are heard again
    return starts, stars, settled
