"""Multipath wait-k (Elbayad et al. 2020): one model for every k, drawn for each batch.

Everything but the draw is wait-k: token y_i sees g_i = min(k + i - 1, J) source tokens.
"""

import random
from dataclasses import dataclass
from typing import ClassVar

from hmt.model.dims import Dims
from hmt.systems.batch import Batch
from hmt.systems.token_system import TokenSystem
from hmt.systems.wait_k import WaitKKnobs

# Validation losses are comparable only if they are computed at the same lags.
VALIDATION_LAGS = (1, 3, 5, 7, 9)


@dataclass(frozen=True)
class MultipathConfig:
    dims: Dims
    label_smoothing: float = 0.1


class Multipath(TokenSystem[MultipathConfig, WaitKKnobs, None]):
    """Wait-k with k ~ U{1..J} per batch; any k at inference."""

    name: ClassVar[str] = "multipath"
    Config: ClassVar[type] = MultipathConfig
    Knobs: ClassVar[type] = WaitKKnobs

    def sample(self, draw: random.Random, batch: Batch) -> WaitKKnobs:
        return WaitKKnobs(k=draw_lag(draw, batch))

    def validation_knobs(self) -> list[WaitKKnobs]:
        return [WaitKKnobs(k=k) for k in VALIDATION_LAGS]

    def needed(self, token: int, knobs: WaitKKnobs) -> int | None:
        return knobs.k + token - 1

    def refreshes(self, knobs: WaitKKnobs) -> bool:
        return knobs.refresh


def draw_lag(draw: random.Random, batch: Batch) -> int:
    """k ~ U{1..J} with J the longest source of the batch, its end token included.

    Not each sentence's own length, which would train short and long sentences at different lags.
    """
    return draw.randint(1, batch.source.shape[1])
