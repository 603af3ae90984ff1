"""Our live session beside what live products do: translate the growing prefix anew at each word.

The other side is a full-sentence model of the same size in CTranslate2 (`pip install ctranslate2`),
converted from our `full` weights, in single precision and in int8. With trained models:

    python benchmarks/retranslation.py --full DIR --hmt DIR --source FILE --target FILE

shows time per source word, words taken back, quality and lag; `--size tiny` or `--size base`
compares time alone, with random weights, a random policy and one target token per source token.
All ways of translating take turns sentence by sentence. The last line of output is JSON.
"""

import argparse
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from _setting import parser_of, run
from conversion import Translator, convert

from hmt.bench.policies import with_random_policy
from hmt.bench.setting import Row, random_sentence, random_system, ratio_row, ratios
from hmt.errors import UserError
from hmt.evaluation.evaluate import read_parallel
from hmt.metrics.latency import average_lagging
from hmt.metrics.quality import quality
from hmt.models.model import Model, load
from hmt.streaming.engine import Engine
from hmt.streaming.session import Session
from hmt.text.symbols import EOS

MASKED = 3  # words at the end that a screen leaves out while the sentence goes on
LONG = 20  # words of a long sentence


@dataclass
class Live:
    """What stood on the screen after each source word, and the seconds that each word took."""

    shown: list[list[str]]
    seconds: list[float]


def timed(act: Callable[[], Any], seconds: list[float]) -> Any:
    """Do it and note how long it took."""
    start = time.perf_counter()
    result = act()
    seconds.append(time.perf_counter() - start)
    return result


def retranslate(
    translator: Translator, model: Model, words: Sequence[str], agrees: bool = False
) -> Live:
    """The prefix anew at each word; `agrees`: what two hypotheses in a row share is kept for good.

    What is kept is given to the next translation as its beginning, so nothing is taken back.
    """
    live = Live([], [])
    source: list[int] = []
    kept: list[int] = []
    before: list[int] = []
    for n, word in enumerate(words, 1):
        source += model.source_tokenizer.encode(word)
        now = timed(lambda: translator.translate(source, kept), live.seconds)  # noqa: B023
        if agrees and n < len(words):
            kept, before = common(before, now), now
            now = kept
        live.shown.append(model.target_tokenizer.decode(now).split())
    return live


def common(first: Sequence[Any], second: Sequence[Any]) -> list[Any]:
    """The beginning that two sequences share."""
    pairs = zip(first, second, strict=False)
    same = next((n for n, (a, b) in enumerate(pairs) if a != b), min(len(first), len(second)))
    return list(second[:same])


def masked(live: Live) -> Live:
    """The same translations on a screen that holds back the last words until the sentence ends."""
    return Live([*(words[:-MASKED] for words in live.shown[:-1]), live.shown[-1]], live.seconds)


def session_live(session: Session, words: Sequence[str]) -> Live:
    """Our session: what it gives out stays."""
    live, text = Live([], []), ""
    for n, word in enumerate(words, 1):
        start = time.perf_counter()
        text += session.push(word)
        if n == len(words):
            text += session.finish()
        live.seconds.append(time.perf_counter() - start)
        live.shown.append(text.split())
    return live


def taken_back(old: Sequence[str], new: Sequence[str]) -> int:
    """Words on the screen that changed; the last one may grow letters."""
    same = len(common(old, new))
    grows = same == len(old) - 1 and same < len(new) and new[same].startswith(old[same])
    return len(old) - same - grows


def settled(shown: Sequence[Sequence[str]]) -> list[int]:
    """Source words read when each final word, and all before it, stood for good."""
    final = shown[-1]
    stays, moments = len(final), [1] * len(final)
    for read in range(len(shown) - 1, 0, -1):
        still = min(stays, len(common(shown[read - 1], final)))
        moments[still:stays] = [read + 1] * (stays - still)
        stays = still
    return moments


