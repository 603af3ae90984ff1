"""Runs missing steps one by one, resumably; a failure stops only the steps that depend on it."""

import ctypes
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from hmt.paper.pace import measured
from hmt.paper.plan import DONE, STALE, STORED, Ledger, Step
from hmt.paper.store import machine
from hmt.training.publish import source_commit

FAILED, SKIPPED, RAN = "failed", "skipped", "ran"
LOOK_SECONDS = 0.5
PR_SET_PDEATHSIG = 1  # linux/prctl.h
INTERRUPTED = 128 + signal.SIGINT


@dataclass(frozen=True)
class Outcome:
    """How a step ended."""

    step: Step
    status: str  # DONE (before), STORED, RAN, FAILED or SKIPPED
    seconds: float = 0.0
    why: str = ""


@dataclass(frozen=True)
class Expected:
    """Seconds that a step takes, and those of all steps that are left, including it."""

    step: float | None
    left: float


class Display(Protocol):
    """Shows progress."""

    def begin(self, step: Step, number: int, total: int, about: Expected) -> None: ...

    def tick(self, line: str) -> None: ...

    def end(self, outcome: Outcome) -> None: ...


# Runs a command of hmt, appending its output to a file; calls back regularly. -> exit code
Execute = Callable[[Sequence[str], Path, Callable[[], None]], int]


def run(
    steps: Sequence[Step],
    ledger: Ledger,
    logs: Path,
    display: Display,
    execute: Execute,
    *,
    trains: bool = True,
    spared: Collection[str] = (),
) -> list[Outcome]:
    """Run, in order, the steps that are not done and not spared because they are stored.

    An interrupt ends the running step, which keeps its work.
    """
    outcomes: dict[str, Outcome] = {}
    left = {
        step.name: step
        for step in steps
        if (trains or not step.is_training)
        and step.name not in spared
        and ledger.state(step) != DONE
    }
    for number, step in enumerate(steps, 1):
        lacking = [n.name for n in step.needs if outcomes[n.name].status in (FAILED, SKIPPED)]
        state = ledger.state(step)
        if state == DONE and not lacking:
            outcomes[step.name] = Outcome(step, DONE)
        elif step.name in spared:
            outcomes[step.name] = Outcome(step, STORED)
        elif lacking:
            outcomes[step.name] = Outcome(step, SKIPPED, why=f"needs {', '.join(lacking)}")
        elif step.is_training and not trains:
            outcomes[step.name] = Outcome(step, SKIPPED, why="not trained yet")
        else:
            if state == STALE:
                # results of another model, even partial ones, would be refused
                shutil.rmtree(step.output.parent, ignore_errors=True)
            if step.is_finished is None:
                ledger.begin(step)
            pace = measured(steps, ledger)
            whole = sum(pace.seconds(each) or 0.0 for each in left.values())
            display.begin(step, number, len(steps), Expected(pace.seconds(step), whole))
            outcomes[step.name] = _run(step, ledger, logs, display, execute)
        left.pop(step.name, None)
        display.end(outcomes[step.name])
    return list(outcomes.values())


def _run(step: Step, ledger: Ledger, logs: Path, display: Display, execute: Execute) -> Outcome:
    logs.mkdir(parents=True, exist_ok=True)
    log = logs / f"{step.file}.log"
    start = time.monotonic()
    code = execute(step.command, log, lambda: display.tick(last_line(log)))
    seconds = time.monotonic() - start
    if code == INTERRUPTED:
        raise KeyboardInterrupt
    if code < 0:
        why = f"ended by signal {-code}; repeat the command to go on where it was"
        return Outcome(step, FAILED, seconds, why)
    if code != 0 or not step.output.exists():
        return Outcome(step, FAILED, seconds, last_line(log) or f"exit code {code}")
    earlier = (ledger.stamp(step) or {}).get("seconds", 0.0) if step.is_training else 0.0
    ledger.note(
        step,
        seconds=round(seconds + earlier, 1),
        commit=source_commit(),
        machine=machine(),
        finished=datetime.now(UTC).isoformat(timespec="seconds"),
    )
    return Outcome(step, RAN, seconds)


def last_line(log: Path) -> str:
    """The last line of a step's log."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - 4096))
            lines = file.read().decode("utf-8", "replace").strip().splitlines()
    except OSError:
        return ""
    return lines[-1].strip() if lines else ""


def _following() -> Callable[[], None] | None:
    """A function that makes a new process save and stop when this one is killed; Linux only.

    Otherwise the process would keep its run locked when the command is repeated.
    """
    if sys.platform != "linux":
        return None
    # loaded here, because as little as possible should happen between fork and exec
    prctl = ctypes.CDLL(None).prctl
    return lambda: prctl(PR_SET_PDEATHSIG, int(signal.SIGTERM)) and None


def in_a_process(command: Sequence[str], log: Path, tick: Callable[[], None]) -> int:
    """Run `python -m hmt COMMAND`; pass an interrupt on, and wait for the process to end."""
    with log.open("ab") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "hmt", *command],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C reaches this process alone, which forwards it once
            preexec_fn=_following(),
        )
        try:
            while True:
                try:
                    return process.wait(LOOK_SECONDS)
                except subprocess.TimeoutExpired:
                    tick()
        except KeyboardInterrupt:
            process.terminate()  # a process in the background may ignore Ctrl-C
            process.wait()
            raise
