"""Which reference sentence each word of a running translation belongs to.

R reference words, W written words. The rules are those of OmniSTEval's SoftSegmenter (Polák et al.,
"Better Late Than Never", arXiv 2509.17349): an alignment without gap costs that maximises the sum
of word similarities; words are similar if they share letters.
"""

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hmt.errors import UserError
from hmt.metrics.bootstrap import Array

# A punctuation mark that stands alone is never aligned with a word.
MARKS = frozenset(".!?,;:-()。！？，；：—（）ー")
MATCH, SKIP_REFERENCE, SKIP_WRITTEN = 0, 1, 2


@dataclass(frozen=True)
class Resegmented:
    """The written words of one talk, assigned to its reference sentences."""

    sentences: list[int | None]  # (W) of each written word; None: it belongs to none
    similarity: float  # summed over the aligned pairs


def resegment(references: Sequence[str], written: Sequence[str]) -> Resegmented:
    """The reference sentence of each written word; never decreasing, except for words left out."""
    words = [(word, n) for n, text in enumerate(references) for word in text.split()]
    if not words:
        raise UserError("The references of a talk hold no words; give a reference per sentence.")
    table = Similarities([fold(word.lower()) for word, _ in words], [fold(w) for w in written])
    pairs = align(table)
    owners = _owners(pairs, table)
    return Resegmented(
        [None if owner is None else words[owner][1] for owner in owners],
        sum(table.of(i, j) for i, j in pairs if i is not None and j is not None),
    )


def fold(word: str) -> str:
    """A word in the form that is compared: compatibility-normalised and case-folded."""
    return unicodedata.normalize("NFKC", word).lower()


class Similarities:
    """How similar reference and written words are: shared letters of all letters, 0 to 1.

    Words repeat, so only distinct ones are compared.
    """

    def __init__(self, references: Sequence[str], written: Sequence[str]) -> None:
        self.shape = len(references), len(written)
        (rows, self._row), (columns, self._column) = _numbered(references), _numbered(written)
        place = {letter: n for n, letter in enumerate(sorted(set("".join([*rows, *columns]))))}
        shared = _letters(rows, place) @ _letters(columns, place).T
        sizes = [np.array([len(set(word)) for word in words]) for words in (rows, columns)]
        every = sizes[0][:, None] + sizes[1][None, :] - shared
        self._table: Array = np.divide(shared, every, out=np.zeros_like(shared), where=every > 0)
        marks = [np.array([word in MARKS for word in words], bool) for words in (rows, columns)]
        self._table[marks[0][:, None] ^ marks[1][None, :]] = -np.inf

    def row(self, reference: int) -> Array:
        """Of one reference word with all written ones (W)."""
        found: Array = self._table[self._row[reference]][self._column]
        return found

    def of(self, reference: int, written: int) -> float:
        """Of one pair."""
        return float(self._table[self._row[reference], self._column[written]])


def _numbered(words: Iterable[str]) -> tuple[list[str], NDArray[np.int64]]:
    """The distinct words, and the index of each word among them."""
    numbers: dict[str, int] = {}
    places = [numbers.setdefault(word, len(numbers)) for word in words]
    return list(numbers), np.array(places, dtype=np.int64)


def _letters(words: Sequence[str], place: dict[str, int]) -> Array:
    """Which letters each word holds, as ones and zeros (words, letters)."""
    found = np.zeros((len(words), len(place)))
    for n, word in enumerate(words):
        found[n, [place[letter] for letter in set(word)]] = 1
    return found


def align(table: Similarities) -> list[tuple[int | None, int | None]]:
    """The best alignment as (reference word, written word) in order, None where one is skipped.

    Ties are broken from the end: pairing before skipping, and skipping a reference word before
    skipping a written one.
    """
    R, W = table.shape
    steps = np.empty((R + 1, W + 1), dtype=np.int8)
    steps[:, 0], steps[0] = SKIP_REFERENCE, SKIP_WRITTEN
    best = np.zeros(W + 1)
    for i in range(R):
        pair = best[:-1] + table.row(i)
        row = best.copy()
        # Skipping costs nothing, so a cell is the best of all cells before it in its row.
        np.maximum(row[1:], pair, out=row[1:])
        np.maximum.accumulate(row, out=row)
        pairs = (pair >= best[1:]) & (pair >= row[:-1])
        skips = np.where(best[1:] >= row[:-1], SKIP_REFERENCE, SKIP_WRITTEN)
        steps[i + 1, 1:] = np.where(pairs, MATCH, skips)
        best = row
    return _walk(steps)


def _walk(steps: NDArray[np.int8]) -> list[tuple[int | None, int | None]]:
    """From the end of both texts back to their beginning."""
    i, j = steps.shape[0] - 1, steps.shape[1] - 1
    pairs: list[tuple[int | None, int | None]] = []
    while i or j:
        step = steps[i, j]
        i -= int(step != SKIP_WRITTEN)
        j -= int(step != SKIP_REFERENCE)
        pairs.append((None if step == SKIP_WRITTEN else i, None if step == SKIP_REFERENCE else j))
    return pairs[::-1]


def _owners(
    pairs: Sequence[tuple[int | None, int | None]], table: Similarities
) -> list[int | None]:
    """The reference word that each written word follows (W).

    A run of written words without partners stays with the reference word before it, up to the first
    word that is more similar to the reference word after the run: that one and the rest go there. A
    punctuation mark at the very start that is similar to nothing belongs nowhere.
    """
    R, W = table.shape
    owners: list[int | None] = [None] * W
    before: int | None = None
    goes_on = False  # the rest of the run belongs to the reference word after it
    for i, j in pairs:
        if i is not None:
            before, goes_on = i, False
        if j is None:
            continue
        if i is None:
            behind = 0 if before is None else before + 1
            goes_on = goes_on or _likeness(table, behind, j, R) > _likeness(table, before, j, R)
            owners[j] = behind if goes_on else before
        else:
            owners[j] = i
    return owners


def _likeness(table: Similarities, reference: int | None, written: int, R: int) -> float:
    if reference is None or reference >= R:
        return -np.inf
    return table.of(reference, written)
