"""Peak memory of a training step, and of its vocabulary losses alone, against the naive way.

    python benchmarks/memory.py --size tiny

Naive is the log-softmax of rows x vocabulary, kept for the backward pass. Each measurement runs
in a process of its own, because the peak of a process never goes down. The last line of output is
JSON.
"""

import os
import random
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import torch
from _setting import count, parser_of, run
from torch import Tensor

from hmt.bench.setting import SIZES, Row, random_system
from hmt.errors import UserError
from hmt.model.vocabulary import gold_log_prob
from hmt.systems import hmt
from hmt.systems.batch import make_batch

TARGET = 1 / 3
LOWER, STATES, ROWS_PER_TOKEN = 5, 6, 4.75
VOCABULARY = 32_000
CHILD = "one-step"  # first argument of the process that makes one step
COPIES = 5  # of rows x vocabulary that the naive way may hold at a time


def measure(size: str, tokens: int) -> Iterator[Row]:
    """Ours over naive, for about so many target tokens in sentences of 27."""
    cells = ROWS_PER_TOKEN * VOCABULARY * 4 * COPIES
    while tokens > 256 and tokens * cells > _available():
        tokens //= 2  # the naive way must fit into this machine
    for part, what in (("losses", "vocabulary losses"), ("step", "training step")):
        ours, naive = (_child(part, size, tokens, way) for way in ("ours", "naive"))
        yield {
            "what": f"peak memory of {what}, {size}, {tokens} tokens, ours / naive",
            "value": round(ours / naive, 3),
            "unit": "x",
            "at_most": round(TARGET, 3),
            "ours_mb": round(ours),
            "naive_mb": round(naive),
        }


def _available() -> float:
    """Bytes that are free on this machine; unlimited where the system does not report it."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return float("inf")
    return next((int(x.split()[1]) * 1024 for x in lines if x.startswith("MemAvail")), 2**40)


def _child(part: str, size: str, tokens: int, way: str) -> float:
    """Megabytes that a step needs beyond what was there before it."""
    dims = SIZES[size]
    numbers = [dims[k] for k in ("width", "ffn", "heads", "encoder_layers", "decoder_layers")]
    command = [sys.executable, __file__, CHILD, part, way, str(tokens)]
    done = subprocess.run([*command, *map(str, numbers)], capture_output=True, text=True)
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["it was killed"])[-1]
        raise UserError(f"Memory of {tokens} tokens ({way}) could not be measured: {reason}")
    return float(done.stdout)


def naive_log_prob(hidden: Tensor, weight: Tensor, gold: Tensor) -> tuple[Tensor, Tensor]:
    """The numbers of gold_log_prob, the usual way. (N, D), (V, D), (N,) -> (N,) twice"""
    log_prob = (hidden @ weight.T).log_softmax(-1)
    return log_prob.gather(1, gold[:, None])[:, 0], log_prob.mean(-1)


def _losses(way: str, tokens: int, width: int) -> None:
    rows = round(tokens * ROWS_PER_TOKEN)
    hidden = torch.randn(rows, width, requires_grad=True)
    weight = torch.randn(VOCABULARY, width, requires_grad=True)
    gold = torch.randint(VOCABULARY, (rows,))
    before = _start()
    chosen, mean = (naive_log_prob if way == "naive" else gold_log_prob)(hidden, weight, gold)
    (chosen.sum() + 0.1 * mean.sum()).backward()
    sys.stdout.write(str(_peak() - before))


def _step(way: str, tokens: int) -> None:
    if way == "naive":
        hmt.gold_log_prob = naive_log_prob
    draw = random.Random(1)
    source, target = (
        [[*(draw.randrange(4, VOCABULARY) for _ in range(26)), 2] for _ in range(tokens // 27)]
        for _ in range(2)
    )
    system = random_system("hmt", "asked", lower=LOWER, states=STATES).train()
    batch = make_batch(source, target)
    before = _start()
    system.training_loss(batch, draw).total.sum().backward()
    sys.stdout.write(str(_peak() - before))


def _start() -> float:
    """Reset the peak where the system can. -> megabytes now"""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return _peak()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def _peak() -> float:
    """Greatest resident megabytes."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(x.split()[1]) for x in lines if x.startswith("VmHWM")) / 1024
    except (OSError, StopIteration):
        unit = 2**20 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


def one_step(part: str, way: str, *numbers: str) -> None:
    """The child process: one step, its megabytes on standard output."""
    tokens, width, ffn, heads, encoder_layers, decoder_layers = map(int, numbers)
    if part == "losses":
        _losses(way, tokens, width)
        return
    SIZES["asked"] = {
        "width": width,
        "ffn": ffn,
        "heads": heads,
        "encoder_layers": encoder_layers,
        "decoder_layers": decoder_layers,
        "vocabulary": VOCABULARY,
    }
    _step(way, tokens)


def main() -> None:
    """Read the options, measure, print."""
    if sys.argv[1:2] == [CHILD]:
        one_step(*sys.argv[2:])
        return
    parser = parser_of(__doc__)
    parser.add_argument("--size", choices=sorted(SIZES), default="tiny", help="(default: tiny)")
    parser.add_argument(
        "--tokens", type=count, default=4096, help="target tokens of the step (default: 4,096)"
    )
    parser.add_argument(
        "--threads", type=count, default=2, help="threads to compute with (default: 2)"
    )
    run(lambda options: measure(options.size, options.tokens), parser.parse_args())


if __name__ == "__main__":
    main()
