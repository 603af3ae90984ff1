"""What is on disk survives: foreign files, flipped bits, full disks, planted links, pipes, kills.

The long form of the loops is `make attack`.
"""

import hashlib
import json
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attack_runs as attack
import pytest
import torch
import training_runs as tiny
from command_line import TEST, TEXT, VALID, WORDS, Call, contents, start
from safetensors.torch import load_file, save_file

from hmt import files
from hmt.errors import UserError
from hmt.models.weights import average, read_weights, write_weights
from hmt.text.abandonable import abandonable
from hmt.training import train
from hmt.training.journal import Journal

SEED = os.environ.get("HMT_TEST_SEED", "1")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.prepare_toy(tmp_path_factory.mktemp("toy"))


@pytest.fixture(scope="module")
def whole(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run that was never disturbed."""
    output = tmp_path_factory.mktemp("whole") / "run"
    train(tiny.recipe(data, output))
    return output


@pytest.fixture(scope="module")
def stopped(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("stopped") / "run"
    attack.stopped_run(data, output)
    return output


def is_sentence(err: str) -> bool:
    return err.startswith("hmt: ") and err.endswith(".\n") and err.count("\n") == 1


def leftovers(folder: Path) -> list[Path]:
    return [p for p in folder.rglob(".*") if p.name.endswith((".tmp", ".draft"))]


# Directories of others


@pytest.mark.parametrize(
    "theirs",
    [
        *("README.md", "config.json", "log.jsonl", "notes/a.txt", "training/notes.txt"),
        *("training/recipe.json", "training/snapshots/stage1-step000000004.safetensors"),
    ],
)
def test_training_into_a_directory_of_other_files(data: Path, tmp_path: Path, theirs: str) -> None:
    path = tmp_path / "mine" / theirs
    path.parent.mkdir(parents=True)
    path.write_text('{"flour": 500}\n')
    with pytest.raises(UserError, match="holds files that do not belong to a run"):
        train(tiny.recipe(data, tmp_path / "mine"))
    assert path.read_text() == '{"flour": 500}\n'
    assert attack.files_below(tmp_path / "mine") == [Path(theirs)]


@pytest.mark.parametrize("output", ["", "  "])
def test_an_empty_output_is_not_the_working_directory(data: Path, output: str) -> None:
    with pytest.raises(UserError, match="`output` is empty"):
        tiny.recipe(data, output)  # type: ignore[arg-type]


def test_the_working_directory_is_refused_unless_it_is_empty(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "README.md").write_text("mine")
    with pytest.raises(UserError, match="do not belong to a run"):
        train(tiny.recipe(data, Path()))
    (tmp_path / "README.md").unlink()
    assert train(tiny.recipe(data, Path(), updates=1)).is_finished


# Flipped bits


def test_one_flipped_byte_in_each_file_of_a_run(
    data: Path, stopped: Path, whole: Path, tmp_path: Path
) -> None:
    draw = random.Random(SEED)
    for file in attack.files_below(stopped):
        attack.flip_run(data, stopped, whole, file, draw, tmp_path)


def test_one_flipped_byte_in_each_file_of_the_data(data: Path, whole: Path, tmp_path: Path) -> None:
    draw = random.Random(SEED)
    for file in attack.files_below(data):
        if file.name.startswith("train") or file.suffix == ".json":
            attack.flip_data(data, whole, file, draw, tmp_path)


def test_kills_with_damaged_states_between_them(data: Path, whole: Path, tmp_path: Path) -> None:
    attack.kill_and_damage(data, whole, random.Random(SEED), tmp_path)


def test_odd_values_in_a_state_are_refused_or_read(
    data: Path, stopped: Path, tmp_path: Path
) -> None:
    """Planted: no check of the optimizer's state, of the position, of the sizes of tensors."""
    draw = random.Random(f"states {SEED}")
    ends = [attack.craft_state(data, stopped, draw, tmp_path) for _ in range(30)]
    assert any(end.endswith("refused") for end in ends)


def test_a_compressed_state_is_not_unfolded(
    data: Path, stopped: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unfolded: list[object] = []
    monkeypatch.setattr(zipfile.ZipFile, "testzip", lambda archive: unfolded.append(archive))
    output = shutil.copytree(stopped, tmp_path / "run")
    for path in output.glob("training/state*.pt"):
        with (
            zipfile.ZipFile(path) as old,
            zipfile.ZipFile(tmp_path / "packed", "w", zipfile.ZIP_DEFLATED) as new,
        ):
            for name in old.namelist():
                new.writestr(name, old.read(name))
            new.writestr("archive/data/999", bytes(10**8))
        (tmp_path / "packed").replace(path)
    with pytest.raises(UserError, match="is damaged"):
        train(tiny.recipe(data, output))
    assert not unfolded


def test_one_flipped_bit_of_weights_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    write_weights(path, {"a": torch.arange(12.0).view(3, 4), "b": torch.ones(2).half()})
    assert torch.equal(read_weights(path)["a"], torch.arange(12.0).view(3, 4))
    good = path.read_bytes()
    data = 8 + int.from_bytes(good[:8], "little")
    for place in range(data, len(good)):
        path.write_bytes(good[:place] + bytes([good[place] ^ 64]) + good[place + 1 :])
        with pytest.raises(UserError, match="is damaged"):
            read_weights(path)
        with pytest.raises(UserError, match="is damaged"):
            average([path, path])


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_not_finite_are_neither_read_nor_written(
    tmp_path: Path, value: float
) -> None:
    path = tmp_path / "w.safetensors"
    save_file({"a": torch.tensor([1.0, value])}, path)  # as other tools write it
    with pytest.raises(UserError, match="weights a are not all finite"):
        average([path])
    with pytest.raises(UserError, match="weights a are not all finite"):
        write_weights(tmp_path / "other", {"a": torch.tensor([1.0, value])})
    with pytest.raises(UserError, match="leave out --half"):
        write_weights(tmp_path / "other", {"a": torch.tensor([1e30])}, is_half=True)
    assert not (tmp_path / "other").exists()
    save_file({"a": torch.tensor([1.0, 2.0])}, path)
    assert read_weights(path)["a"].tolist() == [1.0, 2.0]  # an older file has no digest


def test_a_bad_byte_in_the_log_costs_no_other_line(tmp_path: Path) -> None:
    lines = [json.dumps({"kind": "train", "step": n}).encode() for n in range(1, 9)]
    lines[2] = b'{"kind": "tr\xffin", "step": 3}'
    lines[4] = b"\x00"
    path = tmp_path / "log.jsonl"
    path.write_bytes(b"\n".join(lines))  # the last line was cut before its newline
    Journal(tmp_path, 6, tensorboard=False).close()
    assert path.read_bytes().split(b"\n") == [*lines[:6], b""]
    path.write_bytes(b"\n".join(lines) + b'\n{"kind": "tra')
    Journal(tmp_path, 8, tensorboard=False).close()
    assert path.read_bytes().split(b"\n") == [*lines, b""]


# Planted links and pipes


@pytest.mark.parametrize("name", ["log.jsonl", "training/lock"])
def test_a_planted_link_is_refused(data: Path, stopped: Path, tmp_path: Path, name: str) -> None:
    output = shutil.copytree(stopped, tmp_path / "run")
    victim = tmp_path / "victim"
    victim.write_text("mine\n")
    (output / name).unlink()
    (output / name).symlink_to(victim)
    with pytest.raises(UserError, match="symbolic link, which is not followed"):
        train(tiny.recipe(data, output))
    assert victim.read_text() == "mine\n"


@pytest.mark.parametrize("name", ["README.md", "config.json", "source.tokenizer.json",
                                  "training/recipe.json", ".README.md.tmp",
                                  "training/.state.pt.tmp", "model.safetensors"])  # fmt: skip
def test_a_planted_link_is_not_written_through(
    data: Path, stopped: Path, whole: Path, tmp_path: Path, name: str
) -> None:
    output = shutil.copytree(stopped, tmp_path / "run")
    victim = tmp_path / "victim"
    victim.write_text("mine\n")
    (output / name).unlink(missing_ok=True)
    (output / name).symlink_to(victim)
    assert train(tiny.recipe(data, output)).is_finished
    assert victim.read_text() == "mine\n"
    assert attack.same(attack.weights(output), attack.weights(whole))


@pytest.mark.parametrize("name", ["training", "training/snapshots"])
def test_a_planted_link_to_a_directory_is_refused(
    data: Path, stopped: Path, tmp_path: Path, name: str
) -> None:
    output = shutil.copytree(stopped, tmp_path / "run")
    (output / name).rename(tmp_path / "victim")
    (output / name).symlink_to(tmp_path / "victim")
    before = contents(tmp_path / "victim")
    with pytest.raises(UserError, match="symbolic link, which a run does not follow"):
        train(tiny.recipe(data, output))
    assert contents(tmp_path / "victim") == before


def plant_pipe(path: Path) -> None:
    path.unlink(missing_ok=True)
    os.mkfifo(path)


@pytest.mark.parametrize(
    "name",
    [
        *("log.jsonl", "README.md", "config.json", "model.safetensors", "source.tokenizer.json"),
        *("training/lock", "training/recipe.json", "training/state.pt"),
        *("training/state-previous.pt", "training/snapshots/stage1-step000000020.safetensors"),
    ],
)
def test_a_named_pipe_in_a_run_is_not_waited_for(
    data: Path, stopped: Path, tmp_path: Path, name: str, impatient: None
) -> None:
    output = shutil.copytree(stopped, tmp_path / "run")
    plant_pipe(output / name)
    try:
        assert train(tiny.recipe(data, output)).is_finished
    except UserError as error:
        assert "pipe" in str(error) and Path(name).name in str(error)


@pytest.mark.parametrize("name", ["data.json", "train.source.tokens", "valid.target.offsets",
                                  "source.tokenizer.json"])  # fmt: skip
def test_a_named_pipe_in_the_data_is_not_waited_for(
    data: Path, tmp_path: Path, name: str, impatient: None
) -> None:
    moved = shutil.copytree(data, tmp_path / "data")
    plant_pipe(moved / name)
    with pytest.raises(UserError, match="is a pipe or device"):
        train(tiny.recipe(moved, tmp_path / "run", validate_every=6))


def test_named_pipes_for_text_models_and_results(
    hmt: Call, tmp_path: Path, impatient: None
) -> None:
    pipe = tmp_path / "pipe"
    plant_pipe(pipe)
    model = shutil.copytree("run", tmp_path / "model")
    plant_pipe(model / "model.safetensors")
    hmt("evaluate", "run", *TEST, "--output", str(tmp_path / "curve"), "--resamples", "0")
    (folder,) = (p for p in (tmp_path / "curve").iterdir() if p.is_dir())
    plant_pipe(folder / "records.jsonl")
    for arguments in (
        ["evaluate", "run", "--source", str(pipe), "--output", str(tmp_path / "new")],
        ["evaluate", "--log", str(pipe)],
        ["evaluate", "run", *TEST, "--output", str(tmp_path / "curve")],
        ["prepare", *TEXT, "--valid-source", str(pipe), "--valid-target", str(pipe),
         "--output", str(tmp_path / "data")],
        ["info", str(model)],
        ["explain", "--record", str(pipe)],
    ):  # fmt: skip
        answer = hmt(*arguments)
        assert answer.code == 2 and is_sentence(answer.err) and "pipe or device" in answer.err


# Text that no file can hold, and outputs in one step


def test_half_a_surrogate_pair_in_records_and_scores(hmt: Call, tmp_path: Path) -> None:
    curve = tmp_path / "curve"
    assert hmt("evaluate", "run", *TEST, "--output", str(curve), "--resamples", "0").code == 0
    (folder,) = (p for p in curve.iterdir() if p.is_dir())
    for path in (curve / "scores.json", folder / "records.jsonl", folder / "instances.log"):
        text = path.read_text()
        text = re.sub(r'("(?:source|reference)": ")', r"\1\\ud800", text)
        text = text.replace('"latency": {', '"latency": {"x\\udfff": 1, ', 1)
        path.write_text(text)
    page, table = tmp_path / "why.html", tmp_path / "table.md"
    for arguments in (
        ["explain", "--record", str(folder / "records.jsonl"), "--index", "1", "--output",
         str(page), "--data", str(tmp_path / "why.json"), "--png", str(tmp_path / "why.png")],
        ["plot", str(curve), "--table", str(table), "--output", str(tmp_path / "c.svg")],
        ["evaluate", "--log", str(folder / "instances.log"), "--output", str(tmp_path / "log"),
         "--comet", str(tmp_path / "comet")],
        ["evaluate", "--log", str(folder / "records.jsonl"), "--comet", str(tmp_path / "comet")],
    ):  # fmt: skip
        answer = hmt(*arguments)
        assert answer.code == 0, answer.err
    assert "\ufffd" in page.read_text(encoding="utf-8")
    assert not leftovers(tmp_path)


def test_a_folder_whose_name_is_no_text(
    hmt: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    curve = tmp_path / os.fsdecode(b"caf\xe9")
    assert hmt("evaluate", "run", *TEST, "--output", str(tmp_path / "curve")).code == 0
    (tmp_path / "curve").rename(curve)
    monkeypatch.chdir(curve)
    assert hmt("plot", ".", "--table", "t.md", "--output", "c.png").code == 0
    assert "caf?" in Path("t.md").read_text()


def test_an_output_that_fails_leaves_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hmt.analysis.figures import save_figure

    class Broken:
        def savefig(self, path: Path, **options: Any) -> None:
            Path(path).write_bytes(b"half")
            raise ValueError("no font")

    picture = tmp_path / "why.png"
    picture.write_bytes(b"good")
    with pytest.raises(ValueError, match="no font"):
        save_figure(Broken(), picture)  # type: ignore[arg-type]
    assert picture.read_bytes() == b"good" and not leftovers(tmp_path)


# Full disks and little memory


def limited(limit: int, most: int) -> Callable[[], None]:
    return lambda: resource.setrlimit(limit, (most, most))


@pytest.mark.parametrize(
    ("most", "command"),
    [
        (1_000, ["train", "recipe.toml", "--set", "output=new"]),
        (5_000, ["train", "recipe.toml", "--set", "training.updates=9"]),  # a snapshot
        (50_000, ["train", "recipe.toml", "--set", "training.updates=9"]),  # the state
        (5_000, ["evaluate", "run", *TEST, "--output", "curve"]),
        (1_000, ["prepare", *TEXT, *VALID, "--output", "other", *WORDS]),
        (5_000, ["average", "run", "--last", "2", "--output", "mean"]),
        (1_000, ["explain", "run", "a b c", "--output", "why.html"]),
    ],
)
def test_a_full_disk_is_one_sentence(
    world: Path, tmp_path: Path, most: int, command: list[str]
) -> None:
    """Files may not grow beyond some bytes, which a child sees as a disk without room."""
    folder = shutil.copytree(world, tmp_path / "world")
    (folder / "why.html").write_text("an older page")
    state = (folder / "run" / "training" / "state.pt").read_bytes()
    limit = limited(resource.RLIMIT_FSIZE, most)
    # coverage would have no room for its own files either, and say so
    own = {name: value for name, value in os.environ.items() if "COVERAGE" not in name}
    child = start(command, cwd=folder, preexec_fn=limit, stdin=None, env=own)
    err = child.communicate(timeout=120)[1].decode()
    assert child.returncode == 2 and "Traceback" not in err, err
    assert is_sentence(err.splitlines(keepends=True)[-1]), err
    assert not leftovers(folder) and not (folder / "other").exists()
    assert (folder / "run" / "training" / "state.pt").read_bytes() == state
    assert (folder / "why.html").read_text() == "an older page"


@pytest.mark.parametrize("command", ["serve", "translate"])
def test_too_little_memory_to_load_torch(world: Path, command: str) -> None:
    small = limited(resource.RLIMIT_AS, 300 << 20)
    child = start([command, "run"], cwd=world, preexec_fn=small, stdin=subprocess.DEVNULL)
    out, err = (stream.decode() for stream in child.communicate(timeout=120))
    assert child.returncode == 2 and out == "" and is_sentence(err), err
    assert "memory to load torch" in err


def test_little_memory_is_one_sentence(world: Path, tmp_path: Path) -> None:
    """Too little to load torch; and then too little for the model, when all is loaded."""
    folder = shutil.copytree(world, tmp_path / "world")
    small = limited(resource.RLIMIT_AS, 300 << 20)
    child = start(["train", "recipe.toml"], cwd=folder, preexec_fn=small, stdin=None)
    err = child.communicate(timeout=120)[1].decode()
    assert child.returncode == 2 and is_sentence(err) and "memory to load torch" in err, err
    code = (
        "import resource, sys; import hmt.training.train; from hmt.cli import run\n"
        "pages = int(open('/proc/self/statm').read().split()[0])\n"
        "most = pages * resource.getpagesize() + (60 << 20)\n"
        "resource.setrlimit(resource.RLIMIT_AS, (most, most))\n"
        "sizes = [f'--set=model.config.dims.{size}' for size in ('ffn=65536', 'width=512')]\n"
        "sys.exit(run(['train', 'recipe.toml', '--set', 'output=new', *sizes]))\n"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2 and "Traceback" not in done.stderr, done.stderr
    assert "emory ran out" in done.stderr.splitlines()[-1]


def test_a_training_whose_log_cannot_be_shown_goes_on(world: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(world, tmp_path / "world")
    with Path("/dev/full").open("wb") as full:
        child = start(["train", "recipe.toml", "--set", "output=new"], cwd=folder, stderr=full)
        child.communicate(timeout=120)
    assert child.returncode == 0 and (folder / "new" / "model.safetensors").is_file()


def test_memory_that_runs_out_in_an_update_keeps_the_checkpoint(
    data: Path, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hmt.training.learner import Learner

    update = Learner.update

    def greedy(self: Learner, step: int, told: bool) -> Any:
        if step == 10:
            raise RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory")
        return update(self, step, told)

    monkeypatch.setattr(Learner, "update", greedy)
    with pytest.raises(UserError, match="Memory ran out after update 9; the last checkpoint"):
        train(tiny.recipe(data, tmp_path / "run"))
    monkeypatch.undo()
    train(tiny.recipe(data, tmp_path / "run"))
    assert attack.same(attack.weights(tmp_path / "run"), attack.weights(whole))


def test_clocks_that_jump_change_nothing(
    data: Path, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = random.Random(SEED)
    for name in ("time", "monotonic", "perf_counter"):
        monkeypatch.setattr(time, name, lambda: draw.choice([-1e9, 0.0, 1e9, 1e18]))
    assert train(tiny.recipe(data, tmp_path / "run", validate_every=6)).is_finished
    monkeypatch.undo()
    assert attack.same(attack.weights(tmp_path / "run"), attack.weights(whole))


# Killed and interrupted


def test_a_killed_worker_of_torchrun(data: Path, tmp_path: Path) -> None:
    """The others end too, in a sentence; the same command goes on and ends with the same bits."""
    killed = random.Random(SEED).randrange(2)
    recipe = {**tiny.recipe(data, tmp_path / "run").as_dict(), "output": str(tmp_path / "run")}
    path = tmp_path / "recipe.json"
    path.write_text(json.dumps({"recipe": recipe}))
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2",
               "--master-port=0", "--rdzv-backend=c10d", "--rdzv-endpoint=localhost:0",
               "-m", "hmt", "train", str(path)]  # fmt: skip
    endless = [*command, "--set", "stage.1.training.updates=100000"]
    child = subprocess.Popen(endless, stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        deadline = time.monotonic() + 200
        while not (tmp_path / "run" / "training" / "state-previous.pt").exists():
            assert time.monotonic() < deadline and child.poll() is None
            time.sleep(0.05)
        os.kill(workers(child.pid)[killed], signal.SIGKILL)
        _, err = child.communicate(timeout=200)
    finally:
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)
    assert child.returncode != 0
    assert "hmt/training/" not in err, err  # no traceback of ours
    state = torch.load(tmp_path / "run" / "training" / "state.pt", weights_only=True)
    updates = state["position"]["step"] + 4
    for output in (tmp_path / "run", tmp_path / "whole"):
        more = ["--set", f"stage.1.training.updates={updates}", "--set", f"output={output}"]
        subprocess.run([*command, *more], check=True, timeout=300, capture_output=True)
    assert attack.same(attack.weights(tmp_path / "run"), attack.weights(tmp_path / "whole"))


def workers(parent: int) -> list[int]:
    """Processes that torchrun started, by their rank."""
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    ranks = {}
    for child in children:
        environment = Path(f"/proc/{child}/environ").read_bytes().split(b"\0")
        rank = [v[5:] for v in environment if v.startswith(b"RANK=")]
        if rank:
            ranks[int(rank[0])] = int(child)
    return [ranks[rank] for rank in sorted(ranks)]


def test_a_killed_prepare_leaves_nothing_for_the_next(tmp_path: Path) -> None:
    code = (
        "import sys, time; from pathlib import Path; from hmt.files import drafting, replacing\n"
        "with drafting(Path(sys.argv[1]) / 'data', 'x') as d, replacing(d.parent / 'f') as f:\n"
        "    (d / 'tokens').write_text('half'); f.write_text('half')\n"
        "    print('ready', flush=True); time.sleep(60)\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as child:
        assert child.stdout and child.stdout.readline() == b"ready\n"
        assert len(leftovers(tmp_path)) == 2
        with files.drafting(tmp_path / "data", "x"), files.replacing(tmp_path / "f") as mine:
            mine.write_text("mine")
            assert len(leftovers(tmp_path)) == 4  # a living process keeps its own
        child.kill()
    shutil.rmtree(tmp_path / "data")
    (tmp_path / ".f.backup.tmp").write_text("somebody's own")
    with files.drafting(tmp_path / "data", "x"), files.replacing(tmp_path / "f") as mine:
        mine.write_text("mine")
    assert leftovers(tmp_path) == [tmp_path / ".f.backup.tmp"]


def test_an_interrupt_is_heeded_while_a_library_works() -> None:
    """The library works in C and looks at no signal, as the tokenizer library does."""

    def work(rounds: int) -> Callable[[], bytes]:
        return lambda: hashlib.pbkdf2_hmac("sha256", b"", b"", rounds)

    began = time.process_time()
    abandonable(work(100_000))
    rounds = round(3 / (time.process_time() - began) * 100_000)  # three seconds of computing
    began = time.process_time()
    with subprocess.Popen(["sh", "-c", f"sleep 0.3; kill -INT {os.getpid()}"]):
        with pytest.raises(KeyboardInterrupt):
            abandonable(work(rounds))
        assert time.process_time() - began < 2
    assert abandonable(lambda: 7) == 7
    with pytest.raises(UserError, match="mine"):
        abandonable(lambda: (_ for _ in ()).throw(UserError("mine")))


def test_workers_leave_when_prepare_is_killed(tmp_path: Path) -> None:
    code = (
        "from hmt.text.encoder import encode_all, Encoder, Block; import os, time\n"
        "from hmt.text.tokenizer import word_tokenizer\n"
        "if __name__ == '__main__':\n"
        "    t = word_tokenizer(['a'])\n"
        "    blocks = (Block(b'a', b'a') for _ in range(100))\n"
        "    for _ in encode_all(blocks, Encoder((t, t), None, 'uint16'), 2):\n"
        "        print(os.getpid(), flush=True); time.sleep(60)\n"
    )
    script = tmp_path / "script.py"
    script.write_text(code)
    with subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE) as child:
        assert child.stdout and child.stdout.readline()
        found = Path(f"/proc/{child.pid}/task/{child.pid}/children").read_text().split()
        assert len(found) >= 2
        child.kill()
    deadline = time.monotonic() + 30
    while any(Path(f"/proc/{worker}/stat").exists() for worker in found):
        assert time.monotonic() < deadline, "workers stay behind"
        time.sleep(0.1)


# Two at once


def test_two_evaluations_of_one_setting(hmt: Call, tmp_path: Path) -> None:
    curve = tmp_path / "curve"
    arguments = ["evaluate", "run", *TEST, "--output", str(curve), "--resamples", "0"]
    assert hmt(*arguments).code == 0
    (folder,) = (p for p in curve.iterdir() if p.is_dir())
    before = contents(curve)
    with files.locked(folder / "lock", "busy"):
        answer = hmt(*arguments)
        assert answer.code == 2 and is_sentence(answer.err)
        assert f"another evaluation (process {os.getpid()})" in answer.err
        assert hmt(*arguments, "--lower", "3").code == 0  # another setting may be measured
    assert {k: v for k, v in contents(curve).items() if k in before and "scores" not in k} == {
        k: v for k, v in before.items() if "scores" not in k
    }
    assert len(json.loads((curve / "scores.json").read_text())["points"]) == 2


def test_a_bad_line_of_an_unfinished_evaluation(hmt: Call, tmp_path: Path) -> None:
    curve = tmp_path / "curve"
    arguments = ["evaluate", "run", *TEST, "--output", str(curve), "--resamples", "0"]
    assert hmt(*arguments).code == 0
    (folder,) = (p for p in curve.iterdir() if p.is_dir())
    good = (folder / "records.jsonl").read_bytes()
    lines = good.split(b"\n")
    lines[1] = b"\xff" + lines[1]
    lines[3] = lines[3].replace(b'"index": 3', b'"index": 9')
    (folder / "records.jsonl").unlink()
    (folder / "records.partial.jsonl").write_bytes(b"\n".join(lines))
    assert hmt(*arguments).code == 0
    found = [json.loads(line) for line in (folder / "records.jsonl").read_text().splitlines()]
    expected = [json.loads(line) for line in good.decode().splitlines()]
    assert [r["prediction"] for r in found] == [r["prediction"] for r in expected]
    assert found[2] == expected[2] and found[4] == expected[4]  # not translated again


def test_weights_of_a_run_carry_a_digest(whole: Path) -> None:
    """So that `test_one_flipped_byte_in_each_file_of_a_run` is about checksums, not luck."""
    from safetensors import safe_open

    for path in [whole / "model.safetensors", *whole.glob("training/snapshots/*")]:
        with safe_open(path, framework="pt") as file:
            assert len(file.metadata()["sha256"]) == 64
    assert load_file(whole / "model.safetensors").keys()
