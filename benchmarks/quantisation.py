"""Linear layers in fewer bits: how much faster a stream and a corpus get, and what BLEU it costs.

One live stream and a corpus of an HMT of base size with random weights (lower 5, states 6), every
variant in turn with single precision; with --source and --target also the BLEU of the model that
ships. The variants of torchao are left out where it is not installed. The last line is JSON.
"""

import argparse
import os
import random
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from torch import nn

from hmt.bench.report import finish, line
from hmt.bench.setting import Row, interleaved, random_sentence, random_system, ratio_row, ratios
from hmt.bench.stream import play
from hmt.evaluation.evaluate import read_parallel
from hmt.fast.int8 import Change, in_eight_bits, quantise
from hmt.metrics.quality import quality
from hmt.models.model import load
from hmt.streaming.engine import Engine
from hmt.systems.contract import System

WANTED, WANTED_LOSS = 1.3, 0.3


def ordinary(system: System) -> System:
    """A copy whose matrices are not arranged as those in single precision are."""
    other = type(system)(system.config)
    other.load_state_dict(system.state_dict())
    return other.eval()


def quantised(system: System, change: Change) -> System:
    """A copy with all linear layers changed."""
    system = ordinary(system)
    quantise(system.parts, change)
    return system


def with_torchao(config: Any, module: nn.Module) -> nn.Module:
    """torchao changes a module in place."""
    from torchao.quantization import quantize_

    quantize_(module, config)
    return module


def variants() -> dict[str, Callable[[System], System]]:
    """Name -> what makes it from a system in single precision."""
    found: dict[str, Callable[[System], System]] = {
        "float32": lambda system: system,
        "int8 per matrix, torch": partial(quantised, change=partial(in_eight_bits, per="matrix")),
        "int8 per row, torch": partial(quantised, change=in_eight_bits),
        "bfloat16": lambda system: ordinary(system).bfloat16(),
    }
    try:
        from torchao.quantization import (
            Int8DynamicActivationInt8WeightConfig,
            Int8WeightOnlyConfig,
        )
    except ImportError:
        return found
    for name, config in (
        ("int8 weights, torchao", Int8WeightOnlyConfig()),
        ("int8 weights and activations, torchao", Int8DynamicActivationInt8WeightConfig()),
    ):
        found[name] = partial(quantised, change=partial(with_torchao, config))
    return found


def speed(options: argparse.Namespace) -> Iterator[Row]:
    """Time of each variant over that of single precision, the inverse told as times faster."""
    draw = random.Random(1)
    system = random_system("hmt", options.size, lower=5, states=6)
    made = {name: make(system) for name, make in variants().items()}
    sources = [random_sentence(draw, options.size, 25) for _ in range(options.sentences)]
    targets = [[*random_sentence(draw, options.size, 25), 2] for _ in sources]
    for threads in options.threads:
        torch.set_num_threads(threads)
        streams = {n: partial(play, Engine(s), sources[0], targets[0]) for n, s in made.items()}
        corpora = {n: partial(corpus, s, sources, targets) for n, s in made.items()}
        for what, runs in (("one stream", streams), ("64 slots", corpora)):
            seconds = interleaved(runs, options.repeats)
            faster = ratios({n: [1 / x for x in times] for n, times in seconds.items()}, "float32")
            for name in list(made)[1:]:
                row = ratio_row(f"{what}, {threads} threads, {name}", faster[name], None)
                yield {**row, "unit": "x faster", "at_least": WANTED}


def corpus(system: System, sources: list[list[int]], targets: list[list[int]]) -> None:
    """All sentences through 64 slots."""
    for _ in Engine(system, 64).translate(sources, forced=targets):
        pass


def loss_of_bleu(options: argparse.Namespace) -> Iterator[Row]:
    """What each variant of the model that ships loses on a test set."""
    text = read_parallel(options.source, options.target)
    sources = text.sources[: options.lines]
    references = (text.references or ())[: options.lines]
    model, best = load(options.model), 0.0
    system = model.system
    for name, make in variants().items():
        model.system = make(system)
        said = [record.prediction for record in model.translate(sources, lower=options.lower)]
        bleu = quality(said, references)[0]["bleu"].corpus()
        best = best or bleu
        row: Row = {"what": f"BLEU lost, {name}", "value": round(best - bleu, 2), "unit": "BLEU"}
        yield {**row, "at_most": WANTED_LOSS, "bleu": round(bleu, 2)}


def main() -> None:
    """Read the options, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", choices=("tiny", "base"), default="base")
    parser.add_argument("--sentences", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--source", type=Path)
    parser.add_argument("--target", type=Path)
    parser.add_argument("--lines", type=int, default=500)
    parser.add_argument("--lower", type=int, default=3)
    parser.add_argument("--model", type=Path, help="default: the one that ships")
    options = parser.parse_args()
    load_before = round(os.getloadavg()[0], 1)
    has_text = options.source and options.target
    rows: list[Row] = []
    for row in chain(
        speed(options) if options.repeats else (), loss_of_bleu(options) if has_text else ()
    ):
        rows.append(row)
        print(line(row), flush=True)
    print(finish(rows, size=options.size, threads=options.threads, load_before=load_before))


if __name__ == "__main__":
    main()
