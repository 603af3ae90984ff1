"""Random models that are lively (different tokens, different moments), and what to try them on.

A random model that always writes the same token, or always waits equally long, passes every test
of equality, on broken code too.
"""

import dataclasses
import math
import random
from collections.abc import Sequence
from typing import Any, TypeVar

import torch
from naive_hmt import naive_pass
from torch import Tensor, nn

from hmt.model.dims import Dims
from hmt.streaming.engine import Engine
from hmt.systems import build
from hmt.systems.batch import Batch, make_batch, pad
from hmt.systems.contract import System
from hmt.systems.hmt import HMT, HMTConfig, HMTKnobs
from hmt.systems.parameters import ConfigT, KnobsT, MemoryT
from hmt.systems.stream import Stream
from hmt.text.symbols import EOS, UNK

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
HMT_SYMBOLS = 20  # of those HMTs whose confidences are spread as well

ModuleT = TypeVar("ModuleT", bound=nn.Module)

# ---- models


def enliven(module: ModuleT) -> ModuleT:
    """Random weights, in double precision, under which the output depends on everything it sees."""
    with torch.no_grad():
        for part in module.double().modules():
            for weight in part.parameters(recurse=False):
                if isinstance(part, nn.LayerNorm):
                    weight.add_(0.1 * torch.randn_like(weight))
                elif weight.ndim == 1:
                    weight.normal_(0.0, 0.1)
                else:
                    # words weigh more than layers, or all rows would come to look alike
                    is_table = isinstance(part, nn.Embedding)
                    scale = 3.0 if is_table else 2.0 if len(weight) == SYMBOLS else 1.0
                    weight.normal_(0.0, scale * weight.shape[1] ** -0.5)
    return module.eval()


def lively(name: str, seed: int = 3, **config: Any) -> System:
    """A lively model of the system of this name."""
    torch.manual_seed(seed)
    return enliven(build(name, {"dims": dataclasses.asdict(DIMS), **config}))


def small_dims(**changed: Any) -> Dims:
    """Sizes of an HMT that is computed naively as well."""
    values: dict[str, Any] = {
        "source_vocabulary": HMT_SYMBOLS,
        "target_vocabulary": HMT_SYMBOLS,
        "width": 8,
        "ffn": 12,
        "share_embeddings": False,
    }
    return dataclasses.replace(DIMS, **{**values, **changed})


def lively_hmt(seed: int, lower: int = 2, states: int = 3, **changed: Any) -> HMT:
    """A small HMT whose confidences vary as well, in double precision."""
    attention = changed.pop("attention", "multiple")
    system = HMT(HMTConfig(small_dims(**changed), lower, states, attention=attention))
    _sharpen(system, seed)
    system.double().eval()
    draw = random.Random(seed)
    size = system.config.dims.source_vocabulary, system.config.dims.target_vocabulary
    sources, targets = ([random_tokens(draw, 40, n) for _ in range(4)] for n in size)
    with torch.no_grad():
        done = [
            naive_pass(system, s, t, HMTKnobs(lower=2, states=3))
            for s, t in zip(sources, targets, strict=True)
        ]
        features = torch.cat([d.features for d in done])
        width = features.shape[1] // 2
        _spread(system.transformer.output.weight, features[:, :width], 3.0)
        system.transformer.output.weight[EOS] *= 1.4  # sentences end sooner or later
        # Confidence mostly follows what changes from moment to moment of one token.
        own = features.view(-1, 3, 2 * width)
        changes = (own - own.mean(1, keepdim=True)).flatten(0, 1)
        system.selection.weight.copy_(system.selection.weight @ changes.T @ changes)
        _spread(system.selection.weight, features, 1.0)
    return system


