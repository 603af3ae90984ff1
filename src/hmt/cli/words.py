"""Words from a pipe, each the moment it is complete."""

import codecs
import os
from collections.abc import Iterator

from hmt.errors import UserError

LINE_END = "\n"


def arriving(descriptor: int) -> Iterator[str]:
    """Give every word once whitespace follows it, and LINE_END at the end of every line.

    Read straight from the descriptor: a buffered reader would hold words back until a block is full.
    """
    decoder = codecs.getincrementaldecoder("utf-8-sig")()
    word, line, is_open = "", 1, False
    while True:
        data = os.read(descriptor, 65536)
        try:
            text = decoder.decode(data, final=not data)
        except UnicodeDecodeError:
            raise UserError(f"Line {line} of the input or one after it is not UTF-8.") from None
        for character in text:
            if not character.isspace():
                word += character
                is_open = True
                continue
            if word:
                yield word
                word = ""
            if character == LINE_END:
                yield LINE_END
                line += 1
                is_open = False
        if not data:
            if word:
                yield word
            if is_open:
                yield LINE_END
            return
