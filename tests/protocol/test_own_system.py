"""A system of the user's own: named in a recipe, remembered by its model, run only if trusted."""

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import training_runs as tiny
from command_line import Call

import hmt
from hmt.errors import UserError
from hmt.models.directory import read_config
from hmt.systems import system_named
from hmt.training import average_models, train

NAME = "own_systems.patient:Patient"
CODE = """
from dataclasses import dataclass
from pathlib import Path

from hmt.model.dims import Dims
from hmt.systems.token_system import TokenSystem

Path("was_run").touch()
number = 3


@dataclass(frozen=True)
class Config:
    dims: Dims
    pace: int = 2
    label_smoothing: float = 0.1


@dataclass(frozen=True)
class Knobs:
    pace: int = 2  # source tokens read for each target token


class Patient(TokenSystem):
    name = "patient"
    Config = Config
    Knobs = Knobs

    def default_knobs(self):
        return {"pace": self.config.pace}

    def needed(self, token, knobs):
        return knobs.pace * token


class Nameless(TokenSystem):
    Config = Config
    Knobs = Knobs


class Sharp(Patient):
    Config = Knobs


class Loose(Patient):
    Knobs = dict
"""


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.prepare_toy(tmp_path_factory.mktemp("toy"))


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with a package in it, as the user stands in it."""
    (tmp_path / "own_systems").mkdir()
    (tmp_path / "own_systems" / "patient.py").write_text(CODE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [p for p in sys.path if p not in ("", str(tmp_path))])
    yield tmp_path
    for name in [name for name in sys.modules if name.split(".")[0] == "own_systems"]:
        del sys.modules[name]


def trained(here: Path, data: Path) -> Path:
    config = {"pace": 3, "dims": {**tiny.DIMS, "share_embeddings": False}}
    model = {"system": NAME, "config": config}
    recipe = tiny.recipe(data, here / "run", model=model, updates=8, validate_every=8)
    assert train(recipe).is_finished
    return here / "run"


def forget(here: Path) -> None:
    """As in a new process."""
    for name in [name for name in sys.modules if name.split(".")[0] == "own_systems"]:
        del sys.modules[name]
    (here / "was_run").unlink()


def test_it_is_trained_remembered_and_translates(here: Path, data: Path) -> None:
    run = trained(here, data)
    assert tiny.log(run, "valid")[0]["bleu"] >= 0
    assert read_config(run).system == NAME
    assert f"hmt translate --trust {run}\n" in (run / "README.md").read_text()
    model = hmt.load(run, trust=True)
    (record,) = model.translate(["al brano sevi un dorin ."])
    length = len(record.source_tokens)
    assert record.settings == {"pace": 3}
    assert record.reads == [min(3 * i, length) for i in range(1, len(record.reads) + 1)]
    average_models([run], here / "mean", 2, trust=True)
    assert read_config(here / "mean").system == NAME
    assert type(hmt.load(here / "mean", trust=True).system) is type(model.system)


def test_nothing_of_it_runs_unless_it_is_trusted(here: Path, data: Path) -> None:
    """Planted: the class imported before trust is asked for."""
    run = trained(here, data)
    forget(here)
    with pytest.raises(UserError, match=r"own_systems\.patient:Patient.*--trust.*trust=True"):
        hmt.load(run)
    with pytest.raises(UserError, match="--trust"):
        average_models([run], here / "mean", 2)
    assert not (here / "was_run").exists()
    assert not (here / "mean").exists()
    hmt.load(run, trust=True)
    assert (here / "was_run").exists()


@pytest.mark.parametrize("command", ["evaluate", "score", "info", "translate"])
def test_commands_take_trust(hmt: Call, here: Path, data: Path, command: str) -> None:
    run = trained(here, data)
    source, target = ("al brano sevi .\nun dorin sevi .\n", "the bird sees .\na door sees .\n")
    (here / "source").write_text(source)
    (here / "target").write_text(target)
    text = ["--source", "source", "--target", "target"]
    options = {"evaluate": [*text, "--output", "out", "--pace", "1,2"], "score": text}
    arguments = [command, str(run), *options.get(command, [])]
    refused = hmt(*arguments, given=source)
    assert refused.code == 2 and "--trust" in refused.err and refused.err.count("\n") == 1
    answer = hmt(*arguments, "--trust", given=source)
    assert answer.code == 0, answer.err
    if command == "evaluate":
        points = json.loads((here / "out" / "scores.json").read_text())["points"]
        assert [point["settings"] for point in points] == [{"pace": 1}, {"pace": 2}]
    if command == "info":
        assert NAME in answer.out


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("own_systems.patience:Patient", "cannot be imported.*package.module:Class"),
        ("own_systems.patient:Impatient", 'cannot be imported.*defines no "Impatient"'),
        ("own_systems.patient:number", "is not a system"),
        ("own_systems.patient:Config", "is not a system"),
        ("own_systems.patient:Nameless", "has no name"),
        ("own_systems.patient:Sharp", "lacks dims and label_smoothing"),
        ("own_systems.patient:Loose", "must be frozen dataclasses"),
        (":Patient", "cannot be imported"),
        ("own_systems.patient:", "cannot be imported"),
    ],
)
def test_what_is_no_system_is_refused(here: Path, name: str, message: str) -> None:
    assert here.exists()
    with pytest.raises(UserError, match=message):
        system_named(name, trust=True)


def test_a_model_without_its_code_says_so(here: Path, data: Path) -> None:
    run = trained(here, data)
    forget(here)
    shutil.rmtree(here / "own_systems")
    with pytest.raises(UserError, match=r"config\.json: .*cannot be imported"):
        hmt.load(run, trust=True)
