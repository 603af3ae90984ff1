"""What all measurements share: sizes, invented text, interleaved timing."""

import random
import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

import torch

from hmt.fast.prepacked import make_ready
from hmt.systems import build
from hmt.systems.contract import System

Row = dict[str, Any]

SIZES: dict[str, dict[str, int]] = {
    "tiny": {
        "width": 128,
        "ffn": 256,
        "heads": 4,
        "encoder_layers": 4,
        "decoder_layers": 4,
        "vocabulary": 8000,
    },
    "base": {
        "width": 512,
        "ffn": 2048,
        "heads": 8,
        "encoder_layers": 6,
        "decoder_layers": 6,
        "vocabulary": 32000,
    },
}
HMT_SETTINGS = ((2, 4), (5, 6), (9, 8))  # the paper's low, middle and high latency


def random_system(name: str, size: str, is_ready: bool = True, **config: Any) -> System:
    """A system of a known size with random weights, the same at every call; ready for streams."""
    torch.manual_seed(1)
    dims = dict(SIZES[size])
    vocabulary = dims.pop("vocabulary")
    dims["source_vocabulary"] = dims["target_vocabulary"] = vocabulary
    system = build(name, {"dims": dims, **config})
    if is_ready:
        make_ready(system)  # as hmt.load does
    return system


def random_sentence(draw: random.Random, size: str, length: int) -> list[int]:
    """Tokens without an end token."""
    return [draw.randrange(4, SIZES[size]["vocabulary"]) for _ in range(length)]


def interleaved(runs: Mapping[str, Callable[[], object]], repeats: int) -> dict[str, list[float]]:
    """Seconds of each run, taken in turn so that a noisy moment hits all of them; one warm-up."""
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for repeat in range(repeats + 1):
        for name, run in runs.items():
            start = time.perf_counter()
            run()
            if repeat:
                seconds[name].append(time.perf_counter() - start)
    return seconds


def ratios(seconds: Mapping[str, list[float]], to: str) -> dict[str, tuple[float, float, float]]:
    """Median, least and greatest of the ratios that were measured side by side."""
    found = {}
    for name, values in seconds.items():
        each = [a / b for a, b in zip(values, seconds[to], strict=True)]
        found[name] = (statistics.median(each), min(each), max(each))
    return found


def ratio_row(
    what: str, ratio: tuple[float, float, float], at_most: float | None, **more: Any
) -> Row:
    """One line of a report."""
    median, least, greatest = ratio
    return {
        "what": what,
        "value": round(median, 2),
        "unit": "x",
        "spread": [round(least, 2), round(greatest, 2)],
        "at_most": at_most,
        **more,
    }
