"""Validation: losses on the held-out split, whatever the caller measures, and patience."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import torch

from hmt.errors import UserError
from hmt.systems.contract import System
from hmt.text.corpus import Corpus
from hmt.text.tokenizer import Tokenizer
from hmt.training.batches import Numbers, collate, in_order, share
from hmt.training.checkpoint import Position
from hmt.training.optimizer import autocast
from hmt.training.processes import Group
from hmt.training.recipe import Training

HIGHER_IS_BETTER = ("bleu", "chrf")


@dataclass(frozen=True)
class Slice:
    """Held-out pairs to translate: evenly spread over the split."""

    corpus: Corpus
    sentences: Numbers  # (N,)
    tokenizers: tuple[Tokenizer, Tokenizer]


Validate = Callable[[System, Slice], Mapping[str, float]]
"""Measures that only the first process takes, for example BLEU and AL of streamed translations."""


def evenly(corpus: Corpus, count: int) -> Numbers:
    """Sentences spread over the whole corpus. -> (count,)"""
    count = min(count, len(corpus))
    return np.arange(count) * len(corpus) // max(1, count)


@torch.no_grad()
def measure(
    system: System,
    data: Slice,
    training: Training,
    group: Group,
    validate: Validate | None,
) -> dict[str, float]:
    """Losses per token of the whole split, then the caller's own measures of the slice."""
    system.eval()
    try:
        # Streaming calls compiled layers with caches: compiling for that would cost more than it.
        with torch.compiler.set_stance("force_eager"):
            figures = _losses(system, data.corpus, training, group)
            if validate is not None and len(data.sentences):
                told = dict(validate(system, data)) if group.is_first else {}
                figures |= {name: float(value) for name, value in group.first_says(told).items()}
    finally:
        system.train()
    return figures


def _losses(system: System, corpus: Corpus, training: Training, group: Group) -> dict[str, float]:
    longest = max(int(corpus.source_lengths.max()), int(corpus.target_lengths.max()))
    sums: dict[str, torch.Tensor] = {}
    for sentences in in_order(corpus, max(training.batch_tokens, longest)):
        own, weight = share(sentences, group.rank, group.world)
        with autocast(training, group.device):
            loss = system.validation_loss(collate(corpus, own, group.device, sentences))
        for name, part in {"loss": loss.total, **loss.parts}.items():
            sums[name] = sums.get(name, 0) + weight * part.double().sum()
    together = torch.stack(list(sums.values()))
    group.add_up(together)
    tokens = int(corpus.target_lengths.sum(dtype=np.int64))
    return dict(zip(sums, (together / tokens).tolist(), strict=True))


def note_best(position: Position, training: Training, figures: Mapping[str, float]) -> None:
    """Count validations without improvement."""
    if training.metric not in figures:
        if not training.patience:
            return
        raise UserError(
            f'training.metric = "{training.metric}" is not among what validation measures: '
            f"{', '.join(figures)}."
        )
    value = figures[training.metric]
    gain = value if training.metric in HIGHER_IS_BETTER else -value
    if math.isfinite(gain) and (position.best is None or gain > position.best):
        position.best, position.stale = gain, 0
    else:
        position.stale += 1


def has_patience(position: Position, training: Training) -> bool:
    """Whether the stage may go on."""
    return training.patience == 0 or position.stale < training.patience
