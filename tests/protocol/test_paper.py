"""The paper by one command: a tiny plan on the toy language, interrupted, resumed, reported."""

import contextlib
import json
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from command_line import contents
from paper_world import (
    LINE,
    everything,
    here,
    ledger_of,
    make,
    options,
    put_points,
    put_test,
    reported,
    steps_of,
    world,
)

from hmt.cli import run as command
from hmt.cli.paper import Lines
from hmt.errors import UserError
from hmt.paper.blocks import Picture, Section, Table, Text
from hmt.paper.pace import LEAST_SECONDS, Pace, measured
from hmt.paper.parts import ORDER, PARTS
from hmt.paper.parts.ablations import Outcome, levels, verdict
from hmt.paper.parts.comparison import above, in_reach
from hmt.paper.parts.main import TIME, UPDATES
from hmt.paper.plan import (
    DONE,
    OPEN,
    STALE,
    Part,
    Place,
    chosen,
    planned,
)
from hmt.paper.running import in_a_process, run
from hmt.paper.runs import is_finished, stated_seconds, training_seconds
from hmt.systems import SYSTEMS
from hmt.training.recipe import load_recipe

EVALUATION = "evaluate equal-updates/hmt"
PATIENCE_SECONDS = 400  # of a machine that is busy with other things


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A world in which nothing has been done."""
    return world(tmp_path)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the part `selection` has been made, by relative paths."""
    folder = tmp_path_factory.mktemp("made")
    with contextlib.chdir(folder):
        assert set(make(world(Path()), "selection").values()) == {"ran"}
    return folder


