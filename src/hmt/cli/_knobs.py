"""Options that belong to a system, not to a command: `--lower 3`, `--threshold 0.4,0.6`.

Every system has its own dataclass of inference settings. A command that loads a model takes any
`--name value` that it does not know as a knob, and checks it against that dataclass once the model
is loaded. So a new system has its own options without any change here.
"""

import itertools
import math
import typing
from collections.abc import Iterator
from dataclasses import fields
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

import typer
from typer.core import TyperCommand

from hmt.errors import UserError
from hmt.plain import LIMIT

_META = "hmt.knobs"
HELP = (
    "The knobs of the model's system are options too, as in --lower 3. Their defaults come from "
    "the model (`hmt info MODEL`); docs/systems.md explains them."
)


class KnobCommand(TyperCommand):
    """A command that sets unknown `--name value` pairs aside as knobs."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Leave the command its own arguments and keep the knobs in the context."""
        known = {name for param in self.params for name in (*param.opts, *param.secondary_opts)}
        rest, knobs = _split(args, known | set(ctx.help_option_names))
        ctx.meta[_META] = knobs
        return super().parse_args(ctx, rest)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """List the knobs of every system last, on a terminal too, where rich prints the rest."""
        from hmt.systems import SYSTEMS

        super().format_help(ctx, formatter)
        with formatter.section("Knobs by system"):
            formatter.write_dl([(name, _options(kind.Knobs)) for name, kind in SYSTEMS.items()])


def given(context: typer.Context) -> dict[str, str]:
    """The knobs of the command line, unparsed."""
    knobs: dict[str, str] = context.meta[_META]
    return knobs


def settings(knobs: dict[str, str], kind: type, system: str) -> dict[str, Any]:
    """Read one value per knob; `kind` is the system's dataclass of knobs."""
    return {name: _read(name, text, kind, system) for name, text in knobs.items()}


def sweep(knobs: dict[str, str], kind: type, system: str) -> Iterator[dict[str, Any]]:
    """Read comma-separated values per knob; yield every combination, the last knob fastest."""
    lists = [
        [_read(name, text, kind, system) for text in dict.fromkeys(texts.split(","))]
        for name, texts in knobs.items()
    ]
    for values in itertools.product(*lists):
        yield dict(zip(knobs, values, strict=True))


def _options(kind: type) -> str:
    """Name the knobs of a system as options."""
    return ", ".join("--" + field.name.replace("_", "-") for field in fields(kind)) or "none"


def _split(args: list[str], known: set[str]) -> tuple[list[str], dict[str, str]]:
    rest: list[str] = []
    knobs: dict[str, str] = {}
    waiting = iter(args)
    for arg in waiting:
        if arg == "--":
            return [*rest, arg, *waiting], knobs
        name, equals, value = arg.partition("=")
        if not name.startswith("--") or name in known:
            rest.append(arg)
            continue
        text = value if equals else next(waiting, "")
        if not text or text.startswith("--"):
            raise UserError(
                f"There is no option {name} without a value; knobs have one, as in `--lower 3`."
            )
        if knobs.setdefault(name[2:].replace("-", "_"), text) != text:
            raise UserError(f"The option {name} was given twice; give it once, as in {name} 1,3,5.")
    return rest, knobs


def _read(name: str, text: str, kind: type, system: str) -> Any:
    """Turn the text of a knob into a value of the type that the dataclass states."""
    types = typing.get_type_hints(kind)
    names = [field.name for field in fields(kind)]
    if name not in names:
        raise UserError(
            f"There is no option --{name.replace('_', '-')} for a model of the system {system}; "
            f"its knobs are: {_options(kind)}."
        )
    try:
        return _value(text.strip(), types[name])
    except ValueError as error:
        option = "--" + name.replace("_", "-")
        raise UserError(f"The option {option} was given as {text!r}; it must be {error}.") from None


def _value(text: str, kind: Any) -> Any:
    """Read a value of one type. A ValueError names what is allowed."""
    if get_origin(kind) is Literal:
        if text in get_args(kind):
            return text
        raise ValueError("one of " + ", ".join(map(str, get_args(kind))))
    if get_origin(kind) in (Union, UnionType):
        kinds = get_args(kind)
        if NoneType in kinds and text.lower() == "none":
            return None
        return _value(text, next(k for k in kinds if k is not NoneType))
    if kind is bool:
        if text.lower() in ("true", "false"):
            return text.lower() == "true"
        raise ValueError("true or false")
    for number, called in ((int, "a whole number"), (float, "a number")):
        if kind is number:
            try:
                value = number(text)
            except ValueError:
                value = math.nan
            if not abs(value) < LIMIT:
                raise ValueError(called)
            return value
    return text
