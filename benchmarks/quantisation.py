"""Linear layers in fewer bits: how much faster a stream and a corpus get, and what BLEU it costs.

    python benchmarks/quantisation.py --source test.de --target test.en

One live stream and a corpus through an HMT with random weights (lower 5, states 6), each variant in
turn with single precision; with --source and --target also the BLEU of the model that ships. The
variants of torchao are left out where it is not installed. The last line of output is JSON.
"""

import argparse
import random
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
from _setting import count, parser_of, run
from torch import nn

from hmt.bench.setting import Row, interleaved, random_sentence, random_system, ratio_row, ratios
from hmt.bench.stream import play
from hmt.evaluation.evaluate import read_parallel
from hmt.fast.int8 import Change, in_eight_bits, quantise
from hmt.metrics.quality import quality
from hmt.models.model import load
from hmt.streaming.engine import Engine
from hmt.systems.contract import System

TARGET, TARGET_LOSS = 1.3, 0.3


def ordinary(system: System) -> System:
    """A copy without pre-packed weights."""
    other = type(system)(system.config)
    other.load_state_dict(system.state_dict())
    return other.eval()


def quantised(system: System, change: Change) -> System:
    """A copy with all linear layers changed."""
    system = ordinary(system)
    quantise(system.transformers, change)
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
    """How many times faster each variant is than single precision."""
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
                yield {**row, "unit": "x faster", "at_least": TARGET}


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
        yield {**row, "at_most": TARGET_LOSS, "bleu": round(bleu, 2)}


def main() -> None:
    """Read the options, measure, print."""
    parser = parser_of(__doc__)
    parser.add_argument("--size", choices=("tiny", "base"), default="base", help="(default: base)")
    parser.add_argument("--sentences", type=count, default=64, help="of the corpus (default: 64)")
    parser.add_argument("--repeats", type=int, default=5, help="0: no speed (default: 5)")
    parser.add_argument("--threads", type=count, nargs="+", default=[1, 2], help="(default: 1 2)")
    parser.add_argument("--source", type=Path, help="sentences for BLEU, one per line")
    parser.add_argument("--target", type=Path, help="their translations")
    parser.add_argument("--lines", type=count, default=500, help="how many (default: 500)")
    parser.add_argument("--lower", type=int, default=3, help="latency setting (default: 3)")
    parser.add_argument("--model", type=Path, help="(default: the model that ships)")
    run(measure, parser.parse_args())


def measure(options: argparse.Namespace) -> Iterator[Row]:
    """Speed, and BLEU where there is text."""
    if options.repeats:
        yield from speed(options)
    if options.source and options.target:
        yield from loss_of_bleu(options)


if __name__ == "__main__":
    main()
