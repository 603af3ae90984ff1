"""A model: a system with the tokenizers of its two languages, as `hmt.load` gives it."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from hmt.errors import UserError
from hmt.streaming.engine import Engine
from hmt.streaming.record import Record
from hmt.streaming.session import MAX_SENTENCE_TOKENS, Session
from hmt.systems.directory import load_system
from hmt.systems.system import Stream, System
from hmt.text.corpus import open_tokenizers
from hmt.text.tokenizer import Tokenizer
from hmt.text.words import word_ends


class Model:
    """Anything that translates: give it words through a session, or whole sentences."""

    def __init__(
        self,
        system: System,
        tokenizers: tuple[Tokenizer, Tokenizer],
        config: dict[str, Any],
    ) -> None:
        dims = system.parts[0].dims
        sizes = (dims.source_vocabulary, dims.target_vocabulary)
        for side, tokenizer, size in zip(("source", "target"), tokenizers, sizes, strict=True):
            if tokenizer.size != size:
                raise UserError(
                    f"The {side} tokenizer has {tokenizer.size} symbols but the model {size}: they "
                    "do not belong together; put back the tokenizer the model was trained with."
                )
        self.system = system.eval()
        self.source_tokenizer, self.target_tokenizer = tokenizers
        self.config = config

    def knobs(self, **chosen: Any) -> Any:
        """Inference settings: the model's own, with some chosen anew."""
        return self.system.knobs(**{**self.config.get("knobs", {}), **chosen})

    def session(self, **knobs: Any) -> Session:
        """A live translation of its own."""
        return Session(self, Engine(self.system), self.knobs(**knobs))

    def translate(self, lines: Sequence[str], batch: int = 64, **knobs: Any) -> list[Record]:
        """Simulate streaming of whole sentences, `batch` at a time; records in order."""
        records = dict(self.translate_each(lines, batch, **knobs))
        return [records[n] for n in range(len(lines))]

    def translate_each(
        self, lines: Sequence[str], batch: int = 64, **knobs: Any
    ) -> Iterator[tuple[int, Record]]:
        """The same, each record as soon as it is there."""
        sources = self.source_tokenizer.encode_batch(list(lines))
        for n, source in enumerate(sources):
            if len(source) >= MAX_SENTENCE_TOKENS:
                raise UserError(
                    f"Sentence {n + 1} has {len(source)} tokens; at most "
                    f"{MAX_SENTENCE_TOKENS - 1} can be translated at once: cut it into sentences."
                )
        engine = Engine(self.system, slots=max(1, min(batch, len(lines))))
        for n, stream in engine.translate(sources, self.knobs(**knobs)):
            yield n, self.record(stream, lines[n], n)

    def record(self, stream: Stream, source: str, index: int = 0) -> Record:
        """What one stream did, told in words and tokens."""
        start = stream.arrived_at[0] if stream.arrived_at else 0.0
        states = stream.states[: len(stream.target)]
        return Record(
            index=index,
            source=source,
            prediction=self.target_tokenizer.decode(stream.target),
            source_tokens=[self.source_tokenizer.piece(t) for t in stream.source],
            target_tokens=[self.target_tokenizer.piece(t) for t in stream.target],
            reads=list(stream.reads),
            source_word_ends=word_ends(self.source_tokenizer, stream.source),
            target_word_ends=word_ends(self.target_tokenizer, stream.target),
            confidences=[[seen[t] for t in sorted(seen)] for seen in states],
            moments=[sorted(seen) for seen in states],
            log_probs=list(stream.log_probs),
            times=[t - start for t in stream.written_at],
            arrivals=[t - start for t in stream.arrived_at],
            settings=asdict(stream.knobs),
        )


def load(path: str | Path | None = None, device: str = "cpu") -> Model:
    """A model from its directory (or the one that ships)."""
    if path is None:
        raise UserError("Name a model directory: no model ships with this version yet.")
    directory = Path(path)
    system, config = load_system(directory)
    return Model(system.to(torch.device(device)), open_tokenizers(directory), config)
