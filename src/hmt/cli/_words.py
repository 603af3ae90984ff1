"""Words and lines from standard input, each the moment it is complete."""

import codecs
import os
import sys
from collections.abc import Iterator

from hmt.errors import UserError
from hmt.limits import MAX_LINE_BYTES, MAX_WORD_CHARACTERS

LINE_END = "\n"


def arriving() -> Iterator[str]:
    """Yield every word once whitespace follows it, and LINE_END at the end of every line.

    Of an endless word only the beginning is kept.
    """
    word, is_open = "", False
    for text in _texts():
        for character in text:
            if not character.isspace():
                if len(word) <= MAX_WORD_CHARACTERS:
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


def lines_arriving() -> Iterator[str]:
    """Yield every line once it is complete, without its end."""
    line, count = "", 0
    for text in _texts():
        *lines, line = (line + text).split(LINE_END)
        yield from lines
        count += len(lines)
        if len(line) > MAX_LINE_BYTES:
            raise UserError(
                f"Line {count + 1} of the input has more than {MAX_LINE_BYTES:,} characters; cut "
                "it into lines."
            )
    if line:
        yield line


def _texts() -> Iterator[str]:
    """Yield what arrives.

    Reads straight from the descriptor: a buffered reader would hold words back for a full block.
    """
    if sys.stdin is None:
        raise UserError("Standard input is closed; give text through a pipe or from a file.")
    descriptor = sys.stdin.fileno()
    decoder = codecs.getincrementaldecoder("utf-8-sig")()
    line, is_open = 1, True
    while is_open:
        data = _read(descriptor)
        is_open = bool(data)
        try:
            text = decoder.decode(data, final=not data)
        except UnicodeDecodeError as error:
            line += error.object[: error.start].count(b"\n")
            raise UserError(f"Line {line} of the input is not UTF-8; convert it first.") from None
        line += text.count(LINE_END)
        yield text


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 65536)
    except OSError as error:
        raise UserError(f"Standard input cannot be read: {error.strerror}.") from None
