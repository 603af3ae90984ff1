"""`hmt paper`: every figure and table of the HMT paper, at small scale, by one command."""

import logging
import signal
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from hmt.cli._app import app
from hmt.errors import UserError

if TYPE_CHECKING:
    from hmt.paper.known import Known
    from hmt.paper.pace import Pace
    from hmt.paper.plan import Ledger, Part, Place, Step
    from hmt.paper.running import Display, Expected, Outcome
    from hmt.paper.store import Entry

logger = logging.getLogger(__name__)


PARTS_ARGUMENT = typer.Argument(
    None,
    metavar="PART",
    help="Parts or groups (systems, corpora, ablations, analyses). Default: all; see --dry-run.",
)
DATA = typer.Option(
    Path("data/multi30k-de-en"),
    help="Folder of the text: train.de.gz, val.de, test_2016_flickr.de, and the same in en.",
)
RUNS = typer.Option(Path("runs/multi30k"), help="Folder of the runs; finished ones are reused.")
OUTPUT = typer.Option(
    Path("runs/paper"), help="Folder of evaluations, analyses and logs of the steps."
)
RECIPES = typer.Option(Path("recipes/multi30k"), help="Folder of the recipes.")
ALIGNMENTS = typer.Option(
    None, help="Folder of gold word alignments (test.de, test.en, test.talp) for `policy`."
)
EUROPARL = typer.Option(
    None, help="Folder of Europarl (train.de.gz, dev.de, and the same in en) for `europarl`."
)
NEWSTEST = typer.Option(
    None, help="Folder of news (newstest2013.de, newstest2015.de, and both in en) for `europarl`."
)
IWSLT15 = typer.Option(
    None, help="Folder of talks (train30k.en.gz, tst2012.noapos.en, and both in vi) for `iwslt15`."
)
REPORT = typer.Option(
    Path("runs/paper/paper.md"), help="Report to write; an .html page is written beside it."
)
STORE = typer.Option(
    Path("docs/paper/results"),
    file_okay=False,
    help="Folder of finished results, here or on other machines, to reuse and to add to.",
)
SEEDS = typer.Option("1", help="Seeds of the main figure, as in 1,2,3.")
UPDATES = typer.Option(
    1000,
    min=1,
    help="Updates of every system from the shared start, which has eight times as many; fewer for "
    "a trial.",
)
DRY_RUN = typer.Option(
    False, "--dry-run", help="Show what would run and about how long, and run nothing."
)
NO_TRAIN = typer.Option(
    False, "--no-train", help="Train nothing; evaluate and analyse existing runs."
)
FRESH = typer.Option(
    False, "--fresh", help="Make even what the store already has, and replace it there."
)


@app.command()
def paper(
    names: list[str] = PARTS_ARGUMENT,
    data: Path = DATA,
    runs: Path = RUNS,
    output: Path = OUTPUT,
    recipes: Path = RECIPES,
    alignments: Path | None = ALIGNMENTS,
    europarl: Path | None = EUROPARL,
    newstest: Path | None = NEWSTEST,
    iwslt15: Path | None = IWSLT15,
    report: Path = REPORT,
    store: Path = STORE,
    seeds: str = SEEDS,
    updates: int = UPDATES,
    dry_run: bool = DRY_RUN,
    no_train: bool = NO_TRAIN,
    fresh: bool = FRESH,
) -> int:
    """Make the HMT paper's figures and tables at small scale.

    A report shows them beside the paper's. Finished steps are not repeated, nor are those whose
    results are in the store: run the command again to resume. A failed step stops only those that
    need it.

    \b
    Examples:
      hmt paper --dry-run
      hmt paper ablations --data multi30k
      hmt paper --no-train --report docs/paper.md
    """
    from hmt.paper.known import spared, together
    from hmt.paper.parts import ORDER, PARTS
    from hmt.paper.plan import Ledger, Place, chosen, planned
    from hmt.paper.store import read_store

    names_of_texts = ("alignments", "europarl", "newstest", "iwslt15")
    folders = zip(names_of_texts, (alignments, europarl, newstest, iwslt15), strict=True)
    texts = {option: path for option, path in folders if path is not None}
    place = Place(runs, data, output, recipes, texts, _numbers(seeds), updates=updates)
    parts, ledger = chosen(PARTS, names or []), Ledger(output / "steps")
    parts.sort(key=lambda part: ORDER.index(part.name))
    if not dry_run:
        _check_texts(parts, place, names or [])
    stored = read_store(store)
    with together(place, PARTS, ledger, stored) as (seen, known):
        at = replace(seen, seeds=place.seeds, texts=place.texts)
        if dry_run:
            typer.echo("\n".join(_plan(parts, at, known, fresh=fresh)))
            return 0
        _check_updates(seen, ledger, store, stored)
        steps = planned(parts, at)
        left_out = set() if fresh else spared(steps, known)
    try:
        return _run(steps, ledger, output / "logs", left_out, trains=not no_train)
    finally:
        # whatever happened, store and report have what is there
        _report(place, PARTS, ledger, report, store)


