"""Which pairs of a parallel corpus are worth learning from, and in what spelling."""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable

from words import listed

Pair = tuple[str, str]

INVISIBLE = str.maketrans({"\u00a0": " ", "\u00ad": None, "\ufeff": None})
# The source may have any kind of quotation mark and apostrophe; the target has only one.
PLAIN_MARKS = str.maketrans(
    {"’": "'", "‘": "'", "`": "'", "´": "'", "“": '"', "”": '"', "„": '"', "«": '"', "»": '"'}
)
AT_EDGE = re.compile(r"^\s*\([^()]*\)\s*|\s*\([^()]*\)[.!]?\s*$")
BULLET = re.compile(r"^\s*(?:[•*–—-]|\(?[0-9ivx]{1,4}\))\s+")
NUMBER = re.compile(r"\d+")
THOUSANDS = re.compile(r"(?<=\d)[., ](?=\d{3}(?!\d))")

GERMAN = frozenset(
    listed("""
    der das den dem des und ist nicht ein eine einen einem einer zu wir ich sie es für mit auf
    von dass daß sind hat haben wird werden auch bei über zum zur im am aus wie aber oder wenn
    sich unsere unser diese dieser dieses nur noch kann können nach vor als er uns ihr ihnen
    mich wurde sein ja nein kein keine danke bitte herr frau gibt
""")
)
ENGLISH = frozenset(
    listed("""
    the and of to is that we for this be it are have has with not as which our you they their
    there by from but would should must can what who i my he she an if do does on at will all
    been its was were mr mrs no yes thank please
""")
)
# A side may be this many times as long as usual; short lines are given more room.
LONGEST_RATIO = 1.8
USUAL_RATIO = 1.12  # German characters per English one


def normalise(text: str) -> str:
    """The text with composed letters, single spaces and nothing invisible."""
    return " ".join(unicodedata.normalize("NFC", text).translate(INVISIBLE).split())


def normalise_target(text: str) -> str:
    """The same with one kind of quotation mark and apostrophe."""
    return normalise(text).translate(PLAIN_MARKS)


def tidy(source: str, target: str) -> Pair:
    """Both sides normalised, without list bullets and one-sided stage directions."""
    source, target = normalise(source), normalise_target(target)
    source, target = BULLET.sub("", source), BULLET.sub("", target)
    if ("(" in source) != ("(" in target):
        source, target = AT_EDGE.sub("", source), AT_EDGE.sub("", target)
    return source, target


def fault(source: str, target: str) -> str:
    """Why the pair should not be learned from; empty if it may be."""
    if not source or not target:
        return "empty"
    if source.casefold() == target.casefold() and len(source.split()) > 2:
        return "not translated"
    if min(_letters(source), _letters(target)) < 0.65:
        return "few letters"
    ratio = (len(source) + 15) / (USUAL_RATIO * len(target) + 15)
    if not 1 / LONGEST_RATIO <= ratio <= LONGEST_RATIO:
        return "lengths"
    if _foreign(source, GERMAN, ENGLISH) or _foreign(target, ENGLISH, GERMAN):
        return "language"
    return "numbers" if _numbers_disagree(source, target) else ""


def clean(
    pairs: Iterable[Pair], held_out: frozenset[str], counts: Counter[str]
) -> list[Pair | None]:
    """Tidied pairs in order; None in place of a dropped pair, so that neighbours are known."""
    kept: list[Pair | None] = []
    for pair in pairs:
        source, target = tidy(*pair)
        why = "held out" if source in held_out else fault(source, target)
        counts[why or "kept"] += 1
        kept.append(None if why else (source, target))
    return kept


def _letters(text: str) -> float:
    """The share of letters among the characters that are not spaces."""
    shown = text.replace(" ", "")
    return sum(map(str.isalpha, shown)) / max(1, len(shown))


def _foreign(text: str, own: frozenset[str], other: frozenset[str]) -> bool:
    """Whether the common words suggest another language than the side should be in."""
    words = re.findall(r"[^\W\d_]+", text.lower())
    mine = sum(word in own for word in words)
    return sum(word in other for word in words) > mine + 1 or (len(words) >= 8 and mine == 0)


def _numbers_disagree(source: str, target: str) -> bool:
    """Whether most of the numbers with two or more digits are on one side only."""
    sides = [
        {n for n in NUMBER.findall(THOUSANDS.sub("", s)) if len(n) > 1} for s in (source, target)
    ]
    apart, together = sides[0] ^ sides[1], sides[0] & sides[1]
    return len(apart) >= 2 and len(apart) > len(together)
