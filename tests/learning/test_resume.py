"""A run stopped at any instant goes on by the same command and ends with the same weights."""

import json
import os
import random
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import training_runs as tiny
from attack_runs import finish, start
from safetensors.torch import load_file

from hmt.errors import UserError
from hmt.training import checkpoint as saved
from hmt.training import train


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.prepare_toy(tmp_path_factory.mktemp("toy"))


@pytest.fixture(scope="module")
def whole(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run that was never stopped."""
    output = tmp_path_factory.mktemp("whole") / "run"
    assert train(tiny.recipe(data, output, validate_every=6)).is_finished
    return output


def losses(output: Path) -> list[dict[str, Any]]:
    clocks = ("tokens_per_second", "seconds_left")
    records = tiny.log(output) + tiny.log(output, "valid")
    return [{k: v for k, v in record.items() if k not in clocks} for record in records]


def assert_same_run(output: Path, whole: Path) -> None:
    """Weights of model and snapshots bit for bit, and the log without gap or repetition."""
    files = ["model.safetensors", *(f"training/snapshots/{n}" for n in snapshots(whole))]
    assert snapshots(output) == snapshots(whole)
    for name in files:
        mine, theirs = load_file(output / name), load_file(whole / name)
        assert mine.keys() == theirs.keys()
        for key in mine:
            assert torch.equal(mine[key], theirs[key]), (name, key)
    assert losses(output) == losses(whole)
    left = {p.name for p in output.rglob("*") if p.name.endswith(".tmp")}
    assert not left
    assert config(output) == config(whole)


def config(output: Path) -> Any:
    told = json.loads((output / "config.json").read_text())
    del told["facts"]["commit"]  # somebody may commit while the tests run
    return told


def snapshots(output: Path) -> list[str]:
    return sorted(p.name for p in (output / "training" / "snapshots").iterdir())


def test_the_same_recipe_gives_the_same_bits(data: Path, whole: Path, tmp_path: Path) -> None:
    train(tiny.recipe(data, tmp_path / "run", validate_every=6))
    assert_same_run(tmp_path / "run", whole)
    assert train(tiny.recipe(data, tmp_path / "run", validate_every=6)).is_finished  # once more
    assert_same_run(tmp_path / "run", whole)


def test_another_seed_gives_another_model(data: Path, whole: Path, tmp_path: Path) -> None:
    table = tiny.recipe(data, tmp_path / "run", validate_every=6).as_dict()
    train(tiny.parse_recipe({**table, "seed": 6}))
    mine, theirs = (load_file(p / "model.safetensors") for p in (tmp_path / "run", whole))
    assert not any(torch.equal(mine[key], theirs[key]) for key in mine if mine[key].dim() == 2)


def test_killed_at_random_moments(data: Path, whole: Path, tmp_path: Path) -> None:
    """kill -9 again and again; each attempt gets a little further or begins the last step anew."""
    draw = random.Random(os.environ.get("HMT_TEST_SEED", "1"))
    recipe = tiny.recipe(data, tmp_path / "run", validate_every=6)
    killed = 0
    for _ in range(12):
        # 24 rests outlast five attempts on any machine
        child = start(tiny.run, recipe, 0.08)
        child.join(draw.uniform(0.05, 0.35))
        killed += child.exitcode is None
        child.kill()
        child.join()
    assert killed >= 5
    finish(recipe)
    assert_same_run(tmp_path / "run", whole)


# Renames of one save: snapshot, previous state, state, (once: tokenizers,) card, weights,
# configuration.  The very first two of a run are its recipe and the state before any update.
@pytest.mark.parametrize("when", ["before", "after", "torn"])
def test_killed_while_any_file_is_written(
    data: Path, whole: Path, tmp_path: Path, when: str
) -> None:
    recipe = tiny.recipe(data, tmp_path / "run", validate_every=6)
    for moment in (1, 2, 3, 4, 6, 7, 8, 9, 10, 13):
        child = start(tiny.run_and_die, recipe, moment, when)
        child.join(60)
        assert child.exitcode in (-signal.SIGKILL, 0)
        weights = tmp_path / "run" / "model.safetensors"
        assert not weights.exists() or load_file(weights)
    finish(recipe)
    assert_same_run(tmp_path / "run", whole)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_saves_and_leaves(data: Path, whole: Path, tmp_path: Path, number: int) -> None:
    recipe = tiny.recipe(data, tmp_path / "run", validate_every=6, save_every=4)
    stops = []
    for step in (2, 5, 9, 12, 20):

        def report(progress: Any, step: int = step) -> None:
            if progress.step == step:
                signal.raise_signal(number)

        result = train(recipe, report=report)
        assert not result.is_finished
        assert result.signal == number
        stops.append(result.step)
        state = saved.load_state(tmp_path / "run" / "training" / "state.pt")
        assert state["position"].step == result.step
        assert (tmp_path / "run" / "model.safetensors").exists()
    # the update that was under way when the signal came is finished, no more
    assert stops == [3, 6, 10, 13, 21]
    assert train(recipe).is_finished
    assert_same_run(tmp_path / "run", whole)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_signal_from_outside_ends_with_the_shells_code(data: Path, tmp_path: Path) -> None:
    recipe = tiny.recipe(data, tmp_path / "run", updates=100_000)
    child = start(tiny.run, recipe)
    wait_until((tmp_path / "run" / "training" / saved.STATE).exists)
    child.terminate()
    child.join(60)
    assert child.exitcode == 128 + signal.SIGTERM


def wait_until(is_true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60  # a loaded machine takes its time to import
    while not is_true():
        assert time.monotonic() < deadline, "it did not happen within a minute"
        time.sleep(0.01)


def test_two_runs_do_not_share_a_directory(data: Path, tmp_path: Path) -> None:
    recipe = tiny.recipe(data, tmp_path / "run", updates=100_000)
    child = start(tiny.run, recipe)
    try:
        # the previous state is linked before the new one is there: until then they are one file
        last, previous = (tmp_path / "run" / "training" / n for n in (saved.STATE, saved.PREVIOUS))
        wait_until(lambda: previous.exists() and not previous.samefile(last))
        with pytest.raises(UserError, match=rf"another run \(process {child.pid}\)"):
            train(recipe)
    finally:
        child.kill()
        child.join()
    # the lock of a killed process holds nobody back
    with pytest.raises(UserError, match="already made"):
        train(tiny.recipe(data, tmp_path / "run", updates=1))


def copy_run(whole: Path, output: Path) -> Path:
    shutil.copytree(whole, output)
    return output


def contents(folder: Path) -> dict[str, bytes]:
    files = (p for p in folder.rglob("*") if p.is_file() and p.name != "lock")
    return {str(p.relative_to(folder)): p.read_bytes() for p in files}


def damaged(content: bytes, how: str) -> bytes:
    flipped = bytearray(content)
    flipped[len(content) // 2] ^= 1
    return {
        "flip": bytes(flipped),
        "truncate": content[:-500],
        "empty": b"",
        "text": b"hello",
        "other": json.dumps([1, 2]).encode(),
    }[how]


@pytest.mark.parametrize("how", ["flip", "truncate", "empty", "text", "other", "missing"])
def test_a_damaged_state_falls_back_to_the_one_before(
    data: Path, whole: Path, tmp_path: Path, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    output = copy_run(whole, tmp_path / "run")
    state, previous = (output / "training" / n for n in (saved.STATE, saved.PREVIOUS))
    assert saved.load_state(previous)["position"].step == 20
    if how == "missing":
        state.unlink()
    else:
        state.write_bytes(damaged(state.read_bytes(), how))
    before = None if how == "missing" else state.read_bytes()
    assert train(tiny.recipe(data, output, validate_every=6)).step == 24
    assert "state.pt is damaged or missing; going back to" in caplog.text
    assert_same_run(output, whole)
    if before is not None:
        assert (output / "training" / saved.DAMAGED).read_bytes() == before


@pytest.mark.parametrize("how", ["flip", "truncate", "empty", "text", "other"])
def test_two_damaged_states_are_named_and_nothing_is_touched(
    data: Path, whole: Path, tmp_path: Path, how: str
) -> None:
    output = copy_run(whole, tmp_path / "run")
    for name in (saved.STATE, saved.PREVIOUS):
        state = output / "training" / name
        state.write_bytes(damaged(state.read_bytes(), how))
    before = contents(output)
    with pytest.raises(UserError, match=r"state\.pt is damaged.*previous.*Nothing was changed"):
        train(tiny.recipe(data, output, validate_every=6, updates=30))
    assert contents(output) == before


def test_a_lost_state_does_not_cost_the_snapshots_and_the_log(
    data: Path, whole: Path, tmp_path: Path
) -> None:
    """To follow the former advice, and remove the damaged state, deleted everything else too."""
    output = copy_run(whole, tmp_path / "run")
    for name in (saved.STATE, saved.PREVIOUS):
        (output / "training" / name).unlink()
    left = [output / "training" / "snapshots", output / "log.jsonl", output / "model.safetensors"]
    for path in left:
        before = contents(output)
        with pytest.raises(UserError, match=r"state\.pt is missing, but .* would be lost"):
            train(tiny.recipe(data, output, validate_every=6))
        assert contents(output) == before
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert train(tiny.recipe(data, output, validate_every=6)).is_finished  # nothing is left to lose
    assert_same_run(output, whole)


def test_a_state_of_long_ago_does_not_cost_later_snapshots(data: Path, tmp_path: Path) -> None:
    """A backup put back: going on from it would delete everything that came after it."""
    output = tmp_path / "run"
    train(tiny.recipe(data, output, updates=4, keep=9))
    early = (output / "training" / saved.STATE).read_bytes()
    train(tiny.recipe(data, output, keep=9))
    (output / "training" / saved.STATE).write_bytes(early)
    before = contents(output)
    with pytest.raises(UserError, match="5 snapshots newer than its state of update 4"):
        train(tiny.recipe(data, output, keep=9))
    assert contents(output) == before


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"batch_tokens": 130}, r"training\.batch_tokens = 120, not 130"),
        ({"learning_rate": 1e-3}, r"training\.learning_rate = 0\.005, not 0\.001"),
        ({"seed": 6}, r"seed = 5, not 6"),
        ({"model": {**tiny.MODEL, "config": {**tiny.MODEL["config"], "states": 4}}},
         r"model\.config\.states = 3, not 4"),
        ({"updates": 20}, r"already made 24 updates.*updates = 20"),
    ],
)  # fmt: skip
def test_a_changed_recipe_is_refused(
    data: Path, whole: Path, tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    output = copy_run(whole, tmp_path / "run")
    others = {key: value for key, value in changes.items() if key != "seed"}
    recipe = tiny.recipe(data, output, validate_every=6, **others)
    recipe = tiny.parse_recipe({**recipe.as_dict(), "seed": changes.get("seed", 5)})
    before = contents(output)
    with pytest.raises(UserError, match=message):
        train(recipe)
    assert contents(output) == before


def test_what_only_describes_the_model_may_change(data: Path, whole: Path, tmp_path: Path) -> None:
    """Also in a run whose state was written before there were such settings."""
    output = copy_run(whole, tmp_path / "run")
    path = output / "training" / "state.pt"
    state = torch.load(path, weights_only=True)
    for key in ("languages", "avoids_loops", "end_penalty"):
        del state["recipe"]["stage"][0]["model"][key]
    del state["recipe"]["stage"][0]["training"]["decay"]
    torch.save(state, path)
    model = {**tiny.MODEL, "languages": ["de", "en"], "avoids_loops": True, "end_penalty": 1.5}
    assert train(tiny.recipe(data, output, model=model, validate_every=6)).step == 24
    assert (config(output)["languages"], config(output)["avoids_loops"]) == (["de", "en"], True)
    assert config(output)["end_penalty"] == 1.5


def test_other_data_is_refused_and_moved_data_is_not(
    data: Path, whole: Path, tmp_path: Path
) -> None:
    output = copy_run(whole, tmp_path / "run")
    moved = shutil.copytree(data, tmp_path / "moved")
    assert train(tiny.recipe(moved, output, validate_every=6)).is_finished
    tokens, offsets = (moved / f"train.target.{part}" for part in ("tokens", "offsets"))
    sides = saved_lengths(offsets)
    sides[5], sides[6] = sides[6] + 1, sides[5] + 1
    assert tokens.exists()
    write_lengths(offsets, sides)
    with pytest.raises(UserError, match=r"train\.target\.offsets is damaged"):
        train(tiny.recipe(moved, output, validate_every=6))
    forget_digests(moved)
    with pytest.raises(UserError, match="other data"):
        train(tiny.recipe(moved, output, validate_every=6))


def forget_digests(data: Path) -> None:
    """As if an earlier version had prepared the data."""
    values = json.loads((data / "data.json").read_text())
    del values["digests"]
    (data / "data.json").write_text(json.dumps(values))


@pytest.mark.parametrize("split", ["train", "valid"])
def test_other_tokens_of_equal_lengths_are_refused(
    data: Path, whole: Path, tmp_path: Path, split: str
) -> None:
    output = copy_run(whole, tmp_path / "run")
    moved = shutil.copytree(data, tmp_path / "moved")
    forget_digests(moved)
    assert train(tiny.recipe(moved, output, validate_every=6)).is_finished
    path = moved / f"{split}.source.tokens"
    tokens = np.fromfile(path, "<u2")
    tokens[[3, 4]] = tokens[[4, 3]] if tokens[3] != tokens[4] else tokens[[4, 3]] ^ 1
    tokens.tofile(path)
    with pytest.raises(UserError, match="other data"):
        train(tiny.recipe(moved, output, validate_every=6))


def test_a_state_of_an_earlier_version_resumes(data: Path, whole: Path, tmp_path: Path) -> None:
    """Without digests, without a previous state; it has both from its next save on."""
    output = copy_run(whole, tmp_path / "run")
    path = output / "training" / saved.STATE
    state = torch.load(path, weights_only=True)
    del state["digests"]
    torch.save(state, path)
    (output / "training" / saved.PREVIOUS).unlink()
    assert train(tiny.recipe(data, output, validate_every=6, updates=28)).step == 28
    assert saved.load_state(path)["digests"].keys() >= {
        "train.source.tokens",
        "valid.source.tokens",
    }
    assert (output / "training" / saved.PREVIOUS).is_file()


def saved_lengths(offsets: Path) -> Any:
    return np.diff(np.fromfile(offsets, "<i8"))


def write_lengths(offsets: Path, lengths: Any) -> None:
    lengths[7] += np.fromfile(offsets, "<i8")[-1] - lengths.sum()
    np.concatenate([[0], np.cumsum(lengths)]).astype("<i8").tofile(offsets)


def test_more_updates_go_on_as_if_they_had_been_planned(data: Path, tmp_path: Path) -> None:
    """The first end lies between two snapshots: the one taken there must not be averaged later."""
    train(tiny.recipe(data, tmp_path / "short", updates=22))
    assert "stage1-step000000022.safetensors" in snapshots(tmp_path / "short")
    free = {"log_every": 3, "validate_every": 5, "patience": 50, "metric": "hmm"}
    train(tiny.recipe(data, tmp_path / "short", updates=26, **free))
    train(tiny.recipe(data, tmp_path / "long", updates=26))
    assert snapshots(tmp_path / "short") == snapshots(tmp_path / "long")
    mine, theirs = (load_file(tmp_path / n / "model.safetensors") for n in ("short", "long"))
    assert all(torch.equal(mine[key], theirs[key]) for key in mine)


def test_a_foreign_model_is_not_overwritten(data: Path, whole: Path, tmp_path: Path) -> None:
    output = copy_run(whole, tmp_path / "run")
    shutil.rmtree(output / "training")
    before = contents(output)
    with pytest.raises(UserError, match="already holds a model"):
        train(tiny.recipe(data, output))
    assert contents(output) == before


def test_a_full_disk_leaves_the_last_checkpoint(
    data: Path, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = copy_run(whole, tmp_path / "run")
    good = (output / "training" / "state.pt").read_bytes()

    def full(content: Any, path: Path) -> None:
        path.write_bytes(b"half")
        raise RuntimeError("[enforce fail at inline_container.cc:672] . unexpected pos 640 vs 534")

    monkeypatch.setattr(torch, "save", full)
    with pytest.raises(UserError, match="No space left"):
        train(tiny.recipe(data, output, updates=30, validate_every=6))
    assert not list(output.rglob("*.tmp"))
    assert (output / "training" / "state.pt").read_bytes() == good
    monkeypatch.undo()
    assert train(tiny.recipe(data, output, updates=30, validate_every=6)).is_finished


def test_stages_resume_too(data: Path, tmp_path: Path) -> None:
    """Stopped in each stage and between them; the second stage has another system's settings."""
    stage = [{}, {"model": {"config": {"states": 4}}, "training": {"updates": 10, "warmup": 3}}]
    whole, output = tmp_path / "whole", tmp_path / "run"
    assert train(tiny.recipe(data, whole, stage=stage, updates=11)).step == 21
    recipe = tiny.recipe(data, output, stage=stage, updates=11)
    for moment in (5, 8, 10, 1, 2, 3, 4, 5, 6, 9):
        child = start(tiny.run_and_die, recipe, moment, "before")
        child.join(60)
    finish(recipe)
    assert_same_run(output, whole)
