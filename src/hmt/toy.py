"""An invented language whose ideal moments are known, for demonstrations and tests of learning.

Every source word has one English word, but the order differs in two ways:
- an adjective follows its noun, so a noun cannot be written before one more word has been read;
- a sentence that opens with an adverb of time has its verb at the end, any other has it second.
A translator that never waits must guess; one that always waits is late in half of the sentences.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ARTICLES = {"al": "the", "un": "a"}
NOUNS = {
    "brano": "bird", "celta": "child", "dorin": "door", "fesk": "fish", "galme": "garden",
    "hult": "house", "jorba": "judge", "kamir": "cook", "lunet": "lamp", "mirel": "mother",
    "nabu": "neighbour", "oskar": "ocean", "pelin": "poet", "ruvo": "river", "sarto": "sailor",
    "tesil": "teacher",
}  # fmt: skip
ADJECTIVES = {
    "bli": "blue", "gor": "great", "kirt": "kind", "lonto": "long", "neva": "new",
    "olda": "old", "remi": "red", "silta": "silent", "turo": "tired", "yun": "young",
}  # fmt: skip
VERBS = {
    "amar": "admires", "bursa": "buys", "calin": "calls", "desig": "draws", "finda": "finds",
    "lodar": "leaves", "memor": "remembers", "paga": "pays", "sevi": "sees", "vend": "sells",
}  # fmt: skip
PLACES = {"domu": "here", "forla": "there", "sulma": "outside", "endro": "inside"}
TIMES = {"oja": "today", "hiva": "often", "sempa": "always", "tarsi": "sometimes"}


@dataclass(frozen=True)
class Pair:
    """A source sentence, its translation, and per target word how many source words decide it."""

    source: tuple[str, ...]
    target: tuple[str, ...]
    reads: tuple[int, ...]


def sentences(count: int, seed: int = 1) -> Iterator[Pair]:
    """Return `count` pairs, the same for the same seed."""
    draw = random.Random(seed)
    return (_sentence(draw) for _ in range(count))


def write(folder: Path, name: str, count: int, seed: int = 1) -> tuple[Path, Path]:
    """Write `name`.source and `name`.target, one sentence per line, and return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    pairs = list(sentences(count, seed))
    paths = folder / f"{name}.source", folder / f"{name}.target"
    paths[0].write_text("".join(" ".join(pair.source) + "\n" for pair in pairs), encoding="utf-8")
    paths[1].write_text("".join(" ".join(pair.target) + "\n" for pair in pairs), encoding="utf-8")
    return paths


def _sentence(draw: random.Random) -> Pair:
    """Lay out the source, then write the target with the source position that decides each word."""
    time = _pick(draw, TIMES) if draw.random() < 0.5 else []
    subject, object_ = _noun_phrase(draw), _noun_phrase(draw)
    place = _pick(draw, PLACES) if draw.random() < 0.3 else []
    verb = _pick(draw, VERBS)
    parts = [time, subject, object_, place, verb] if time else [subject, verb, object_, place]
    source = [word for part in parts for word, _ in part] + ["."]
    starts = {id(part): sum(map(len, parts[:n])) for n, part in enumerate(parts)}

    target: list[str] = []
    reads: list[int] = []
    for part in (time, subject, verb, object_, place):
        first = starts.get(id(part), 0)
        for word, offset in _translated(part):
            target.append(word)
            reads.append(max(first + offset, *reads[-1:], 0))
    return Pair(tuple(source), (*target, "."), (*reads, len(source)))


def _pick(draw: random.Random, words: dict[str, str]) -> list[tuple[str, str]]:
    return [draw.choice(list(words.items()))]


def _noun_phrase(draw: random.Random) -> list[tuple[str, str]]:
    phrase = _pick(draw, ARTICLES) + _pick(draw, NOUNS)
    return phrase + _pick(draw, ADJECTIVES) if draw.random() < 0.5 else phrase


def _translated(part: list[tuple[str, str]]) -> list[tuple[str, int]]:
    """English words of one part, each with the words to be read from the part's start."""
    english = [word for _, word in part]
    if len(part) <= 1:
        return [(word, 1) for word in english]
    article, noun, *adjective = english
    # the word after the article is known once the word after the noun shows whether it is one
    return [(article, 1), *((word, 3) for word in (*adjective, noun))]
