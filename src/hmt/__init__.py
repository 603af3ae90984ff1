"""Simultaneous machine translation: words in one at a time, translated words out."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hmt.errors import UserError

# Public name -> its module, imported at first use: the command line answers before torch loads.
_HOMES = {
    "UserError": "hmt.errors",
}

__all__ = ["UserError"]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'hmt' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*_HOMES, "__version__"])
