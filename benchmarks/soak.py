"""A very long stream through one live session: do memory and time per word stay the same?

    python benchmarks/soak.py --words 100000 --threads 1

First running text through the model that ships, with and without punctuation, then words that a
small random model never ends. The last line of output is JSON.

    python benchmarks/soak.py --words 90000 --text train.de.gz

Ten hours of real speech instead: the lines of a file in lower case and without punctuation, in
talks of half an hour.
"""

import argparse
import os
import random
import resource
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from _setting import count, parser_of, run

from hmt.bench.setting import Row
from hmt.models.model import Model, load
from hmt.streaming.session import Session
from hmt.systems import build
from hmt.text.lines import open_lines
from hmt.text.spoken import unpunctuated

DIMS = {"width": 32, "ffn": 32, "heads": 2, "encoder_layers": 1, "decoder_layers": 1}
GROWTH_MB, SLOWER = 20.0, 1.25  # what the last words may cost beyond earlier ones
TALK_WORDS = 4500  # half an hour at 2.5 words per second


def measure(words: int) -> Iterator[Row]:
    """Running text through the model that ships, with and without punctuation; then words that a
    model with random weights never ends."""
    model = load()
    text = list(running_text(model, words))
    yield from soak(model.session(), text, f"soak, {words} words in sentences of 5 to 30")
    text = [word.rstrip(".") for word in text]
    yield from soak(model.session(), text, f"soak, {words} words without punctuation")
    vocabulary = model.source_tokenizer.size
    dims = {**DIMS, "source_vocabulary": vocabulary, "target_vocabulary": vocabulary}
    torch.manual_seed(1)
    endless = Model(build("hmt", {"dims": dims, "lower": 3, "states": 4}), model.tokenizers)
    yield from soak(endless.session(), text, f"soak, {words} words without an end, random weights")


def measure_speech(path: Path, words: int) -> Iterator[Row]:
    """The text of a file as a recogniser prints it."""
    text: list[str] = []
    with open_lines(path) as file:
        while len(text) < words and (line := file.readline()):
            text += unpunctuated(line.decode("utf-8")).split()
    if len(text) < words:
        raise SystemExit(f"{path} has {len(text)} words; give --words {len(text)} or fewer.")
    name = f"soak, {words} words of speech"
    yield from soak(load().session(), text[:words], name, talk=TALK_WORDS)


def running_text(model: Model, words: int) -> Iterator[str]:
    """Random words of the source vocabulary, with a full stop after 5 to 30 of them."""
    draw, left = random.Random(1), 0
    known = _known_words(model)
    for _ in range(words):
        left = left - 1 if left else draw.randint(4, 29)
        yield draw.choice(known) + ("" if left else ".")


def soak(session: Session, words: Sequence[str], name: str, talk: int = 0) -> Iterator[Row]:
    """Memory after a quarter, half and all of the words; CPU time per word, second and last tenth.

    A session keeps the last 1,000 sentences, which a quarter of 90,000 words fills.  In the first
    tenth of an endless sentence nothing may have to be cut yet.  A `talk` has so many words; 0 is
    one without end.
    """
    tenth, memory, seconds = max(1, len(words) // 10), {}, []
    marks = (max(1, len(words) // 4), len(words) // 2, len(words))
    for n, word in enumerate(words, 1):
        start = time.process_time()
        session.push(word)
        if talk and n % talk == 0:
            session.finish()
        seconds.append(time.process_time() - start)
        if n in marks:
            memory[n] = resident_mb()
    session.close()
    parts = seconds[tenth : 2 * tenth], seconds[-tenth:]
    second, last = (sum(part) / tenth * 1000 for part in parts)
    after = [round(memory[n], 1) for n in marks]
    yield {
        "what": f"{name}: memory gained after a quarter",
        "value": round(after[2] - after[0], 1),
        "unit": "MB",
        "at_most": GROWTH_MB,
        "mb_at_25_50_100_percent": after,
    }
    yield {
        "what": f"{name}: last tenth / second",
        "value": round(last / second, 2),
        "unit": "x",
        "at_most": SLOWER,
        "second_ms_per_word": round(second, 2),
        "last_ms_per_word": round(last, 2),
    }


def _known_words(model: Model) -> list[str]:
    """Words that are one piece of the source vocabulary."""
    tokenizer = model.source_tokenizer
    pieces = (tokenizer.piece(n) for n in range(4, tokenizer.size))
    return [p[1:] for p in pieces if p.startswith("▁") and len(p) > 3 and p[1:].isalpha()]


def resident_mb() -> float:
    """Resident megabytes of this process; its peak where the system reports no more."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        unit = 2**20 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def main() -> None:
    """Read the options, measure, print."""
    parser = parser_of(__doc__)
    parser.add_argument(
        "--words", type=at_least_ten, default=10_000, help="length in words (default: 10,000)"
    )
    parser.add_argument(
        "--threads", type=count, default=2, help="threads to compute with (default: 2)"
    )
    parser.add_argument("--text", type=Path, help="sentences to speak, plain or .gz")
    run(
        lambda options: (
            measure_speech(options.text, options.words) if options.text else measure(options.words)
        ),
        parser.parse_args(),
    )


def at_least_ten(text: str) -> int:
    """Tenths of the stream are compared, so each must have a word."""
    if count(text) < 10:
        raise argparse.ArgumentTypeError(f"{text} is less than 10 words")
    return int(text)


if __name__ == "__main__":
    main()
