"""Attacks on what a run and an evaluation leave on disk; `make attack` runs them for minutes.

Each attack damages a copy, gives the command again and allows two ends: the result that an
undisturbed run has, bit for bit, or one sentence. The tests run a short form of each.
"""

import argparse
import multiprocessing
import random
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
import training_runs as tiny
from safetensors.torch import load_file

from hmt.errors import UserError
from hmt.training import Recipe, train

# Children come from a server that has imported everything once: a start takes milliseconds.
# (torch.optim imports torch._dynamo when it is first used, which takes seconds.)
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["hmt.training", "training_runs", "torch._dynamo"])

# What may be refused when it is damaged; all other files of a run are made again or passed over.
IRREPLACEABLE = "snapshots"


def files_below(folder: Path) -> list[Path]:
    """All files below a folder, relative to it."""
    return sorted(p.relative_to(folder) for p in folder.rglob("*") if p.is_file())


def weights(run: Path) -> dict[str, Any]:
    """The finished weights of a run."""
    return load_file(run / "model.safetensors")


def same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether two sets of weights agree in every bit."""
    return one.keys() == other.keys() and all(torch.equal(one[k], other[k]) for k in one)


def damage(path: Path, draw: random.Random) -> str:
    """Flip one bit or one byte of a file. -> what was done"""
    content = bytearray(path.read_bytes())
    if not content:
        content = bytearray(b"\0")
    place, mask = draw.randrange(len(content)), draw.choice([1, 2, 4, 8, 16, 32, 64, 128, 255])
    content[place] ^= mask
    path.unlink()  # it may be a link to another file of the run
    path.write_bytes(bytes(content))
    return f"{path.name}, byte {place} of {len(content)} ^ {mask}"


def stopped_run(data: Path, output: Path) -> None:
    """A run that a signal stopped after update 21 of 24."""

    def report(progress: Any) -> None:
        if progress.step == 20:
            signal.raise_signal(signal.SIGTERM)

    assert train(tiny.recipe(data, output), report=report).step == 21


def flip_run(
    data: Path, stopped: Path, whole: Path, file: Path, draw: random.Random, scratch: Path
) -> str:
    """Damage one file of a stopped run and go on with it. -> what was done and how it ended"""
    output = scratch / "run"
    shutil.rmtree(output, ignore_errors=True)
    shutil.copytree(stopped, output)
    done = damage(output / file, draw)
    try:
        assert train(tiny.recipe(data, output)).is_finished, done
    except UserError as error:
        assert IRREPLACEABLE in str(file), f"{done}: {error}"
        return f"{done}: refused"
    assert same(weights(output), weights(whole)), done
    return f"{done}: the same"


def flip_data(data: Path, whole: Path, file: Path, draw: random.Random, scratch: Path) -> str:
    """Damage one file of the prepared data and train on it. -> what was done and how it ended"""
    copy, output = scratch / "attacked", scratch / "run"
    for folder in (copy, output):
        shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(data, copy)
    done = damage(copy / file, draw)
    try:
        train(tiny.recipe(copy, output, updates=24))
    except UserError:
        return f"{done}: refused"
    assert same(weights(output), weights(whole)), done
    return f"{done}: the same"


# What a state from a stranger may have in the place of any of its values.
ODD: list[Any] = [
    *(None, True, -1, 3, 2**70, 10**400, float("nan"), "x", "\ud800", [], [None], {}, {"a": 1}),
    *(torch.zeros(3), torch.zeros(()), torch.zeros(2, 2, dtype=torch.int64)),
    torch.zeros(1).expand(10**9),
]


def craft_state(data: Path, stopped: Path, draw: random.Random, scratch: Path) -> str:
    """Put an odd value into the state of a stopped run and go on. -> what was done, how it ended"""
    output = scratch / "crafted"
    shutil.rmtree(output, ignore_errors=True)
    shutil.copytree(stopped, output)
    (output / "training" / "state-previous.pt").unlink()
    path = output / "training" / "state.pt"
    state = torch.load(path, weights_only=True)
    holder, key, name = draw.choice([*_places(state, "state")])
    value = draw.choice(ODD)
    holder[key] = value
    torch.save(state, path)
    done = f"{name} = {str(value)[:20]}"
    try:
        train(tiny.recipe(data, output))
    except UserError:
        return f"{done}: refused"
    return f"{done}: read"


def _places(value: Any, name: str) -> Iterator[tuple[Any, Any, str]]:
    """Every place of a state, as its holder, the key in it and its name."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in items:
        yield value, key, f"{name}.{key}"
        if isinstance(inner, dict | list):
            yield from _places(inner, f"{name}.{key}")


def start(target: Any, *arguments: Any) -> Any:
    """Start a child process."""
    child = CONTEXT.Process(target=target, args=arguments)
    child.start()
    return child


def kill_and_damage(
    data: Path, whole: Path, draw: random.Random, scratch: Path, rounds: int = 6
) -> str:
    """kill -9 at random moments, with the last state damaged or deleted in between."""
    output = scratch / "killed"
    shutil.rmtree(output, ignore_errors=True)
    recipe, done = tiny.recipe(data, output), []
    for _ in range(rounds):
        child = start(tiny.run, recipe, 0.05)
        child.join(draw.uniform(0.2, 2.5))
        child.kill()
        child.join()
        state, previous = (output / "training" / n for n in ("state.pt", "state-previous.pt"))
        if previous.exists() and draw.random() < 0.5:
            if draw.random() < 0.5:
                damage(state, draw)
            else:
                state.unlink()
            done.append("damaged")
        else:
            done.append("killed")
    finish(recipe)
    assert same(weights(output), weights(whole)), done
    return ", ".join(done) + ": the same"


def finish(recipe: Recipe) -> None:
    """Run to the end in a child process."""
    child = start(tiny.run, recipe)
    child.join(120)
    assert child.exitcode == 0


def main() -> None:
    """Attack for some seconds; every attack in turn, with other draws each time."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--seed", default=str(time.time_ns()))
    chosen = parser.parse_args()
    print(f"seed {chosen.seed}")
    draw = random.Random(chosen.seed)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        data = tiny.prepare_toy(folder)
        whole, stopped = folder / "whole", folder / "stopped"
        train(tiny.recipe(data, whole))
        stopped_run(data, stopped)
        attacks: list[Callable[[], str]] = [
            *(
                lambda file=file: flip_run(data, stopped, whole, file, draw, folder)
                for file in files_below(stopped)
            ),
            *(
                lambda file=file: flip_data(data, whole, file, draw, folder)
                for file in files_below(data)
            ),
            lambda: kill_and_damage(data, whole, draw, folder),
            *([lambda: craft_state(data, stopped, draw, folder)] * 10),
        ]
        end, count = time.monotonic() + chosen.seconds, 0
        while time.monotonic() < end:
            print(attacks[count % len(attacks)](), flush=True)
            count += 1
    print(f"{count} attacks, nothing lost")


if __name__ == "__main__":
    main()
