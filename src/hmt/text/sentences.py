"""Splitting an endless stream of words into sentences, live and without looking ahead."""

import re

from hmt.errors import UserError

ENDS = "!?…。！？｡؟।॥։"
OPENING = "\"'“”„‚‘’«»‹›([{（【「『¿¡"
CLOSING = "\"'“”‘’«»‹›)]}）】」』"
# Letters with dots between them ("z.B", "U.S"), one letter (an initial), an ordinal, a date
# without its year, a numeral, a street.
DOT_CONTINUES = re.compile(
    r"(?:[^\W\d_]\.)+[^\W\d_]|[^\W_]|\d\d"
    r"|(?:0?[1-9]|[12]\d|3[01])\.(?:0?[1-9]|1[0-2])|[IVX]+|[^\W\d_]+str"
)
# Not listed are those that also end sentences as plain words ("no", "art", "max", "fig", "Jan").
_ABBREVIATIONS = """
    abg abs abt allg aufl bd bspw bzgl bzw ca dgl dipl dr drs ebd evtl ff fr geb ggf hr hrsg ing
    inkl insb jh jhd kap lt mio mrd nr phil prof rd rer resp sog std str tel usw vgl ziff zit zzgl
    al approx apt assn ave blvd capt cf cmdr corp dept eds eg esp etc figs gov ie inc jr lt ltd
    messrs mr mrs ms mt nos pp rev sen sgt sr st univ viz vol vols vs
    feb apr jul aug sept okt oct nov dez dec
"""
ABBREVIATIONS = frozenset(_ABBREVIATIONS.split())


class SentenceCutter:
    """Decides after each word whether the sentence ends with it."""

    def __init__(self, max_words: int = 80) -> None:
        if max_words < 1:
            raise UserError(f"A sentence cannot have at most {max_words} words; give 1 or more.")
        self._max_words = max_words
        self.reset()

    def reset(self) -> None:
        """Forget the current sentence, as after a pause."""
        self._words = 0
        self._speaks = False

    def push(self, word: str) -> bool:
        """Whether the sentence ends after this word."""
        self._words += 1
        # A lone quote or a second "!" goes to the next sentence: no sentence is bare punctuation.
        self._speaks = self._speaks or any(c.isalnum() for c in word)
        ends = self._words >= self._max_words or (self._speaks and ends_sentence(word))
        if ends:
            self.reset()
        return ends


def ends_sentence(word: str) -> bool:
    """Whether a word with this punctuation is the last of its sentence."""
    core = word.rstrip(CLOSING)
    if not core.endswith("."):
        return core.endswith(tuple(ENDS))
    stem = core[:-1].lstrip(OPENING)
    last_part = stem.rpartition("-")[2].lower()  # as in "Dipl.-Ing."
    return not DOT_CONTINUES.fullmatch(stem) and last_part not in ABBREVIATIONS


def has_punctuation(word: str) -> bool:
    """Whether a mark follows the word, as in written text and hardly ever in recognised speech."""
    return word.rstrip(CLOSING).endswith((",", ";", ":")) or ends_sentence(word)


def is_end_mark(text: str) -> bool:
    """Whether a piece of text is nothing but marks that end sentences."""
    return bool(text) and all(character in "." + ENDS for character in text)
