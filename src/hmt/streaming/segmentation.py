"""Which word opens the next sentence, in text without punctuation."""

from torch import Tensor

from hmt.model.segmenter import Segmenter
from hmt.text.sentences import OPENING
from hmt.text.spoken import spoken_tokens
from hmt.text.tokenizer import Tokenizer

LEAST_BORDER = 0.4  # probability of a border that ends a sentence


class Segmentation:
    """Hears the words of one sentence until one of them belongs to the next.

    What it decides depends on the words since the start of the sentence alone, so a sentence that
    is read again after a lost connection ends where it did before.  A sentence that begins with a
    capital letter is written text, which brings its own punctuation.
    """

    def __init__(self, segmenter: Segmenter, tokenizer: Tokenizer) -> None:
        self._segmenter, self._tokenizer = segmenter, tokenizer
        self._memory: Tensor | None = None
        self._is_written = False

    @property
    def is_listening(self) -> bool:
        """Whether it decides where this sentence ends."""
        return self._memory is not None and not self._is_written

    def opens_sentence(self, word: str) -> bool:
        """Hear the next word; return whether a new sentence begins with it."""
        if self._is_written or not (tokens := spoken_tokens(self._tokenizer, word)):
            return False
        is_first = self._memory is None
        if is_first and word.lstrip(OPENING)[:1].isupper():
            self._is_written = True
            return False
        probability, self._memory = self._segmenter.hear(tokens, self._memory)
        return not is_first and probability >= LEAST_BORDER
