"""Encoding and filtering pairs in blocks, on several cores, in constant memory."""

import os
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, fields
from itertools import chain
from multiprocessing import get_context, parent_process
from threading import Thread
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hmt.errors import UserError
from hmt.text.language_pair import Tokenizers
from hmt.text.symbols import EOS, UNK


@dataclass(frozen=True)
class SplitReport:
    """What became of the pairs of one split: each is kept or dropped for the first reason."""

    pairs: int = 0
    kept: int = 0
    empty: int = 0
    too_long: int = 0
    ratio: int = 0
    source_tokens: int = 0
    target_tokens: int = 0
    source_unknown: int = 0
    target_unknown: int = 0

    def __add__(self, other: "SplitReport") -> "SplitReport":
        names = [f.name for f in fields(self)]
        return SplitReport(**{n: getattr(self, n) + getattr(other, n) for n in names})


@dataclass(frozen=True)
class Block:
    """Some consecutive pairs as raw lines."""

    source: bytes
    target: bytes


@dataclass(frozen=True)
class Encoded:
    """The kept pairs of a block, laid end to end, source and target."""

    tokens: tuple[NDArray[Any], NDArray[Any]]
    lengths: tuple[NDArray[np.int64], NDArray[np.int64]]
    report: SplitReport


@dataclass(frozen=True)
class Encoder:
    """Turns blocks of raw pairs into ids; `limits` are tokens per side and their ratio."""

    tokenizers: Tokenizers
    limits: tuple[int, float] | None
    dtype: str

    def __call__(self, block: Block) -> Encoded:
        """Encode and filter the pairs of a block."""
        sides = [
            tokenizer.encode_batch(raw.decode("utf-8").removesuffix("\n").split("\n"))
            for tokenizer, raw in zip(self.tokenizers, (block.source, block.target), strict=True)
        ]
        lengths = np.array([[len(ids) for ids in side] for side in sides])  # (2, N)
        shorter, longer = lengths.min(0), lengths.max(0)
        empty = shorter == 0
        too_long = unequal = np.zeros_like(empty)
        if self.limits is not None:
            too_long = ~empty & (longer > self.limits[0])
            unequal = ~empty & ~too_long & (longer > self.limits[1] * shorter)
        kept = ~(empty | too_long | unequal)
        source, target = (self._lay_out(side, kept) for side in sides)
        report = SplitReport(
            pairs=len(kept),
            kept=int(kept.sum()),
            empty=int(empty.sum()),
            too_long=int(too_long.sum()),
            ratio=int(unequal.sum()),
            source_tokens=len(source),
            target_tokens=len(target),
            source_unknown=int((source == UNK).sum()),
            target_unknown=int((target == UNK).sum()),
        )
        # One more each, for the end token.
        ends = (lengths[0][kept] + 1, lengths[1][kept] + 1)
        return Encoded((source, target), ends, report)

    def _lay_out(self, side: list[list[int]], kept: NDArray[np.bool_]) -> NDArray[Any]:
        chosen = (chain(ids, (EOS,)) for ids, keep in zip(side, kept, strict=True) if keep)
        return np.fromiter(chain.from_iterable(chosen), dtype=self.dtype)


def encode_all(blocks: Iterable[Block], encoder: Encoder, workers: int) -> Iterator[Encoded]:
    """Encode blocks in order, on several cores, with only a few of them in memory at a time."""
    if workers == 1:
        yield from map(encoder, blocks)
        return
    # Not fork: the tokenizer library and torch have started threads, which do not survive it.
    context = get_context("spawn")
    waiting: deque[Future[Encoded]] = deque()
    try:
        with ProcessPoolExecutor(workers, context, _start_worker, (encoder,)) as pool:
            for block in blocks:
                waiting.append(pool.submit(_encode_in_worker, block))
                if len(waiting) > 2 * workers:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
    except BrokenProcessPool as error:
        raise UserError(
            "The worker processes died; if memory is short or your script lacks "
            '`if __name__ == "__main__":`, set workers to 1.'
        ) from error


_worker_encoder: Encoder | None = None


def _start_worker(encoder: Encoder) -> None:
    global _worker_encoder
    _worker_encoder = encoder
    Thread(target=_leave_with_parent, daemon=True).start()


def _leave_with_parent() -> None:
    """End this worker when its parent process is gone, for example killed."""
    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _encode_in_worker(block: Block) -> Encoded:
    assert _worker_encoder is not None
    return _worker_encoder(block)
