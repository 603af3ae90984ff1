"""Text without punctuation: which word opens the next sentence, and how each would be written."""

from dataclasses import replace
from functools import lru_cache

from hmt.model.segmenter import Casing, Heard, Memory, Segmenter
from hmt.text.sentences import OPENING, has_punctuation
from hmt.text.spoken import spoken_tokens
from hmt.text.symbols import UNK
from hmt.text.tokenizer import Tokenizer

# A word whose border probability lies between the first pair waits for the next word; it waits for
# one more if the second opinion lies between the second pair.
UNSURE = ((0.05, 0.95), (0.1, 0.9))
LEAST_BORDER = 0.5  # probability of a border that ends a sentence, once a decision is due
LONGEST_WORD = 16  # tokens; anything longer is no word, and has no capital to restore
LEAST_MARK = 0.5  # probability at which the model is given a comma or a question mark


class Segmentation:
    """Hears the words of one sentence until one of them belongs to the next.

    What it finds depends only on the words since the start of the sentence, so a sentence that is
    read again after a lost connection ends where it did before.  A sentence that begins with a
    capital letter is written text, which has its own punctuation.

    The model was trained on written text, so it is given the words as they would be written: with
    capitals and commas, and with a mark at the end.  Words that have capitals keep theirs, and a
    sentence that has marks of its own gets no others.
    """

    def __init__(self, segmenter: Segmenter, tokenizer: Tokenizer) -> None:
        self._segmenter, self._tokenizer = segmenter, tokenizer
        self._memory: Memory | None = None
        self._is_written = False
        self._is_first = True  # no word with an opinion has been given to the model yet
        self._has_marks = self._asks = False

    @property
    def is_listening(self) -> bool:
        """Whether it decides where this sentence ends."""
        return self._memory is not None and not self._is_written

    def hear(self, word: str) -> list[Heard]:
        """Opinions on how the next word and, now that it is known, those before it are written.

        The list is empty if there is no opinion.
        """
        if self._is_written or not (tokens := spoken_tokens(self._tokenizer, word)):
            return []
        is_first = self._memory is None
        if is_first and word.lstrip(OPENING)[:1].isupper():
            self._is_written = True
            return []
        opinions, self._memory = self._segmenter.hear(tokens, self._memory)
        # no sentence ends before the very first word
        return [replace(opinions[0], border=0.0)] if is_first else opinions

    def written(self, word: str, tokens: tuple[int, ...], heard: Heard | None) -> tuple[int, ...]:
        """Tokens of the next word of the sentence as it would be written."""
        had_marks, self._has_marks = self._has_marks, self._has_marks or has_punctuation(word)
        if heard is None:
            return tokens
        is_first, self._is_first = self._is_first, False
        self._asks = heard.question >= LEAST_MARK
        casing = max(heard.casing, Casing.CAPITALISED) if is_first else heard.casing
        if len(tokens) <= LONGEST_WORD and (as_written := cased(word, casing)) != word:
            tokens = tuple(self._tokenizer.encode(as_written))
        has_comma = not is_first and not had_marks and heard.comma >= LEAST_MARK
        return (*mark_tokens(self._tokenizer, ","), *tokens) if has_comma else tokens

    def end_mark(self) -> tuple[int, ...]:
        """Tokens of the mark that would end the sentence after the last word that stayed in it."""
        if not self.is_listening or self._has_marks:
            return ()
        return mark_tokens(self._tokenizer, "?" if self._asks else ".")


def is_unsure(border: float, words_since: int) -> bool:
    """Whether a word with this border probability waits, `words_since` words later."""
    if words_since == len(UNSURE):
        return False
    low, high = UNSURE[words_since]
    return low <= border < high


def cased(word: str, casing: int) -> str:
    """A lower-case word as it would be written; any other word stays as it is."""
    if casing == Casing.SMALL or not word.islower():
        return word
    if casing == Casing.CAPITALS:
        return word.upper()
    bare = word.lstrip(OPENING)
    return word[: len(word) - len(bare)] + bare[:1].upper() + bare[1:]


@lru_cache(maxsize=64)
def mark_tokens(tokenizer: Tokenizer, mark: str) -> tuple[int, ...]:
    """Tokens of a mark that follows a word; none if the vocabulary does not have it."""
    alone, marked = (tuple(tokenizer.encode(text)) for text in ("a", "a" + mark))
    tokens = marked[len(alone) :] if marked[: len(alone)] == alone else tokenizer.encode(mark)
    return () if UNK in tokens else tuple(tokens)
