"""How long steps take on this machine, compared with the plan's estimates."""

from collections.abc import Sequence
from dataclasses import dataclass

from hmt.paper.plan import DONE, Ledger, Step
from hmt.paper.runs import planned_updates, progress, training_seconds

LEAST_SECONDS = 60.0  # of estimated time; less is too little to judge the rest by


@dataclass(frozen=True)
class Pace:
    """Time that steps took here, as multiples of the estimates; None if too few were done."""

    training: float | None = None
    other: float | None = None

    def factor(self, step: Step) -> float:
        """How many times its estimate a step is likely to take."""
        first, second = self.training, self.other
        if not step.is_training:
            first, second = second, first
        return first or second or 1.0

    def seconds(self, step: Step) -> float | None:
        """Time a step still needs, from its own log if it is running, else from similar steps."""
        if step.is_training and (under_way := progress(step.output.parent)):
            return under_way.seconds_left
        return None if step.seconds is None else step.seconds * self.factor(step)

    def in_words(self) -> str:
        """As in "here trainings take 1.3 times their estimates"; empty if nothing is known."""
        named = (("trainings", self.training), ("other steps", self.other))
        said = [f"{name} take {value:.1f} times" for name, value in named if value is not None]
        return f"here {' and '.join(said)} their estimates" if said else ""


def taken(step: Step, ledger: Ledger) -> float | None:
    """Seconds that a step took or will take; those of a training run are read from its log."""
    is_done = ledger.state(step) == DONE
    if not step.is_training:
        return (ledger.stamp(step) or {}).get("seconds") if is_done else None
    run = step.output.parent
    if is_done:
        return training_seconds(run)
    under_way, total = progress(run), planned_updates(step.command)
    if under_way is None or not 0 < under_way.step < total:
        return None
    return under_way.seconds_left * total / (total - under_way.step)


def measured(steps: Sequence[Step], ledger: Ledger) -> Pace:
    """The pace of training runs and of other steps, from what was done here."""
    factors: list[float | None] = []
    for is_training in (True, False):
        pairs = [
            (seconds, step.seconds)
            for step in steps
            if step.is_training == is_training and step.seconds and (seconds := taken(step, ledger))
        ]
        expected = sum(estimate for _, estimate in pairs)
        total = sum(seconds for seconds, _ in pairs)
        factors.append(total / expected if expected >= LEAST_SECONDS else None)
    return Pace(*factors)
