"""Run library code that ignores signals in a thread that Ctrl-C can abandon."""

from collections.abc import Callable
from threading import Thread
from typing import TypeVar

Made = TypeVar("Made")

TICK = 0.1  # seconds: a signal reaches Python only between two waits


def abandonable(work: Callable[[], Made]) -> Made:
    """What `work` returns or raises; an interrupt is raised at once and abandons it."""
    made: list[Made] = []
    problems: list[BaseException] = []

    def run() -> None:
        try:
            made.append(work())
        except BaseException as error:
            problems.append(error)

    thread = Thread(target=run, daemon=True)
    thread.start()
    while thread.is_alive():
        thread.join(TICK)
    if problems:
        raise problems[0]
    return made[0]
