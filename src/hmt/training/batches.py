"""Batches by token count: which sentences go together, as a function of seed and epoch alone.

Shapes: N sentences, M batches of an epoch, B sentences of one batch.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from hmt.errors import UserError
from hmt.systems.batch import Batch
from hmt.text.symbols import PAD

Numbers = NDArray[Any]


# A batch is computed in micro-batches of similar length once more than this share of it is padding.
MOST_PADDING = 0.15
MOST_MICRO_BATCHES = 5


class Pairs(Protocol):
    """What training needs from a corpus."""

    def __len__(self) -> int: ...
    @property
    def source_lengths(self) -> Numbers: ...
    @property
    def target_lengths(self) -> Numbers: ...
    def source(self, n: int) -> Numbers: ...
    def target(self, n: int) -> Numbers: ...


@dataclass(frozen=True)
class Epoch:
    """Sentences in order, and where each batch starts and ends in that order."""

    order: Numbers  # (N,)
    starts: Numbers  # (M,)
    ends: Numbers  # (M,)

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, batch: int) -> Numbers:
        """Sentences of one batch. -> (B,)"""
        return self.order[self.starts[batch] : self.ends[batch]]


def mix(*parts: int | str) -> int:
    """A seed that depends on every part: neighbouring steps get independent streams. -> 63 bits"""
    text = "\0".join(map(str, parts)).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big") >> 1


def plan_epoch(corpus: Pairs, limit: int, seed: int, epoch: int) -> Epoch:
    """Shuffle the sentences, then cut the order into batches of at most `limit` tokens a side.

    Sentences of all lengths meet in a batch. Batches of one length have less padding, but each of
    their gradients pulls towards its own length: on Multi30k that costs half a BLEU point
    (docs/log.md).
    """
    draw = np.random.default_rng(mix(seed, "epoch", epoch))
    order = draw.permutation(len(corpus)).astype(np.int32 if len(corpus) < 2**31 else np.int64)
    starts = _cut(corpus.source_lengths[order], corpus.target_lengths[order], limit)
    return Epoch(order, starts, np.append(starts[1:], len(order)))


def plan_by_length(corpus: Pairs, limit: int) -> Epoch:
    """All sentences in order of length, in batches with little padding, for validation."""
    source, target = corpus.source_lengths, corpus.target_lengths
    order = np.lexsort((source, target))
    starts = _cut_padded(source[order], target[order], limit)
    return Epoch(order, starts, np.append(starts[1:], len(order)))


def check_lengths(corpus: Pairs, limit: int) -> None:
    """Refuse a corpus with a sentence that no batch can hold."""
    if not len(corpus):
        raise UserError("The corpus has no sentence pairs: prepare it again.")
    longest = max(int(corpus.source_lengths.max()), int(corpus.target_lengths.max()))
    if longest > limit:
        raise UserError(
            f"The longest sentence has {longest} tokens, more than training.batch_tokens = {limit}"
            ": raise it, or prepare the data with a smaller maximal length."
        )


def _cut(source: Numbers, target: Numbers, limit: int) -> Numbers:
    """Cut so that the tokens of neither side exceed the limit, padding not counted. -> (M,)"""
    totals = [np.cumsum(side, dtype=np.int64) for side in (source, target)]
    starts, at = [], 0
    while at < len(source):
        starts.append(at)
        before = [int(total[at - 1]) if at else 0 for total in totals]
        ends = [
            int(np.searchsorted(total, done + limit, side="right"))
            for total, done in zip(totals, before, strict=True)
        ]
        at = max(at + 1, min(ends))
    return np.array(starts, dtype=np.int64)


def _cut_padded(source: Numbers, target: Numbers, limit: int) -> Numbers:
    """Cut sorted lengths so that B x the longest of either side stays within the limit. -> (M,)"""
    either = np.maximum(source, target).astype(np.int64)
    starts, at = [], 0
    while at < len(either):
        starts.append(at)
        window = either[at : at + max(1, limit // int(either[at]))]
        cost = np.maximum.accumulate(window) * np.arange(1, len(window) + 1)
        at += max(1, int(np.searchsorted(cost, limit, side="right")))
    return np.array(starts, dtype=np.int64)


def micro_batches(corpus: Pairs, sentences: Numbers) -> list[Numbers]:
    """Split a batch into the fewest micro-batches of similar length with little padding.

    (B,) -> M x (B_m,)

    The gradient of a batch is the sum over them, so the only cost is smaller matrix products.
    """
    lengths = corpus.source_lengths, corpus.target_lengths
    order = sentences[np.lexsort([side[sentences] for side in lengths])]
    real = np.sum([side[order] for side in lengths], axis=0, dtype=np.int64)  # (B,) both sides
    for count in range(1, MOST_MICRO_BATCHES + 1):
        bounds = np.searchsorted(np.cumsum(real), real.sum() * np.arange(1, count) / count)
        found = [some for some in np.split(order, bounds) if len(some)]
        padded = sum(len(some) * int(side[some].max()) for some in found for side in lengths)
        if real.sum() >= (1 - MOST_PADDING) * padded:
            break
    return found


class BatchStream:
    """An endless stream of batches; `epoch` and `batch`, the next one, are its whole state."""

    def __init__(self, corpus: Pairs, limit: int, seed: int, epoch: int = 0, batch: int = 0):
        self.corpus, self.limit, self.seed = corpus, limit, seed
        self.epoch, self.batch = epoch, batch
        self.plan = plan_epoch(corpus, limit, seed, epoch)

    def take(self, count: int) -> list[Numbers]:
        """The sentences of the next batches. -> count x (B,)"""
        return [self._next() for _ in range(count)]

    @property
    def epochs(self) -> float:
        """Number of passes over the corpus so far."""
        return self.epoch + self.batch / len(self.plan)

    def _next(self) -> Numbers:
        # the next epoch is planned only when needed, so that each position has one representation
        if self.batch == len(self.plan):
            self.epoch, self.batch = self.epoch + 1, 0
            self.plan = plan_epoch(self.corpus, self.limit, self.seed, self.epoch)
        self.batch += 1
        return self.plan[self.batch - 1]


def share(sentences: Numbers, rank: int, world: int) -> tuple[Numbers, float]:
    """One process's part of a batch, and its weight. (B,) -> (B',), 1 or 0

    If there are fewer sentences than processes, a process computes one sentence with weight 0:
    every process then takes the same path through the loop.
    """
    own = sentences[rank::world]
    return (own, 1.0) if len(own) else (sentences[:1], 0.0)


def collate(corpus: Pairs, sentences: Numbers, device: torch.device, whole: Numbers) -> Batch:
    """Fetch sentences, padded to the longest of the `whole` batch that they are a share of."""
    source = _padded([corpus.source(int(n)) for n in sentences], corpus.source_lengths[whole].max())
    target = _padded([corpus.target(int(n)) for n in sentences], corpus.target_lengths[whole].max())
    lengths = (corpus.source_lengths[sentences], corpus.target_lengths[sentences])
    source_length, target_length = (torch.from_numpy(n.astype(np.int64)) for n in lengths)
    return Batch(
        source.to(device), source_length.to(device), target.to(device), target_length.to(device)
    )


def _padded(lists: list[Numbers], width: int) -> torch.Tensor:
    """Token arrays side by side. -> (B, width)"""
    full = np.full((len(lists), int(width)), PAD, dtype=np.int64)
    for row, tokens in zip(full, lists, strict=True):
        row[: len(tokens)] = tokens
    return torch.from_numpy(full)


def in_order(corpus: Pairs, limit: int) -> Iterator[Numbers]:
    """All sentences once, in batches of similar length (validation)."""
    plan = plan_by_length(corpus, limit)
    return (plan[n] for n in range(len(plan)))
