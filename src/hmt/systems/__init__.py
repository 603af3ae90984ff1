"""The systems on one Transformer; a new one is one file and one line here."""

from hmt.errors import UserError
from hmt.plain import from_plain
from hmt.systems.adaptive import Adaptive
from hmt.systems.contract import System
from hmt.systems.full import Full
from hmt.systems.gma import GMA
from hmt.systems.gsimt import GSiMT
from hmt.systems.hmt import HMT
from hmt.systems.itst import ITST
from hmt.systems.mma import MMA
from hmt.systems.moe_wait_k import MoEWaitK
from hmt.systems.multipath import Multipath
from hmt.systems.wait_k import WaitK

__all__ = ["SYSTEMS", "build", "from_plain", "system_named"]

TABLE: tuple[type[System], ...] = (
    HMT,
    Full,
    WaitK,
    Multipath,
    Adaptive,
    MoEWaitK,
    MMA,
    GMA,
    GSiMT,
    ITST,
)
SYSTEMS: dict[str, type[System]] = {system.name: system for system in TABLE}


def build(name: str, config: dict[str, object]) -> System:
    """A system from its name and its configuration as plain data."""
    kind = system_named(name)
    made = from_plain(kind.Config, config, "config")
    smoothing = getattr(made, "label_smoothing", 0.0)
    if not 0 <= smoothing < 1:
        raise UserError(f"label_smoothing = {smoothing}: give 0 or more, and less than 1.")
    return kind(made)


def system_named(name: str) -> type[System]:
    """The class of a system; an unknown name is the user's mistake."""
    if name not in SYSTEMS:
        raise UserError(f'System "{name}" is unknown; known are {", ".join(SYSTEMS)}.')
    return SYSTEMS[name]
