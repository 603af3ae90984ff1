"""Validation during training: quality and latency of streamed translations of held-out pairs."""

import dataclasses

from hmt.metrics.scores import score
from hmt.models.model import Model
from hmt.streaming.engine import Engine
from hmt.systems.contract import System
from hmt.training.validation import Slice

SLOTS = 64


def streamed(system: System, data: Slice) -> dict[str, float]:
    """BLEU, chrF and AL in tokens of a slice, translated as if it arrived word by word."""
    model = Model(system, data.tokenizers, {})
    source_tokenizer, target_tokenizer = data.tokenizers
    numbers = data.sentences.tolist()
    sources = [data.corpus.source(n)[:-1].tolist() for n in numbers]
    engine = Engine(system, slots=min(SLOTS, len(sources)))
    records = []
    for n, stream in engine.translate(sources, system.knobs()):
        reference = target_tokenizer.decode(data.corpus.target(numbers[n]).tolist())
        record = model.record(stream, source_tokenizer.decode(sources[n]), n)
        records.append(dataclasses.replace(record, reference=reference))
    point = score(records, resamples=0)
    latency = point["latency"]["token"]["AL"]
    figures = {**point["quality"], "AL": latency}
    return {name: value for name, value in figures.items() if value is not None}
