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

# Lengths are blurred by up to this share of a token count before sorting, so that other sentences
# meet in every epoch; more mixes better and pads more.
BLUR = 0.04


class Pairs(Protocol):
    """What training needs of a corpus."""

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

    def padding(self, lengths: Numbers) -> float:
        """Share of a padded epoch that is padding. (N,) -> 0..1"""
        ordered = lengths[self.order]
        longest = np.maximum.reduceat(ordered, np.sort(self.starts))
        padded = (longest.astype(np.int64) * (np.sort(self.ends) - np.sort(self.starts))).sum()
        return 1.0 - float(ordered.sum(dtype=np.int64)) / float(padded)


def mix(*parts: int | str) -> int:
    """A seed that depends on every part: neighbouring steps get unrelated streams. -> 63 bits"""
    text = "\0".join(map(str, parts)).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big") >> 1


def plan_epoch(corpus: Pairs, limit: int, seed: int, epoch: int, *, shuffle: bool = True) -> Epoch:
    """Sort by blurred length, cut to the limit, shuffle the batches."""
    draw = np.random.default_rng(mix(seed, "epoch", epoch))
    source, target = corpus.source_lengths, corpus.target_lengths
    order = _sorted(source, target, draw if shuffle else None)
    starts = _cut(source[order], target[order], limit)
    ends = np.append(starts[1:], len(order))
    if shuffle:
        turn = draw.permutation(len(starts))
        starts, ends = starts[turn], ends[turn]
    return Epoch(order, starts, ends)


def check_lengths(corpus: Pairs, limit: int) -> None:
    """Refuse a corpus with a sentence that no batch can hold."""
    if not len(corpus):
        raise UserError("The corpus has no sentence pairs: prepare it anew.")
    longest = max(int(corpus.source_lengths.max()), int(corpus.target_lengths.max()))
    if longest > limit:
        raise UserError(
            f"The longest sentence has {longest} tokens, more than training.batch_tokens = {limit}"
            ": raise it, or prepare the data with a smaller maximal length."
        )


def _sorted(source: Numbers, target: Numbers, draw: np.random.Generator | None) -> Numbers:
    """Order by target length, then by source length up and down in turn. -> (N,)

    The turns keep the source lengths of neighbours close where one target length gives way to
    the next.  One floating-point key per sentence: four million pairs sort in about a second.
    """
    bins, lengths = target.astype(np.float64), source.astype(np.float64)
    if draw is not None:
        bins *= 1 + BLUR * draw.random(len(bins))
        lengths += draw.random(len(lengths)) * (1 + BLUR * lengths)
    bins = np.rint(bins)
    span = float(lengths.max()) + 1
    key = bins * span + np.where(bins % 2 == 0, lengths, span - lengths)
    return np.argsort(key, kind="stable").astype(np.int32 if len(key) < 2**31 else np.int64)


def _cut(source: Numbers, target: Numbers, limit: int) -> Numbers:
    """Cut sorted lengths so that B x the longest of either side stays within the limit. -> (M,)"""
    either = np.maximum(source, target).astype(np.int64)
    starts, at = [], 0
    while at < len(either):
        starts.append(at)
        window = either[at : at + max(1, limit // int(either[at]))]
        cost = np.maximum.accumulate(window) * np.arange(1, len(window) + 1)
        at += max(1, int(np.searchsorted(cost, limit, side="right")))
    return np.array(starts, dtype=np.int64)


class BatchStream:
    """Batches without end; `epoch` and `batch` say which comes next, and are all of its state."""

    def __init__(self, corpus: Pairs, limit: int, seed: int, epoch: int = 0, batch: int = 0):
        self.corpus, self.limit, self.seed = corpus, limit, seed
        self.epoch, self.batch = epoch, batch
        self.plan = plan_epoch(corpus, limit, seed, epoch)

    def take(self, count: int) -> list[Numbers]:
        """The sentences of the next batches. -> count x (B,)"""
        return [self._next() for _ in range(count)]

    @property
    def epochs(self) -> float:
        """How often the corpus has been seen."""
        return self.epoch + self.batch / len(self.plan)

    def _next(self) -> Numbers:
        # the next epoch is planned when it is needed, so that no position has two names
        if self.batch == len(self.plan):
            self.epoch, self.batch = self.epoch + 1, 0
            self.plan = plan_epoch(self.corpus, self.limit, self.seed, self.epoch)
        self.batch += 1
        return self.plan[self.batch - 1]


def share(sentences: Numbers, rank: int, world: int) -> tuple[Numbers, float]:
    """One process's part of a batch, and its weight. (B,) -> (B',), 1 or 0

    Where there are fewer sentences than processes, a process computes one sentence for nothing:
    so every process does the same kind of work, and none needs a second way through the loop.
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
    plan = plan_epoch(corpus, limit, 0, 0, shuffle=False)
    return (plan[n] for n in range(len(plan)))
