"""Sentence pairs side by side.

Shapes: B batch, I target tokens, J source tokens.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from hmt.text.symbols import EOS, PAD


@dataclass(frozen=True)
class Batch:
    """Sentence pairs, padded on the right; both sides include the end token."""

    source: Tensor  # (B, J)
    source_length: Tensor  # (B,)
    target: Tensor  # (B, I)
    target_length: Tensor  # (B,)

    @property
    def inputs(self) -> Tensor:
        """Decoder input: the end token, then the target without its last token. (B, I)"""
        return torch.cat([torch.full_like(self.target[:, :1], EOS), self.target[:, :-1]], dim=1)


def make_batch(
    sources: Sequence[Sequence[int]],
    targets: Sequence[Sequence[int]],
    device: torch.device | str | None = None,
) -> Batch:
    """Pad token lists (end tokens included) into a batch."""
    source, source_length = pad(sources, device)
    target, target_length = pad(targets, device)
    return Batch(source, source_length, target, target_length)


def pad(
    lists: Sequence[Sequence[int]], device: torch.device | str | None = None
) -> tuple[Tensor, Tensor]:
    """Token lists side by side. -> (B, longest), (B,)"""
    lengths = torch.tensor([len(x) for x in lists], dtype=torch.long)
    full = torch.full((len(lists), int(lengths.max())), PAD, dtype=torch.long)
    for row, tokens in zip(full, lists, strict=True):
        row[: len(tokens)] = torch.as_tensor(tokens, dtype=torch.long)
    return full.to(device), lengths.to(device)
