"""Progress bars: on a terminal only, on stderr, so that pipes and log files stay clean."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Progress = Callable[[str, int, int], None]  # stage, done, total


@contextmanager
def bars() -> Iterator[Progress]:
    """Give a callback that shows one bar per stage; without a terminal it shows nothing."""
    if not sys.stderr.isatty():
        yield lambda stage, done, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Display

    columns = (TextColumn("{task.description:12}"), BarColumn(), MofNCompleteColumn())
    with Display(*columns, TimeRemainingColumn(), console=Console(stderr=True)) as display:
        tasks = {}

        def show(stage: str, done: int, total: int) -> None:
            if stage not in tasks:
                tasks[stage] = display.add_task(stage, total=total)
            display.update(tasks[stage], completed=done, total=total)

        yield show
