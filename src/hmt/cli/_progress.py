"""Progress bars: on a terminal only, on stderr, so that pipes and log files stay clean."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hmt.evaluation.evaluate import Progress
    from hmt.training.train import Progress as Update


@contextmanager
def bars() -> "Iterator[Progress]":
    """A callback that shows one bar per task; without a terminal it shows nothing."""
    if not sys.stderr.isatty():
        yield lambda task, done, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Display

    columns = (TextColumn("{task.description:12}"), BarColumn(), MofNCompleteColumn())
    with Display(*columns, TimeRemainingColumn(), console=Console(stderr=True)) as display:
        tasks = {}

        def show(task: str, done: int, total: int) -> None:
            if task not in tasks:
                tasks[task] = display.add_task(task, total=total)
            display.update(tasks[task], completed=done, total=total)

        yield show


@contextmanager
def training_bar(is_shown: bool) -> "Iterator[Callable[[Update], None] | None]":
    """A callback that shows updates, loss and time left, or None."""
    if not is_shown:
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
    from rich.progress import Progress as Display

    from hmt.training.journal import duration

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    text = TextColumn("loss {task.fields[loss]}  left {task.fields[left]}")
    with Display(*columns, text, console=Console(stderr=True), transient=True) as display:
        task = display.add_task("training", total=None, loss="-", left="-")

        def show(update: "Update") -> None:
            several = f" {update.stage}/{update.stages}" if update.stages > 1 else ""
            display.update(
                task,
                description=f"training{several}",
                completed=update.step,
                total=update.updates,
                loss=f"{update.loss:.3f}",
                left=duration(update.seconds_left),
            )

        yield show