def describe(name: str, runs: list[list[Live]], references: Sequence[str] | None) -> Row:
    """One way of translating, over all repeats and sentences; seconds are medians of repeats."""
    lives = runs[0]
    per_word = [
        [statistics.median(x) for x in zip(*(run[n].seconds for run in runs), strict=True)]
        for n in range(len(lives))
    ]
    flat = sorted(x * 1000 for seconds in per_word for x in seconds)
    last = [seconds[-1] * 1000 for seconds in per_word if len(seconds) >= LONG]
    final = sum(len(live.shown[-1]) for live in lives)
    erased = sum(
        taken_back(a, b) for live in lives for a, b in zip(live.shown, live.shown[1:], strict=False)
    )
    lags = [
        average_lagging(settled(live.shown), len(live.shown), len(live.shown[-1]))
        for live in lives
        if live.shown[-1]
    ]
    row: Row = {
        "what": f"re-translation, {name}",
        "value": round(statistics.mean(flat), 2),
        "unit": "ms/word",
        "p95_ms": round(flat[int(len(flat) * 0.95)], 2),
        "last_word_of_long_ms": round(statistics.mean(last), 2) if last else None,
        "ms_per_sentence": round(sum(flat) / len(lives), 1),
        "taken_back_per_word": round(erased / max(1, final), 3),
        "settled_lag_words": round(statistics.mean(lags), 2) if lags else None,
    }
    if references is not None:
        scores, _ = quality([" ".join(live.shown[-1]) for live in lives], references)
        row["bleu"] = round(scores["bleu"].corpus(), 2)
    return row


def compare_trained(options: argparse.Namespace, folder: Path) -> list[Row]:
    """Trained models on real text."""
    full, ours = load(options.full), load(options.hmt)
    text = read_parallel(options.source, options.target)
    lines = [n for n, source in enumerate(text.sources) if source.split()][: options.sentences]
    references = None if text.references is None else [text.references[n] for n in lines]
    convert(full.system, folder)
    single, small = (Translator(folder, kind, options.threads) for kind in ("float32", "int8"))
    session = ours.session(
        by_line=True, **({} if options.lower is None else {"lower": options.lower})
    )
    ways: dict[str, Callable[[list[str]], Live]] = {
        "our session": lambda words: session_live(session, words),
        "CTranslate2": lambda words: retranslate(single, full, words),
        "CTranslate2, agreement of two": lambda words: retranslate(single, full, words, True),
        "CTranslate2 int8": lambda words: retranslate(small, full, words),
        "CTranslate2 int8, agreement of two": lambda words: retranslate(small, full, words, True),
    }
    runs: dict[str, list[list[Live]]] = {name: [] for name in ways}
    for way in ways.values():  # a warm-up
        way(text.sources[lines[0]].split())
    for _ in range(options.repeats):
        done: dict[str, list[Live]] = {name: [] for name in ways}
        for n in lines:
            for name, way in ways.items():
                done[name].append(way(text.sources[n].split()))
        for name, lives in done.items():
            runs[name].append(lives)
    shown = dict(runs)
    for name in ("CTranslate2", "CTranslate2 int8"):
        shown[f"{name}, last {MASKED} masked"] = [list(map(masked, r)) for r in runs[name]]
    rows = [describe(name, shown[name], references) for name in sorted(shown, reverse=True)]
    totals = {name: [sum(map(_total, run)) for run in r] for name, r in runs.items()}
    return [*rows, *ratio_rows(totals, "trained")]


def _total(live: Live) -> float:
    return sum(live.seconds)


def ratio_rows(totals: dict[str, list[float]], where: str) -> list[Row]:
    """Whole time of each way over ours, repeat by repeat."""
    found = ratios(totals, "our session")
    return [
        ratio_row(f"re-translation, {where}, {name} / our session", found[name], None)
        for name in totals
        if name != "our session"
    ]