def _run(
    steps: "Sequence[Step]", ledger: "Ledger", logs: Path, spared: Collection[str], *, trains: bool
) -> int:
    """Run what is missing; 1 if something failed."""
    from hmt.paper.running import in_a_process, run

    with _interruptible(), _display(len(steps)) as display:
        outcomes = run(steps, ledger, logs, display, in_a_process, trains=trains, spared=spared)
    failed = [o for o in outcomes if o.status == "failed"]
    for outcome in failed:
        logger.warning("%s failed: %s", outcome.step.name, outcome.why)
    return 1 if failed else 0


def _numbers(text: str) -> tuple[int, ...]:
    try:
        return tuple(dict.fromkeys(int(part) for part in text.split(",")))
    except ValueError:
        raise UserError(f"--seeds was given as {text!r}; write numbers, as in 1,2,3.") from None


def _check_texts(parts: "Sequence[Part]", place: "Place", names: Sequence[str]) -> None:
    """Refuse text that does not exist; parts whose text was not named are skipped and logged."""
    for option, path in {"data": place.data, **place.texts}.items():
        if not path.is_dir():
            raise UserError(f"{path} is not a folder; name the folder of the text with --{option}.")
    for part in parts:
        if lacking := part.lacks(place):
            options = " and ".join(f"--{option} DIR" for option in lacking)
            if part.name in names:
                raise UserError(f"The part {part.name} needs {options}.")
            logger.info("%s is left out: it needs %s.", part.name, options)


def _check_updates(
    place: "Place", ledger: "Ledger", store: Path, stored: "Mapping[str, Entry]"
) -> None:
    """Refuse folders in which the shared start has another number of updates.

    Runs trained from it would continue under the same names, and their results pass for these.
    """
    from hmt.paper.parts.budgets import START, START_UPDATES
    from hmt.paper.runs import run_recipe, set_updates

    step = START.train(place)
    run, stamp, entry = step.output.parent, ledger.stamp(step), stored.get(step.name)
    recipe = run_recipe(run)
    found = {
        run: recipe and recipe.stages[-1].training.updates,
        ledger.path(step): stamp and set_updates(stamp.get("command", ())),
        store / entry.file if entry else store: entry and entry.updates,
    }
    for path, count in found.items():
        if count and count != set_updates(step.command):
            raise UserError(
                f"{path} was made with --updates {count / START_UPDATES:g}, not {place.updates}: "
                "give that number, or name other folders with --runs, --output and --store."
            )


def _report(
    place: "Place", parts: "Sequence[Part]", ledger: "Ledger", path: Path, store: Path
) -> None:
    from hmt.paper.known import together
    from hmt.paper.markdown import write_markdown
    from hmt.paper.page import write_page
    from hmt.paper.plan import ordered
    from hmt.paper.report import build
    from hmt.paper.store import read_store, write_store

    with together(place, parts, ledger, read_store(store)) as (seen, known):
        steps = ordered(step for part in parts for step in part.steps(seen))
        write_store(store, [entry for step in steps if (entry := known.from_here(step))])
        built = build(seen, parts, known)
        write_markdown(built, path)
        write_page(built, path.with_suffix(".html"))
    logger.info("Report: %s and %s; results: %s", path, path.with_suffix(".html"), store)