def _sharpen(system: HMT, seed: int) -> None:
    """Most of a state comes from the source it sees, so that moments differ."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weight in system.named_parameters():
            noise = torch.randn(weight.shape, generator=generator)
            if weight.dim() == 1:
                weight.copy_(0.1 * noise + float(name.endswith("norm.weight")))
            else:
                scale = 3.0 if "cross" in name else 1.0
                weight.copy_(scale * noise / math.sqrt(weight.shape[1]))


def _spread(weight: Tensor, features: Tensor, deviation: float) -> None:
    """Give the logits mean zero over the features and this deviation. (R, F), (N, F)

    What all states have in common would make one token, and one answer, win everywhere.
    """
    common = features.mean(0)
    weight -= (weight @ common)[:, None] * common / (common @ common)
    weight *= deviation / (features @ weight.T).std(0)[:, None]


def with_weights(system: System, other: System) -> System:
    """The weights of another system, as far as the names agree."""
    system.load_state_dict(other.state_dict(), strict=False)
    return system


def crosses(system: System[ConfigT, KnobsT, MemoryT]) -> list[Any]:
    """The cross-attention of every decoder layer, of whatever class its system has."""
    layers: Any = system.transformer.decoder
    return [layer.cross for layer in layers]


# ---- what to try them on


def random_tokens(draw: random.Random, length: int, symbols: int = HMT_SYMBOLS) -> list[int]:
    """Without an end token."""
    return [draw.randrange(UNK, symbols) for _ in range(length)]


def tokens(count: int, seed: int = 1) -> list[int]:
    """Random tokens that are words, without an end token."""
    draw = random.Random(seed)
    return [draw.randrange(4, SYMBOLS) for _ in range(count)]


def sentences(count: int, seed: int, longest: int = 9) -> list[list[int]]:
    """Random token lists without end tokens; the first is empty, the second has one token."""
    draw = random.Random(seed)
    lengths = [0, 1, *(draw.randint(2, longest) for _ in range(count - 2))]
    return [[draw.randrange(4, SYMBOLS) for _ in range(n)] for n in lengths[:count]]


def ended(sentences: Sequence[list[int]]) -> list[list[int]]:
    """The same with end tokens."""
    return [[*ids, EOS] for ids in sentences]


def batch_of(seed: int = 1) -> Batch:
    """Sentence pairs of all lengths, the shortest source beside the longest target."""
    return make_batch(ended(sentences(6, seed)), ended(sentences(6, seed + 1)[::-1]))


def pairs(source: Sequence[int], target: Sequence[int], seed: int = 1) -> Batch:
    """Random sentence pairs of these lengths, end tokens included."""
    draw = random.Random(seed)
    sources, targets = ([random_tokens(draw, n - 1, SYMBOLS) for n in s] for s in (source, target))
    return make_batch(ended(sources), ended(targets))


def cut(batch: Batch, n: int) -> Batch:
    """Sentence n alone, without padding."""
    j, i = batch.source_length[n], batch.target_length[n]
    return make_batch([batch.source[n, :j].tolist()], [batch.target[n, :i].tolist()])


# ---- what they do


def run_alone(
    system: HMT,
    source: list[int],
    knobs: HMTKnobs,
    forced: list[int] | None = None,
    engine: Engine | None = None,
) -> Stream:
    """One stream in an engine of its own, word by word."""
    engine = engine or Engine(system)
    stream = engine.open(knobs, forced)
    for token in source:
        engine.push(stream, [token])
        engine.advance([stream])
    engine.finish(stream)
    engine.advance([stream])
    engine.close(stream)
    return stream


def translations(
    system: System[ConfigT, KnobsT, MemoryT],
    sources: Sequence[list[int]],
    forced: Sequence[list[int]] | None = None,
    slots: int = 1,
    **knobs: Any,
) -> list[Stream]:
    """Every source streamed, in order."""
    done = dict(Engine(system, slots).translate(sources, system.knobs(**knobs), forced))
    return [done[n] for n in range(len(sources))]


def streamed(
    system: System[ConfigT, KnobsT, MemoryT], batch: Batch, slots: int = 1, **knobs: Any
) -> list[Stream]:
    """The batch's sources streamed, its targets forced."""
    alone = [cut(batch, n) for n in range(len(batch.source))]
    sources = [one.source[0, :-1].tolist() for one in alone]
    targets = [one.target[0].tolist() for one in alone]
    return translations(system, sources, targets, slots, **knobs)


def reads_of(
    system: System[ConfigT, KnobsT, MemoryT], source: int, target: int, **knobs: Any
) -> list[int]:
    """Reads for a forced target; lengths include the end tokens."""
    forced = [*tokens(target - 1, seed=2), EOS]
    return translations(system, [tokens(source - 1)], [forced], **knobs)[0].reads


def padded_reads(streams: Sequence[Stream]) -> Tensor:
    """-> (B, I), 1 where the target is padding"""
    return pad([stream.reads for stream in streams])[0]


def assert_close(a: Any, b: Any, tolerance: float = 1e-9) -> None:
    """Numbers agree in double precision: lists or tensors."""
    a, b = (torch.as_tensor(x, dtype=torch.float64) for x in (a, b))
    torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)


def assert_padding_changes_nothing(system: System[ConfigT, KnobsT, MemoryT], batch: Batch) -> None:
    """Losses and gradients of a padded batch are those of its sentences one by one."""
    system.zero_grad()
    together = system.validation_loss(batch).total
    together.sum().backward()
    gradient = {name: p.grad for name, p in system.named_parameters()}
    system.zero_grad(set_to_none=True)
    alone = [system.validation_loss(cut(batch, n)).total for n in range(len(batch.source))]
    torch.cat(alone).sum().backward()
    torch.testing.assert_close(together, torch.cat(alone))
    for name, parameter in system.named_parameters():
        torch.testing.assert_close(gradient[name], parameter.grad, rtol=1e-7, atol=1e-9)
