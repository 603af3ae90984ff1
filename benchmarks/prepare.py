"""How fast a corpus is prepared, on how many cores, and whether memory stays flat.

Makes a synthetic corpus (Zipf-distributed words, 25 per sentence), prepares it and opens it.
The last line of output is JSON. Peak memory is that of the process and its workers together.
"""

import argparse
import json
import os
import resource
import shutil
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

from hmt.text.corpus import Corpus
from hmt.text.prepare import Prepare, prepare

WORDS = 25
DISTINCT = 200_000


def write_side(path: Path, pairs: int, seed: int) -> None:
    """Write sentences of random words, the n-th most frequent with probability ~ 1 / n."""
    draw = np.random.default_rng(seed)
    letters = np.array(list("etaoinshrdlucmfwypvbgkjqxz"))
    words = np.array(["".join(draw.choice(letters[:20], 2 + n % 9)) for n in range(DISTINCT)])
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
        self.stage, self.peaks, self.marks = "start", {}, {}
        self.done = threading.Event()
        self.thread = threading.Thread(target=self.sample, daemon=True)
        self.thread.start()

    def sample(self) -> None:
        """Note the memory of the family of processes ten times a second."""
        while not self.done.wait(0.1):
            self.peaks[self.stage] = max(self.peaks.get(self.stage, 0), family_memory())

    def progress(self, stage: str, done: int, total: int) -> None:
        """Note when a stage first and last spoke."""
        self.stage = stage
        self.marks.setdefault(stage, []).append((done, time.perf_counter(), family_memory()))


def processor_seconds() -> float:
    """Processor time of this process and of its finished workers."""
    uses = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(use.ru_utime + use.ru_stime for use in uses)


def measure(folder: Path, pairs: int, size: int, workers: int) -> dict[str, float | int]:
    """Prepare a corpus of `pairs` in `folder` and measure it."""
    for name, n, seed in (("s", pairs, 1), ("t", pairs, 2), ("vs", 1000, 3), ("vt", 1000, 4)):
        write_side(folder / name, n, seed)
    s, t, vs, vt = (folder / name for name in ("s", "t", "vs", "vt"))
    watch = Watch()
    begin, spent = time.perf_counter(), processor_seconds()
    prepare(Prepare(s, t, vs, vt, folder / "out", size=size, workers=workers), watch.progress)
    seconds, spent = time.perf_counter() - begin, processor_seconds() - spent
    watch.done.set()
    watch.thread.join()
    train = watch.marks["train"]
    vocabulary_end = watch.marks["vocabulary"][-1][1]
    # The first mark comes when the first block is done: rates are taken from there on.
    settled = train[len(train) // 5]
    begin_open = time.perf_counter()
    corpus = Corpus.open(folder / "out", "train")
    opened = time.perf_counter() - begin_open
    assert len(corpus) == pairs
    return {
        "pairs": pairs,
        "seconds": round(seconds, 1),
        "pairs_per_second": round(pairs / seconds),
        "vocabulary_seconds": round(train[0][1] - watch.marks["check"][-1][1], 1),
        "merge_seconds": round(train[0][1] - vocabulary_end, 1),
        "encoding_pairs_per_second": round((pairs - settled[0]) / (train[-1][1] - settled[1])),
        "cores_used": round(spent / seconds, 2),
        "cores": os.cpu_count() or 1,
        "encoding_memory_growth_mb": round((train[-1][2] - settled[2]) / 2**20, 1),
        "peak_memory_mb": round(max(watch.peaks.values()) / 2**20),
        "open_milliseconds": round(opened * 1000, 1),
        "tokens": int(corpus.source_lengths.sum() + corpus.target_lengths.sum()),
    }


def main() -> None:
    """Read the options, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=1_000_000)
    parser.add_argument("--size", type=int, default=32_000)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp())
    try:
        result = measure(folder, options.pairs, options.size, options.workers)
    finally:
        shutil.rmtree(folder)
    for name, value in result.items():
        print(f"{name:28} {value:>14,}")
    print(json.dumps(result))


if __name__ == "__main__":
    main()
