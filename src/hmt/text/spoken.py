"""Text as speech recognisers print it: no capitals, no punctuation."""

import re

from hmt.text.tokenizer import Tokenizer

# A recogniser keeps what is part of a word: the apostrophe of "geht's", the hyphen of "e-mail".
_MARKS = re.compile(r"[^\w\s'-]")


def unpunctuated(line: str) -> str:
    """The words of a line in lower case and without punctuation marks, one space between them."""
    return " ".join(_MARKS.sub(" ", line.lower()).split())


def spoken_tokens(tokenizer: Tokenizer, word: str) -> list[int]:
    """Tokens of a word as a recogniser prints it; none if it is nothing but punctuation."""
    return tokenizer.encode(unpunctuated(word))
