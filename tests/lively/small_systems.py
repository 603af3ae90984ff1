"""Small systems that do different things at different moments, and what to try them on."""

import random
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from hmt.model.dims import Dims
from hmt.streaming.engine import Engine
from hmt.systems.batch import Batch, make_batch, pad
from hmt.systems.contract import System
from hmt.systems.stream import Stream
from hmt.text.symbols import EOS

VOCABULARY = 24
DIMS = Dims(
    VOCABULARY, VOCABULARY, width=16, ffn=24, heads=2, encoder_layers=2, decoder_layers=2, dropout=0
)


def enlarged(system: Any, scale: float = 3.0) -> Any:
    """The same system in double precision, with weights that make tokens and moments differ."""
    with torch.no_grad():
        for parameter in system.double().parameters():
            if parameter.dim() > 1:
                parameter.mul_(scale)
    return system.eval()


def sentences(lengths: Sequence[int], seed: int = 1) -> list[list[int]]:
    """Random tokens without end tokens."""
    draw = random.Random(seed)
    return [[draw.randrange(4, VOCABULARY) for _ in range(n)] for n in lengths]


def pairs(source: Sequence[int], target: Sequence[int], seed: int = 1) -> Batch:
    """Random sentence pairs of these lengths, end tokens included."""
    sources = sentences([n - 1 for n in source], seed)
    targets = sentences([n - 1 for n in target], seed + 1)
    return make_batch([[*s, EOS] for s in sources], [[*t, EOS] for t in targets])


def cut(batch: Batch, n: int) -> Batch:
    """Sentence n alone, without padding."""
    j, i = batch.source_length[n], batch.target_length[n]
    return make_batch([batch.source[n, :j].tolist()], [batch.target[n, :i].tolist()])


def streamed(system: System, batch: Batch, slots: int = 1, **knobs: Any) -> list[Stream]:
    """The batch's sources streamed, its targets forced."""
    alone = [cut(batch, n) for n in range(len(batch.source))]
    sources = [one.source[0, :-1].tolist() for one in alone]
    targets = [one.target[0].tolist() for one in alone]
    done = dict(Engine(system, slots).translate(sources, system.knobs(**knobs), targets))
    return [done[n] for n in range(len(sources))]


def reads_of(streams: Sequence[Stream]) -> Tensor:
    """-> (B, I), 1 where the target is padding"""
    return pad([stream.reads for stream in streams])[0]


def assert_padding_changes_nothing(system: System, batch: Batch) -> None:
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
