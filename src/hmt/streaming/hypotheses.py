"""Words that a recogniser may still change: which part of its guesses is final.

The engine cannot unread a word, so only final words are translated.  Either the recogniser reports
how many words are final, or a word counts as final once two consecutive guesses agree on it and on
all words before it.
"""

from collections.abc import Sequence
from difflib import SequenceMatcher

from hmt.errors import UserError

PUNCTUATION = ".,;:!?…\"'“”„«»()[]"
ALIGNED = 200  # of the last committed words; aligning them all would take longer with each guess


class Hypotheses:
    """The guesses of one utterance after another; what was committed stays committed."""

    def __init__(self) -> None:
        self.tail: list[str] = []  # of the last guess, not final yet
        self._committed: list[str] = []  # of this utterance
        self._contradicted: set[int] = set()  # of the committed words, by a later guess
        self._conflicts_before = 0  # in earlier utterances

    @property
    def is_open(self) -> bool:
        """Whether an utterance has been guessed that is not over yet."""
        return bool(self.tail or self._committed)

    @property
    def conflicts(self) -> int:
        """How many committed words a later guess of the utterance changed, each counted once."""
        return self._conflicts_before + len(self._contradicted)

    def update(self, guess: Sequence[str], committed: int | None = None) -> list[str]:
        """The words that this guess makes final."""
        if committed is not None and (
            not isinstance(committed, int)
            or isinstance(committed, bool)
            or not 0 <= committed <= len(guess)
        ):
            raise UserError(
                f"{committed!r} words were committed of a guess that has {len(guess)}: "
                f"give 0 to {len(guess)}."
            )
        rest = self._after_committed(guess)
        if committed is None:
            final = _common(self.tail, rest)
        else:
            final = max(0, committed - (len(guess) - len(rest)))
        new, self.tail = rest[:final], rest[final:]
        self._committed += new
        return new

    def settle(self, result: Sequence[str]) -> list[str]:
        """The utterance is over, and this is its result: the words that were not final before.

        A result that shares no word with what was final is taken for the words after it.
        """
        known = set(map(_plain, self._committed))
        is_whole = not known or not known.isdisjoint(map(_plain, result))
        new = self._after_committed(result) if is_whole else list(result)
        self.commit()
        return new

    def commit(self) -> list[str]:
        """The utterance is over: the tail is final, and the next guess begins another."""
        new, self.tail = self.tail, []
        self._conflicts_before = self.conflicts
        self._committed, self._contradicted = [], set()
        return new

    def _after_committed(self, guess: Sequence[str]) -> list[str]:
        """The words of a guess after the committed ones, wherever those now stand in it.

        A recogniser may change or drop a word that is final here, or add one; the rest is aligned
        by the longest common runs, and final words never change.
        """
        count = len(self._committed)
        plain, mine = [_plain(w) for w in guess], [_plain(w) for w in self._committed]
        if plain[:count] == mine:
            return list(guess[count:])
        start = max(0, count - ALIGNED)
        matcher = SequenceMatcher(None, mine[start:], plain[start:], autojunk=False)
        blocks = [block for block in matcher.get_matching_blocks() if block.size]
        matched = {start + n for block in blocks for n in range(block.a, block.a + block.size)}
        self._contradicted |= set(range(start, count)) - matched
        if not blocks:
            return list(guess[count:])
        last = blocks[-1]
        # committed words after the last match correspond to as many words of the guess
        return list(guess[last.b + count - last.a :])


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    """Length of the common prefix, ignoring punctuation marks and capitals."""
    count = 0
    for a, b in zip(one, other, strict=False):
        if _plain(a) != _plain(b):
            break
        count += 1
    return count


def _plain(word: str) -> str:
    return word.strip(PUNCTUATION).casefold() or word
