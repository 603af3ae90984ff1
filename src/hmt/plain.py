"""Frozen dataclasses from plain data: JSON, TOML, keyword arguments.

Everything that is read (recipes, configurations, inference settings, model directories, prepared
data, records) passes through `from_plain`: one wording of errors, one set of limits.
"""

import json
import re
import tomllib
import types
import typing
from collections.abc import Sequence
from dataclasses import MISSING, asdict, fields, is_dataclass
from functools import cache
from itertools import chain, islice
from typing import Any, TypeVar

from hmt.errors import UserError

Kind = TypeVar("Kind")

# Non-finite numbers, or ones larger than JSON readers hold exactly, would only fail later.
LIMIT = 2.0**53
NAMES = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "text",
    dict: "a table",
    types.NoneType: "null",
}
PLURALS = {bool: "truth values", int: "whole numbers", float: "numbers", str: "texts"}
_UNFIT = object()
# JSON can write one half of a surrogate pair, which no file and no terminal can show.
HALF = re.compile("[\ud800-\udfff]")
LONG = re.compile(r"\d{21}")
MOST_DIGITS = 20
DEPTH = 50
MOST_TOML, MOST_DOTS = 100_000, 1000
TOO_DEEP = f"it has lists or tables more than {DEPTH} deep."
HALF_ESCAPED = re.compile(r"\\u[dD][89a-fA-F]")


def from_plain(kind: type[Kind], values: Any, where: str = "", missing: str = "") -> Kind:
    """Build a dataclass; an unknown, missing or ill-typed key is a UserError.

    `where` is the place that messages name; `missing` says what to do about a missing {key}.
    """
    if not isinstance(values, dict):
        raise UserError(f'"{where}" is {shortened(values)}; it must be a table.')
    allowed: dict[str, tuple[Any, bool]] = _fields(kind)  # type: ignore[arg-type]
    for key in values:
        if key not in allowed:
            names = ", ".join(allowed) or "none"
            raise UserError(f'"{_place(where, key)}" is unknown; allowed are {names}.')
    for key, (_, is_required) in allowed.items():
        if is_required and key not in values:
            place = _place(where, key)
            remedy = missing.format(key=place)
            raise UserError(f'"{place}" is missing' + (f"; {remedy}" if remedy else "."))
    return kind(
        **{k: _read(allowed[k][0], v, _place(where, k), missing) for k, v in values.items()}
    )


def to_plain(value: Any) -> Any:
    """Dataclasses, also in containers, as the plain data that JSON reads (tuples become lists)."""
    return json.loads(json.dumps(value, default=asdict))


def json_object(text: str) -> dict[str, Any]:
    """The object that a JSON text holds; half a surrogate pair in it becomes U+FFFD."""
    try:
        values = json.loads(text, parse_int=_whole if LONG.search(text) else None)
        check_depth(values)
        if HALF_ESCAPED.search(text):
            values = json.loads(HALF.sub("\ufffd", json.dumps(values, ensure_ascii=False)))
    except RecursionError:
        raise UserError(TOO_DEEP) from None
    except json.JSONDecodeError as error:
        raise UserError(f"this is not JSON: {error}.") from None
    if not isinstance(values, dict):
        raise UserError(f"this is {shortened(values)}, not a JSON object.")
    return values


def toml_table(text: str) -> dict[str, Any]:
    """The table that a TOML text holds."""
    # tomllib takes n^2 steps for a name of n parts: half a minute for one of 40 kB
    if len(text) > MOST_TOML or max(map(_dots, text.split("\n"))) > MOST_DOTS:
        raise UserError(
            f"it has more than {MOST_TOML:,} characters, or a line of more than {MOST_DOTS:,} dots."
        )
    try:
        values = tomllib.loads(text)
        check_depth(values)
    except RecursionError:
        raise UserError(TOO_DEEP) from None
    except ValueError as error:  # TOMLDecodeError, or a bare one for a number of 5000 digits
        raise UserError(f"this is not TOML: {str(error).rstrip('.')}.") from None
    return values


def _dots(line: str) -> int:
    return line.count(".")


def check_depth(values: Any) -> None:
    """Refuse deeply nested tables: any recursion through them would overflow the stack."""
    level = [values] if isinstance(values, dict | list) else []
    for _ in range(DEPTH):
        inner = (item.values() if isinstance(item, dict) else item for item in level)
        level = [item for item in chain.from_iterable(inner) if type(item) in (dict, list)]
        if not level:
            return
    raise UserError(TOO_DEEP)


def _whole(digits: str) -> int:
    """A whole number that can be stored; one of 400 digits is meaningless."""
    if len(digits) > MOST_DIGITS:
        raise UserError(f"it has a number of {len(digits)} digits; at most {MOST_DIGITS} are read.")
    return int(digits)


def shortened(value: Any) -> str:
    """A value, shortened to fit into a sentence."""
    try:
        text = repr(value) if isinstance(value, float) else _json(value)
    except (ValueError, RecursionError):  # Python shows no number of more than 4300 digits
        text = f"a {type(value).__name__} that is too large to be shown"
    return text if len(text) <= 60 else text[:57] + "..."


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=repr)