def _plan(parts: "Sequence[Part]", place: "Place", known: "Known", *, fresh: bool) -> Iterator[str]:
    """What would run, in order, and the time that each part still needs."""
    from hmt.paper.known import spared
    from hmt.paper.pace import measured
    from hmt.paper.parts.shown import duration
    from hmt.paper.plan import DONE, STORED, ordered, planned, with_all_texts

    # parts whose text was not named are shown as well, so that their cost is known
    whole = with_all_texts(place, parts)
    steps = planned(parts, whole)
    left_out = set() if fresh else spared(steps, known)
    states = {step.name: known.ledger.state(step) for step in steps}
    for step in steps:
        if states[step.name] != DONE and step.name in left_out:
            states[step.name] = STORED
    pace = measured(steps, known.ledger)
    is_left = {step.name: states[step.name] not in (DONE, STORED) for step in steps}
    for step in steps:
        seconds = pace.seconds(step)
        time = duration(seconds) if seconds is not None else "unknown"
        yield f"{states[step.name]:12} {time if is_left[step.name] else '':>8}  {step.name}"
    yield ""
    shared: set[str] = set()
    for part in parts:
        own = [s for s in ordered(part.steps(whole)) if is_left[s.name]]
        left = [step for step in own if step.name not in shared]
        shared |= {step.name for step in own}
        options = "".join(f" --{option}" for option in part.lacks(place))
        needs = f"; left out without{options}" if options else ""
        yield f"{part.name:16} {_sum(left, pace):>10}  {part.title} ({len(left)} steps{needs})"
    left = [step for step in steps if is_left[step.name]]
    yield f"{'in all':16} {_sum(left, pace):>10}  {len(left)} of {len(steps)} steps, on one core"
    if left and (said := pace.in_words()):
        yield f"{said}, and the times above have that in them"


def _sum(steps: "Sequence[Step]", pace: "Pace") -> str:
    from hmt.paper.parts.shown import duration

    times = [pace.seconds(step) for step in steps]
    known = sum(seconds or 0.0 for seconds in times)
    return duration(known) + (" or more" if None in times else "")


@contextmanager
def _interruptible() -> Iterator[None]:
    """Treat a request to terminate as Ctrl-C, so that the running step is stopped as well."""

    def stop(number: int, frame: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _display(steps: int) -> "Iterator[Display]":
    """A bar with the running step and its last line on a terminal, else a line per step."""
    if not sys.stderr.isatty():
        yield Lines()
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bars

    columns = (TextColumn("{task.description:24}"), BarColumn(20), MofNCompleteColumn())
    line = TextColumn("{task.fields[line]}", style="dim")
    with Bars(*columns, TimeElapsedColumn(), line, console=Console(stderr=True)) as bars:
        yield Bar(bars, steps)


class Lines:
    """One line when a step begins and one if it fails."""

    def begin(self, step: "Step", number: int, total: int, about: "Expected") -> None:
        from hmt.paper.parts.shown import duration

        own = "" if about.step is None else f", about {duration(about.step)}"
        whole = f" of {duration(about.left)} left" if about.left else ""
        logger.info("%d/%d %s%s%s", number, total, step.name, own, whole)

    def tick(self, line: str) -> None:
        """Do nothing: a log file needs no ticks."""

    def end(self, outcome: "Outcome") -> None:
        if outcome.why:
            logger.info("%s: %s, %s", outcome.step.name, outcome.status, outcome.why)


class Bar(Lines):
    """The same on a terminal, with a bar."""

    def __init__(self, bars: Any, total: int) -> None:
        self.bars, self.task = bars, bars.add_task("", total=total, line="")

    def begin(self, step: "Step", number: int, total: int, about: "Expected") -> None:
        from hmt.paper.parts.shown import duration

        left = f"about {duration(about.left)} left"
        self.bars.update(self.task, description=step.name, line=left)

    def tick(self, line: str) -> None:
        self.bars.update(self.task, line=line[:100])

    def end(self, outcome: "Outcome") -> None:
        super().end(outcome)
        self.bars.advance(self.task)
