"""Forced decoding: the losses, reads and states of a model on given translations."""

from collections.abc import Iterator, Sequence
from typing import Any

import torch

from hmt.models.model import Model
from hmt.streaming.engine import Engine
from hmt.systems.batch import make_batch
from hmt.text.symbols import EOS


def forced(
    model: Model, sources: Sequence[str], targets: Sequence[str], knobs: Any, batch: int = 64
) -> Iterator[dict[str, Any]]:
    """Yield per pair its losses, the reads of the policy, and what `inspect` shows of its states.

    Losses are sums over the sentence. `log_prob` is that of each target token at the moment at
    which the policy writes it.
    """
    source_ids = model.source_tokenizer.encode_batch(list(sources))
    target_ids = [[*ids, EOS] for ids in model.target_tokenizer.encode_batch(list(targets))]
    device = model.system.transformers[0].output.weight.device
    for start in range(0, len(source_ids), batch):
        some = slice(start, start + batch)
        rows = make_batch([[*ids, EOS] for ids in source_ids[some]], target_ids[some], device)
        with torch.inference_mode():
            losses = {name: p.tolist() for name, p in model.system.loss(rows, knobs).terms.items()}
            shown = model.system.inspect(rows, knobs)
        engine = Engine(model.system, slots=len(shown))
        streams = dict(engine.translate(source_ids[some], knobs, target_ids[some]))
        for n, seen in enumerate(shown):
            yield {
                "index": start + n,
                "loss": {name: values[n] for name, values in losses.items()},
                "reads": streams[n].reads,
                **seen,
                "log_prob": streams[n].log_probs,
                "target_tokens": [model.target_tokenizer.piece(t) for t in streams[n].target],
            }
