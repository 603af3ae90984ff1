"""How fast `hmt prepare` is, on how many cores, and whether its memory stays flat.

    python benchmarks/prepare.py --pairs 1000000

Writes a synthetic corpus (Zipf-distributed words, 25 per sentence), prepares it and opens it.
Memory is that of the process and its workers together. The last line of output is JSON.
"""

import os
import resource
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from _setting import count, parser_of, run

from hmt.bench.setting import Row
from hmt.text.corpus import Corpus
from hmt.text.prepare import Prepare, prepare

WORDS = 25
DISTINCT = 200_000


def write_side(path: Path, pairs: int, seed: int) -> None:
    """Write sentences of random words, the n-th most frequent with probability ~ 1 / n."""
    draw = np.random.default_rng(seed)
    letters = np.array(list("etaoinshrdlucmfwypvb"))
    long = draw.choice(letters, (DISTINCT, 10)).view("<U10")[:, 0].tolist()
    words = np.array([word[: 2 + n % 9] for n, word in enumerate(long)])
    chances = 1 / np.arange(10, DISTINCT + 10)
    edges = np.cumsum(chances / chances.sum())
    with path.open("w", encoding="utf-8") as file:
        for start in range(0, pairs, 10_000):
            n = min(10_000, pairs - start)
            chosen = words[np.searchsorted(edges, draw.random((n, WORDS))).clip(0, DISTINCT - 1)]
            file.writelines(" ".join(row) + ".\n" for row in chosen)


def family_memory() -> int:
    """Resident bytes of this process and its children; 0 where there is no /proc."""
    page, total = os.sysconf("SC_PAGE_SIZE"), 0
    me = os.getpid()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            if int(folder.name) == me or parent == me:
                total += int((folder / "statm").read_text().split()[1]) * page
        except (OSError, IndexError):
            continue
    return total


class Watch:
    """Wall-clock time, processor time and peak memory of each stage."""

    def __init__(self) -> None:
        self.stage = "start"
        self.peaks: dict[str, int] = {}
        self.marks: dict[str, list[tuple[int, float, float, int]]] = {}
        self.done = threading.Event()
        self.thread = threading.Thread(target=self.sample, daemon=True)
        self.thread.start()

    def sample(self) -> None:
        """Note the memory of the family of processes ten times a second."""
        while not self.done.wait(0.1):
            self.peaks[self.stage] = max(self.peaks.get(self.stage, 0), family_memory())

    def progress(self, stage: str, done: int, total: int) -> None:
        """Note the time, the processor time of this process and the memory at each report."""
        self.stage = stage
        mark = (done, time.perf_counter(), time.process_time(), family_memory())
        self.marks.setdefault(stage, []).append(mark)


def workers_seconds() -> float:
    """Processor time of the worker processes that have ended."""
    use = resource.getrusage(resource.RUSAGE_CHILDREN)
    return use.ru_utime + use.ru_stime


def measure(pairs: int, workers: int) -> Iterator[Row]:
    """Write, prepare and open `pairs` sentence pairs with 32,000 symbols."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for side, n, seed in (("s", pairs, 1), ("t", pairs, 2), ("vs", 1000, 3), ("vt", 1000, 4)):
            write_side(folder / side, n, seed)
        yield from _prepared(folder, pairs, workers)


def _prepared(folder: Path, pairs: int, workers: int) -> Iterator[Row]:
    settings = Prepare(
        source=folder / "s",
        target=folder / "t",
        valid_source=folder / "vs",
        valid_target=folder / "vt",
        output=folder / "out",
        size=32_000,
        workers=workers,
    )
    watch, at_start, others = Watch(), family_memory(), workers_seconds()
    begin = time.perf_counter()
    prepare(settings, watch.progress)
    seconds = time.perf_counter() - begin
    watch.done.set()
    watch.thread.join()
    checked, start, end = (
        watch.marks[s][n] for s, n in (("check", -1), ("train", 0), ("train", -1))
    )
    # The workers' tables of words fill up first: from a fifth on, memory should stand still.
    settled = watch.marks["train"][len(watch.marks["train"]) // 5]
    used = end[2] - start[2] + workers_seconds() - others
    begin = time.perf_counter()
    corpus = Corpus.open(folder / "out", "train")
    opened = time.perf_counter() - begin
    assert len(corpus) == pairs
    name = f"prepare, {pairs} pairs"
    yield {
        "what": name,
        "value": round(pairs / seconds),
        "unit": "pairs/s",
        "seconds": round(seconds, 1),
        "vocabulary_seconds": round(start[1] - checked[1], 1),
        "peak_mb": round((max(watch.peaks.values(), default=at_start) - at_start) / 2**20),
    }
    yield {
        "what": f"{name}, encoding",
        "value": round(pairs / (end[1] - start[1])),
        "unit": "pairs/s",
        "cores_used": round(used / (end[1] - start[1]), 2),
        "memory_gained_mb": round((end[3] - settled[3]) / 2**20, 1),
    }
    row: Row = {"what": f"{name}, opening", "value": round(opened * 1000, 1), "unit": "ms"}
    yield row


def main() -> None:
    """Read the options, measure, print."""
    parser = parser_of(__doc__)
    parser.add_argument(
        "--pairs", type=count, default=100_000, help="sentence pairs (default: 100,000)"
    )
    parser.add_argument("--threads", type=count, default=2, help="worker processes (default: 2)")
    run(lambda options: measure(options.pairs, options.threads), parser.parse_args())


if __name__ == "__main__":
    main()
