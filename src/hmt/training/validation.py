"""Validation: losses on the held-out split, quality and latency of streams, and patience."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import torch

from hmt.errors import UserError
from hmt.metrics.quality import QUALITIES
from hmt.metrics.scores import score
from hmt.streaming.choice import ChoiceRules
from hmt.streaming.engine import Engine
from hmt.streaming.recording import record_of
from hmt.systems.contract import System
from hmt.text.corpus import Corpus
from hmt.text.language_pair import Tokenizers
from hmt.training.batches import collate, in_order, share
from hmt.training.checkpoint import Position
from hmt.training.data import RunData
from hmt.training.optimizer import autocast
from hmt.training.processes import Group
from hmt.training.recipe import Model, Training

SLOTS = 64


@torch.no_grad()
def measure(
    system: System, model: Model, training: Training, data: RunData, group: Group
) -> dict[str, float]:
    """Losses per token of the whole held-out split; BLEU, chrF and AL of some of its sentences."""
    valid = data.valid
    assert valid is not None, "a recipe that validates opens the split"
    system.eval()
    try:
        # Streaming calls layers with caches: compiling them for that would cost more than it saves.
        with torch.compiler.set_stance("force_eager"):
            figures = _losses(system, valid, training, group)
            if chosen := evenly(valid, training.validation_sentences):
                # the first process alone: streams cannot be distributed over processes
                found = (
                    streamed(system, model, valid, chosen, data.tokenizers)
                    if group.is_first
                    else {}
                )
                figures |= group.first_says(found)
    finally:
        system.train()
    return figures


def evenly(corpus: Corpus, count: int) -> list[int]:
    """Sentences spread over the whole corpus. -> (count,)"""
    count = min(count, len(corpus))
    return [n * len(corpus) // count for n in range(count)]


def streamed(
    system: System, model: Model, corpus: Corpus, chosen: Sequence[int], tokenizers: Tokenizers
) -> dict[str, float]:
    """BLEU, chrF and AL in tokens of chosen pairs, translated as the finished model would."""
    sources = [corpus.source(n)[:-1].tolist() for n in chosen]
    rules = ChoiceRules.of(tokenizers[1], model.avoids_loops, model.end_penalty)
    engine = Engine(system, slots=min(SLOTS, len(sources)), rules=rules)
    records = []
    for n, stream in engine.translate(sources, system.knobs(**model.knobs)):
        record = record_of(stream, tokenizers, tokenizers[0].decode(sources[n]), n)
        reference = tokenizers[1].decode(corpus.target(chosen[n]).tolist())
        records.append(replace(record, reference=reference))
    point = score(records, resamples=0)
    figures = {**point["quality"], "AL": point["latency"]["token"]["AL"]}
    return {name: float(value) for name, value in figures.items() if value is not None}


def _losses(system: System, corpus: Corpus, training: Training, group: Group) -> dict[str, float]:
    longest = max(int(corpus.source_lengths.max()), int(corpus.target_lengths.max()))
    sums: dict[str, torch.Tensor] = {}
    for sentences in in_order(corpus, max(training.batch_tokens, longest)):
        own, weight = share(sentences, group.rank, group.world)
        with autocast(training.precision, group.device):
            loss = system.validation_loss(collate(corpus, own, group.device, sentences))
        for name, term in {"loss": loss.total, **loss.terms}.items():
            sums[name] = sums.get(name, 0) + weight * term.double().sum()
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
            f'training.metric = "{training.metric}" is not measured by validation; choose one of '
            f"{', '.join(figures)}."
        )
    value = figures[training.metric]
    gain = value if training.metric in QUALITIES else -value
    if math.isfinite(gain) and (position.best is None or gain > position.best):
        position.best, position.stale = gain, 0
    else:
        position.stale += 1


def has_patience(position: Position, training: Training) -> bool:
    """Whether the stage may continue."""
    return training.patience == 0 or position.stale < training.patience
