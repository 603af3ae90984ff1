"""Wait-k (Ma et al. 2019): read k tokens, then write one and read one in turn.

Shapes: B sentences, I target tokens.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from hmt.errors import UserError
from hmt.model.transformer import Dims
from hmt.systems.system import Batch
from hmt.systems.tokens import TokenSystem


@dataclass(frozen=True)
class WaitKConfig:
    dims: Dims
    k: int = 3
    label_smoothing: float = 0.1


@dataclass(frozen=True)
class WaitKKnobs:
    k: int = 3  # tokens read before the first is written

    def __post_init__(self) -> None:
        if self.k < 1:
            raise UserError(f"k = {self.k}: at least one source token must be read first.")


class WaitK(TokenSystem):
    """One model per k; y_i sees min(k + i - 1, J) source tokens."""

    name: ClassVar[str] = "wait-k"
    Config: ClassVar[type] = WaitKConfig
    Knobs: ClassVar[type] = WaitKKnobs

    def default_knobs(self) -> dict[str, Any]:
        return {"k": self.config.k}

    def moments(self, batch: Batch, knobs: WaitKKnobs) -> Tensor:
        return wait_k_moments(knobs.k, batch)

    def needed(self, token: int, knobs: WaitKKnobs) -> int | None:
        return knobs.k + token - 1


def wait_k_moments(k: int, batch: Batch) -> Tensor:
    """g_i = min(k + i - 1, J). -> (B, I)"""
    schedule = k + torch.arange(batch.target.shape[1], device=batch.target.device)
    return schedule.minimum(batch.source_length[:, None])
