"""Words that a recogniser may still change: which part of its guesses is final.

The engine cannot unread a word, so only what is final is translated.  A recogniser says how many
words are final, or a word counts as final once two guesses in a row agree on it and on all before.
"""

from collections.abc import Sequence
from difflib import SequenceMatcher

PUNCTUATION = ".,;:!?…\"'“”„«»()[]"


class Hypotheses:
    """The guesses of one utterance after another; what was committed stays committed."""

    def __init__(self) -> None:
        self._committed: list[str] = []  # of this utterance
        self._guess: list[str] = []
        self.tail: list[str] = []  # of the last guess, not final yet
        self.conflicts = 0  # committed words that a later guess had otherwise

    def update(self, guess: Sequence[str], committed: int | None = None) -> list[str]:
        """The words that this guess makes final."""
        rest = self._after_committed(guess)
        if committed is None:
            before = self._after_committed(self._guess)
            final = _common(before, rest)
        else:
            final = max(0, committed - (len(guess) - len(rest)))
        new, self.tail = list(rest[:final]), list(rest[final:])
        self._committed += new
        self._guess = list(guess)
        return new

    def commit(self) -> list[str]:
        """The utterance is over: the tail is final, and the next guess begins another."""
        new = self.tail
        self._committed, self._guess, self.tail = [], [], []
        return new

    def _after_committed(self, guess: Sequence[str]) -> list[str]:
        """The words of a guess behind those that were committed, wherever they now stand.

        A recogniser may change, drop or add a word that is final here; what follows is aligned by
        the longest common runs, and nothing that is final changes.
        """
        count = len(self._committed)
        plain, mine = [_plain(w) for w in guess], [_plain(w) for w in self._committed]
        if plain[:count] == mine:
            return list(guess[count:])
        matcher = SequenceMatcher(None, mine, plain, autojunk=False)
        blocks = [block for block in matcher.get_matching_blocks() if block.size]
        matched = sum(block.size for block in blocks)
        self.conflicts += count - matched
        if not blocks:
            return list(guess[count:])
        last = blocks[-1]
        # committed words behind the last match stand for as many words of the guess
        return list(guess[last.b + count - last.a :])


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    """Length of the common beginning; a mark or a capital more is no difference."""
    count = 0
    for a, b in zip(one, other, strict=False):
        if _plain(a) != _plain(b):
            break
        count += 1
    return count


def _plain(word: str) -> str:
    return word.strip(PUNCTUATION).casefold() or word
