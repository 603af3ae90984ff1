"""A model: a system with the tokenizers of its two languages, as `hmt.load` gives it."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import accumulate
from pathlib import Path
from typing import Any

import torch

from hmt.errors import UserError
from hmt.streaming.engine import Engine
from hmt.streaming.quantised import quantise
from hmt.streaming.ready import make_ready
from hmt.streaming.record import Record
from hmt.streaming.session import MAX_SENTENCE_TOKENS, Session
from hmt.systems.directory import load_system
from hmt.systems.system import Stream, System
from hmt.text.corpus import open_tokenizers
from hmt.text.sentences import SentenceCutter
from hmt.text.tokenizer import EOS, Tokenizer
from hmt.text.words import word_ends, word_outs

PRETRAINED = Path(__file__).parents[1] / "pretrained"
HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+")


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
        self.knobs()  # settings that do not fit are told now and not at the first sentence

    def knobs(self, **chosen: Any) -> Any:
        """Inference settings: the model's own, with some chosen anew."""
        return self.system.knobs(**{**self.config.get("knobs", {}), **chosen})

    def session(self, cuts_sentences: bool = False, **knobs: Any) -> Session:
        """A live translation of its own; for running text, cut where punctuation ends sentences."""
        cutter = SentenceCutter() if cuts_sentences else None
        return Session(self, self.engine(), self.knobs(**knobs), cutter)

    def engine(self, slots: int = 1) -> Engine:
        """An engine that writes as the model's configuration says."""
        return Engine(self.system, slots, avoids_loops=self.config.get("avoids_loops") is True)

    def translate(self, lines: Sequence[str], batch: int = 64, **knobs: Any) -> list[Record]:
        """Simulate streaming of whole sentences, `batch` at a time; records in order."""
        records = dict(self.translate_each(lines, batch, **knobs))
        return [records[n] for n in range(len(lines))]

    def translate_each(
        self, lines: Sequence[str], batch: int = 64, **knobs: Any
    ) -> Iterator[tuple[int, Record]]:
        """The same, each record as soon as it is there."""
        if isinstance(lines, str):
            raise UserError("One text was given; give a list of sentences, as in [text].")
        if batch < 1:
            raise UserError(f"batch = {batch}: give 1 or more sentences side by side.")
        sources = self.source_tokenizer.encode_batch(list(lines))
        for n, source in enumerate(sources):
            if len(source) >= MAX_SENTENCE_TOKENS:
                raise UserError(
                    f"Sentence {n + 1} has {len(source)} tokens; at most "
                    f"{MAX_SENTENCE_TOKENS - 1} can be translated at once: cut it into sentences."
                )
        settings = self.knobs(**knobs)
        said = [n for n, source in enumerate(sources) if source]
        nothing = Stream(slot=0, knobs=settings, source=[EOS], is_finished=True)
        for n, source in enumerate(sources):
            if not source:  # where nothing is said, nothing is written
                yield n, self.record(nothing, lines[n], n)
        engine = self.engine(max(1, min(batch, len(said))))
        for found, stream in engine.translate([sources[n] for n in said], settings):
            yield said[found], self.record(stream, lines[said[found]], said[found])

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
            source_word_ends=self._source_word_ends(stream, source),
            target_word_ends=word_ends(self.target_tokenizer, stream.target),
            target_word_outs=word_outs(self.target_tokenizer, stream.target),
            confidences=[[seen[t] for t in sorted(seen)] for seen in states],
            moments=[sorted(seen) for seen in states],
            log_probs=list(stream.log_probs),
            times=[t - start for t in stream.written_at],
            arrivals=[t - start for t in stream.arrived_at],
            settings=asdict(stream.knobs),
        )

    def _source_word_ends(self, stream: Stream, source: str) -> list[int]:
        """Index of the last token of each source word; (words,)."""
        # Not from the pieces if it can be helped: an unknown piece may look like a word's end.
        ends = [
            end - 1
            for end in accumulate(len(self.source_tokenizer.encode(w)) for w in source.split())
        ]
        arrived = len(stream.source) - int(stream.is_finished)
        if (ends[-1] + 1 if ends else 0) == arrived:
            return ends
        return word_ends(self.source_tokenizer, stream.source)


def load(path: str | Path | None = None, device: str = "cpu", int8: bool = False) -> Model:
    """A model: the one that ships, a model directory, or "user/model" on the Hugging Face hub.

    `int8` stores linear layers in eight bits: large models become about twice as fast on a CPU.
    """
    if int8 and torch.device(device).type != "cpu":
        raise UserError(f"int8 is for the CPU, not for {device}: leave out one of the two.")
    directory = PRETRAINED if path is None else Path(path)
    if path is not None and not directory.exists() and HUB_NAME.fullmatch(str(path)):
        directory = fetch(str(path))
    system, config = load_system(directory)
    system.to(torch.device(device))
    if int8:
        quantise(system)
    elif torch.device(device).type == "cpu":
        make_ready(system)
    return Model(system, open_tokenizers(directory), config)


def fetch(name: str) -> Path:
    """The local copy of a model on the hub."""
    try:
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import HfHubHTTPError
    except ImportError:
        raise UserError(
            f"{name} is no model directory; to look for it on the hub, install hmt[hub]."
        ) from None
    try:
        return Path(snapshot_download(name))
    except (HfHubHTTPError, OSError, ValueError) as error:
        reason = str(error).strip().splitlines()[0]
        raise UserError(f"{name} is no model directory, and the hub has none: {reason}") from None
