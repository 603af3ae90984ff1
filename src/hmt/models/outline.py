"""A system without its weights: their names and shapes only, at no cost in memory."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from hmt.systems import build
from hmt.systems.contract import System


def outline(name: str, config: dict[str, Any]) -> System:
    """A system on torch's `meta` device; for hmt's own systems, whose code is known."""
    with unallocated():
        return build(name, config)


@contextmanager
def unallocated() -> Iterator[None]:
    """Whatever is built in this context has names and shapes but no numbers."""
    with torch.device("meta"), _Unfilled():
        yield


class _Unfilled(TorchFunctionMode):
    """Skips initialisation: on `meta` it would import half of torch, which takes seconds."""

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if getattr(function, "__module__", "") == "torch.nn.init":
            return args[0] if args else kwargs["tensor"]
        return function(*args, **kwargs)
