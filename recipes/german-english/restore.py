"""Rewrite some lines of a training text as the segmenter would if it had heard them.

    python recipes/german-english/restore.py MODEL TEXT OUTPUT SHARE

In a session, the model does not see text without punctuation, but what the segmenter of MODEL makes
of it: with wrong capitals, missing commas and borders in the wrong place.  A model trained on such
text copes with it.  TEXT holds train.de, train.en, valid.de and valid.en of make_text.py; OUTPUT
receives the same lines, some of train.de restored.
"""

import sys
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from random import Random

import torch
from forms import heard

import hmt
from hmt.model.segmenter import BORDER, CASING, COMMA, OPINIONS, OUTPUTS, QUESTION, Segmenter
from hmt.streaming.segmentation import LEAST_BORDER, LEAST_MARK, UNSURE, cased
from hmt.text.spoken import spoken_tokens
from hmt.text.tokenizer import Tokenizer

SEED = 26
OF_HEARD = 0.75  # share of the lines without capitals and punctuation that are restored
TOGETHER = 20_000  # lines that are sorted by length and segmented in batches
BATCH = 256

Words = list[str]


class Restorer:
    """Writes lines of words, many at once, as a session would give them to the model."""

    def __init__(self, segmenter: Segmenter, tokenizer: Tokenizer) -> None:
        self._segmenter, self._tokenizer = segmenter, tokenizer
        self._tokens: dict[str, list[int]] = {}

    def restore(self, lines: Sequence[Words]) -> list[str]:
        """Each line with capitals, commas and marks; after a border, the segmenter starts anew."""
        made: list[Words] = [[] for _ in lines]
        left = [(n, words) for n, words in enumerate(lines) if words]
        while left:
            left.sort(key=lambda line: len(line[1]))
            following = []
            for first in range(0, len(left), BATCH):
                batch = left[first : first + BATCH]
                for (n, words), (written, used) in zip(
                    batch, self._sentences([words for _, words in batch]), strict=True
                ):
                    made[n] += written
                    if used < len(words):
                        following.append((n, words[used:]))
            left = following
        return [" ".join(words) for words in made]

    @torch.inference_mode()
    def _sentences(self, lines: Sequence[Words]) -> Iterator[tuple[Words, int]]:
        """The first sentence of each line as it is written, and how many words it has."""
        longest = max(map(len, lines))
        tokens: list[int] = []
        starts = torch.empty(len(lines), longest, dtype=torch.long)
        for n, words in enumerate(lines):
            for at in range(longest):
                starts[n, at] = len(tokens)
                tokens += self._spoken(words[at]) if at < len(words) else []
        logits = self._segmenter(torch.tensor(tokens), starts)  # (B, W, OPINIONS OUTPUTS)
        for words, own in zip(lines, logits, strict=True):
            yield _written(words, own[: len(words)])

    def _spoken(self, word: str) -> list[int]:
        if word not in self._tokens:
            self._tokens[word] = spoken_tokens(self._tokenizer, word)
        return self._tokens[word]


def _written(words: Words, logits: torch.Tensor) -> tuple[Words, int]:
    """The first sentence of a line, and how many words it has. `logits` (W, OPINIONS OUTPUTS)"""
    first, *later = logits.split(OUTPUTS, -1)
    decided = first.clone()
    unsure = torch.ones(len(words), dtype=torch.bool)
    for n, (opinion, (low, high)) in enumerate(zip(later, UNSURE, strict=True), start=1):
        border = decided[:, BORDER].sigmoid()
        unsure &= (border >= low) & (border < high)
        unsure[-n:] = False  # the line ends before there is such an opinion
        decided[unsure] = opinion.roll(-n, 0)[unsure]
    borders = (decided[1:, BORDER].sigmoid() >= LEAST_BORDER).nonzero()
    used = int(borders[0]) + 1 if len(borders) else len(words)
    commas = (decided[:, COMMA].sigmoid() >= LEAST_MARK).tolist()
    casings = decided[:, CASING:].argmax(-1).tolist()
    written = [cased(word, casing) for word, casing in zip(words[:used], casings, strict=False)]
    written[0] = cased(words[0], max(1, casings[0]))
    for n in range(1, used):
        if commas[n]:
            written[n - 1] += ","
    asks = bool(decided[used - 1, QUESTION].sigmoid() >= LEAST_MARK)
    written[-1] += "?" if asks else "."
    return written, used


def main(model: Path, text: Path, output: Path, share: float) -> None:
    """Write both sides, and print how many lines were restored."""
    loaded = hmt.load(model)
    assert loaded.segmenter is not None and len(UNSURE) == OPINIONS - 1
    restorer = Restorer(loaded.segmenter.eval(), loaded.tokenizers[0])
    draw = Random(SEED)
    output.mkdir(parents=True, exist_ok=True)
    count = restored = 0
    with (text / "train.de").open() as source, (output / "train.de").open("w") as made:
        while lines := [line.rstrip("\n") for line in islice(source, TOGETHER)]:
            picked = []
            for n, line in enumerate(lines):
                bare = heard(line)
                if bare and draw.random() < (OF_HEARD if bare == line else share):
                    picked.append((n, bare.split()))
            for (n, _), line in zip(
                picked, restorer.restore([words for _, words in picked]), strict=True
            ):
                lines[n] = line
            made.writelines(line + "\n" for line in lines)
            count, restored = count + len(lines), restored + len(picked)
    for name in ("train.en", "valid.de", "valid.en"):
        (output / name).write_bytes((text / name).read_bytes())
    print(f"{restored:,} of {count:,} lines restored")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]), float(sys.argv[4]))
