"""Translation quality: sacreBLEU's scores with their signatures, and the export for COMET."""

import json
import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from hmt.errors import UserError
from hmt.files import write_atomically
from hmt.metrics.bootstrap import Array, Statistic
from hmt.metrics.instance import Instance

QUALITIES = ("bleu", "chrf", "bleu_tokenised_lc")
COMET_MODEL = "Unbabel/wmt22-comet-da"


def scorers(tokenize: str = "13a", *, tokenised: bool = False) -> dict[str, BLEU | CHRF]:
    """sacreBLEU's scorer of each of QUALITIES; `tokenize` is the tokenizer inside BLEU.

    For text that is already `tokenised`, the papers' number is computed without a tokenizer, as
    multi-bleu -lc does: 13a would take escapes such as &apos;s apart and score too high.
    """
    if tokenize not in BLEU.TOKENIZERS:
        allowed = ", ".join(sorted(BLEU.TOKENIZERS))
        raise UserError(f"the BLEU tokenizer is {tokenize!r}; it must be one of {allowed}.")
    try:
        # force only suppresses sacreBLEU's warning about text that looks tokenised
        bleu = BLEU(tokenize=tokenize, force=True)
    except (ImportError, RuntimeError, OSError) as error:
        reason = " ".join(str(error).split()).rstrip(".")
        raise UserError(f"the BLEU tokenizer {tokenize!r} cannot be used: {reason}.") from None
    papers = BLEU(tokenize="none" if tokenised else tokenize, lowercase=True, force=True)
    return {"bleu": bleu, "chrf": CHRF(), "bleu_tokenised_lc": papers}


def quality(
    predictions: Sequence[str], references: Sequence[str], tokenize: str = "13a"
) -> tuple[dict[str, Statistic], dict[str, str]]:
    """The corpus scores as statistics of sentences, and their sacreBLEU signatures."""
    if len(predictions) != len(references) or not predictions:
        raise UserError(
            f"there are {len(predictions)} predictions and {len(references)} references; "
            "there must be equally many, and at least one."
        )
    statistics, signatures = {}, {}
    for name, metric in scorers(tokenize, tokenised=is_tokenised(references)).items():
        statistics[name] = _statistic(metric, predictions, references)
        signatures[name] = str(metric.get_signature())
    return statistics, signatures


def is_tokenised(texts: Sequence[str]) -> bool:
    """Whether most lines that end in a punctuation mark have a space before it."""
    ends = [found for text in texts if (found := re.search(r"\s?[.!?]$", text.rstrip()))]
    return 2 * sum(len(found[0]) > 1 for found in ends) > len(ends)


def lacks_spaces(references: Sequence[str]) -> bool:
    """Whether most letters are of a script without spaces, so that 13a finds one word."""
    text = "".join(references)
    # kana, Han, Thai, Lao, Burmese, Khmer
    dense = re.findall(r"[\u3040-\u30ff\u3400-\u9fff\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]", text)
    return 2 * len(dense) > sum(map(str.isalpha, text))


def _statistic(
    metric: BLEU | CHRF, predictions: Sequence[str], references: Sequence[str]
) -> Statistic:
    # sacreBLEU has no public access to per-sentence counts; its own significance tests use this
    counts = metric._extract_corpus_statistics(predictions, [references])

    def value(sums: Array) -> float:
        return float(metric._compute_score_from_stats([int(total) for total in sums]).score)

    return Statistic(np.array(counts, dtype=np.float64), value)


def export_comet(
    directory: str | Path, instances: Sequence[Instance], model: str = COMET_MODEL
) -> str:
    """Write comet.src, comet.mt, comet.ref and the same as comet.jsonl; return the command.

    COMET itself is not run: its models are large, and it pins its own package versions.
    """
    examples: list[dict[str, Any]] = []
    for instance in instances:
        if instance.source is None or instance.reference is None:
            raise UserError(
                f"sentence {instance.index} has no source or no reference; COMET needs both."
            )
        texts = {"src": instance.source, "mt": instance.prediction, "ref": instance.reference}
        # one line each, even if the text contains newlines
        examples.append({key: " ".join(text.split()) for key, text in texts.items()})
    folder = Path(directory)
    folder.mkdir(parents=True, exist_ok=True)
    for key in ("src", "mt", "ref"):
        lines = "".join(example[key] + "\n" for example in examples)
        write_atomically(folder / f"comet.{key}", lines)
    lines = "".join(json.dumps(example, ensure_ascii=False) + "\n" for example in examples)
    write_atomically(folder / "comet.jsonl", lines)
    source, output, reference = (str(folder / f"comet.{key}") for key in ("src", "mt", "ref"))
    return shlex.join(
        ["comet-score", "-s", source, "-t", output, "-r", reference, "--model", model]
    )
