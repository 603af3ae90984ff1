"""Words and lines from a pipe, each the moment it is complete."""

import codecs
import os
from collections.abc import Iterator

from hmt.errors import UserError

LINE_END = "\n"


def arriving(descriptor: int) -> Iterator[str]:
    """Yield every word once whitespace follows it, and LINE_END at the end of every line."""
    word, is_open = "", False
    for text in _texts(descriptor):
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
                is_open = False
    if word:
        yield word
    if is_open:
        yield LINE_END


def lines_arriving(descriptor: int) -> Iterator[str]:
    """Yield every line once it is complete, without its end."""
    line = ""
    for text in _texts(descriptor):
        *lines, line = (line + text).split(LINE_END)
        yield from lines
    if line:
        yield line


def _texts(descriptor: int) -> Iterator[str]:
    """Yield what arrives.

    Reads straight from the descriptor: a buffered reader would hold words back for a full block.
    """
    decoder = codecs.getincrementaldecoder("utf-8-sig")()
    line, data = 1, b"-"
    while data:
        data = os.read(descriptor, 65536)
        try:
            text = decoder.decode(data, final=not data)
        except UnicodeDecodeError as error:
            line += error.object[: error.start].count(b"\n")
            raise UserError(f"Line {line} of the input is not UTF-8; convert it first.") from None
        line += text.count(LINE_END)
        yield text
