"""Frozen dataclasses from plain data, such as JSON, TOML and keyword arguments hold."""

import dataclasses
import types
import typing
from typing import Any

from hmt.errors import UserError

LARGEST = 2**31


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
    if isinstance(value, int | float) and not abs(value) < LARGEST:
        raise UserError(f'"{where}" is {value!r}; it must be finite and below {LARGEST:,}.')
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
        value = float(value)
    if kind is types.NoneType:
        return None if value is None else _UNFIT
    is_bool = isinstance(value, bool)
    # what is not finite, or too large for a tensor, would only be found out in the middle of work
    if isinstance(value, int | float) and not abs(value) < LARGEST:
        return _UNFIT
    return value if isinstance(value, kind) and is_bool == (kind is bool) else _UNFIT
