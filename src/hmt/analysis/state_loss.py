"""Choosing a sentence that shows the effect of the state loss."""

from collections.abc import Sequence

from hmt.errors import UserError
from hmt.streaming.record import Record

LONGEST = 16  # source tokens: two pictures should fit beside each other


def differing(one: Sequence[Record], other: Sequence[Record]) -> int:
    """The first short sentence that only the first model translates exactly like the reference."""
    for n, (a, b) in enumerate(zip(one, other, strict=True)):
        if len(a.source_tokens) <= LONGEST and a.prediction == a.reference != b.prediction:
            return n
    for n, (a, b) in enumerate(zip(one, other, strict=True)):
        if a.prediction != b.prediction:
            return n
    if not one:
        raise UserError("There is no sentence to translate; give at least one line.")
    return 0
