"""The directory of a run: opened once, saved to, resumed from."""

import json
import logging
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from hmt.errors import UserError
from hmt.files import write_atomically
from hmt.models.directory import WEIGHTS
from hmt.models.weights import Tensors, average, read_weights, take_over, unshared, write_weights
from hmt.systems.contract import System
from hmt.training import checkpoint
from hmt.training.checkpoint import Position
from hmt.training.data import RunData, check_vocabulary
from hmt.training.learner import Learner, build_system
from hmt.training.processes import Group
from hmt.training.publish import provenance, publish
from hmt.training.recipe import Recipe, Training
from hmt.training.resume import check_resumable
from hmt.training.snapshots import forget_snapshots, rotate, snapshot_path, snapshots, step_of
from hmt.training.validation import has_patience

logger = logging.getLogger("hmt.training")


class Run:
    """One run on disk; only the first process writes."""

    def __init__(self, recipe: Recipe, data: RunData, group: Group):
        self.recipe, self.data, self.group = recipe, data, group
        self.directory = Path(recipe.output)
        self.folder = self.directory / "training"
        self.state = self.folder / "state.pt"
        self.position = Position()
        self.saved: dict[str, Any] | None = None  # what was found, until it is taken up

    @property
    def training(self) -> Training:
        return self.recipe.stages[self.position.stage].training

    @property
    def is_stage_over(self) -> bool:
        """All updates of the stage are made, or patience has run out."""
        has_updates_left = self.position.stage_step < self.training.updates
        return not (has_updates_left and has_patience(self.position, self.training))

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Lock the directory, find what is there, and begin or go on."""
        with ExitStack() as held:
            problem = None
            if self.group.is_first:
                try:
                    self._refuse_foreign_model()
                    held.enter_context(checkpoint.locked(self.folder))
                    self._open()
                except UserError as error:
                    problem = str(error)
            # the others would wait in vain for a first process that has left
            if problem := self.group.first_says(problem):
                raise UserError(problem)
            if not self.group.is_first:
                self._read_state()
            yield

    def _open(self) -> None:
        self._read_state()
        (self.folder / "snapshots").mkdir(exist_ok=True)
        here = self.position
        # What a killed run wrote after its last state will be written again, maybe elsewhere; and
        # a stage that goes on past its former end would not have had a snapshot there.
        is_odd = here.stage_step % self.training.save_every != 0 and not self.is_stage_over
        forget_snapshots(
            self.folder, lambda step: step > here.step or (step == here.step and is_odd)
        )
        rotate(self.folder, self.training.keep)
        text = json.dumps(provenance(self.recipe), indent=1, ensure_ascii=False) + "\n"
        write_atomically(self.folder / "recipe.json", text.encode())

    def _read_state(self) -> None:
        if not self.state.exists():
            return
        state = checkpoint.load_state(self.state)
        check_resumable(self.directory, state, self.recipe.as_dict(), self.data.fingerprint)
        self.saved, self.position = state, state["position"]
        logger.info("Resuming %s after update %d.", self.directory, self.position.step)

    def _refuse_foreign_model(self) -> None:
        if (self.directory / WEIGHTS).exists() and not self.folder.is_dir():
            raise UserError(
                f"{self.directory} already holds a model and no training of it: "
                "set another output, or remove it first."
            )

    def learner(self, carried: Tensors | None) -> Learner:
        """What learns in the current stage: as it was saved, or begun from carried weights."""
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
            learner.optimizer.restore(saved["optimizer"])
        return learner

    def save(self, learner: Learner, *, is_due: bool) -> None:
        """Write the state, a snapshot if one is due, and the model directory.

        A snapshot is taken at due steps only, never because a signal came: an interrupted run must
        average the same snapshots in the end as one that was not interrupted.
        """
        if not self.group.is_first:
            return
        tensors = unshared(learner.system)
        snapshot = snapshot_path(self.folder, self.position.stage, self.position.step)
        if is_due:
            write_weights(snapshot, tensors)
        recipe, data = self.recipe.as_dict(), self.data.fingerprint
        checkpoint.save_state(
            self.state, self.position, recipe, data, (tensors, learner.optimizer.state())
        )
        if is_due:
            rotate(self.folder, self.training.keep)
        self._publish(learner.system, [self.position.step], snapshot if is_due else None)

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
    """Begin with another model's weights where the names agree."""
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
    """Say which weights are fresh and which were left behind."""
    fresh, unused = names
    logger.info(
        "Weights of %s taken over; fresh: %s; not used: %s.",
        where,
        ", ".join(fresh) or "none",
        ", ".join(unused) or "none",
    )
