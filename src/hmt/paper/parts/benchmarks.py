"""What models are trained and tested on: Multi30k, Europarl with news, IWSLT15."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from hmt.paper.plan import Place, Step
from hmt.paper.steps import SECONDS_PER_POINT, prepare, prepare_text, test_files

SHIPPED_PIECES = "src/hmt/pretrained/tokenizer.json"  # as recipes/europarl/multipath.toml names it
EUROPARL, NEWSTEST, IWSLT15 = "europarl", "newstest", "iwslt15"  # options that name their folders


@dataclass(frozen=True)
class Benchmark:
    """A corpus and one of its test sets."""

    prepare: Callable[[Place], Step]
    files: Callable[[Place], tuple[Path, Path]]
    seconds_per_point: float


def _europarl(place: Place) -> Step:
    """In the pieces of the model that ships, where training begins.

    Validated on news of another year: all held-out debates are needed for the test.
    """
    debates, news = place.texts[EUROPARL], place.texts[NEWSTEST]
    files = (
        *(debates / f"train.{end}.gz" for end in ("de", "en")),
        *(news / f"newstest2013.{end}" for end in ("de", "en")),
    )
    folder = place.runs / EUROPARL / "data"
    given = ("--source-tokenizer", SHIPPED_PIECES, "--target-tokenizer", SHIPPED_PIECES)
    options = ("--vocabulary", "given", *given, "--max-tokens", "120")
    return prepare_text("prepare europarl", files, options, folder, seconds=120.0)


def _iwslt15(place: Place) -> Step:
    """A vocabulary of words; those seen fewer than five times are unknown, as in the paper."""
    text = place.texts[IWSLT15]
    files = (
        *(text / f"train30k.{end}.gz" for end in ("en", "vi")),
        *(text / f"tst2012.noapos.{end}" for end in ("en", "vi")),
    )
    options = ("--vocabulary", "words", "--min-count", "5", "--tokenised")
    return prepare_text("prepare iwslt15", files, options, place.runs / IWSLT15 / "data")


def _pair(option: str, name: str, ends: tuple[str, str]) -> Callable[[Place], tuple[Path, Path]]:
    def files(place: Place) -> tuple[Path, Path]:
        return place.texts[option] / f"{name}.{ends[0]}", place.texts[option] / f"{name}.{ends[1]}"

    return files


FLICKR = Benchmark(prepare, test_files, SECONDS_PER_POINT)
# 2,000 sentences of up to 45 words, through models of many times the size
DEBATES = Benchmark(_europarl, _pair(EUROPARL, "dev", ("de", "en")), 120.0)
NEWS = Benchmark(_europarl, _pair(NEWSTEST, "newstest2015", ("de", "en")), 120.0)
TALKS = Benchmark(_iwslt15, _pair(IWSLT15, "tst2013.noapos", ("en", "vi")), 40.0)
