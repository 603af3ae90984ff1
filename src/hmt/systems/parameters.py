"""The types that a system is generic in: those of its configuration, knobs and memory.

Each system names its own, as in `System[HMTConfig, HMTKnobs, HMTMemory]`. A bare `System` or
`Stream` belongs to some system: which one is only known from the model directory that is being
loaded. Its knobs and memory are then opaque: they go back to the system they came from, and nobody
else looks inside.
"""

from typing import Protocol

from typing_extensions import TypeVar

from hmt.model.dims import Dims


class Configuration(Protocol):
    """What the configurations of all systems have."""

    @property
    def dims(self) -> Dims: ...

    @property
    def label_smoothing(self) -> float: ...


ConfigT = TypeVar("ConfigT", bound=Configuration, default=Configuration)
KnobsT = TypeVar("KnobsT", default=object)
MemoryT = TypeVar("MemoryT", default=object)
