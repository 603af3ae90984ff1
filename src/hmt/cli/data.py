"""`hmt prepare`: two text files become a directory to train from."""

import logging
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from hmt.cli.app import app
from hmt.cli.progress import bars

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
    source: Path = typer.Option(..., help="Source sentences, one per line, plain or .gz."),
    target: Path = typer.Option(..., help="Their translations, line by line."),
    valid_source: Path = typer.Option(..., help="Source sentences for validation."),
    valid_target: Path = typer.Option(..., help="Their translations."),
    output: Path = typer.Option(..., help="Directory to make."),
    test_source: Path | None = typer.Option(None, help="Source sentences of a test set."),
    test_target: Path | None = typer.Option(None, help="Their translations."),
    vocabulary: Vocabulary = typer.Option(
        Vocabulary.joint_bpe,
        help="One BPE for both sides, one for each, whole words, or given tokenizers.",
    ),
    size: int = typer.Option(32_000, help="Pieces of each BPE vocabulary."),
    min_count: int = typer.Option(5, help="Words seen less often become unknown (words only)."),
    lowercase: bool = typer.Option(False, "--lowercase", help="Lower-case all text."),
    tokenised: bool = typer.Option(
        False, "--tokenised", help="The text is tokenised: do not split punctuation off."
    ),
    source_tokenizer: Path | None = typer.Option(None, help="Given source tokenizer.json."),
    target_tokenizer: Path | None = typer.Option(None, help="Given target tokenizer.json."),
    max_tokens: int = typer.Option(250, help="Training pairs with a longer side are dropped."),
    max_ratio: float = typer.Option(9.0, help="So are those whose lengths differ by more."),
    vocabulary_lines: int = typer.Option(2_000_000, help="Lines that BPE is learned from."),
    workers: int | None = typer.Option(None, help="Processes; by default one per core."),
) -> None:
    """Learn vocabularies and encode parallel text into memory-mapped files."""
    given = {name: value for name, value in locals().items() if value is not None}

    from hmt.text.prepare import Prepare
    from hmt.text.prepare import prepare as run

    with bars() as progress:
        report = run(Prepare(**{**given, "vocabulary": vocabulary.value}), progress)
    _tell(report, output)


def _tell(report: "Report", output: Path) -> None:
    """Say what was kept, and what was dropped and why."""
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
