"""`hmt segmenter`: teach a model directory where sentences end in text without punctuation."""

import logging
from enum import StrEnum
from pathlib import Path

import typer

from hmt.cli._app import app
from hmt.cli._model import TRUST

logger = logging.getLogger(__name__)


class Precision(StrEnum):
    FP32 = "fp32"
    BF16 = "bf16"


@app.command()
def segmenter(
    model: Path = typer.Argument(..., metavar="MODEL", help="Model directory to add it to."),
    text: list[Path] = typer.Option(
        ..., help="Lines of written source text, plain or .gz; may be given several times."
    ),
    valid: list[Path] = typer.Option(
        [], help="Source sentences to test it on; may be given several times."
    ),
    updates: int = typer.Option(3000, min=1, max=10**7, help="Updates of about 4,000 words."),
    seed: int = typer.Option(1, help="Seed of the weights and of the order of the text."),
    precision: Precision = typer.Option(
        Precision.FP32, help="bf16 takes two fifths of the time on processors with avx512_bf16."
    ),
    threads: int = typer.Option(1, min=1, max=1024, help="Processor cores to use."),
    trust: bool = TRUST,
) -> None:
    """Train the network that finds the sentences of speech.

    Speech recognisers often give neither capitals nor punctuation. This small network hears the
    words before the model does, finds the word that begins a sentence, and adds capitals, commas
    and end marks for the model. A word that it is not sure of waits for the next one or two words.
    The network is stored in the model directory, and every session uses it for sentences that do
    not begin with a capital letter. The text to learn from must have capitals and punctuation.

    \b
    Example:
      hmt segmenter runs/small --text train.de --valid dev.de
    """
    import torch

    from hmt.models.directory import load_system, write_segmenter
    from hmt.text.language_pair import open_tokenizers
    from hmt.training.segmenter import examine, read_sentences, train_segmenter

    torch.set_num_threads(threads)
    system, _ = load_system(model, trust)
    tokenizer, _ = open_tokenizers(model)
    tests = [(path, read_sentences(path, tokenizer)) for path in valid]
    files = [read_sentences(path, tokenizer) for path in text]
    logger.info("%s sentences.", f"{sum(map(len, files)):,}")
    made = train_segmenter(files, system.transformers[0], updates, seed, precision.value)
    write_segmenter(model, made)
    for path, sentences in tests:
        found = examine(made, sentences)
        logger.info(
            "%s: %.1f%% of the borders found, %.1f%% of those found are right, %.1f%% of the words "
            "wait for the next one, %.1f%% for two; %.1f%% of the commas found, %.1f%% of those "
            "found are right; %.1f%% of the words cased right, %.1f%% of the end marks right.",
            path,
            *(100 * share for share in (found.recall, found.precision)),
            *(100 * share for share in (found.waiting, found.waiting_on)),
            *(100 * share for share in (found.comma_recall, found.comma_precision)),
            *(100 * share for share in (found.casing, found.questions)),
        )
