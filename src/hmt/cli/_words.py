"""Words from standard input, each the moment it is complete."""

import codecs
import os
import sys
from collections.abc import Iterator

from hmt.errors import UserError

LINE_END = "\n"


def arriving() -> Iterator[str]:
    """Yield every word once whitespace follows it, and LINE_END at the end of every line.

    Reads straight from the descriptor: a buffered reader would hold words back for a full block.
    """
    if sys.stdin is None:
        raise UserError("Standard input is closed; give text through a pipe or from a file.")
    descriptor = sys.stdin.fileno()
    decoder = codecs.getincrementaldecoder("utf-8-sig")()
    word, line, is_open = "", 1, False
    while True:
        data = _read(descriptor)
        try:
            text = decoder.decode(data, final=not data)
        except UnicodeDecodeError as error:
            line += error.object[: error.start].count(b"\n")
            raise UserError(f"Line {line} of the input is not UTF-8; convert it first.") from None
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


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 65536)
    except OSError as error:
        raise UserError(f"Standard input cannot be read: {error.strerror}.") from None
