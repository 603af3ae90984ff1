"""`hmt prepare`: parallel text becomes a directory to train from."""

import logging
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from hmt.cli._app import app
from hmt.cli._progress import bars

if TYPE_CHECKING:
    from hmt.text.corpus import Report

logger = logging.getLogger(__name__)


class Vocabulary(StrEnum):
    """Where the tokens come from."""

    joint_bpe = "joint-bpe"
    bpe = "bpe"
    words = "words"
    given = "given"


@app.command()
def prepare(
    source: Path = typer.Option(..., help="Source sentences, one per line; plain or .gz."),
    target: Path = typer.Option(..., help="Their translations, line by line."),
    valid_source: Path = typer.Option(..., help="Source sentences for validation."),
    valid_target: Path = typer.Option(..., help="Their translations."),
    output: Path = typer.Option(..., help="Directory to write."),
    test_source: Path | None = typer.Option(None, help="Source sentences of a test set."),
    test_target: Path | None = typer.Option(None, help="Their translations."),
    vocabulary: Vocabulary = typer.Option(
        Vocabulary.joint_bpe,
        help="One BPE for both sides, one per side, whole words, or given tokenizers.",
    ),
    size: int = typer.Option(
        32_000, min=8, max=1_000_000, help="Entries of each vocabulary; BPE only."
    ),
    min_count: int = typer.Option(
        5, min=1, max=10**9, help="Words that occur less often are unknown; words only."
    ),
    lowercase: bool = typer.Option(False, "--lowercase", help="Lowercase all text."),
    tokenised: bool = typer.Option(
        False, "--tokenised", help="The text is already tokenised: do not split off punctuation."
    ),
    source_tokenizer: Path | None = typer.Option(
        None, help="Source tokenizer.json; with --vocabulary given."
    ),
    target_tokenizer: Path | None = typer.Option(
        None, help="Target tokenizer.json; with --vocabulary given."
    ),
    max_tokens: int = typer.Option(
        250, min=1, max=100_000, help="Drop training pairs with more tokens on a side."
    ),
    max_ratio: float = typer.Option(
        9.0, min=1, max=1e6, help="Drop training pairs with one side this many times longer."
    ),
    vocabulary_lines: int = typer.Option(
        2_000_000, min=1, max=10**9, help="Lines from which BPE is learned."
    ),
    workers: int | None = typer.Option(
        None, min=1, max=256, help="Processes. Default: one per core, at most 8."
    ),
) -> None:
    """Turn parallel text into vocabularies and token files.

    \b
    Example:
      hmt prepare --source train.de --target train.en \\
        --valid-source valid.de --valid-target valid.en --output data
    """
    given = {name: value for name, value in locals().items() if value is not None}

    from hmt.text.prepare import Prepare
    from hmt.text.prepare import prepare as run

    with bars() as progress:
        report = run(Prepare(**{**given, "vocabulary": vocabulary.value}), progress)
    _report(report, output)


def _report(report: "Report", output: Path) -> None:
    """Log what was kept, and what was dropped and why."""
    sizes = [report.source_size, report.target_size]
    logger.info("%s: vocabulary of %s", output, " and ".join(f"{n:,}" for n in sizes))
    for name, split in report.splits.items():
        counts = asdict(split)
        reasons = {"empty": "empty", "too_long": "too long", "ratio": "unequal lengths"}
        dropped = [f"{counts[key]:,} {text}" for key, text in reasons.items() if counts[key]]
        logger.info(
            "%-5s kept %s of %s pairs (dropped: %s), %s + %s tokens, unknown %.2f%% + %.2f%%",
            name,
            f"{split.kept:,}",
            f"{split.pairs:,}",
            ", ".join(dropped) or "none",
            f"{split.source_tokens:,}",
            f"{split.target_tokens:,}",
            100 * split.source_unknown / max(1, split.source_tokens),
            100 * split.target_unknown / max(1, split.target_tokens),
        )
