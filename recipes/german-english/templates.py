"""Templates: pairs of sentences with typed slots, and the text made from them."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

from forms import Made, heard, join, joined, single
from slots import SLOTS

Pair = tuple[str, str]

FOLDER = Path(__file__).parent / "templates"
SPEECH = ("everyday", "travel", "talks", "spoken")
SLOT = re.compile(r"\{([a-z]+)(\d?)\}")  # {city} and {city2} are two different cities


def read_templates(*names: str) -> list[Pair]:
    """The templates of the files with these names."""
    lines = [
        line.split("\t")
        for name in names
        for line in (FOLDER / f"{name}.tsv").read_text(encoding="utf-8").splitlines()
    ]
    return [(german, english) for german, english in lines]


def fill(template: Pair, rng: Random) -> Pair:
    """The template with its slots filled, the same on both sides."""
    german, english = template
    drawn: dict[str, Pair] = {}
    for match in SLOT.finditer(german):
        if match[0] not in drawn:
            drawn[match[0]] = SLOTS[match[1]](rng)
    german = SLOT.sub(lambda match: drawn[match[0]][0], german)
    english = SLOT.sub(lambda match: drawn[match[0]][1], english)
    return german, english.replace(".m..", ".m.")  # a sentence that ends in "p.m."


def spoken(template: Pair, rng: Random) -> Pair:
    """The template filled, as a sentence that starts with a capital."""
    german, english = fill(template, rng)
    return german[0].upper() + german[1:], english[0].upper() + english[1:]


def weights(templates: Sequence[Pair]) -> list[float]:
    """How often each is used: more slots give more variety."""
    return [0.2 + min(3, len(SLOT.findall(german))) for german, _ in templates]


def from_templates(lines: int, others: Sequence[Pair], rng: Random) -> Iterator[Made]:
    """This many filled templates, in all forms, some joined with each other or with `others`."""
    templates = read_templates(*SPEECH)
    chosen = [spoken(t, rng) for t in rng.choices(templates, weights(templates), k=lines)]
    for pair in chosen:
        draw = rng.random()
        if draw < 0.25:
            group = [
                pair,
                *(rng.choice(rng.choice((others, chosen))) for _ in range(rng.randint(1, 2))),
            ]
            rng.shuffle(group)
            yield joined(group, rng)
        elif draw < 0.35:
            yield "heard", heard(pair[0]), pair[1]
        else:
            yield single(pair, rng.random())


def to_copy(lines: int, others: Sequence[Pair], rng: Random) -> Iterator[Made]:
    """This many lines with something to be copied unchanged, one in five beside a sentence."""
    templates = read_templates("copied")
    for template in rng.choices(templates, k=lines):
        pair = fill(template, rng)
        if rng.random() < 0.2:
            source, target = join([pair, rng.choice(others)])
            yield "joined", source, target
        else:
            yield "as written", *pair
