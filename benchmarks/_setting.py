"""What the benchmarks share: options, a table, and the same as JSON in the last line."""

import argparse
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import torch

from hmt.bench.report import earlier, show
from hmt.bench.setting import Row
from hmt.errors import UserError

Measure = Callable[[argparse.Namespace], Iterator[Row]]


def parser_of(description: str | None) -> argparse.ArgumentParser:
    """A parser with the options that every benchmark has."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--compare", type=Path, metavar="FILE", help="earlier output, whose values are shown beside"
    )
    return parser


def count(text: str) -> int:
    """An option that counts something."""
    number = int(text)
    if not 1 <= number <= 10**9:
        raise argparse.ArgumentTypeError(f"{text} is not a number from 1 to 1,000,000,000")
    return number


def run(measure: Measure, options: argparse.Namespace) -> None:
    """Measure and print; a user's mistake ends with one sentence."""
    try:
        threads = options.threads
        if isinstance(threads, int):
            torch.set_num_threads(threads)
        size = getattr(options, "size", None)
        show(measure(options), earlier(options.compare), size=size, threads=threads)
    except UserError as error:
        sys.exit(str(error))
