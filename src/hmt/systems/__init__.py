"""The systems on one Transformer; a new one is one file and one line here."""

import sys
from dataclasses import fields, is_dataclass
from importlib import import_module
from pathlib import Path
from typing import cast

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
from hmt.systems.parameters import Configuration
from hmt.systems.wait_k import WaitK

__all__ = ["SYSTEMS", "build", "is_foreign", "system_named"]

TABLE = (
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
# looked up by name, the types of a system's knobs and memory are not known
SYSTEMS = {system.name: system for system in cast("tuple[type[System], ...]", TABLE)}


def build(
    name: str, config: dict[str, object], where: str = "config", trust: bool = False
) -> System:
    """Build a system from its name and plain configuration; `where` appears in error messages."""
    kind = system_named(name, trust)
    made: Configuration = from_plain(kind.Config, config, where)
    if not 0 <= made.label_smoothing < 1:
        raise UserError(
            f"label_smoothing = {made.label_smoothing}: give 0 or more, and less than 1."
        )
    return kind(made)


def is_foreign(name: str) -> bool:
    """Whether the name has the form package.module:Class, a system defined outside hmt."""
    return ":" in name


def system_named(name: str, trust: bool = False) -> type[System]:
    """Look up a system's class by name, or import package.module:Class if it is trusted."""
    if is_foreign(name):
        if not trust:
            raise UserError(
                f'The system "{name}" is code outside hmt, which runs when it is loaded: allow it '
                "by --trust, or by hmt.load(path, trust=True), if you trust its origin."
            )
        return _imported(name)
    if name not in SYSTEMS:
        raise UserError(
            f'System "{name}" is unknown; known are {", ".join(SYSTEMS)}, and package.module:Class '
            "for one of your own."
        )
    return SYSTEMS[name]


def _imported(name: str) -> type[System]:
    module, _, attribute = name.partition(":")
    # unlike `python -m hmt`, the `hmt` command does not search the current directory for modules
    if str(Path.cwd()) not in sys.path:
        sys.path.append(str(Path.cwd()))
    try:
        found = vars(import_module(module))
    except (ImportError, ValueError) as error:
        raise UserError(
            f'System "{name}" cannot be imported ({error}); write package.module:Class, where the '
            "package is installed or is in the current folder."
        ) from None
    if attribute not in found:
        raise UserError(
            f'System "{name}" cannot be imported: {module} defines no "{attribute}"; write '
            "package.module:Class."
        )
    kind = found[attribute]
    if not (isinstance(kind, type) and issubclass(kind, System)):
        raise UserError(
            f'"{name}" is not a system: derive the class from hmt.systems.contract.System.'
        )
    _check_parameters(name, kind)
    return kind


def _check_parameters(name: str, kind: type[System]) -> None:
    """Refuse a class that lacks what every system has, before it fails in the middle of a run."""
    for attribute in ("name", "Config", "Knobs"):
        if not hasattr(kind, attribute):
            raise UserError(
                f'The system "{name}" has no {attribute}: give its class that attribute.'
            )
    for made in (kind.Config, kind.Knobs):
        if not (isinstance(made, type) and is_dataclass(made)):
            raise UserError(
                f'The system "{name}" has {made!r} as its Config or Knobs; both must be frozen '
                "dataclasses."
            )
    lacking = {"dims", "label_smoothing"} - {field.name for field in fields(kind.Config)}
    if lacking:
        raise UserError(
            f'The Config of the system "{name}" lacks {" and ".join(sorted(lacking))}: every '
            "Config has `dims: Dims` and `label_smoothing: float`."
        )
