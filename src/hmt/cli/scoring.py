"""Options of all commands that score."""

import math
from typing import TYPE_CHECKING

import typer

from hmt.errors import UserError

if TYPE_CHECKING:
    from hmt.metrics.scores import Scoring

TOKENIZE_HELP = "sacreBLEU's tokenizer: 13a, intl, zh, ja-mecab, ko-mecab, char, none ..."
SECONDS_PER_WORD = typer.Option(
    None,
    help="Speaking rate (0.4 is ordinary): adds latency that counts computing time. It means "
    "something only where sentences ran one at a time (--batch 1).",
)


def checked_scoring(tokenize: str, seconds_per_word: float | None, resamples: int) -> "Scoring":
    """How to score; a mistake is told now and not after hours of translating."""
    from hmt.metrics.quality import scorers
    from hmt.metrics.scores import Scoring

    if seconds_per_word is not None and not 0 < seconds_per_word < math.inf:
        raise UserError(
            f"The option --seconds-per-word was given as {seconds_per_word}; it must be a number "
            "of seconds above 0, as in --seconds-per-word 0.4."
        )
    scorers(tokenize)
    return Scoring(tokenize, seconds_per_word, resamples)