def _place(where: str, key: Any) -> str:
    return f"{where}.{key}" if where else str(key)


@cache
def _fields(kind: Any) -> dict[str, tuple[Any, bool]]:
    """Per field of a dataclass its annotation, and whether it must be given."""
    hints = typing.get_type_hints(kind)
    return {
        field.name: (
            hints[field.name],
            field.default is MISSING and field.default_factory is MISSING,
        )
        for field in fields(kind)
    }


def _read(hint: Any, value: Any, where: str, missing: str) -> Any:
    """One value; dataclasses inside it have their own places, numbered from 1 in a list."""
    if is_dataclass(hint):
        return from_plain(typing.cast(type, hint), value, where, missing)
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if inner and is_dataclass(inner[-1]):
        if origin is list and isinstance(value, list):
            return [
                _read(inner[0], item, f"{where}.{n}", missing) for n, item in enumerate(value, 1)
            ]
        if origin is dict and isinstance(value, dict):
            return {
                key: _read(inner[1], item, f"{where}.{key}", missing) for key, item in value.items()
            }
    made = _fit(hint, value)
    if made is _UNFIT:
        limits = f", finite and below {LIMIT:,.0f}" if _exceeds(value) else ""
        raise UserError(f'"{where}" is {shortened(value)}; it must be {_name(hint)}{limits}.')
    return made


def _fit(hint: Any, value: Any) -> Any:
    """The value converted to its annotation, or _UNFIT."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any:
        return value
    if origin in (typing.Union, types.UnionType):
        made = (_fit(option, value) for option in inner)
        return next((found for found in made if found is not _UNFIT), _UNFIT)
    if origin is typing.Literal:
        return value if value in inner else _UNFIT
    if origin is list:
        return _fit_all(inner[0], value) if isinstance(value, list) else _UNFIT
    if origin is tuple:
        return _fit_tuple(inner, value) if isinstance(value, list | tuple) else _UNFIT
    if origin is dict:
        if not isinstance(value, dict) or _fit_all(inner[0], list(value)) is _UNFIT:
            return _UNFIT
        items = _fit_all(inner[1], list(value.values()))
        return _UNFIT if items is _UNFIT else dict(zip(value, items, strict=True))
    if hint not in NAMES:
        return value if isinstance(value, hint) else _UNFIT
    made = _fit_all(hint, [value])
    return _UNFIT if made is _UNFIT else made[0]


def _fit_tuple(inner: tuple[Any, ...], values: Sequence[Any]) -> Any:
    if len(inner) == 2 and inner[1] is Ellipsis:
        items = _fit_all(inner[0], list(values))
        return _UNFIT if items is _UNFIT else tuple(items)
    if len(inner) != len(values):
        return _UNFIT
    made = [_fit(hint, value) for hint, value in zip(inner, values, strict=True)]
    return _UNFIT if any(item is _UNFIT for item in made) else tuple(made)


def _fit_all(hint: Any, values: Sequence[Any]) -> Any:
    """A list whose items all fit, or _UNFIT.

    Records hold long lists of numbers: the check of each item runs in C, not in a Python loop.
    """
    if typing.get_origin(hint) is list and all(type(value) is list for value in values):
        flat = _fit_all(typing.get_args(hint)[0], [*chain.from_iterable(values)])
        left = iter(() if flat is _UNFIT else flat)
        return _UNFIT if flat is _UNFIT else [[*islice(left, len(value))] for value in values]
    if hint not in NAMES:
        made = [_fit(hint, value) for value in values]
        return _UNFIT if any(item is _UNFIT for item in made) else made
    if not all(_is_a(given, hint) for given in {*map(type, values)}):
        return _UNFIT
    if hint in (int, float) and not all(map(LIMIT.__gt__, map(abs, values))):
        return _UNFIT
    return list(map(float, values)) if hint is float else list(values)


def _is_a(given: type, hint: type) -> bool:
    """Whether a value of this type is allowed; a truth value is not a number."""
    if hint in (int, float) and issubclass(given, bool):
        return False
    return issubclass(given, int | float if hint is float else hint)


def _exceeds(value: Any) -> bool:
    """Whether it contains a number beyond the limits."""
    if isinstance(value, list | tuple):
        return any(map(_exceeds, value))
    return isinstance(value, int | float) and not abs(value) < LIMIT


def _name(hint: Any) -> str:
    """What an annotation is called in a message."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return " or ".join(map(_name, inner))
    if origin is typing.Literal:
        return " or ".join(map(_json, inner))
    if origin is list or (origin is tuple and inner[-1] is Ellipsis):
        return f"a list of {_plural(inner[0])}"
    if origin is tuple:
        return f"a list of {len(inner)} {_plural(inner[0])}"
    return NAMES.get(origin or hint, str(hint))


def _plural(hint: Any) -> str:
    if typing.get_origin(hint) is list:
        return f"lists of {_plural(typing.get_args(hint)[0])}"
    return "tables" if is_dataclass(hint) else PLURALS.get(hint, "values")
