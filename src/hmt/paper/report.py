"""The report: every figure and table of the paper, theirs beside ours, from what is there."""

import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass

from hmt.analysis.published import published_title
from hmt.paper.blocks import Section
from hmt.paper.parts import NOT_PLANNED
from hmt.paper.parts.shown import duration
from hmt.paper.plan import DONE, Ledger, Part, Place, Step, ordered, with_all_texts
from hmt.paper.runs import run_facts, training_seconds
from hmt.training.publish import source_commit


@dataclass(frozen=True)
class Chapter:
    """A part with what is there of it and how that came about."""

    part: Part
    section: Section
    provenance: str  # commits, seeds, cost
    commands: tuple[str, ...]
    done: int  # steps, without the preparation that all share
    total: int

    @property
    def state(self) -> str:
        """Whole, missing, or how much of it is there."""
        if self.done in (0, self.total):
            return "whole" if self.done else "missing"
        return f"{self.done} of {self.total} steps"

    @property
    def agreement(self) -> str:
        """What an overview says of it: nothing of what is not there."""
        return self.section.verdict if self.section.blocks and self.done else "not made yet"


@dataclass(frozen=True)
class Trained:
    """One run of the table of trainings."""

    run: str
    updates: str
    seed: str
    commit: str
    cost: str


@dataclass(frozen=True)
class Report:
    """Everything that a report says, before it is Markdown or HTML."""

    title: str
    introduction: tuple[str, ...]
    chapters: tuple[Chapter, ...]
    trained: tuple[Trained, ...]
    not_planned: tuple[str, ...]


def build(place: Place, parts: Sequence[Part], ledger: Ledger) -> Report:
    """Look at what is there."""
    place, chapters = with_all_texts(place, parts), []
    for part in parts:
        steps = ordered(part.steps(place))
        own = [step for step in steps if step.name != "prepare"]
        done = sum(ledger.state(step) == DONE for step in own)
        commands = tuple(portable(step.shown, place) for step in steps)
        provenance = _provenance(steps, ledger)
        chapters.append(Chapter(part, part.section(place), provenance, commands, done, len(own)))
    every = ordered(step for part in parts for step in part.steps(place))
    trained = tuple(_trained(step) for step in every if _is_there(step, ledger))
    introduction = (
        f"{published_title()}. What the paper shows, made again in small by `hmt paper`: Multi30k "
        "German-English, 29,000 captions, models of 3+3 layers and width 128, where nothing else "
        "is said. The paper trained on millions of sentences with models thirty times as large: "
        "directions can be compared, numbers cannot.",
        f"Made on {platform.machine()} with {os.cpu_count()} cores and no accelerator, report at "
        f"commit {_short(source_commit())}. BLEU is sacreBLEU 13a, mixed case, on "
        "test_2016_flickr; AL counts tokens; [ ] are 95 % intervals by bootstrap over sentences; "
        "differences are tested by paired bootstrap. In commands DATA is the folder of the text, "
        "RUNS that of the runs, RESULTS that of evaluations and analyses, ALIGNMENTS, EUROPARL, "
        "NEWSTEST and IWSLT15 those of other text.",
    )
    return Report(
        "The paper, result by result", introduction, tuple(chapters), trained, NOT_PLANNED
    )


def portable(command: str, place: Place) -> str:
    """A command without the folders of this machine."""
    names = {place.output: "RESULTS", place.runs: "RUNS", place.data: "DATA"}
    names |= {path: option.upper() for option, path in place.texts.items()}
    names[place.recipes] = "recipes/multi30k"
    if place.recipes.parent.name:  # not the working directory
        names[place.recipes.parent] = "recipes"
    # a folder inside another one first
    for folder in sorted(names, key=lambda path: -len(str(path))):
        command = command.replace(str(folder), names[folder])
    return command


def _is_there(step: Step, ledger: Ledger) -> bool:
    return step.is_training and ledger.state(step) == DONE


def _provenance(steps: Sequence[Step], ledger: Ledger) -> str:
    """One line: trained and analysed at which commits, with which seeds, at what cost."""
    runs = [step.output.parent for step in steps if _is_there(step, ledger)]
    known = [facts for run in runs if (facts := run_facts(run))]
    stamps = [
        stamp
        for step in steps
        if not step.is_training and ledger.state(step) == DONE and (stamp := ledger.stamp(step))
    ]
    said = []
    if known:
        seeds = sorted({str(facts.get("seed")) for facts in known})
        commits = sorted({_short(facts.get("commit")) for facts in known})
        costs = [cost for run in runs if (cost := training_seconds(run)) is not None]
        total = sum(costs)
        said.append(
            f"{len(known)} trained ({_listed('seed', seeds)}; {_listed('commit', commits)}; "
            f"{duration(total)} on the wall)"
        )
    if stamps:
        commits = sorted({_short(stamp.get("commit")) for stamp in stamps})
        total = sum(stamp.get("seconds", 0.0) for stamp in stamps)
        said.append(f"evaluated and analysed in {duration(total)} ({_listed('commit', commits)})")
    return "; ".join(said) or "nothing has been run yet"


def _listed(name: str, values: Sequence[str]) -> str:
    return f"{name}{'s' * (len(values) > 1)} {', '.join(values)}"


def _trained(step: Step) -> Trained:
    run = step.output.parent
    facts, cost = run_facts(run) or {}, training_seconds(run)
    steps = facts.get("steps") or [0]
    return Trained(
        step.name.removeprefix("train "),
        f"{steps[-1]:,}" if steps[-1] else "composed",
        str(facts.get("seed")),
        _short(facts.get("commit")),
        "–" if cost is None else duration(cost),
    )


def _short(commit: object) -> str:
    if not isinstance(commit, str):
        return "unknown"
    plain, _, dirty = commit.partition("-")
    return plain[:7] + ("-dirty" if dirty else "")
