"""Full-sentence translation with the causal encoder: the quality ceiling of streaming systems."""

from dataclasses import dataclass
from typing import Any, ClassVar

from hmt.model.transformer import Dims
from hmt.systems.tokens import TokenSystem


@dataclass(frozen=True)
class FullConfig:
    dims: Dims
    label_smoothing: float = 0.1


@dataclass(frozen=True)
class FullKnobs:
    """There is nothing to choose: it reads everything, then writes."""


class Full(TokenSystem):
    """Every target token sees the whole source (Vaswani et al. 2017)."""

    name: ClassVar[str] = "full"
    Config: ClassVar[type] = FullConfig
    Knobs: ClassVar[type] = FullKnobs

    def needed(self, token: int, knobs: Any) -> int | None:
        return None
