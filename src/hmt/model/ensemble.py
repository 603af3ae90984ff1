"""Several Transformers that predict together: the mean of their probabilities.

Shapes: M members, N rows of this pass (packed), D width and H heads of a member, V vocabulary.

To the rest of the program it is one Transformer of width M * D with M * H heads: hidden vectors
stand side by side, and so do keys and values, head after head, in the same caches.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn

from hmt.model.passes import Packing, Pass
from hmt.model.transformer import DecoderOutput, Remember, Transformer
from hmt.model.vocabulary import at_least_float32


class MeanOutput(nn.Module):
    """Logarithms of the members' mean probabilities, in place of logits."""

    def __init__(self, members: Sequence[Transformer]) -> None:
        super().__init__()
        self.outputs = nn.ModuleList(member.output for member in members)
        self.weight = members[0].output.weight  # for its precision and device

    def forward(self, hidden: Tensor) -> Tensor:
        """(N, M * D) -> (N, V)"""
        each = hidden.chunk(len(self.outputs), -1)
        logs = [
            at_least_float32(output(own)).log_softmax(-1)
            for output, own in zip(self.outputs, each, strict=True)
        ]
        return torch.stack(logs).logsumexp(0) - math.log(len(logs))


class Ensemble(Transformer):
    """Has no weights but those of its members."""

    output: MeanOutput  # type: ignore[assignment]

    def __init__(self, members: Sequence[Transformer]) -> None:
        nn.Module.__init__(self)
        self.members = list(members)  # a plain list: whoever composes them owns their weights
        count, dims = len(members), members[0].dims
        self.dims = replace(dims, width=count * dims.width, heads=count * dims.heads)
        self.sees_ahead = False
        self.encoder, self.decoder = members[0].encoder, members[0].decoder  # for their number
        self.output = MeanOutput(members)

    def encode(
        self,
        tokens: Tensor,
        positions: Tensor | None = None,
        packing: Packing | None = None,
        keys: int | None = None,
        remember: Remember | None = None,
    ) -> Tensor:
        """(B, Q) -> (N, M * D)"""
        joint = self._joint(remember)
        return torch.cat(
            [
                member.encode(tokens, positions, packing, keys, joint(n))
                for n, member in enumerate(self.members)
            ],
            dim=-1,
        )

    def keep(self, h: Tensor) -> list[Tensor]:
        """(..., M * D) -> (..., M * W) per layer"""
        each = h.chunk(len(self.members), -1)
        kept = [member.keep(own) for member, own in zip(self.members, each, strict=True)]
        return [self._beside(layer) for layer in zip(*kept, strict=True)]

    def decode(
        self, tokens: Tensor, source: list[Tensor], at: Pass, remember: Remember | None = None
    ) -> DecoderOutput:
        """(N,), source per layer -> hidden vectors (N, M * D)"""
        joint = self._joint(remember)
        done = [
            member.decode(tokens, [self._own(n, layer) for layer in source], at, joint(n))
            for n, member in enumerate(self.members)
        ]
        shown = [d.attention for d in done]
        weights = [torch.stack(layer).mean(0) for layer in zip(*shown, strict=True)]
        return DecoderOutput(torch.cat([d.hidden for d in done], -1), done[0].reports, weights)

    def _beside(self, each: Sequence[Tensor]) -> Tensor:
        """Projections of the members: first the keys of all, then the values. -> (..., M * W)"""
        width = self.members[0].dims.width
        split = [x.unflatten(-1, (-1, width)) for x in each]  # (..., P, D)
        return torch.stack(split, dim=-2).flatten(-3)

    def _own(self, member: int, heads: Tensor) -> Tensor:
        """A member's part of what a cache returns. (P, B, M * H, ...) -> (P, B, H, ...)"""
        count = self.members[0].dims.heads
        return heads[:, :, member * count : (member + 1) * count]

    def _joint(self, remember: Remember | None) -> Callable[[int], Remember | None]:
        """A `remember` for each member: members run in turn and share the cache's layers."""
        if remember is None:
            return lambda member: None
        so_far: dict[int, list[Tensor]] = {}

        def of(member: int) -> Remember:
            def write_and_read(layer: int, new: Tensor) -> Tensor:
                known = so_far.setdefault(layer, [])
                known.append(new)
                # those whose turn is yet to come write theirs over the zeros
                rest = [torch.zeros_like(new)] * (len(self.members) - len(known))
                return self._own(member, remember(layer, self._beside([*known, *rest])))

            return write_and_read

        return of
