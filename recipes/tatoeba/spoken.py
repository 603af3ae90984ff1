"""Text as it is heard in practice: some pairs joined, some without punctuation or capitals.

    python recipes/tatoeba/spoken.py anki.de anki.en spoken.de spoken.en

Every pair stays as it is.  A sixth of them appear once more joined with another pair, because a
full stop need not be the end; an eighth appear without the last punctuation mark of the source, and
a twelfth with the source in lower case and without punctuation.  Nothing is random.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

Pair = tuple[str, str]
STEP = 7919  # a prime: the other sentence of a joined pair comes from anywhere in the file


def spoken(pairs: list[Pair]) -> Iterator[Pair]:
    """The pairs, and those made from them."""
    for n, (source, target) in enumerate(pairs):
        yield source, target
        if n % 6 == 0:
            other = pairs[n * STEP % len(pairs)]
            yield f"{source} {other[0]}", f"{target} {other[1]}"
        if n % 8 == 1:
            yield re.sub(r"[.!?]+$", "", source), target
        if n % 12 == 2:
            yield " ".join(re.sub(r"[^\w\s'-]", " ", source.lower()).split()), target


def main(source: str, target: str, new_source: str, new_target: str) -> None:
    """Read two files and write two longer ones."""
    lines = [Path(name).read_text(encoding="utf-8").splitlines() for name in (source, target)]
    pairs = [(s.strip(), t.strip()) for s, t in zip(*lines, strict=True)]
    made = [pair for pair in spoken(pairs) if pair[0]]
    for side, name in enumerate((new_source, new_target)):
        Path(name).write_text("".join(pair[side] + "\n" for pair in made), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
