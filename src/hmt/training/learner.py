"""The moving parts of one stage, and one update of them.

Everything random in update n follows from (seed, stage, n): a resumed run needs no stored state
of any generator.
"""

import math
import random
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from hmt.errors import UserError
from hmt.models.directory import compose_system
from hmt.systems import build, is_foreign
from hmt.systems.contract import System
from hmt.training.batches import (
    BatchStream,
    Numbers,
    Pairs,
    check_lengths,
    collate,
    micro_batches,
    mix,
    share,
)
from hmt.training.checkpoint import Position
from hmt.training.data import RunData, check_vocabulary
from hmt.training.optimizer import Optimizer, autocast, matrices_of_layers
from hmt.training.processes import Group
from hmt.training.recipe import Model, Training


@dataclass(frozen=True)
class Update:
    """What one update measured, over all processes."""

    sums: dict[str, float]  # of the losses, over the sentences of the batch
    tokens: int
    gradient_norm: float
    learning_rate: float
    must_stop: bool  # some process has received a signal to stop


def build_system(model: Model, data: RunData) -> System:
    """The recipe's system, with the vocabulary sizes of the data."""
    if model.models:
        system = composed(model, data)
        system.knobs(**model.knobs)
        return system
    source, target = (tokenizer.size for tokenizer in data.tokenizers)
    dims = dict(model.config.get("dims", {}))
    for key, size in (("source_vocabulary", source), ("target_vocabulary", target)):
        if dims.setdefault(key, size) != size:
            raise UserError(
                f"model.config.dims.{key} = {dims[key]}, but the tokenizer of the data has {size} "
                "symbols: leave it out of the recipe."
            )
    # Two vocabularies have nothing to share, even if they happen to have the same size.
    is_joint = data.tokenizers[0] is data.tokenizers[1]
    if dims.setdefault("share_embeddings", is_joint) and not is_joint:
        raise UserError(
            "model.config.dims.share_embeddings = true, but the data has a vocabulary for each "
            "side: leave it out of the recipe, or prepare with a joint vocabulary."
        )
    # a recipe is written by the user: the code that it names is meant to run
    system = build(model.system, {**model.config, "dims": dims}, "model.config", trust=True)
    system.knobs(**model.knobs)  # a wrong setting should not wait for the end of training
    return system


def composed(model: Model, data: RunData) -> System:
    """The recipe's system composed of trained ones, which must share the data's vocabulary.

    Models with their own code are trusted if the recipe itself names a system outside hmt.
    """
    folders = [Path(name) for name in model.models]
    for folder in folders:
        check_vocabulary(folder, data.files)
    return compose_system(model.system, folders, trust=is_foreign(model.system))


def compile_layers(system: System) -> None:
    """Compile the layers, which are the same for every system and any batch shape."""
    for transformer in system.transformers:
        for layer in (*transformer.encoder, *transformer.decoder):
            layer.compile(dynamic=True)


class Learner:
    """A system that learns: its optimizer, its place in the data, its losses."""

    def __init__(
        self,
        training: Training,
        system: System,
        corpus: Pairs,
        group: Group,
        seed: int,
        position: Position,
    ):
        self.training, self.group, self.corpus = training, group, corpus
        self.seed = mix(seed, "stage", position.stage)
        self.system = system.to(group.device).train()
        if training.compile:
            compile_layers(system)
        self.optimizer = Optimizer(system.parameters(), training, group, matrices_of_layers(system))
        limit = training.batch_tokens
        check_lengths(corpus, limit)
        self.stream = BatchStream(corpus, limit, self.seed, position.epoch, position.batch)

    def update(self, step: int, was_signalled: bool) -> Update:
        """Make update `step` of the stage (from 1)."""
        torch.manual_seed(mix(self.seed, "update", step, self.group.rank))
        batches = self.stream.take(self.training.accumulate)
        tokens = sum(int(self.corpus.target_lengths[sentences].sum()) for sentences in batches)
        self.optimizer.clear()
        losses: list[tuple[Numbers, dict[str, Tensor]]] = []
        small = [some for batch in batches for some in micro_batches(self.corpus, batch)]
        for number, sentences in enumerate(small):
            seed = mix(self.seed, "draw", step, number)
            losses.append(self._micro_batch(sentences, seed, tokens))

        names = list(losses[0][1])
        sums = [torch.cat([terms[name] for _, terms in losses]).sum() for name in names]
        together = torch.stack([*sums, torch.full_like(sums[0], float(was_signalled))])
        self.group.add_up(together)
        *figures, stop = together.tolist()
        norm = self.optimizer.gather()
        self._refuse_non_finite(step, figures[0], norm, losses)
        return Update(
            dict(zip(names, figures, strict=True)),
            tokens,
            norm,
            self.optimizer.step(step),
            must_stop=stop > 0,
        )

    def _micro_batch(
        self, sentences: Numbers, seed: int, tokens: int
    ) -> tuple[Numbers, dict[str, Tensor]]:
        """Add this process's share to the gradient. -> its sentences, their losses"""
        own, weight = share(sentences, self.group.rank, self.group.world)
        batch = collate(self.corpus, own, self.group.device, sentences)
        # all processes draw the same numbers: however it is divided, a micro-batch is of one kind
        with autocast(self.training.precision, self.group.device):
            loss = self.system.training_loss(batch, random.Random(seed))
        self.optimizer.backward(loss.total.sum() * (weight / tokens))
        terms = {"loss": loss.total, **loss.terms}
        return own, {name: term.detach().double() * weight for name, term in terms.items()}

    def _refuse_non_finite(
        self, step: int, loss: float, norm: float, losses: list[tuple[Numbers, dict[str, Tensor]]]
    ) -> None:
        """Stop before the weights are ruined, naming the step and the contents of the batch."""
        if math.isfinite(loss) and (math.isfinite(norm) or self.optimizer.tolerates_overflow):
            return
        culprits = [
            int(sentence)
            for sentences, terms in losses
            for sentence, value in zip(sentences, terms["loss"].tolist(), strict=True)
            if not math.isfinite(value)
        ]
        seen = culprits or [int(n) for sentences, _ in losses for n in sentences]
        named = ", ".join(map(str, seen[:5])) + (f" and {len(seen) - 5} more" * (len(seen) > 5))
        what = "loss" if not math.isfinite(loss) else "gradient"
        raise UserError(
            f"The {what} of update {step} is not finite (epoch {self.stream.epoch}, batch "
            f"{self.stream.batch - 1}, training pairs {named}); the last checkpoint is kept: start "
            "another run from it (training.warm_start) with a lower learning_rate or with clip."
        )
