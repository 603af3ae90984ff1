"""A translation that goes in circles, seen from its tokens alone."""

from collections.abc import Sequence

# How often a pattern of 1, 2, 3 ... tokens may stand in a row: "100000" and "ha ha ha" may.
MOST_REPEATS = (5, 3, 3, 3, 3, 3, 3, 3)


def loop_token(target: Sequence[int]) -> int | None:
    """The token that would go round once more, if the end of `target` is a loop already."""
    for period, most in enumerate(MOST_REPEATS, 1):
        tail = target[-period * most :]
        if len(tail) == period * most and tail[period:] == tail[:-period]:
            return tail[-period]
    return None
