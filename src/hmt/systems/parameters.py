"""The types that a system is generic in: those of its configuration, knobs and memory.

Each system names its own, as in `System[HMTConfig, HMTKnobs, HMTMemory]`.  A bare `System` or
`Stream` is of some system: which one, only the model directory that is being loaded can say.
"""

from typing import Any, Protocol

from typing_extensions import TypeVar

from hmt.model.dims import Dims


class Configuration(Protocol):
    """What the configurations of all systems have."""

    @property
    def dims(self) -> Dims: ...

    @property
    def label_smoothing(self) -> float: ...


# Python has no other word for "of some type" than the default below: not a hole in the contract.
ConfigT = TypeVar("ConfigT", bound=Configuration, default=Any)
KnobsT = TypeVar("KnobsT", default=Any)
MemoryT = TypeVar("MemoryT", default=Any)
