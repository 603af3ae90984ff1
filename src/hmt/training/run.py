"""The directory of a run: opened once, saved to, resumed from."""

import json
import logging
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from hmt.errors import UserError
from hmt.files import locked, write_atomically
from hmt.models.directory import WEIGHTS
from hmt.models.weights import (
    Tensors,
    average,
    not_finite,
    read_weights,
    take_over,
    unshared,
    write_weights,
)
from hmt.systems.contract import System
from hmt.training import checkpoint
from hmt.training.checkpoint import Position
from hmt.training.data import RunData, check_vocabulary
from hmt.training.learner import Learner, build_system
from hmt.training.place import RECIPE, check_place, refuse_orphans
from hmt.training.processes import Group
from hmt.training.publish import provenance, publish
from hmt.training.recipe import Recipe, Training
from hmt.training.resume import check_resumable
from hmt.training.snapshots import forget_snapshots, rotate, snapshot_path, snapshots, step_of
from hmt.training.soundness import restore
from hmt.training.validation import has_patience

logger = logging.getLogger("hmt.training")

BUSY = "{} is being trained by another run (process {{process}}): wait for it, stop it, or set \
another output."
LEFT_BEHIND = 2  # snapshots newer than the state: of a killed run, and of a damaged last state


class Run:
    """One run on disk; only the first process writes."""

    def __init__(self, recipe: Recipe, data: RunData, group: Group):
        self.recipe, self.data, self.group = recipe, data, group
        self.directory = Path(recipe.output)
        self.folder = self.directory / "training"
        self.position = Position()
        self.saved: dict[str, Any] | None = None  # the state found on disk, until it is used

    @property
    def training(self) -> Training:
        return self.recipe.stages[self.position.stage].training

    @property
    def updates(self) -> int:
        """Updates of the whole recipe."""
        return sum(stage.training.updates for stage in self.recipe.stages)

    @property
    def is_stage_over(self) -> bool:
        """Whether all updates of the stage are done, or patience has run out."""
        has_updates_left = self.position.stage_step < self.training.updates
        return not (has_updates_left and has_patience(self.position, self.training))

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Lock the directory, look for a state, and start or resume."""
        with ExitStack() as held:
            problem = None
            if self.group.is_first:
                try:
                    check_place(self.directory)
                    held.enter_context(locked(self.folder / "lock", BUSY.format(self.directory)))
                    self._open()
                except UserError as error:
                    problem = str(error)
            # the others would wait in vain for a first process that has exited
            if problem := self.group.first_says(problem):
                raise UserError(problem)
            # the first process decides: it may already be writing the state of a new run
            is_resumed = self.group.first_says(self.saved is not None)
            if is_resumed and not self.group.is_first:
                self._read_state()
            yield

    def _open(self) -> None:
        found = self._read_state()
        if found is None:
            refuse_orphans(self.directory, makes_updates=self.updates > 0)
        elif found.name == checkpoint.PREVIOUS:
            checkpoint.put_back(self.folder)
        (self.folder / "snapshots").mkdir(exist_ok=True)
        here = self.position
        newer = [p for p in snapshots(self.folder, here.stage) if step_of(p) > here.step]
        if len(newer) > LEFT_BEHIND:
            raise UserError(
                f"{self.directory} has {len(newer)} snapshots newer than its state of update "
                f"{here.step}, which would be deleted: restore a later state, or set another "
                "output."
            )
        # What a killed run wrote after its last state will be written again, perhaps at other
        # steps; and a stage that continues past its former end would not have had a snapshot there.
        is_odd = here.stage_step % self.training.save_every != 0 and not self.is_stage_over
        forget_snapshots(
            self.folder, lambda step: step > here.step or (step == here.step and is_odd)
        )
        rotate(self.folder, self.training.keep)
        text = json.dumps(provenance(self.recipe), indent=1, ensure_ascii=False) + "\n"
        write_atomically(self.folder / RECIPE, text)

    def _read_state(self) -> Path | None:
        """Load the last intact state. -> its file, None if there is no state"""
        found = checkpoint.find_state(self.folder)
        if found is None:
            return None
        path, state = found
        check_resumable(self.directory, state, self.recipe.as_dict(), self.data.identity)
        self.saved, self.position = state, state["position"]
        if path.name == checkpoint.PREVIOUS:
            logger.warning(
                "%s is damaged or missing; going back to %s.", self.folder / checkpoint.STATE, path
            )
        logger.info("Resuming %s after update %d.", self.directory, self.position.step)
        return path

    def learner(self, carried: Tensors | None) -> Learner:
        """The learner of the current stage: as saved, or started from carried-over weights."""
        stage = self.recipe.stages[self.position.stage]
        system = build_system(stage.model, self.data)
        saved, self.saved = self.saved, None
        if saved is not None:
            take_over(system, saved["system"])
        elif carried is not None:
            report_taken(take_over(system, carried), "the stage before")
        elif stage.training.warm_start:
            warm_start(system, Path(stage.training.warm_start), self.data)
        learner = Learner(
            stage.training, system, self.data.train, self.group, self.recipe.seed, self.position
        )
        if saved is not None:
            restore(learner.optimizer, saved["optimizer"], self.folder / checkpoint.STATE)
        elif self.group.is_first and self.position.step == 0 < self.updates:
            # from here on a run without a state has lost it, and is not mistaken for a new one
            self._save_state(learner)
        return learner

    def save(self, learner: Learner, *, is_due: bool) -> None:
        """Write the state, a snapshot if one is due, and the model directory.

        A snapshot is taken at due steps only, never because of a signal: in the end, an interrupted
        run must average the same snapshots as an uninterrupted one.
        """
        if not self.group.is_first:
            return
        tensors = unshared(learner.system)
        snapshot = snapshot_path(self.folder, self.position.stage, self.position.step)
        if (name := not_finite(tensors)) is not None:
            raise UserError(
                f"After update {self.position.step} the weights {name} are not all finite; the "
                "last checkpoint is kept: start another run from it (training.warm_start) with a "
                "lower learning_rate or with clip."
            )
        if is_due:
            write_weights(snapshot, tensors)
        self._save_state(learner)
        if is_due:
            rotate(self.folder, self.training.keep)
        self._publish(learner.system, [self.position.step], snapshot if is_due else None)

    def _save_state(self, learner: Learner) -> None:
        learned = unshared(learner.system), learner.optimizer.state()
        checkpoint.save_state(
            self.folder, self.position, self.recipe.as_dict(), self.data.identity, learned
        )

    def finished_weights(self, learner: Learner) -> tuple[list[int], Tensors]:
        """What a finished stage passes on: its last weights, or the mean of its last snapshots."""
        self.group.first_says(None)  # the last snapshot is written
        count = self.training.average_last
        paths = snapshots(self.folder, self.position.stage)[-count:]
        if count == 1 or len(paths) < 2:
            return [self.position.step], dict(unshared(learner.system))
        return [step_of(path) for path in paths], average(paths)

    def finish(self, system: System, steps: list[int], tensors: Tensors) -> None:
        """Write the finished model."""
        if self.group.is_first:
            take_over(system, tensors)
            self._publish(system, steps, None)

    def _publish(self, system: System, steps: list[int], weights: Path | None) -> None:
        """Write the model directory, with the system's weights or linked to a snapshot of them."""
        model = self.recipe.stages[self.position.stage].model
        publish(self.directory, system, self.recipe, model, self.data.files, steps, weights)


def warm_start(system: System, path: Path, data: RunData) -> None:
    """Start from another model's weights where the names agree."""
    if path.is_dir():
        check_vocabulary(path, data.files)
        path = path / WEIGHTS
    tensors = read_weights(path)
    taken = take_over(system, tensors)
    if len(taken[1]) == len(tensors):
        raise UserError(
            f"{path} has no weights in common with this model: drop training.warm_start."
        )
    report_taken(taken, str(path))


def report_taken(names: tuple[list[str], list[str]], where: str) -> None:
    """Report which weights are newly initialised and which were not used."""
    fresh, unused = names
    logger.info(
        "Weights taken from %s; newly initialised: %s; not used: %s.",
        where,
        ", ".join(fresh) or "none",
        ", ".join(unused) or "none",
    )
