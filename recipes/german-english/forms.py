"""The same sentence as it is written, as it is typed in haste, and as a recogniser gives it.

Only the source changes: the target always has its capitals and its punctuation.
"""

import re
from collections.abc import Iterator, Sequence
from random import Random

Pair = tuple[str, str]
Made = tuple[str, str, str]  # the form, the source, the target

EDGES = ".,;:!?…\"'„“”‚‘’«»()[]{}<>–—-*•/"
ORDINAL = re.compile(r"\d{1,2}\.")
LONGEST = 70  # source words of joined lines
# The segmenter restores capitals and punctuation before the model reads a word, so only a few lines
# need to be as they are heard, for where it errs and for models that are used without it.
HEARD_JOINED = 0.15  # of joined lines


def unpunctuated(text: str) -> str:
    """The text without punctuation around its words; marks inside a word or number stay."""
    words = text.split()
    last = len(words) - 1
    bare = (
        # "am 3. Mai": the full stop belongs to the number, unless the sentence ends here.
        word if n < last and ORDINAL.fullmatch(word) else word.strip(EDGES)
        for n, word in enumerate(words)
    )
    return " ".join(word for word in bare if word)


def heard(text: str) -> str:
    """The text as a speech recogniser gives it: lower case, no punctuation."""
    return unpunctuated(text).lower()


def without_end(text: str) -> str:
    """The text without its last punctuation mark."""
    return text.rstrip(".!?… ") or text


def join(pairs: Sequence[Pair]) -> Pair:
    """Several pairs as one."""
    return " ".join(pair[0] for pair in pairs), " ".join(pair[1] for pair in pairs)


def joined(pairs: Sequence[Pair], rng: Random) -> Made:
    """Several pairs as one, sometimes as it is heard."""
    source, target = join(pairs)
    if rng.random() < HEARD_JOINED:
        return "joined, heard", heard(source), target
    return "joined", source, target


def fits(pairs: Sequence[Pair]) -> bool:
    """Whether the pairs are short enough to be joined."""
    return sum(len(pair[0].split()) for pair in pairs) <= LONGEST


def in_order(lines: Sequence[Pair | None], rng: Random) -> Iterator[Made]:
    """Every pair of a running text once; some joined with the one or two lines that follow.

    About 27 of 100 pairs end up joined: 14 of 100 draws, of two or three pairs each.
    """
    n = 0
    while n < len(lines):
        first = lines[n]
        n += 1
        if first is None:
            continue
        draw = rng.random()
        if draw < 0.14:
            group = [first]
            for _ in range(rng.choice((1, 2, 2))):
                following = lines[n] if n < len(lines) else None
                if following is None or not fits([*group, following]):
                    break
                group.append(following)
                n += 1
            if len(group) > 1:
                yield joined(group, rng)
                continue
        yield single(first, rng.random())


def single(pair: Pair, draw: float) -> Made:
    """One pair in the form that `draw`, from 0 to 1, picks: mostly as written."""
    source, target = pair
    if draw < 0.05:
        return "heard", heard(source), target
    if draw < 0.07:
        return "no punctuation", unpunctuated(source), target
    if draw < 0.11:
        return "no end", without_end(source), target
    return "as written", source, target


def grouped(pairs: Sequence[Pair], rng: Random) -> Iterator[Made]:
    """The pairs joined in random groups of two to four; only the first of a group too long."""
    order = list(pairs)
    rng.shuffle(order)
    n = 0
    while n < len(order):
        size = rng.randint(2, 4)
        group = order[n : n + size]
        n += size
        yield joined(group, rng) if fits(group) else ("as written", *group[0])
