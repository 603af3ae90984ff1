"""Quality of a policy: had the source of each target word been read when it was written?

Gold word alignments, one sentence per line, source index first: `3-2` sure, `3p2` possible, counted
from 1 (RWTH's .talp) or from 0 (Pharaoh, .talp0). Shapes: I target tokens, with the end token.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

from hmt.errors import UserError
from hmt.files import read_text
from hmt.metrics.latency import latency
from hmt.text.tokenizer import Tokenizer

Link = tuple[int, int]  # source word, target word, from 0
_LINK = re.compile(r"(\d+)([-p])(\d+)")


@dataclass(frozen=True)
class Alignment:
    """Which source words each target word translates."""

    sure: frozenset[Link]
    possible: frozenset[Link]  # the sure ones not included


def read_alignments(
    path: Path, sources: Sequence[str], targets: Sequence[str], base: int | None = None
) -> list[Alignment]:
    """The alignment of every pair; without a base it is 0 if any index is 0, else 1."""
    text = read_text(path)
    lines = text.removesuffix("\n").split("\n") if text else []
    if len(lines) != len(sources):
        raise UserError(
            f"{path} has {len(lines)} lines but there are {len(sources)} pairs; line n must align "
            "pair n, and is empty if nothing in it is aligned."
        )
    links = [_links(line, f"{path}, line {n}") for n, line in enumerate(lines, 1)]
    if base is None:
        base = 0 if any(0 in (s, t) for found in links for s, _, t in found) else 1
    alignments = []
    for n, found in enumerate(links):
        lengths = len(sources[n].split()), len(targets[n].split())
        for link in found:
            _check(link, lengths, base, f"{path}, line {n + 1}")
        sure = frozenset((s - base, t - base) for s, kind, t in found if kind == "-")
        every = frozenset((s - base, t - base) for s, _, t in found)
        alignments.append(Alignment(sure, every - sure))
    return alignments


def _links(line: str, place: str) -> list[tuple[int, str, int]]:
    found = []
    for text in line.split():
        match = _LINK.fullmatch(text)
        if match is None:
            raise UserError(
                f"{place}: {text!r} is not a link; write source-target as in 3-2 (sure) or 3p2 "
                "(possible)."
            )
        found.append((int(match[1]), match[2], int(match[3])))
    return found


def _check(link: tuple[int, str, int], lengths: tuple[int, int], base: int, place: str) -> None:
    source, kind, target = link
    for side, index, length in (("source", source, lengths[0]), ("target", target, lengths[1])):
        if not base <= index < length + base:
            raise UserError(
                f"{place}: the link {source}{kind}{target} names {side} word {index}, but the "
                f"{side} has {length} words, counted from {base}; give the files that were "
                "aligned, source index first, or another --alignment-base."
            )


def read_shares(
    alignment: Alignment,
    reads: Sequence[int],
    source_lengths: Sequence[int],
    target_lengths: Sequence[int],
) -> dict[str, dict[str, Any]]:
    """How many target words had all their source words read; reads (I), lengths in tokens per word.

    A target word is decided by its first token, so what was read then counts; a source word is read
    when its last token is. Words without any link say nothing about the policy and are skipped.
    """
    needed = list(accumulate(source_lengths))
    starts = [end - n for end, n in zip(accumulate(target_lengths), target_lengths, strict=True)]
    links = {"sure": alignment.sure, "possible": alignment.sure | alignment.possible}
    shares = {}
    for name, chosen in links.items():
        last: dict[int, int] = {}  # per target word, the last source word of its links
        for source, target in chosen:
            last[target] = max(source, last.get(target, 0))
        ready = sum(reads[starts[t]] >= needed[s] for t, s in last.items())
        share = ready / len(last) if last else None
        shares[name] = {"words": len(last), "read": ready, "share": share}
    return shares


class PolicyQuality:
    """Shares of each pair and of all pairs, with their latency."""

    def __init__(
        self,
        tokenizers: tuple[Tokenizer, Tokenizer],
        sources: Sequence[str],
        targets: Sequence[str],
        alignments: Sequence[Alignment],
    ) -> None:
        self._tokenizers = tokenizers
        self._pairs = list(zip(sources, targets, alignments, strict=True))
        self.lags: list[float | None] = []  # AL in tokens of each pair so far
        self._words = {"sure": 0, "possible": 0}
        self._read = {"sure": 0, "possible": 0}

    def add(self, index: int, reads: Sequence[int]) -> dict[str, dict[str, Any]]:
        """The shares of one pair under these reads; (I)."""
        *texts, alignment = self._pairs[index]
        source, target = (
            [len(tokenizer.encode(word)) for word in text.split()]
            for tokenizer, text in zip(self._tokenizers, texts, strict=True)
        )
        shares = read_shares(alignment, reads, source, target)
        for name, values in shares.items():
            self._words[name] += values["words"]
            self._read[name] += values["read"]
        self.lags.append((latency(reads, sum(source) + 1) or {}).get("AL"))
        return shares

    def __str__(self) -> str:
        parts = [
            f"{self._read[name] / total:.2%} ({self._read[name]:,} of {total:,}) by {what} links"
            for name, what in (("sure", "sure"), ("possible", "sure and possible"))
            if (total := self._words[name])
        ]
        shown = ", ".join(parts) or "no word is aligned"
        known = [lag for lag in self.lags if lag is not None]
        lag = f"; AL {sum(known) / len(known):.3f} tokens" if known else ""
        return f"Aligned target words whose source had been read: {shown}{lag}."
