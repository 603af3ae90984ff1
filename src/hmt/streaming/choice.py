"""Which token a stream writes: a forced one, or the most probable one that the rules allow.

Shapes: B streams, V vocabulary.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

from torch import Tensor

from hmt.systems.stream import Stream
from hmt.text.sentences import is_end_mark
from hmt.text.symbols import EOS, FIRST_WRITABLE
from hmt.text.tokenizer import Tokenizer

Token = TypeVar("Token", int, str)

# How often a pattern of 1, 2, 3 ... tokens may repeat: "100000" and "ha ha ha" are allowed.
MOST_REPEATS = (5, 3, 3, 3, 3, 3, 3, 3)


@dataclass(frozen=True)
class ChoiceRules:
    """What a stream may write, beyond what the model prefers."""

    avoids_loops: bool = False  # never write a pattern that has just been repeated
    # Cost of a sentence end, in log-probability, while more source is to come: a model trained on
    # prefixes of sentences ends too early, and what it has not read is lost.
    end_penalty: float = 0.0
    ends: tuple[int, ...] = (EOS,)  # the tokens that the penalty applies to

    @classmethod
    def of(cls, tokenizer: Tokenizer, avoids_loops: bool, end_penalty: float) -> "ChoiceRules":
        """The rules of a model, for its target tokenizer."""
        return cls(avoids_loops, end_penalty, (EOS, *sorted(end_marks(tokenizer))))


GREEDY = ChoiceRules()


@lru_cache(maxsize=16)
def end_marks(tokenizer: Tokenizer) -> frozenset[int]:
    """Ids of the pieces that are sentence-ending marks; computed once per tokenizer."""
    return frozenset(id for id, piece in enumerate(tokenizer.pieces) if is_end_mark(piece.text))


def choose(streams: Sequence[Stream], log_prob: Tensor, rules: ChoiceRules = GREEDY) -> list[int]:
    """The token that each stream writes next. (B, V) -> B tokens"""
    # for 10,000 symbols numpy takes 2 microseconds and PyTorch on a CPU 13; for 20 rows 65 and 208
    rows = log_prob.numpy() if log_prob.device.type == "cpu" else log_prob
    best = (rows[:, FIRST_WRITABLE:].argmax(-1) + FIRST_WRITABLE).tolist()
    for n, stream in enumerate(streams):
        if stream.forced is not None:
            best[n] = stream.forced[len(stream.target)]
            continue
        # rules only make tokens less probable, so they change nothing for any other best token
        banned = banned_token(stream, rules.avoids_loops)
        penalty = 0.0 if stream.source_read else rules.end_penalty
        if best[n] == banned or (penalty and best[n] in rules.ends):
            choice = log_prob[n].clone()
            choice[list(rules.ends)] -= penalty
            if banned is not None:
                choice[banned] = -math.inf
            best[n] = int(choice[FIRST_WRITABLE:].argmax()) + FIRST_WRITABLE
    return best


def banned_token(stream: Stream, avoids_loops: bool) -> int | None:
    """The token that must not come next, if there is one."""
    if stream.is_running and not stream.target:
        return EOS
    return loop_token(stream.target) if avoids_loops else None


def loop_token(target: Sequence[Token]) -> Token | None:
    """The token that would repeat the loop once more, if `target` already ends in one."""
    for period, most in enumerate(MOST_REPEATS, 1):
        tail = target[-period * most :]
        if len(tail) == period * most and tail[period:] == tail[:-period]:
            return tail[-period]
    return None
