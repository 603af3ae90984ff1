"""Training, top to bottom: open the run, make updates, log, validate, save; stage after stage."""

import logging
import signal
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch

from hmt.errors import UserError, is_out_of_memory
from hmt.models.weights import Tensors
from hmt.training.batches import mix
from hmt.training.checkpoint import Position
from hmt.training.data import open_data
from hmt.training.journal import Clock, Journal, train_line, valid_line
from hmt.training.learner import Learner, Update, build_system
from hmt.training.optimizer import autocast
from hmt.training.processes import Interrupt, join, keep_buffers, reproducible
from hmt.training.recipe import Recipe
from hmt.training.run import Run
from hmt.training.validation import measure, note_best

logger = logging.getLogger("hmt.training")


@dataclass(frozen=True)
class Progress:
    """Passed to `report` after every update, for a progress bar."""

    step: int
    updates: int  # of the whole recipe
    stage: int  # from 1
    stages: int
    seconds_left: float
    loss: float  # per token, of this update


@dataclass(frozen=True)
class Result:
    """How a run ended."""

    directory: Path
    step: int
    is_finished: bool
    signal: int | None = None  # the signal that ended it; the shell's exit code is 128 + signal


def train(recipe: Recipe, report: Callable[[Progress], None] | None = None) -> Result:
    """Train a recipe, resuming its run if there is one, to its end or until a signal stops it."""
    keep_buffers()
    with join() as group, Interrupt() as interrupt:
        data = open_data(recipe)
        # a mistake in the last stage should not surface only after the first has been trained
        for stage in recipe.stages:
            build_system(stage.model, data)
            autocast(stage.training.precision, group.device)
        run = Run(recipe, data, group)
        with run.opened(), explained(run):
            carried: Tensors | None = None
            while True:
                with reproducible(run.training.threads):
                    torch.manual_seed(mix(recipe.seed, "weights", run.position.stage))
                    learner = run.learner(carried)
                    train_stage(run, learner, interrupt, report)
                if not run.is_stage_over:
                    number = interrupt.signal or signal.SIGTERM
                    return Result(run.directory, run.position.step, False, int(number))
                steps, carried = run.finished_weights(learner)
                if run.position.stage + 1 == len(recipe.stages):
                    run.finish(learner.system, steps, carried)
                    return Result(run.directory, run.position.step, True)
                done = run.position.step
                run.position = Position(run.position.stage + 1, stage_start=done, step=done)


@contextmanager
def explained(run: Run) -> Iterator[None]:
    """Turn failures that are not bugs (out of memory, a process gone) into one sentence."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        step = run.position.step
        if is_out_of_memory(error):
            raise UserError(
                f"Memory ran out after update {step}; the last checkpoint is kept: free some "
                "memory and repeat the command, or begin another run with fewer "
                "training.batch_tokens."
            ) from error
        if run.group.has_lost_a_member(error):
            raise UserError(
                f"Another process of this run is gone after update {step}; the last checkpoint is "
                "kept: repeat the command to continue."
            ) from error
        raise


def train_stage(
    run: Run,
    learner: Learner,
    interrupt: Interrupt,
    report: Callable[[Progress], None] | None,
) -> None:
    """Run the remaining updates of the current stage."""
    if run.is_stage_over:
        return
    training, here = run.training, run.position
    notes = Notes(run, learner)
    with closing(notes):
        while not run.is_stage_over:
            notes.clock.begin()
            update = learner.update(here.stage_step + 1, interrupt.signal is not None)
            notes.clock.end()
            _advance(here, learner, update)
            if here.stage_step % training.log_every == 0:
                notes.log(update)
                here.tokens, here.sums = 0, {}
            if training.validate_every and here.stage_step % training.validate_every == 0:
                note_best(here, training, notes.validate())
            is_due = here.stage_step % training.save_every == 0 or run.is_stage_over
            if is_due or update.must_stop:
                run.save(learner, is_due=is_due)
            if report is not None and run.group.is_first:
                report(notes.progress(update))
            if update.must_stop:
                return


def _advance(here: Position, learner: Learner, update: Update) -> None:
    here.step += 1
    here.epoch, here.batch = learner.stream.epoch, learner.stream.batch
    here.tokens += update.tokens
    for name, value in update.sums.items():
        here.sums[name] = here.sums.get(name, 0.0) + value


class Notes:
    """Logs, validates and reports a stage during training, without affecting it."""

    def __init__(self, run: Run, learner: Learner):
        self.run, self.learner, self.clock = run, learner, Clock()
        later = run.recipe.stages[run.position.stage :]
        self.total = run.position.stage_start + sum(stage.training.updates for stage in later)
        self.journal: Journal | None = None
        if run.group.is_first:
            board = run.training.tensorboard
            self.journal = Journal(run.directory, run.position.step, tensorboard=board)
            self._introduce()

    def close(self) -> None:
        if self.journal is not None:
            self.journal.close()

    def _introduce(self) -> None:
        plan, corpus = self.learner.stream.plan, self.learner.corpus
        logger.info(
            "Stage %d of %d: %s, %s parameters; %s pairs in %s batches per epoch.",
            self.run.position.stage + 1,
            len(self.run.recipe.stages),
            self.learner.system.name,
            f"{self.learner.optimizer.gradient.numel():,}",
            f"{len(corpus):,}",
            f"{len(plan):,}",
        )

    def log(self, update: Update) -> None:
        """Losses per token since the last line, and the pace."""
        here = self.run.position
        losses = {name: value / here.tokens for name, value in here.sums.items()}
        pace = {
            "epoch": self.learner.stream.epochs,
            "gradient_norm": update.gradient_norm,
            "learning_rate": update.learning_rate,
            "tokens_per_second": here.tokens / self.clock.lap(),
            "seconds_left": self.clock.seconds_left(self.total - here.step),
        }
        if self.journal is not None:
            logger.info(train_line(here.step, self.total, losses, pace))
            self.journal.write("train", here.step, {"stage": here.stage + 1, **losses, **pace})

    def validate(self) -> dict[str, float]:
        """Validate on the held-out split."""
        run, training = self.run, self.run.training
        model = run.recipe.stages[run.position.stage].model
        figures = measure(self.learner.system, model, training, run.data, run.group)
        if self.journal is not None:
            step, stage = run.position.step, run.position.stage + 1
            logger.info(valid_line(step, self.total, figures))
            self.journal.write("valid", step, {"stage": stage, **figures})
        return figures

    def progress(self, update: Update) -> Progress:
        here = self.run.position
        left = self.clock.seconds_left(self.total - here.step)
        loss = update.sums["loss"] / update.tokens
        stages = len(self.run.recipe.stages)
        return Progress(here.step, self.total, here.stage + 1, stages, left, loss)
