"""Wait-k (Ma et al. 2019): read k tokens, then write one and read one in turn.

Token y_i sees g_i = min(k + i - 1, J) source tokens, in training as in streaming.
"""

from dataclasses import dataclass
from typing import ClassVar

from hmt.errors import UserError
from hmt.model.dims import Dims
from hmt.systems.token_system import TokenSystem


@dataclass(frozen=True)
class WaitKConfig:
    dims: Dims
    k: int = 3
    label_smoothing: float = 0.1


@dataclass(frozen=True)
class WaitKKnobs:
    k: int = 3  # tokens read before the first is written
    refresh: bool = False  # recompute the whole prefix at each step, seeing all that was read

    def __post_init__(self) -> None:
        if self.k < 1:
            raise UserError(f"k = {self.k}: at least one source token must be read first.")


class WaitK(TokenSystem[WaitKConfig, WaitKKnobs, None]):
    """One model per k."""

    name: ClassVar[str] = "wait-k"
    Config: ClassVar[type] = WaitKConfig
    Knobs: ClassVar[type] = WaitKKnobs

    def default_knobs(self) -> dict[str, object]:
        return {"k": self.config.k}

    def needed(self, token: int, knobs: WaitKKnobs) -> int | None:
        return knobs.k + token - 1

    def refreshes(self, knobs: WaitKKnobs) -> bool:
        return knobs.refresh
