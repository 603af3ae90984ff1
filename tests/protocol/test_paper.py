"""The paper by one command: a tiny plan on the toy language, interrupted, resumed, reported."""

import contextlib
import gzip
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from command_line import contents

from hmt import toy
from hmt.cli import run as command
from hmt.cli.paper import Lines
from hmt.errors import UserError
from hmt.paper.blocks import Picture, Section, Table, Text
from hmt.paper.markdown import write_markdown
from hmt.paper.page import write_page
from hmt.paper.parts import PARTS
from hmt.paper.parts.ablations import Outcome, verdict
from hmt.paper.plan import DONE, OPEN, STALE, Ledger, Part, Place, Step, chosen, ordered
from hmt.paper.report import build
from hmt.paper.running import in_a_process, run
from hmt.paper.runs import is_finished, stated_seconds, training_seconds
from hmt.systems import SYSTEMS

RECIPE = """\
# Cost: about 2 minutes of one core.
output = "elsewhere"
data.directory = "elsewhere"
model.system = "{system}"
model.config.dims = {{width = 16, ffn = 16, heads = 2, encoder_layers = 1, decoder_layers = 1}}
{more}

[training]
updates = {updates}
batch_tokens = 400
warmup = 2
save_every = 2
keep = 2
average_last = 2
log_every = 2
threads = 1
"""
HMT = "model.config.lower = [1, 3]\nmodel.config.states = 4"


def world(folder: Path) -> Place:
    """Text under the names of the benchmark, and tiny recipes."""
    data, recipes = folder / "text", folder / "recipes"
    for name, count, seed in (("train", 200, 1), ("val", 10, 2), ("test_2016_flickr", 6, 3)):
        for path, end in zip(toy.write(data, name, count, seed), ("de", "en"), strict=True):
            path.rename(data / f"{name}.{end}")
    for end in ("de", "en"):
        content = (data / f"train.{end}").read_bytes()
        (data / f"train.{end}.gz").write_bytes(gzip.compress(content))
    (recipes / "ablations").mkdir(parents=True)
    for name in (*SYSTEMS, "ablations/hmt"):
        system = name.split("/")[-1]
        more = HMT if system == "hmt" else ""
        text = RECIPE.format(system=system, more=more, updates=4)
        (recipes / f"{name}.toml").write_text(text)
    return Place(folder / "runs", data, folder / "results", recipes, pieces=300)


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
    return Place(Path("runs"), Path("text"), Path("results"), Path("recipes"), pieces=300)


def parts(*names: str) -> list[Part]:
    return chosen(PARTS, names)


def steps_of(place: Place, *names: str) -> list[Step]:
    return ordered(step for part in parts(*names) for step in part.steps(place))


def here(words: Sequence[str], log: Path, tick: Callable[[], None]) -> int:
    """Run a command in this process: quicker than to start Python for each."""
    tick()
    log.write_text("hmt: said last\n")
    return command(list(words))


def ledger_of(place: Place) -> Ledger:
    return Ledger(place.output / "steps")


def make(place: Place, *names: str, execute=here, **options) -> dict[str, str]:
    steps = steps_of(place, *names)
    outcomes = run(steps, ledger_of(place), place.output / "logs", Lines(), execute, **options)
    return {outcome.step.name: outcome.status for outcome in outcomes}


def test_a_plan_runs_to_its_end_and_reports_what_it_found(done: Place, tmp_path: Path) -> None:
    names = ("accuracy", "selection", "cases", "hmm-loss")
    place = replace(done, output=done.output.resolve())  # some steps are of another folder now
    found = make(place, *names)
    assert set(found.values()) == {"ran", "done"}, found
    assert make(place, *names) == dict.fromkeys(found, "done"), "nothing is done twice"
    report = build(place, PARTS, ledger_of(place))
    states = {chapter.part.name: chapter for chapter in report.chapters}
    assert states["selection"].state == "whole" and states["speed"].state == "missing"
    assert states["main"].state == "3 of 51 steps"
    assert "multipath" in states["main"].section.missing
    assert states["speed"].section.missing == ["speed"]
    write_markdown(report, tmp_path / "docs" / "paper.md")
    write_page(report, tmp_path / "docs" / "paper.html")
    text = (tmp_path / "docs" / "paper.md").read_text()
    page = (tmp_path / "docs" / "paper.html").read_text()
    for link in re.findall(r"!\[.*?\]\((.*?)\)", text):
        assert (tmp_path / "docs" / link).exists(), link
    assert "| most probable selection | 1.77 | 24.02 |" in text, "theirs stand beside ours"
    for said in ("Against the row all selections", "hmt evaluate RUNS/hmt", "seed 1", "Missing: "):
        assert said in text and said in page
    assert str(tmp_path) not in text + page, "no folder of this machine"
    assert not re.search(r"(src|href)=\"(?!data:|#)", page), "the page is one file"
    assert page.count("data:image/") == text.count("![")


def test_a_stopped_plan_goes_on_where_it_was(place: Place) -> None:
    """Planted bug: a stamp written before the command has ended."""
    ran: list[str] = []

    def stops_at_third(words: Sequence[str], log: Path, tick: Callable[[], None]) -> int:
        if len(ran) == 2:
            raise KeyboardInterrupt
        ran.append(words[0])
        return here(words, log, tick)

    with pytest.raises(KeyboardInterrupt):
        make(place, "selection", execute=stops_at_third)
    assert ran == ["prepare", "train"]
    before = contents(place.runs)
    found = make(place, "selection")
    assert list(found.values()) == ["done", "done", "ran", "ran"]
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
    assert make(place, "selection", trains=False)["train hmt"] == "skipped"
    assert not (place.runs / "hmt").exists()