def compare_random(options: argparse.Namespace, folder: Path) -> Iterator[Row]:
    """Random weights: time alone. A prefix of n tokens becomes n target tokens."""
    size, draw = options.size, random.Random(1)
    convert(random_system("full", size, encoder="bidirectional"), folder)
    single, small = (Translator(folder, kind, options.threads) for kind in ("float32", "int8"))
    engine = Engine(with_random_policy(random_system("hmt", size, lower=5, states=6)))
    for length in options.lengths:
        source, target = (random_sentence(draw, size, length) for _ in range(2))
        ways: dict[str, Callable[[], list[float]]] = {
            "our session": partial(session_seconds, engine, source, [*target, EOS]),
            "CTranslate2": partial(prefix_seconds, single, source),
            "CTranslate2 int8": partial(prefix_seconds, small, source),
        }
        runs: dict[str, list[list[float]]] = {name: [] for name in ways}
        for repeat in range(options.repeats + 1):
            for name, way in ways.items():
                seconds = way()
                if repeat:
                    runs[name].append(seconds)
        for name, each in runs.items():
            last = statistics.median(seconds[-1] for seconds in each)
            yield {
                "what": f"re-translation, {size}, {length} words, {name}",
                "value": round(statistics.median(map(sum, each)) / length * 1000, 2),
                "unit": "ms/word",
                "last_word_ms": round(last * 1000, 2),
            }
        totals = {name: [sum(seconds) for seconds in each] for name, each in runs.items()}
        yield from ratio_rows(totals, f"{size}, {length} words")


def prefix_seconds(translator: Translator, source: Sequence[int]) -> list[float]:
    """Seconds of each re-translation."""
    seconds: list[float] = []
    for n in range(1, len(source) + 1):
        timed(lambda: translator.translate(source[:n], length=n), seconds)  # noqa: B023
    return seconds


def session_seconds(engine: Engine, source: Sequence[int], target: Sequence[int]) -> list[float]:
    """Seconds of each word in our engine; the end of the sentence comes with the last."""
    seconds: list[float] = []
    stream = engine.open(forced=target)
    for n, token in enumerate(source, 1):
        start = time.perf_counter()
        engine.push(stream, [token])
        if n == len(source):
            engine.finish(stream)
        engine.advance([stream])
        seconds.append(time.perf_counter() - start)
    engine.close(stream)
    return seconds


def main() -> None:
    """Read the options, measure, print."""
    parser = parser_of(__doc__)
    parser.add_argument("--full", type=Path, help="a trained bidirectional `full` model")
    parser.add_argument("--hmt", type=Path, help="a trained HMT (default: the model that ships)")
    parser.add_argument("--source", type=Path, help="sentences, one per line")
    parser.add_argument("--target", type=Path, help="their translations, for BLEU")
    parser.add_argument("--sentences", type=int, default=200, help="how many (default: 200)")
    parser.add_argument("--lower", type=int, help="latency setting of the HMT (default: its own)")
    parser.add_argument("--size", choices=("tiny", "base"), help="random weights instead")
    parser.add_argument(
        "--lengths",
        type=int,
        nargs="+",
        default=[10, 25, 50, 100],
        help="words per sentence with --size (default: 10 25 50 100)",
    )
    parser.add_argument("--repeats", type=int, default=3, help="(default: 3)")
    # With two threads CTranslate2 was measured several times slower than with one, probably because
    # its OpenMP and that of PyTorch hold each other up inside one process.
    parser.add_argument("--threads", type=int, default=1, help="of each side (default: 1)")
    try:
        run(measure, parser.parse_args())
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] != "ctranslate2":
            raise
        sys.exit("This comparison needs CTranslate2: pip install ctranslate2 (or hmt[bench]).")


def measure(options: argparse.Namespace) -> Iterator[Row]:
    """Trained models, or random ones of a size."""
    if options.size is None and (options.full is None or options.source is None):
        raise UserError("Give --full and --source (trained models), or --size (random ones).")
    with tempfile.TemporaryDirectory() as folder:
        compare = compare_trained if options.size is None else compare_random
        yield from compare(options, Path(folder) / "model")


if __name__ == "__main__":
    main()
