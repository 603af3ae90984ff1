"""Random models of any system that say different things, and what to try them on."""

import dataclasses
import random
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from hmt.model.dims import Dims
from hmt.streaming.engine import Engine
from hmt.systems import build
from hmt.systems.batch import Batch, make_batch
from hmt.systems.contract import System
from hmt.systems.stream import Stream
from hmt.text.symbols import EOS

SYMBOLS = 14
DIMS = Dims(
    SYMBOLS,
    SYMBOLS,
    width=16,
    ffn=24,
    heads=2,
    encoder_layers=2,
    decoder_layers=2,
    dropout=0.0,
    tie_output=False,  # a tied random model repeats its input
)


def lively(name: str, seed: int = 3, **config: Any) -> System:
    """A random model whose output depends on everything it may look at, in double precision."""
    torch.manual_seed(seed)
    dims = dataclasses.asdict(DIMS)
    system = build(name, {"dims": dims, **config}).double().eval()
    with torch.no_grad():
        for module in system.modules():
            for parameter in module.parameters(recurse=False):
                if isinstance(module, nn.LayerNorm):
                    parameter.add_(0.1 * torch.randn_like(parameter))
                elif parameter.ndim == 1:
                    parameter.normal_(0.0, 0.1)
                else:
                    # words weigh more than layers, or all rows would come to look alike
                    is_table = isinstance(module, nn.Embedding)
                    scale = 3.0 if is_table else 2.0 if len(parameter) == SYMBOLS else 1.0
                    parameter.normal_(0.0, scale * parameter.shape[1] ** -0.5)
    return system


def sentences(count: int, seed: int, longest: int = 9) -> list[list[int]]:
    """Random token lists without end tokens; the first is empty, the second has one token."""
    draw = random.Random(seed)
    lengths = [0, 1, *(draw.randint(2, longest) for _ in range(count - 2))]
    return [[draw.randrange(4, SYMBOLS) for _ in range(n)] for n in lengths[:count]]


def translations(
    system: System,
    sources: Sequence[list[int]],
    forced: Sequence[list[int]] | None = None,
    slots: int = 1,
    **knobs: Any,
) -> list[Stream]:
    """Every source streamed, in order."""
    done = dict(Engine(system, slots).translate(sources, system.knobs(**knobs), forced))
    return [done[n] for n in range(len(sources))]


def assert_close(a: Any, b: Any, tolerance: float = 1e-9) -> None:
    """Numbers agree in double precision: lists or tensors."""
    a, b = (torch.as_tensor(x, dtype=torch.float64) for x in (a, b))
    torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)


def ended(tokens: Sequence[list[int]]) -> list[list[int]]:
    return [[*ids, EOS] for ids in tokens]


def tokens(count: int, seed: int = 1) -> list[int]:
    draw = random.Random(seed)
    return [draw.randrange(4, SYMBOLS) for _ in range(count)]


def batch_of(seed: int = 1) -> Batch:
    return make_batch(ended(sentences(6, seed)), ended(sentences(6, seed + 1)[::-1]))


def with_weights(system: System, other: System) -> System:
    """The weights of another system, as far as the names agree."""
    system.load_state_dict(other.state_dict(), strict=False)
    return system


def reads_of(system: System, source: int, target: int, **knobs: Any) -> list[int]:
    """Reads for a forced target; lengths include the end tokens."""
    forced = [*tokens(target - 1, seed=2), EOS]
    return translations(system, [tokens(source - 1)], [forced], **knobs)[0].reads