def test_runs_of_others_are_taken_as_they_are(done: Place) -> None:
    elsewhere = replace(done, output=Path("other"))
    before = contents(done.runs)
    found = make(elsewhere, "selection", trains=False)
    assert found["train hmt"] == "done" and found["analyse selection"] == "ran"
    assert contents(done.runs) == before


def test_other_inputs_make_a_step_stale(done: Place) -> None:
    evaluation = next(s for s in steps_of(done, "selection") if s.name == "evaluate main/hmt")
    ledger = ledger_of(done)
    assert ledger.state(evaluation) == DONE
    source = done.data / "test_2016_flickr.de"
    lines = source.read_text().splitlines()
    source.write_text("\n".join([*lines[1:], lines[0]]) + "\n")
    assert ledger.state(evaluation) == STALE
    assert make(done, "selection")["evaluate main/hmt"] == "ran"
    assert ledger.state(evaluation) == DONE


def test_a_run_of_another_recipe_is_not_taken_for_this_one(done: Place) -> None:
    (training,) = (s for s in steps_of(done, "selection") if s.is_training)
    trained, recipe = done.runs / "hmt", done.recipes / "hmt.toml"
    assert is_finished(trained, recipe, ["output=x"])
    assert not is_finished(trained, recipe, ["model.config.states=5"])
    assert not is_finished(trained, recipe, ["training.updates=6"]), "not at its end"
    assert not is_finished(done.runs / "none", recipe, [])
    assert ledger_of(done).state(training) == DONE
    recipe.write_text(recipe.read_text().replace("updates = 4", "updates = 6"))
    assert ledger_of(done).state(training) == OPEN
    assert (training_seconds(trained) or 0) > 0
    assert stated_seconds(recipe) == 120 == training.seconds


def wait_until(is_true: Callable[[], bool], process: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + 120
    while not is_true():
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.2)


def test_interrupt_reaches_the_running_step_and_loses_nothing(place: Place, tmp_path: Path) -> None:
    """A real signal while a real training runs: it saves itself, and goes on the next time."""
    text = RECIPE.format(system="hmt", more=HMT, updates=100_000)
    (place.recipes / "hmt.toml").write_text(text.replace("save_every = 2", "save_every = 50"))
    words = [sys.executable, "-m", "hmt", "paper", "selection", *options(place)]
    words += ["--report", str(tmp_path / "report.md")]
    journal, log = place.runs / "hmt" / "log.jsonl", place.output / "logs" / "train-hmt.log"

    first = subprocess.Popen(words, stderr=subprocess.DEVNULL)
    wait_until(lambda: journal.exists() and journal.stat().st_size > 0, first)
    first.send_signal(signal.SIGINT)
    assert first.wait(120) == 130
    assert (tmp_path / "report.md").exists(), "the report shows what is there"
    reached = max(int(n) for n in re.findall(r'"step": (\d+)', journal.read_text()))

    second = subprocess.Popen(words, stderr=subprocess.DEVNULL)
    wait_until(lambda: "Resuming" in log.read_text(), second)
    second.send_signal(signal.SIGTERM)
    assert second.wait(120) == 130
    resumed = re.search(r"Resuming .* after update (\d+)", log.read_text())
    assert resumed and int(resumed[1]) >= reached, "no update was lost"


def options(place: Place) -> list[str]:
    """The places as options of the command."""
    names = ("runs", "data", "output", "recipes")
    return [word for name in names for word in (f"--{name}", str(getattr(place, name)))]


def test_dry_run_and_subsets(place: Place, capfd: pytest.CaptureFixture[str]) -> None:
    words = ["paper", "--dry-run", *options(place)]
    assert command(words) == 0
    out = capfd.readouterr().out
    assert "train wait-9" in out and "in all" in out and not place.output.exists()
    assert command([*words, "ablations"]) == 0
    out = capfd.readouterr().out
    assert "train wait-9" not in out and "train ablations/L8-K10" in out
    assert re.search(r"to do +2 min  train full", out), "the cost in the recipe's head"
    assert command([*words, "nothing"]) == 2
    assert "choose from ablations, accuracy" in capfd.readouterr().err


def test_the_real_plan_names_recipes_that_exist(tmp_path: Path) -> None:
    root = Path(__file__).resolve().parents[2]
    place = Place(tmp_path, tmp_path, tmp_path, root / "recipes" / "multi30k", tmp_path)
    steps = ordered(step for part in PARTS for step in part.steps(place))
    assert len({step.name for step in steps}) == len(steps) > 100
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
    root = Path(__file__).resolve().parents[2]
    place = Place(tmp_path, tmp_path, tmp_path, root / "recipes" / "multi30k", tmp_path)
    for step in ordered(step for part in PARTS for step in part.steps(place)):
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
        "Against the row 1.0: AL moves as in the paper (0.0), cannot be told from the reference "
        "(0.5), moves the other way (2.0); BLEU moves as in the paper (0.0), cannot be told from "
        "the reference (0.5), moves the other way (2.0)."
    )
    assert "too few" in verdict({2: base}, 2)


def test_report_escapes_what_sentences_hold(place: Place, tmp_path: Path) -> None:
    picture = tmp_path / "p.svg"
    picture.write_text("<svg/>")
    blocks = (Text("<b>&"), Table(("a|b",), (("<i>",),)), Picture(picture, '"><script>'))
    part = Part("x", "T <1>", "theirs", lambda place: (), lambda place: Section(blocks, "<u>"))
    report = build(place, [part], ledger_of(place))
    write_page(report, tmp_path / "r.html")
    write_markdown(report, tmp_path / "r.md")
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
