"""Text without punctuation: which word opens the next sentence, and how each would be written."""

from dataclasses import replace
from functools import lru_cache

from torch import Tensor

from hmt.model.segmenter import Casing, Heard, Segmenter
from hmt.text.sentences import OPENING, has_punctuation
from hmt.text.spoken import spoken_tokens
from hmt.text.symbols import UNK
from hmt.text.tokenizer import Tokenizer

# Between these probabilities of a border a word waits for the next one; then for one more, if the
# second opinion lies between the second two.
UNSURE = ((0.1, 0.9), (0.2, 0.8))
LEAST_BORDER = 0.5  # of a border that ends a sentence, where a decision is due
LONGEST_WORD = 16  # tokens; what is longer is no word, and has no capital to restore
LEAST_MARK = 0.5  # probability of a comma or a question mark that the model is given


class Segmentation:
    """Hears the words of one sentence until one of them belongs to the next.

    What it finds depends on the words since the start of the sentence alone, so a sentence that is
    read again after a lost connection ends where it did before.  A sentence that begins with a
    capital letter is written text, which brings its own punctuation.

    The model was trained on written text, so it is given the words as they would be written: with
    capitals and commas, and with a mark at the end.  Words that have capitals keep theirs, and a
    sentence that has marks of its own gets no others.
    """

    def __init__(self, segmenter: Segmenter, tokenizer: Tokenizer) -> None:
        self._segmenter, self._tokenizer = segmenter, tokenizer
        self._memory: Tensor | None = None
        self._is_written = False
        self._is_first = True  # no word that was heard has been given to the model
        self._has_marks = self._asks = False

    @property
    def is_listening(self) -> bool:
        """Whether it decides where this sentence ends."""
        return self._memory is not None and not self._is_written

    def hear(self, word: str) -> list[Heard]:
        """How the next word would be written, and those before it now that this one is known.

        The list is empty where there is no opinion.
        """
        if self._is_written or not (tokens := spoken_tokens(self._tokenizer, word)):
            return []
        is_first = self._memory is None
        if is_first and word.lstrip(OPENING)[:1].isupper():
            self._is_written = True
            return []
        opinions, self._memory = self._segmenter.hear(tokens, self._memory)
        # nothing ends before the very first word
        return [replace(opinions[0], border=0.0)] if is_first else opinions

    def written(self, word: str, tokens: tuple[int, ...], heard: Heard | None) -> tuple[int, ...]:
        """Tokens of the next word of the sentence as it would be written."""
        had_marks, self._has_marks = self._has_marks, self._has_marks or has_punctuation(word)
        if heard is None:
            return tokens
        is_first, self._is_first = self._is_first, False
        self._asks = heard.question >= LEAST_MARK
        casing = max(heard.casing, Casing.CAPITALISED) if is_first else heard.casing
        if len(tokens) <= LONGEST_WORD and (cased := _cased(word, casing)) != word:
            tokens = tuple(self._tokenizer.encode(cased))
        has_comma = not is_first and not had_marks and heard.comma >= LEAST_MARK
        return (*mark_tokens(self._tokenizer, ","), *tokens) if has_comma else tokens

    def end_mark(self) -> tuple[int, ...]:
        """Tokens of the mark that would end the sentence after the last word that stayed in it."""
        if not self.is_listening or self._has_marks:
            return ()
        return mark_tokens(self._tokenizer, "?" if self._asks else ".")


def is_unsure(border: float, words_since: int) -> bool:
    """Whether a word of this border probability waits, if so many words were heard since."""
    if words_since == len(UNSURE):
        return False
    low, high = UNSURE[words_since]
    return low <= border < high


def _cased(word: str, casing: Casing) -> str:
    """A word in small letters as it is written; any other keeps its form."""
    if casing == Casing.SMALL or not word.islower():
        return word
    if casing == Casing.CAPITALS:
        return word.upper()
    bare = word.lstrip(OPENING)
    return word[: len(word) - len(bare)] + bare[:1].upper() + bare[1:]


@lru_cache(maxsize=64)
def mark_tokens(tokenizer: Tokenizer, mark: str) -> tuple[int, ...]:
    """Tokens of a mark behind a word; none if the vocabulary does not have it."""
    alone, marked = (tuple(tokenizer.encode(text)) for text in ("a", "a" + mark))
    tokens = marked[len(alone) :] if marked[: len(alone)] == alone else tokenizer.encode(mark)
    return () if UNK in tokens else tuple(tokens)
