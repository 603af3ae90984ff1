"""Full-sentence translation: the quality ceiling of streaming systems.

With the causal encoder that all systems share, the only difference is that it waits for the end;
with a bidirectional encoder it is the ordinary Transformer of other toolkits.
"""

from dataclasses import dataclass
from typing import ClassVar

from hmt.errors import UserError
from hmt.model.dims import Dims
from hmt.systems.token_system import TokenSystem


@dataclass(frozen=True)
class FullConfig:
    dims: Dims
    label_smoothing: float = 0.1
    encoder: str = "causal"  # or "bidirectional"

    def __post_init__(self) -> None:
        if self.encoder not in ("causal", "bidirectional"):
            raise UserError(f'encoder "{self.encoder}" is not "causal" or "bidirectional".')


@dataclass(frozen=True)
class FullKnobs:
    """There is nothing to choose: it reads everything, then writes."""


class Full(TokenSystem[FullConfig, FullKnobs, None]):
    """Every target token sees the whole source (Vaswani et al. 2017)."""

    name: ClassVar[str] = "full"
    Config: ClassVar[type] = FullConfig
    Knobs: ClassVar[type] = FullKnobs

    def __init__(self, config: FullConfig) -> None:
        super().__init__(config)
        self.transformer.sees_ahead = config.encoder == "bidirectional"
