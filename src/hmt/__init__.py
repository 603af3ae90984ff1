"""Simultaneous machine translation: words in one at a time, translated words out.

The public API: `load` a model, open a `session` or `translate` sentences, `evaluate` a test set.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hmt.errors import UserError
    from hmt.evaluation.evaluate import evaluate, read_parallel
    from hmt.models.model import Model, load
    from hmt.streaming.record import Record
    from hmt.streaming.session import Session
    from hmt.systems import SYSTEMS

# Public name -> its module, imported at first use: the command line answers before torch loads.
_HOMES = {
    "SYSTEMS": "hmt.systems",
    "Model": "hmt.models.model",
    "Record": "hmt.streaming.record",
    "Session": "hmt.streaming.session",
    "UserError": "hmt.errors",
    "evaluate": "hmt.evaluation.evaluate",
    "load": "hmt.models.model",
    "read_parallel": "hmt.evaluation.evaluate",
}

__all__ = [
    "SYSTEMS",
    "Model",
    "Record",
    "Session",
    "UserError",
    "evaluate",
    "load",
    "read_parallel",
]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'hmt' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*_HOMES, "__version__"])
