"""Random policies for random weights, which have none of their own.

How many passes a token costs depends on when a system writes. With random weights an MMA reads
everything first and a GSiMT writes everything after one token: timing that would mean nothing.
"""

import copy
import random

import torch
from torch import Tensor, nn

from hmt.model.passes import Pass
from hmt.systems.contract import System
from hmt.systems.gsimt import GSiMT
from hmt.systems.hmt import HMT
from hmt.systems.mma import MMA, Monotonic

# Trained models with lower 3 need 1.19 (Multi30k) and 1.28 (the first that shipped) passes per
# token; confident four times out of five, a token needs 1.25.
CONFIDENT = 0.8
WRITES = 0.5  # GSiMT: as many reads as writes
# MMA: a head moves on by 0.67 source tokens per target token; the slowest of all its heads, which
# the others wait for, then keeps pace with the source over sentences of about 25 tokens.
STOPS = 0.6
CERTAIN = 1e3  # a logit
PLACES = 1024  # longer sentences meet the same draws again


def with_random_policy(system: System) -> System:
    """A copy that writes at random moments, the same at every call; other systems unchanged."""
    system, draw = copy.deepcopy(system), torch.Generator().manual_seed(1)
    if isinstance(system, HMT):
        _confident_at_random(system)
    elif isinstance(system, GSiMT):
        system.write = RandomLogit(WRITES, draw)  # type: ignore[assignment]
    elif isinstance(system, MMA):
        for module in system.modules():
            if isinstance(module, Monotonic):
                _stop_at_random(module, draw)
    return system


def _confident_at_random(system: HMT) -> None:
    confidence, draw = system.confidence, random.Random(1)

    def drawn(hidden: Tensor, means: Tensor) -> Tensor:
        signs = [CERTAIN if draw.random() < CONFIDENT else -CERTAIN for _ in range(len(hidden))]
        return confidence(hidden, means) + torch.tensor(signs)

    system.confidence = drawn  # type: ignore[method-assign]


class RandomLogit(nn.Module):
    """Certain of yes in a share of its rows, certain of no in the others. (N, D) -> (N, 1)"""

    def __init__(self, share: float, draw: torch.Generator) -> None:
        super().__init__()
        self.share, self.draw = share, draw

    def forward(self, rows: Tensor) -> Tensor:
        yes = torch.rand(len(rows), 1, generator=self.draw) < self.share
        return torch.where(yes, CERTAIN, -CERTAIN)


def _stop_at_random(layer: Monotonic, draw: torch.Generator) -> None:
    """Stops are drawn once per head, target token and source token: a row computed again agrees."""
    shape = layer.heads, PLACES, PLACES
    table = torch.where(torch.rand(shape, generator=draw) < STOPS, CERTAIN, -CERTAIN)
    scores = layer.stop_scores

    def drawn(x: Tensor, keys: Tensor, at: Pass) -> Tensor:
        computed = scores(x, keys, at)  # (B, H, Q, J): computed because its cost is measured
        chosen = table[:, at.rows.target % PLACES, : computed.shape[-1]]  # (H, B, Q, J)
        return computed + chosen.transpose(0, 1)

    layer.stop_scores = drawn  # type: ignore[method-assign]
