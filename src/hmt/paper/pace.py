"""How long steps take on this machine, against what the plan expects."""

from collections.abc import Sequence

from hmt.paper.plan import DONE, Ledger, Step
from hmt.paper.runs import training_seconds

LEAST_SECONDS = 60.0  # of expected time: less says nothing about the rest


def taken(step: Step, ledger: Ledger) -> float | None:
    """Seconds that a finished step took; a training by its log, which knows what was resumed."""
    if step.is_training:
        return training_seconds(step.output.parent)
    return (ledger.stamp(step) or {}).get("seconds")


def pace(steps: Sequence[Step], ledger: Ledger) -> float | None:
    """Time of the finished steps as a multiple of their estimates; None if too few are done."""
    pairs = [
        (seconds, step.seconds)
        for step in steps
        if step.seconds and ledger.state(step) == DONE and (seconds := taken(step, ledger))
    ]
    expected = sum(estimate for _, estimate in pairs)
    return sum(seconds for seconds, _ in pairs) / expected if expected >= LEAST_SECONDS else None
