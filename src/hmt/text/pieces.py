"""From pieces to words: the text a reader sees, live and append-only."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from hmt.text.symbols import BOS, EOS, PAD


@dataclass(frozen=True, slots=True)
class Piece:
    """How one vocabulary entry is shown: a word border lies where a piece does not join."""

    text: str
    joins_left: bool
    joins_right: bool


class HasPieces(Protocol):
    """Anything with a table of pieces; a `Tokenizer` in practice."""

    @property
    def pieces(self) -> Sequence[Piece]: ...


class Detokenizer:
    """Pieces in, text out; text once returned is never taken back."""

    def __init__(self, tokenizer: HasPieces) -> None:
        self._pieces = tokenizer.pieces
        self._border = True
        self._begun = False

    def push(self, id: int) -> str:
        """Text to append now; starts with a space where a new word starts, never at the start."""
        begun = self._begun
        starts_word, text = self.step(id)
        return " " + text if starts_word and begun else text

    @property
    def is_at_border(self) -> bool:
        """Whether the words shown so far are complete."""
        return self._border

    def step(self, id: int) -> tuple[bool, str]:
        """Whether this piece starts a word, and its bare text ("" if it shows nothing yet)."""
        if id in (BOS, PAD, EOS):
            return False, ""
        piece = self._pieces[id]
        border = self._border or not piece.joins_left
        # A bare word mark shows nothing: the border waits for the next visible piece, so that no
        # space is shown before its word and never two in a row.
        self._border = not piece.joins_right or (border and not piece.text)
        self._begun = self._begun or bool(piece.text)
        return border and bool(piece.text), piece.text


class WholeWords:
    """Pieces in, whole words out, each as soon as it is known to be complete.

    A piece that nothing can be joined to ends its word at once; after any other, only the next
    token shows whether the word continues.
    """

    def __init__(self, tokenizer: HasPieces) -> None:
        self._shown = Detokenizer(tokenizer)
        self._word = ""

    def push(self, id: int) -> list[str]:
        """The words that are now complete; mostly one or none."""
        starts_word, text = self._shown.step(id)
        words = self.rest() if starts_word else []
        self._word += text
        return words + (self.rest() if self._shown.is_at_border or id == EOS else [])

    def rest(self) -> list[str]:
        """The word that is still open, if any: at the end of a translation it is complete too."""
        words, self._word = [self._word] if self._word else [], ""
        return words


def word_outs(tokenizer: HasPieces, ids: Sequence[int]) -> list[int]:
    """Index in `ids` of the token that showed each word to be complete; (words,).

    It is `len(ids)` for a last word that is still open.
    """
    words = WholeWords(tokenizer)
    outs = [n for n, id in enumerate(ids) for _ in words.push(id)]
    return outs + [len(ids) for _ in words.rest()]


def word_ends(tokenizer: HasPieces, ids: Iterable[int]) -> list[int]:
    """Index in `ids` of the last piece of each word of `decode(ids).split()`; (words,)."""
    words = Detokenizer(tokenizer)
    ends: list[int] = []
    for n, id in enumerate(ids):
        starts_word, text = words.step(id)
        if starts_word:
            ends.append(n)
        elif text:
            ends[-1] = n
    return ends
