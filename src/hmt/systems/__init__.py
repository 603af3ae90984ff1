"""Nine systems on one Transformer; a tenth is one file and one line here."""

import dataclasses
import types
import typing
from typing import Any

from hmt.errors import UserError
from hmt.systems.adaptive import Adaptive
from hmt.systems.full import Full
from hmt.systems.gma import GMA
from hmt.systems.gsimt import GSiMT
from hmt.systems.hmt import HMT
from hmt.systems.mma import MMA
from hmt.systems.moe_wait_k import MoEWaitK
from hmt.systems.multipath import Multipath
from hmt.systems.system import System
from hmt.systems.wait_k import WaitK

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
)
SYSTEMS: dict[str, type[System]] = {system.name: system for system in TABLE}


def build(name: str, config: dict[str, Any]) -> System:
    """A system from its name and its configuration as plain data."""
    kind = system_named(name)
    return kind(from_plain(kind.Config, config, "config"))


def system_named(name: str) -> type[System]:
    """The class of a system; an unknown name is the user's mistake."""
    if name not in SYSTEMS:
        raise UserError(f'System "{name}" is unknown; known are {", ".join(SYSTEMS)}.')
    return SYSTEMS[name]


def from_plain(kind: type, values: dict[str, Any], where: str) -> Any:
    """A frozen dataclass from plain data; an unknown or missing key is the user's mistake."""
    hints = typing.get_type_hints(kind)
    allowed = {f.name: f for f in dataclasses.fields(kind)}
    for key in values:
        if key not in allowed:
            raise UserError(f'"{where}.{key}" is unknown; allowed are {", ".join(allowed)}.')
    for key, f in allowed.items():
        has_default = (
            f.default is not dataclasses.MISSING or f.default_factory is not dataclasses.MISSING
        )
        if key not in values and not has_default:
            raise UserError(f'"{where}.{key}" is missing.')
    return kind(**{k: _convert(hints[k], v, f"{where}.{k}") for k, v in values.items()})


def _convert(hint: Any, value: Any, where: str) -> Any:
    if dataclasses.is_dataclass(hint):
        if not isinstance(value, dict):
            raise UserError(f'"{where}" is {value!r}; it must be a table of settings.')
        return from_plain(typing.cast(type, hint), value, where)
    origin = typing.get_origin(hint)
    options = typing.get_args(hint) if origin in (typing.Union, types.UnionType) else (hint,)
    for option in options:
        made = _as(option, value)
        if made is not _UNFIT:
            return made
    names = " or ".join(getattr(o, "__name__", str(o)) for o in options)
    raise UserError(f'"{where}" is {value!r}; it must be {names}.')


_UNFIT = object()


def _as(kind: Any, value: Any) -> Any:
    if typing.get_origin(kind) is tuple:
        items = typing.get_args(kind)
        if not isinstance(value, list | tuple):
            return _UNFIT
        if len(items) == 2 and items[1] is Ellipsis:
            items = (items[0],) * len(value)
        made = tuple(_as(k, v) for k, v in zip(items, value, strict=False))
        return _UNFIT if len(items) != len(value) or _UNFIT in made else made
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if kind is types.NoneType:
        return None if value is None else _UNFIT
    is_bool = isinstance(value, bool)
    return value if isinstance(value, kind) and is_bool == (kind is bool) else _UNFIT