@pytest.fixture
def done(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """A copy of that folder, to work in."""
    shutil.copytree(made, tmp_path / "copy")
    monkeypatch.chdir(tmp_path / "copy")
    recipes = Path("recipes/multi30k")
    return Place(Path("runs"), Path("text"), Path("results"), recipes, pieces=300, updates=4)


def test_a_plan_runs_to_its_end_and_reports_what_it_found(done: Place, tmp_path: Path) -> None:
    names = ("accuracy", "selection", "cases", "hmm-loss")
    place = replace(done, output=done.output.resolve())  # some steps are of another folder now
    found = make(place, *names)
    assert set(found.values()) == {"ran", "done"}, found
    assert make(place, *names) == dict.fromkeys(found, "done"), "nothing is done twice"
    put_points(place, "main/hmt", LINE)
    report = reported(place, path=tmp_path / "docs" / "paper.md")
    states = {chapter.part.name: chapter for chapter in report.chapters}
    assert states["selection"].state == "whole" and states["speed"].state == "missing"
    assert states["scratch"].state == "1 of 8 steps" and states["iwslt15"].state == "missing"
    assert states["main"].state == "3 of 77 steps", "the start, HMT and its evaluation"
    assert states["main"].section.missing == [rival.label for rival in UPDATES.rivals[1:]]
    assert states["scratch"].section.missing == ["multipath", "full"]
    for name in ("main", "scratch"):
        assert "here hmt has" in states[name].section.verdict, "one system alone is shown"
    assert [type(block) for block in states["scratch"].section.blocks] == [Picture, Table, Table]
    kinds = [type(block) for block in states["main"].section.blocks]
    assert kinds == [Picture, Text, Table, Table, Table]
    assert states["speed"].section.missing == ["speed"]
    text = (tmp_path / "docs" / "paper.md").read_text()
    page = (tmp_path / "docs" / "paper.html").read_text()
    for link in re.findall(r"!\[.*?\]\((.*?)\)", text):
        assert (tmp_path / "docs" / link).exists(), link
    assert "| most probable selection | 1.77 | 24.02 |" in text, "theirs stand beside ours"
    evaluated = "hmt evaluate RUNS/equal-updates/hmt"
    for said in ("Against the row all selections", evaluated, "seed 1", "Missing: "):
        assert said in text and said in page
    assert str(tmp_path) not in text + page, "no folder of this machine"
    assert not re.search(r"(src|href)=\"(?!data:|#)", page), "the page is one file"
    assert page.count("data:image/") == text.count("![")


def test_a_stopped_plan_goes_on_where_it_was(place: Place) -> None:
    """Planted bug: a stamp written before the command has ended."""
    ran: list[str] = []

    def stops_at_fourth(words: Sequence[str], log: Path, tick: Callable[[], None]) -> int:
        if len(ran) == 3:
            raise KeyboardInterrupt
        ran.append(words[0])
        return here(words, log, tick)

    with pytest.raises(KeyboardInterrupt):
        make(place, "selection", execute=stops_at_fourth)
    assert ran == ["prepare", "train", "train"]
    before = contents(place.runs)
    found = make(place, "selection")
    assert list(found.values()) == ["done", "done", "done", "ran", "ran"]
    assert contents(place.runs) == before, "what was trained is not touched"


def test_a_failed_step_stops_only_what_needs_it(place: Place) -> None:
    def fails(words: Sequence[str], log: Path, tick: Callable[[], None]) -> int:
        return 2 if "attention" in " ".join(words) else here(words, log, tick)

    found = make(place, "attention", "hmm-loss", execute=fails)
    assert found["train ablations/max"] == "failed"
    assert found["evaluate ablations/max-max"] == "skipped"
    assert found["evaluate ablations/reference-max"] == "failed"
    assert found["evaluate ablations/best-path"] == found["evaluate ablations/reference"] == "ran"


def test_without_training_what_is_there_is_used(place: Place) -> None:
    found = make(place, "selection", trains=False)
    assert found["train start"] == found["train equal-updates/hmt"] == "skipped"
    assert not (place.runs / "start").exists() and not (place.runs / "equal-updates").exists()


def test_runs_of_others_are_taken_as_they_are(done: Place) -> None:
    elsewhere = replace(done, output=Path("other"))
    before = contents(done.runs)
    found = make(elsewhere, "selection", trains=False)
    assert found["train start"] == found["train equal-updates/hmt"] == "done"
    assert found["analyse selection"] == "ran"
    assert contents(done.runs) == before


def test_other_inputs_make_a_step_stale(done: Place) -> None:
    evaluation = next(s for s in steps_of(done, "selection") if s.name == EVALUATION)
    ledger = ledger_of(done)
    assert ledger.state(evaluation) == DONE
    source = done.data / "test_2016_flickr.de"
    lines = source.read_text().splitlines()
    source.write_text("\n".join([*lines[1:], lines[0]]) + "\n")
    assert ledger.state(evaluation) == STALE
    assert make(done, "selection")[EVALUATION] == "ran"
    assert ledger.state(evaluation) == DONE


def test_a_run_of_another_recipe_is_not_taken_for_this_one(done: Place) -> None:
    start, training = trainings = [s for s in steps_of(done, "selection") if s.is_training]
    trained, recipe = done.runs / "equal-updates/hmt", done.recipes / "hmt.toml"
    own = training.command[3::2]
    assert is_finished(trained, recipe, [*own, "output=x"])
    assert not is_finished(trained, recipe, [*own, "model.config.states=5"])
    assert not is_finished(trained, recipe, [*own, "training.updates=6"]), "not at its end"
    assert not is_finished(done.runs / "none", recipe, own)
    ledger = ledger_of(done)
    assert [ledger.state(step) for step in trainings] == [DONE, DONE]
    longer = steps_of(replace(done, updates=6), "selection")
    assert [ledger.state(step) for step in longer if step.is_training] == [OPEN, OPEN]
    recipe.write_text(recipe.read_text().replace("batch_tokens = 400", "batch_tokens = 500"))
    assert [ledger.state(step) for step in trainings] == [DONE, OPEN], (
        "that of the start is another"
    )
    assert (training_seconds(trained) or 0) > 0
    assert stated_seconds(recipe) == 120
    # the recipes state the cost of 2,800 updates
    assert start.seconds == pytest.approx(120 * 32 / 2800)
    assert training.seconds == pytest.approx(120 * 4 / 2800)


def test_folders_of_another_number_of_updates_are_refused(
    done: Place, capfd: pytest.CaptureFixture[str]
) -> None:
    """Planted bug: HMT, begun on the start of a trial, goes on to the updates of the plan."""
    before = contents(Path())

    def said(place: Place) -> str:
        assert command(["paper", "selection", *options(place)]) == 2
        return capfd.readouterr().err

    of_runs = said(replace(done, updates=5, output=Path("new/results")))
    assert "runs/start was made with --updates 4, not 5" in of_runs and of_runs.count("\n") == 1
    of_results = said(replace(done, updates=5, runs=Path("new/runs")))
    assert "results/steps/train-start.json was made with --updates 4, not 5" in of_results
    assert "greater than or equal to 1" in said(replace(done, updates=0))
    assert contents(Path()) == before, "nothing was touched"


def wait_until(is_true: Callable[[], bool], process: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not is_true():
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.2)


def endless(place: Place) -> Place:
    """The same with a training that still runs when a signal comes."""
    return replace(place, updates=100_000)


def test_interrupt_reaches_the_running_step_and_loses_nothing(place: Place, tmp_path: Path) -> None:
    """A real signal while a real training runs: it saves itself, and goes on the next time."""
    words = [sys.executable, "-m", "hmt", "paper", "selection", *options(endless(place))]
    words += ["--report", str(tmp_path / "report.md")]
    journal, log = place.runs / "start" / "log.jsonl", place.output / "logs" / "train-start.log"

    hears = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # also if the tests do not
    first = subprocess.Popen(words, stderr=subprocess.DEVNULL, preexec_fn=hears)
    wait_until(lambda: journal.exists() and journal.stat().st_size > 0, first)
    first.send_signal(signal.SIGINT)
    assert first.wait(PATIENCE_SECONDS) == 130
    assert (tmp_path / "report.md").exists(), "the report shows what is there"
    reached = max(int(n) for n in re.findall(r'"step": (\d+)', journal.read_text()))

    second = subprocess.Popen(words, stderr=subprocess.DEVNULL)
    wait_until(lambda: "Resuming" in log.read_text(), second)
    second.send_signal(signal.SIGTERM)
    assert second.wait(PATIENCE_SECONDS) == 130
    resumed = re.search(r"Resuming .* after update (\d+)", log.read_text())
    assert resumed and int(resumed[1]) >= reached, "no update was lost"


@pytest.mark.skipif(sys.platform != "linux", reason="a child is told of its parent's end on Linux")
def test_a_killed_plan_takes_its_training_with_it(place: Place, tmp_path: Path) -> None:
    """Else the training would hold its run against the plan that goes on with it."""
    words = [sys.executable, "-m", "hmt", "paper", "selection", *options(endless(place))]
    words += ["--report", str(tmp_path / "report.md")]
    journal, lock = (place.runs / "start" / name for name in ("log.jsonl", "training/lock"))
    plan = subprocess.Popen(words, stderr=subprocess.DEVNULL)
    wait_until(lambda: journal.exists() and journal.stat().st_size > 0, plan)
    training = Path("/proc") / re.findall(r"\d+", lock.read_text())[0]
    assert training.exists()
    plan.kill()
    plan.wait()
    deadline = time.monotonic() + PATIENCE_SECONDS
    while training.exists():
        assert time.monotonic() < deadline, "it trains on"
        time.sleep(0.2)
    assert (place.runs / "start" / "training" / "state.pt").exists(), "it saved itself first"


def test_dry_run_and_subsets(place: Place, capfd: pytest.CaptureFixture[str]) -> None:
    words = ["paper", "--dry-run", *options(place)]
    assert command(words) == 0
    out = capfd.readouterr().out
    assert "train equal-updates/wait-9" in out and "in all" in out and not place.output.exists()
    assert re.search(r"europarl .*left out without --europarl --newstest", out)
    assert command([*words, "ablations"]) == 0
    out = capfd.readouterr().out
    assert "wait-9" not in out and "train ablations/L8-K10" in out
    assert re.search(r"to do +2 min  train full", out), "the cost in the recipe's head"
    assert command([*words, "nothing"]) == 2
    assert "choose from ablations, accuracy" in capfd.readouterr().err


def test_the_real_plan_names_recipes_that_exist(tmp_path: Path) -> None:
    place = everything(tmp_path)
    steps = planned(PARTS, place)
    assert len({step.name for step in steps}) == len(steps) > 200
    assert all(step.seconds for step in steps), "every recipe states its cost"
    names = [part.name for part in PARTS]
    assert len(set(names)) == len(names)
    with pytest.raises(UserError, match="no part of the plan"):
        chosen(PARTS, ["maine"])


def test_commands_of_the_real_plan_are_commands_of_hmt(tmp_path: Path) -> None:
    """Every option of every step is in the manual of its command, or a knob."""
    from typer.main import get_command

    from hmt.cli import app

    knobs = {f"--{n.replace('_', '-')}" for s in SYSTEMS.values() for n in s.Knobs.__annotations__}
    for step in planned(PARTS, everything(tmp_path)):
        group = get_command(app)
        manual = group.commands[step.command[0]]  # type: ignore[attr-defined]
        if step.command[0] == "analyse":
            manual = manual.commands[step.command[1]]
        options = {option for param in manual.params for option in param.opts}
        given = {word for word in step.command if word.startswith("--")}
        assert given <= options | knobs, step.shown


def test_a_verdict_compares_directions() -> None:
    base = Outcome("1.0", (3.0, 29.0), (2.0, 34.0), (33.0, 35.0))
    found = {
        0: Outcome("0.0", (6.0, 30.0), (4.0, 36.0), (35.0, 37.0)),
        1: Outcome("0.5", (4.0, 29.5), (2.1, 34.5), (33.5, 35.5)),
        2: base,
        3: Outcome("2.0", (2.0, 26.0), (3.0, 36.5), (35.5, 37.5)),
    }
    assert verdict(found, 2) == (
        "Against the row 1.0: AL moves as in the paper (0.0: +2.00), moves by less than 0.2 "
        "(0.5: +0.10), moves the other way (2.0: +1.00); BLEU moves as in the paper (0.0: +2.0), "
        "stays within its interval (0.5: +0.5), moves the other way (2.0: +2.5)."
    )
    assert "ours so far: 1.0 has 34.0 at AL 2.00" in verdict({2: base}, 2)


def test_numbers_of_states_are_compared_within_their_latency() -> None:
    rows = {
        0: Outcome("L=4 K=1", (2.6, 25.6), (3.2, 34.0), (33.0, 35.0)),
        2: Outcome("L=2 K=4", (2.2, 27.6), (2.0, 34.5), (33.5, 35.5)),
        3: Outcome("L=1 K=6", (2.3, 25.7), (1.7, 32.5), (31.5, 33.5)),
        9: Outcome("L=10 K=6", (9.1, 31.3), (8.0, 36.0), (35.0, 37.0)),
    }
    assert levels(rows) == (
        "Here at low latency L=2 K=4 is best and L=1 K=6 worst, 2.0 BLEU apart (paper, of the same "
        "rows: L=2 K=4 and L=4 K=1)."
    )
    assert "too few" in levels({9: rows[9]})


def test_report_escapes_what_sentences_hold(place: Place, tmp_path: Path) -> None:
    picture = tmp_path / "p.svg"
    picture.write_text("<svg/>")
    blocks = (Text("<b>&"), Table(("a|b",), (("<i>",),)), Picture(picture, '"><script>'))
    part = Part("x", "T <1>", "theirs", lambda place: (), lambda place: Section(blocks, "<u>"))
    reported(place, [part], path=tmp_path / "r.md")
    page = (tmp_path / "r.html").read_text()
    assert not re.search(r"<(b|i|u|script)>", page)
    markdown = (tmp_path / "r.md").read_text()
    assert r"| a\|b |" in markdown
    # within HTML, Markdown is not read: backticks would be shown as they are
    assert "<summary><code>hmt paper x</code>: " in markdown


def test_a_process_of_its_own_ends_with_its_code(tmp_path: Path) -> None:
    assert in_a_process(["--version"], tmp_path / "log", lambda: None) == 0
    assert (tmp_path / "log").read_text().startswith("hmt ")
    assert in_a_process(["train", str(tmp_path / "none.toml")], tmp_path / "log", lambda: None) == 2


def test_every_training_of_the_real_plan_resolves(tmp_path: Path) -> None:
    """Planted bug: an override of a stage that the recipe does not have."""
    found = {}
    for step in planned(PARTS, everything(tmp_path)):
        if step.is_training:
            overrides = list(step.command[3::2])
            found[step.name.removeprefix("train ")] = load_recipe(step.command[1], overrides)
    last = {name: recipe.stages[-1] for name, recipe in found.items()}
    assert last["start"].training.updates == 8000, "a long start"
    for name, recipe in found.items():
        if name.startswith("equal-updates/") and not recipe.stages[0].model.models:
            assert sum(s.training.updates for s in recipe.stages) in (500, 1000), name
    first = last["equal-updates/mma-0"]
    assert first.model.config["latency_weight"] == 0.0 and first.training.updates == 500
    for weight in (0.02, 0.05, 0.1, 0.2, 0.4):
        tuned = last[f"equal-updates/mma-{weight:g}"]
        assert tuned.training.warm_start.endswith("equal-updates/mma-0"), "half before, half after"
        assert tuned.training.updates == 500 and tuned.model.config["latency_weight"] == weight
    assert last["equal-updates/gma-drawn"].model.config["delta"] == [0.5, 3.0]
    gates = [s.model.config["gate"] for s in found["equal-updates/moe-wait-k"].stages]
    assert gates == [False, True]
    assert last["equal-time/multipath"].training.updates > 1500, "cheaper, so more updates"
    assert last["equal-time/gsimt"].training.updates < 1000, "dearer, so fewer"
    second = found["equal-updates/hmt-2"]
    assert second.seed == 2 and second.stages[-1].training.warm_start.endswith("/start")
    assert "start-2" not in found, "seeds share the start"
    assert last["europarl/multipath"].training.updates == last["europarl/hmt"].training.updates


def test_what_shows_most_comes_first(tmp_path: Path) -> None:
    assert sorted(ORDER) == sorted(part.name for part in PARTS)
    parts = sorted(PARTS, key=lambda part: ORDER.index(part.name))
    names = [step.name for step in planned(parts, everything(tmp_path))]
    place = {name: n for n, name in enumerate(names)}
    # something of every part, then the rest of them, then other seeds
    assert place["train equal-time/multipath"] < place["train equal-updates/gsimt"]
    assert place["train europarl/hmt"] < place["train ablations/L8-K10"]
    assert place["analyse equal-time/against-gsimt"] < place["train equal-updates/hmt-2"]
    assert place["analyse speed"] < place["train start"], "it needs no model"
    looks = ("accuracy", "selection", "cases", "threshold")  # at HMT alone
    assert all(place[f"analyse {x}"] < place["train equal-updates/multipath"] for x in looks)
    for step in planned(parts, everything(tmp_path)):
        assert all(place[other.name] < place[step.name] for other in step.needs)
    again = [name for name in names if name.startswith("train ") and name.endswith("-2")]
    assert {"train equal-updates/hmt-2", "train equal-updates/multipath-2"} <= set(again)
    assert "train equal-updates/wait-9-2" not in names, "HMT and two others have several seeds"


def test_a_comparison_shows_what_there_is(tmp_path: Path) -> None:
    place = everything(tmp_path)
    assert "nothing has been evaluated here yet" in UPDATES.verdict(place, "Claim")
    put_points(place, "equal-updates/hmt", LINE)
    told = UPDATES.verdict(place, "Claim")
    assert "hmt has 30.0 at AL 1.00 to 34.0 at AL 3.00; beside it so far: no other system" in told
    assert "wait-k" in UPDATES.missing(place) and "hmt" not in UPDATES.missing(place)
    put_points(place, "equal-updates/wait-3", [({"k": 3}, 2.0, 33.0)])
    assert "wait-k (wait-1, wait-5, wait-7, wait-9)" in UPDATES.missing(place)
    table = UPDATES.blocks(place, "caption")[-1]
    assert isinstance(table, Table)
    assert ("hmt", "lower 3", "3.00", "34.0 [33.0, 35.0]", "1") in table.rows
    assert ("wait-k", "model wait-3", "2.00", "33.0 [32.0, 34.0]", "1") in table.rows
    put_points(place, "equal-updates/hmt-2", [(s, x + 0.2, y + 1) for s, x, y in LINE])
    means = UPDATES.curves(place)[0].points
    assert [(round(p.latency, 2), p.quality) for p in means] == [(1.1, 30.5), (3.1, 34.5)]
    assert means[0].quality_interval == (30.0, 31.0), "the range of the seeds"


def test_the_better_variant_is_drawn(tmp_path: Path) -> None:
    place = replace(everything(tmp_path), seeds=(1,))
    put_points(place, "equal-updates/hmt", LINE)
    put_points(place, "equal-updates/multipath", [({"k": 1, "refresh": False}, 2.0, 31.0)])
    put_points(place, "equal-updates/multipath-refresh", [({"k": 1, "refresh": True}, 2.0, 30.0)])

    def drawn() -> list[str]:
        return [curve.label for curve in UPDATES.drawn(place, UPDATES.curves(place))]

    assert drawn() == ["hmt", "multipath"], "the higher one"
    put_test(place, UPDATES, "multipath", 1.0, 0.01)
    put_test(place, UPDATES, "multipath-refresh", 0.5, 0.2)
    assert drawn() == ["hmt", "multipath-refresh"], "the nearer one by the test"
    assert UPDATES.repeated(place) == ("hmt", "multipath-refresh", "multipath")


def test_a_verdict_counts_the_better_variant_and_every_seed(tmp_path: Path) -> None:
    place = everything(tmp_path)
    put_points(place, "equal-updates/hmt", LINE)
    for label, gain, p in (("multipath", 1.0, 0.01), ("multipath-refresh", 0.5, 0.2)):
        put_points(place, f"equal-updates/{label}", [({"k": 1}, 2.0, 30.0)])
        put_test(place, UPDATES, label, gain, p)
    told = "here, where they share AL, HMT is level with multipath-refresh; 9 of 10 others are not"
    assert UPDATES.standing(place).startswith(told)
    put_test(place, UPDATES, "multipath", -1.0, 0.01, seed="-2")
    put_test(place, UPDATES, "multipath-refresh", 0.2, 0.5, seed="-2")
    assert "; other seeds say the same; " in UPDATES.standing(place)
    put_test(place, UPDATES, "multipath-refresh", -0.9, 0.01, seed="-2")
    assert "; it is below multipath-refresh with seed 2; " in UPDATES.standing(place)


def test_budgets_stand_side_by_side(tmp_path: Path) -> None:
    place = replace(everything(tmp_path), seeds=(1,))
    for comparison, gain, p in ((UPDATES, 1.2, 0.01), (TIME, -0.3, 0.4)):
        put_points(place, f"{comparison.folder}/multipath", [({"k": 3}, 2.0, 33.0)])
        put_test(place, comparison, "multipath", gain, p)
    put_points(place, "equal-updates/hmt", LINE)
    part = {part.name: part for part in PARTS}["time"]
    section = part.section(place)
    told = "; here, where they share AL, HMT is level with multipath; 9 of 10 others are not tested"
    assert section.verdict.startswith(f"The paper has HMT above all others at every latency{told}")
    assert "multipath (above at equal updates, level with at equal time)" in section.verdict
    table = section.blocks[-1]
    assert isinstance(table, Table)
    row = next(row for row in table.rows if row[0] == "multipath")
    assert row[1].startswith("+1.20 [+0.20, +2.20]") and row[3].startswith("-0.30")


def test_points_above_the_line_are_named(tmp_path: Path) -> None:
    place = replace(everything(tmp_path), seeds=(1,))
    put_points(place, "equal-updates/hmt", LINE)
    points = [(2.0, 32.5), (2.5, 32.0), (9.0, 40.0)]
    put_points(place, "equal-updates/itst", [({"threshold": x}, x, y) for x, y in points])
    assert above(UPDATES.curves(place), "hmt") == (
        "Of 2 points of others within HMT's latencies 1 lies above its line: itst at AL 2.00 "
        "(+0.5 BLEU)."
    )


def test_points_far_below_hmt_are_not_drawn(tmp_path: Path) -> None:
    """They would press the curves that are compared onto each other."""
    place = replace(everything(tmp_path), seeds=(1,))
    put_points(place, "equal-updates/hmt", LINE)
    points = [(0.1, 20.0), (1.5, 26.1), (2.5, 32.0)]
    put_points(place, "equal-updates/itst", [({"threshold": x}, x, y) for x, y in points])
    seen, note = in_reach(UPDATES.curves(place), "hmt")
    assert {curve.label: len(curve.points) for curve in seen} == {"hmt": 2, "itst": 2}
    assert note == "Points of itst below 26.0 BLEU are in the table but not drawn."
    blocks = UPDATES.blocks(place, "caption")
    assert Text(note) in blocks
    table = next(b for b in blocks if isinstance(b, Table) and len(b.rows) == 5)
    assert any("20.0" in cell for row in table.rows for cell in row)
    assert in_reach(seen, "hmt") == (seen, "")


def test_half_an_evaluation_of_another_model_is_made_anew(done: Place) -> None:
    """Killed in the middle, then the model is trained again: what is left would be refused."""
    steps = {step.name: step for step in steps_of(done, "selection")}
    evaluation, ledger = steps[EVALUATION], ledger_of(done)
    kept = contents(evaluation.output.parent)
    ledger.begin(evaluation)
    assert ledger.state(evaluation) == OPEN, "begun by the same: it goes on"
    assert make(done, "selection")[EVALUATION] == "ran"
    assert contents(evaluation.output.parent) == kept
    ledger.begin(evaluation)
    evaluation.output.unlink()
    lines = (done.data / "test_2016_flickr.de").read_text().splitlines()
    (done.data / "test_2016_flickr.de").write_text("\n".join([*lines[1:], lines[0]]) + "\n")
    assert ledger.state(evaluation) == STALE
    assert make(done, "selection")[EVALUATION] == "ran"


def test_policy_quality_is_drawn(done: Place, tmp_path: Path) -> None:
    links = tmp_path / "links.talp"
    links.write_text("1-1 2-2\n" * 6)
    files = [str(done.data / f"test_2016_flickr.{end}") for end in ("de", "en")]
    words = [
        "analyse",
        "policy",
        str(done.runs / "equal-updates/hmt"),
        "--source",
        files[0],
        "--target",
        files[1],
    ]
    words += ["--alignment", str(links), "--lower", "1,2", "--output", str(tmp_path / "policy")]
    assert command([*words, "--resamples", "10"]) == 0
    assert (tmp_path / "policy" / "policy.svg").read_text().startswith("<?xml")


def test_a_killed_step_says_so_and_goes_on(place: Place) -> None:
    def killed(words: Sequence[str], log: Path, tick: Callable[[], None]) -> int:
        return -9 if words[0] == "train" else here(words, log, tick)

    steps = steps_of(place, "selection")
    found = run(steps, ledger_of(place), place.output / "logs", Lines(), killed)
    assert [outcome.status for outcome in found] == ["ran", "failed", *["skipped"] * 3]
    assert found[1].why == "ended by signal 9; repeat the command to go on where it was"
    assert measured(steps, ledger_of(place)) == Pace(), "one short step says nothing about the rest"


def test_times_follow_the_pace_of_this_machine(place: Place) -> None:
    """Of trainings under way by their logs; of others by what was done here."""
    prepare, train, evaluate, *_, analyse = steps_of(place, "scratch")
    assert train.seconds == 120 and evaluate.seconds and evaluate.seconds >= LEAST_SECONDS
    run_of = train.output.parent
    run_of.mkdir(parents=True)
    line = {"kind": "train", "step": 1, "seconds_left": 180.0}
    (run_of / "log.jsonl").write_text(json.dumps(line) + "\n")
    pace = measured([prepare, train, evaluate, analyse], ledger_of(place))
    assert pace == Pace(training=2.0), "three of four updates in 180 s: 240 s for all, not 120"
    assert pace.seconds(train) == 180.0, "what is left of it"
    assert pace.seconds(evaluate) == 2 * evaluate.seconds, "of its own kind nothing is known"
    evaluate.output.parent.mkdir(parents=True)
    evaluate.output.write_text("{}")
    ledger_of(place).note(evaluate, seconds=3 * evaluate.seconds)
    pace = measured([prepare, train, evaluate, analyse], ledger_of(place))
    assert pace == Pace(2.0, 3.0) and pace.seconds(analyse) == 3 * (analyse.seconds or 0)
    said = "here trainings take 2.0 times and other steps take 3.0 times their estimates"
    assert pace.in_words() == said


def test_parts_without_their_text_are_left_out(
    place: Place, capfd: pytest.CaptureFixture[str]
) -> None:
    words = ["paper", "europarl", *options(place)]
    assert command(words) == 2
    assert "needs --europarl DIR and --newstest DIR" in capfd.readouterr().err
    assert command([*words, "--europarl", "nowhere", "--newstest", "nowhere"]) == 2
    assert "nowhere is not a folder" in capfd.readouterr().err
    assert not planned(chosen(PARTS, ["europarl"]), replace(place, texts={}))
