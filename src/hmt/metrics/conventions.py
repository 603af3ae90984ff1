"""What each number of a scores.json means, in the words stored beside it."""

from collections.abc import Sequence

from hmt.metrics.instance import Instance

UNIT_NAMES = {
    "word": "words (what whitespace separates) on both sides",
    "space": "words (what plain spaces separate; a non-breaking space is inside a word)",
    "char": "source words; target characters without plain spaces",
}

DEFINITIONS = {
    "AL": "mean of g_i - (i-1) X/Y' up to the first i with g_i >= X, over all i if there is none",
    "LAAL": "as AL, with the target length that the convention names for it",
    "AP": "sum of g_i / (X Y')",
    "CW": "g_Y / number of i with g_i > g_(i-1); source that was never read does not count",
    "DAL": "mean over all i of the largest g_r - (r-1) X/Y with r <= i",
    "ATD": "mean of the end of unit i minus the end of its source partner, each lasting one unit",
    "YAAL": "as LAAL, over the i with g_i < X",
}

Convention = dict[str, str | dict[str, str]]


def quality_conventions(tokenize: str) -> dict[str, str]:
    """How each quality number is computed."""
    return {
        "bleu": f"sacreBLEU corpus BLEU, mixed case, tokenizer {tokenize}, on the text as given",
        "chrf": "sacreBLEU corpus chrF2, mixed case, on the text as given",
        "bleu_tokenised_lc": f"corpus BLEU, lower-cased, tokenizer {tokenize}, or none where the "
        "references are tokenised already: the papers' number",
    }


def metric_definitions() -> dict[str, str]:
    """What each latency metric is, whatever it counts."""
    symbols = (
        "g_i source read when unit i was written, X source length, Y written length, Y' target "
        "length that the convention names"
    )
    return {"symbols": symbols, **DEFINITIONS}


def latency_conventions(
    instances: Sequence[Instance], *, tokens: bool, timed: bool, seconds_per_word: float | None
) -> dict[str, Convention]:
    """How the latency numbers of each convention are computed."""
    shared: Convention = {
        "aggregation": "unweighted mean over sentences",
        "skipped": "sentences with nothing written or an empty source; for YAAL also those "
        "written wholly after the source had ended",
    }
    found: dict[str, Convention] = {}
    if tokens:
        found["token"] = {
            "unit": "tokens of the model's vocabulary on both sides",
            "end_tokens": "counted on both sides",
            "target_length": "written tokens for every metric, so LAAL equals AL",
            **shared,
        }
    found["word"] = _word(instances) | shared
    if not tokens:
        found["word"]["delay"] = "source words read, as the log gives them"
    if timed:
        found["word"]["computation_aware"] = _computation_aware(seconds_per_word)
    return found


def _word(instances: Sequence[Instance]) -> Convention:
    with_reference = any(instance.reference_length for instance in instances)
    reference = "reference (written, where the reference is empty)" if with_reference else "written"
    longer = "longer of written and reference" if with_reference else "written"
    return {
        "unit": UNIT_NAMES[instances[0].unit],
        "end_tokens": "not counted",
        "delay": "source words given when the target word was sure to be complete: with its last "
        "piece if that piece can end words only, else with the token after it",
        "target_length": {
            "AL": reference,
            "AP": reference,
            "LAAL": longer,
            "YAAL": longer,
            "DAL": "written",
            "ATD": "written, each word lasting as long as one source word",
            "CW": "none",
        },
    }


def _computation_aware(seconds_per_word: float | None) -> str:
    rate = (
        f"one source word every {seconds_per_word:g} seconds"
        if seconds_per_word is not None
        else "the rate of the log's writer"
    )
    return (
        f"*_CA in source words at {rate}: a target word is out when its source has come, the word "
        "before is out, and its measured computing time has passed"
    )
