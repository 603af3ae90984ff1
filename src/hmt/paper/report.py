"""The report: every figure and table of the paper, their results beside those we have."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hmt.analysis.published import published_title
from hmt.paper.blocks import Section
from hmt.paper.known import Known
from hmt.paper.parts import NOT_PLANNED
from hmt.paper.parts.shown import duration
from hmt.paper.plan import Part, Place, Step, ordered, portable
from hmt.paper.store import Entry, machine
from hmt.training.publish import source_commit


@dataclass(frozen=True)
class Chapter:
    """A part with its results so far and how they were obtained."""

    part: Part
    section: Section
    provenance: str  # commits, seeds, cost
    commands: tuple[str, ...]
    done: int  # steps, not counting the preparation that all parts share
    total: int

    @property
    def state(self) -> str:
        """Complete, missing, or how much of it exists."""
        if self.done in (0, self.total):
            return "whole" if self.done else "missing"
        return f"{self.done} of {self.total} steps"

    @property
    def agreement(self) -> str:
        """Its cell in the overview: the verdict, once there are results."""
        return self.section.verdict if self.section.blocks and self.done else "not made yet"


@dataclass(frozen=True)
class Trained:
    """One row of the table of training runs."""

    run: str
    updates: str
    seed: str
    commit: str
    cost: str


@dataclass(frozen=True)
class Report:
    """The content of a report, before it becomes Markdown or HTML."""

    title: str
    introduction: tuple[str, ...]
    chapters: tuple[Chapter, ...]
    trained: tuple[Trained, ...]
    not_planned: tuple[str, ...]


def build(place: Place, parts: Sequence[Part], known: Known) -> Report:
    """Collect the results that exist."""
    chapters = []
    for part in parts:
        steps = ordered(part.steps(place))
        own = [step for step in steps if step.name != "prepare"]
        done = sum(known.entry(step) is not None for step in own)
        commands = tuple(portable(step.shown, place) for step in steps)
        provenance = _provenance(steps, known)
        chapters.append(Chapter(part, part.section(place), provenance, commands, done, len(own)))
    every = ordered(step for part in parts for step in part.steps(place))
    found = [(step, entry) for step in every if (entry := known.entry(step))]
    trained = tuple(_trained(entry) for step, entry in found if step.is_training)
    machines = _values(entry.machine for _, entry in found) or [machine()]
    introduction = (
        f"{published_title()}. The results of the paper, reproduced at small scale by `hmt paper`: "
        "Multi30k German-English, 29,000 captions, models of 3+3 layers and width 128, unless "
        "stated otherwise. The paper trained on millions of sentences with models thirty times as "
        "large: directions can be compared, numbers cannot.",
        f"Made on {' and '.join(machines)}, without an accelerator; report at "
        f"commit {_short(source_commit())}. BLEU is sacreBLEU 13a, mixed case, on "
        "test_2016_flickr; AL counts tokens; [ ] are 95 % intervals by bootstrap over sentences; "
        "differences are tested by paired bootstrap. In commands, DATA is the folder of the text, "
        "RUNS that of the runs, RESULTS that of evaluations and analyses; ALIGNMENTS, EUROPARL, "
        "NEWSTEST and IWSLT15 are the folders of other text.",
    )
    return Report(
        "The paper, result by result", introduction, tuple(chapters), trained, NOT_PLANNED
    )


def _provenance(steps: Sequence[Step], known: Known) -> str:
    """One line: when, at which commits, with which seeds and at what cost this was made."""
    found = [(step, entry) for step in steps if (entry := known.entry(step))]
    trained = [entry for step, entry in found if step.is_training]
    analysed = [entry for step, entry in found if step.is_finished is None]
    said = []
    if trained:
        seeds = _listed("seed", _values(str(entry.seed) for entry in trained))
        said.append(f"{len(trained)} trained ({seeds}; {_origin(trained)} of wall-clock time)")
    if analysed:
        said.append(f"evaluated and analysed ({_origin(analysed)})")
    return "; ".join(said) or "nothing has been run yet"


def _origin(entries: Sequence[Entry]) -> str:
    """Commits, days, and the total time."""
    commits = _listed("commit", _values(_short(entry.commit) for entry in entries))
    days = _values(entry.finished[:10] for entry in entries)
    when = " to ".join(dict.fromkeys((days[0], days[-1]))) if days else "on an unknown day"
    return f"{commits}; {when}; {duration(sum(entry.seconds or 0.0 for entry in entries))}"


def _values(found: Iterable[str]) -> list[str]:
    return sorted(set(filter(None, found)))


def _listed(name: str, values: Sequence[str]) -> str:
    return f"{name}{'s' * (len(values) > 1)} {', '.join(values)}"


def _trained(entry: Entry) -> Trained:
    return Trained(
        entry.step.removeprefix("train "),
        f"{entry.updates:,}" if entry.updates else "composed",
        str(entry.seed),
        _short(entry.commit),
        "–" if entry.seconds is None or not entry.updates else duration(entry.seconds),
    )


def _short(commit: str | None) -> str:
    if commit is None or commit == "unknown":
        return "unknown"
    plain, _, dirty = commit.partition("-")
    return plain[:7] + ("-dirty" if dirty else "")
