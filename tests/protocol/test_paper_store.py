"""Results of `hmt paper` that outlive their disk: stored, joined, refused if corrupt."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from command_line import contents
from paper_world import LINE, everything, here, ledger_of, options, put_points, steps_of, world

from hmt.cli import run as command
from hmt.cli.paper import Lines
from hmt.errors import UserError
from hmt.paper.known import Known, lean, spared, together
from hmt.paper.parts import PARTS
from hmt.paper.parts.main import UPDATES
from hmt.paper.plan import STORED, Place, portable
from hmt.paper.running import run
from hmt.paper.runs import made_by, run_recipe
from hmt.paper.store import Entry, read_store, write_store
from hmt.training.recipe import load_recipe

MADE = ("selection", "cases")
HMT = "equal-updates/hmt"


def paper(*words: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Run `hmt paper` with its steps in this process; the steps that ran."""
    ran: list[str] = []

    def noted(given, log, tick):
        ran.append(" ".join(given[:2]))
        return here(given, log, tick)

    monkeypatch.setattr("hmt.paper.running.in_a_process", noted)
    assert command(["paper", *words]) == 0
    return ran


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which two parts were made and stored by the command."""
    folder = tmp_path_factory.mktemp("first")
    place = world(folder)
    with pytest.MonkeyPatch.context() as patched:
        words = [*MADE, *options(place), "--report", str(folder / "report.md")]
        assert len(paper(*words, monkeypatch=patched)) == 6
    return folder


@pytest.fixture
def elsewhere(first: Path, tmp_path: Path) -> Place:
    """Another machine: the same text, recipes and store in another folder, and nothing else."""
    for name in ("text", "recipes", "store"):
        shutil.copytree(first / name, tmp_path / name)
    return Place(
        tmp_path / "runs",
        tmp_path / "text",
        tmp_path / "results",
        tmp_path / "recipes" / "multi30k",
        updates=4,
    )


def section(report: Path, title: str) -> str:
    return report.read_text().split(f"## {title}\n")[1].split("\n## ")[0]


def test_a_store_gives_the_same_report_from_an_empty_folder(
    first: Path, elsewhere: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = contents(tmp_path / "store")
    words = [*MADE, *options(elsewhere), "--report", str(tmp_path / "report.md")]
    assert paper(*words, monkeypatch=monkeypatch) == [], "nothing is made twice"
    assert contents(tmp_path / "store") == before
    assert not elsewhere.runs.exists()
    ours, theirs = tmp_path / "report.md", first / "report.md"
    for title in (
        "BLEU by probability of the selection",
        "Numerical results with more metrics",
        "Trainings",
    ):
        assert section(ours, title) == section(theirs, title)
    assert ours.read_text().count("![") == 2 == len(list((tmp_path / "report").iterdir()))
    assert "waits in" in section(ours, "Case studies")
    assert "| start | 32 | 1 |" in section(ours, "Trainings")
    assert f"| {HMT} | 4 | 1 |" in section(ours, "Trainings")


def test_a_store_has_no_sentence_and_no_folder_of_a_machine(first: Path) -> None:
    held = "".join(path.read_text() for path in (first / "store").iterdir())
    for name in ("de", "en"):
        for line in (first / "text" / f"test_2016_flickr.{name}").read_text().splitlines():
            assert line not in held
    words = set((first / "text" / "test_2016_flickr.en").read_text().split())
    long = [word for word in words if len(word) > 5]
    assert long and not any(re.search(rf"\b{word}\b", held) for word in long)
    assert str(first) not in held and f"RESULTS/{HMT}" in held
    entries = read_store(first / "store")
    evaluated, trained = entries[f"evaluate {HMT}"], entries[f"train {HMT}"]
    assert evaluated.seed == trained.seed == 1 and trained.updates == 4
    assert evaluated.seconds and evaluated.finished.startswith("20")
    assert "cores" in evaluated.machine and set(evaluated.inputs) == {
        "DATA/test_2016_flickr.de",
        "DATA/test_2016_flickr.en",
    }


def test_what_is_stored_is_made_again_if_asked_or_needed(
    elsewhere: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd
) -> None:
    words = [*options(elsewhere), "--report", str(tmp_path / "report.md")]
    assert command(["paper", *MADE, "--dry-run", *words]) == 0
    plan = capfd.readouterr().out
    assert re.search(rf"^stored +train {HMT}$", plan, re.M) and "to do" not in plan
    assert command(["paper", *MADE, "--dry-run", "--fresh", *words]) == 0
    assert "stored" not in capfd.readouterr().out
    # the accuracy needs the weights, not the evaluation
    ran = paper("accuracy", *MADE, *words, monkeypatch=monkeypatch)
    assert [each.split()[0] for each in ran] == ["prepare", "train", "train", "analyse"]
    assert "analyse accuracy" in read_store(tmp_path / "store")
    ran = paper("selection", "--fresh", *words, monkeypatch=monkeypatch)
    assert [each.split()[0] for each in ran] == ["evaluate", "analyse"]


def test_stored_results_of_another_plan_do_not_count(elsewhere: Place, tmp_path: Path) -> None:
    stored = read_store(tmp_path / "store")
    steps = {step.name: step for step in steps_of(elsewhere, *MADE)}
    known = Known(elsewhere, ledger_of(elsewhere), stored)
    assert {known.state(step) for step in steps.values()} == {STORED}
    assert spared(list(steps.values()), known) == set(steps)

    def valid(place: Place) -> set[str]:
        found = Known(place, ledger_of(place), stored)
        return {s.name for s in steps_of(place, *MADE) if found.entry(s)}

    trained = {"prepare", "train start", f"train {HMT}"}
    assert valid(elsewhere) == {
        *trained,
        f"evaluate {HMT}",
        "analyse selection",
        "analyse cases",
    }
    assert valid(replace(elsewhere, data=tmp_path / "none")) == valid(elsewhere), "text not needed"
    assert valid(replace(elsewhere, pieces=400)) == set(), "all depends on the vocabulary"
    assert valid(replace(elsewhere, updates=5)) == {"prepare"}, "another number of updates"
    test_set = elsewhere.data / "test_2016_flickr.de"
    test_set.write_text(test_set.read_text() + "\n")
    assert valid(elsewhere) == trained, "another test set"
    recipe = elsewhere.recipes / "hmt.toml"
    shutil.copy(recipe, tmp_path / "before.toml")
    recipe.write_text(recipe.read_text().replace("# Cost: about 2", "# Cost: about 3"))
    assert valid(elsewhere) == trained, "a remark changes nothing"
    recipe.write_text(recipe.read_text().replace("batch_tokens = 400", "batch_tokens = 500"))
    assert valid(elsewhere) == {"prepare", "train start"}, "another recipe"
    shutil.copy(tmp_path / "before.toml", recipe)
    assert valid(elsewhere) == trained
    first = elsewhere.recipes / "multipath.toml"
    first.write_text(first.read_text().replace("warmup = 2", "warmup = 3"))
    assert valid(elsewhere) == {"prepare"}, "another start"


def test_a_store_of_another_number_of_updates_is_left_alone(
    elsewhere: Place, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    before = contents(tmp_path)
    assert command(["paper", *MADE, *options(replace(elsewhere, updates=5))]) == 2
    said = capfd.readouterr().err
    assert "train-start.json was made with --updates 4, not 5" in said and "--store" in said
    assert contents(tmp_path) == before


def test_a_composed_model_is_known_by_its_recipe(tmp_path: Path) -> None:
    """Its recipe has one stage without a configuration, here and in the store."""
    recipe = world(tmp_path).recipes / "adaptive.toml"
    command = ("train", str(recipe), "--set", 'model.models=["elsewhere/multipath"]')
    table = load_recipe(recipe, command[3::2]).as_dict()
    assert made_by(table, command)
    assert not made_by(table, (*command, "--set", "model.knobs.k_max=5"))
    kept = tmp_path / "run" / "training" / "recipe.json"
    kept.parent.mkdir(parents=True)
    kept.write_text(json.dumps({"recipe": table}))
    assert run_recipe(tmp_path / "run") == load_recipe(recipe, command[3::2])


def test_seeds_of_two_places_give_one_mean(tmp_path: Path) -> None:
    """The scores of one seed are here, those of the other in the store."""
    here_, there = (replace(everything(tmp_path / n), seeds=(1,)) for n in ("a", "b"))
    put_points(here_, "equal-updates/hmt", LINE)
    put_points(there, "equal-updates/hmt-2", [(s, x + 0.2, y + 1) for s, x, y in LINE])
    (model,) = UPDATES.rivals[0].models
    training, evaluation = model.train(there, 2), model.evaluate(there, 2)

    def entry(step, **more) -> Entry:
        return Entry(step.name, portable(step.shown, there), "abcdef0123", "AMD EPYC", **more)

    entries, waiting = [], [evaluation]
    while waiting:
        step = waiting.pop()
        waiting += step.needs
        more: dict = {}
        if step.is_training:
            recipe = load_recipe(step.command[1], step.command[3::2]).as_dict()
            more = {"recipe": recipe, "seed": 2, "updates": 1000, "seconds": 60.0}
        elif step is evaluation:
            more = {"result": json.loads(step.output.read_text())}
        entries.append(entry(step, **more))
    assert training.name in {e.step for e in entries}
    write_store(tmp_path / "store", entries)
    stored = read_store(tmp_path / "store")
    with together(here_, PARTS, ledger_of(here_), stored) as (seen, _):
        assert seen.seeds == (1, 2)
        points = UPDATES.curves(seen)[0].points
        assert [(round(p.latency, 2), p.quality) for p in points] == [(1.1, 30.5), (3.1, 34.5)]
        assert points[0].values["seeds"] == 2
    with together(here_, PARTS, ledger_of(here_), {}) as (seen, _):
        assert seen.seeds == (1,) and UPDATES.curves(seen)[0].points[0].quality == 30.0


@pytest.mark.parametrize(
    "text, reason",
    [
        ("{", "not JSON"),
        ("[]", "not a JSON object"),
        ('{"points": []}', '"format" is not 1'),
        ('{"format": 2, "step": "x", "command": ""}', '"format" is not 1'),
        ('{"format": 1, "command": ""}', "step"),
        ('{"format": 1, "step": "train x", "command": "", "seed": "one"}', "seed"),
        ('{"format": 1, "step": "train y", "command": ""}', 'cannot hold the step "train y"'),
        ('{"format": 1, "step": "train x", "command": "", "sentence": "z"}', "unknown"),
    ],
)
def test_corrupt_and_foreign_stores_are_refused(
    text: str, reason: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    place = world(tmp_path)
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "train-x.json").write_text(text)
    assert command(["paper", "selection", *options(place)]) == 2
    said = capfd.readouterr().err
    assert reason in said and "train-x.json is no result of hmt paper" in said
    assert said.count("\n") == 1 and not place.runs.exists()


def test_a_store_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "store").write_text("")
    with pytest.raises(UserError, match="is not a folder"):
        read_store(tmp_path / "store")
    assert read_store(tmp_path / "none") == {}


def test_private_keys_go_at_any_depth() -> None:
    held = {"a": [{"b": 1 / 3, "c": "text"}, 2], "c": {"a": 1}}
    assert lean(held, ("c",)) == {"a": [{"b": 0.333333}, 2]}


def test_a_killed_run_keeps_what_was_stored_before(elsewhere: Place, tmp_path: Path) -> None:
    """Steps that are spared are not begun: their stamps stay as they are."""
    steps = steps_of(elsewhere, "selection")
    names = {step.name for step in steps}

    def never(words, log, tick):
        raise AssertionError(words)

    logs = tmp_path / "logs"
    found = run(steps, ledger_of(elsewhere), logs, Lines(), never, spared=names)
    assert {outcome.status for outcome in found} == {STORED}
    assert not ledger_of(elsewhere).folder.exists()
