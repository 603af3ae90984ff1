"""A model: a system with the tokenizers of its two languages, as `hmt.load` returns it."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch

from hmt.errors import UserError
from hmt.fast.int8 import quantise
from hmt.fast.prepacked import make_ready
from hmt.limits import MAX_SENTENCE_TOKENS, MOST_SLOTS
from hmt.model.segmenter import Segmenter
from hmt.model.transformer import Transformer
from hmt.models.directory import ModelConfig, describe, load_segmenter, load_system
from hmt.models.hub import fetch, is_hub_name
from hmt.models.weights import count_parameters
from hmt.plain import shortened
from hmt.streaming.choice import ChoiceRules
from hmt.streaming.engine import Engine
from hmt.streaming.events import Event
from hmt.streaming.live import SentenceRules
from hmt.streaming.record import Record
from hmt.streaming.recording import record_of
from hmt.streaming.session import KEPT_SENTENCES, Session
from hmt.systems.contract import System, of_some_type
from hmt.systems.parameters import ConfigT, KnobsT, MemoryT
from hmt.systems.stream import Stream
from hmt.text.capitals import CapitalsReader
from hmt.text.language_pair import Tokenizers, open_tokenizers
from hmt.text.symbols import EOS

PRETRAINED = Path(__file__).parents[1] / "pretrained"


class Model:
    """A trained system that translates words through a session, or whole sentences."""

    def __init__(
        self,
        system: System[ConfigT, KnobsT, MemoryT],
        tokenizers: Tokenizers,
        config: ModelConfig | None = None,
        segmenter: Segmenter | None = None,
    ) -> None:
        dims = system.transformers[0].dims
        sizes = (dims.source_vocabulary, dims.target_vocabulary)
        for side, tokenizer, size in zip(("source", "target"), tokenizers, sizes, strict=True):
            if tokenizer.size != size:
                raise UserError(
                    f"The {side} tokenizer has {tokenizer.size} symbols but the model {size}: they "
                    "do not belong together; restore the tokenizer the model was trained with."
                )
        self.system = of_some_type(system.eval())
        self._size = count_parameters(self.system)
        self.tokenizers = tokenizers
        self.source_tokenizer, self.target_tokenizer = tokenizers
        self.config = config or describe(system)
        self.segmenter = segmenter  # finds the sentences of text without punctuation
        self.knobs()  # refuses invalid settings now, not at the first sentence

    def __repr__(self) -> str:
        """System, languages, size and settings on one line."""
        languages = "-".join(self.config.languages) if self.config.languages else "no languages"
        knobs = ", ".join(f"{name}={value}" for name, value in vars(self.knobs()).items())
        return f"<Model: {self.config.system}, {languages}, {self._size:,} parameters; {knobs}>"

    def knobs(self, **chosen: Any) -> Any:
        """Inference settings: the model's defaults, some of them replaced."""
        return self.system.knobs(**{**self.config.knobs, **chosen})

    def session(
        self,
        *,
        by_line: bool = False,
        listener: Callable[[Event], None] | None = None,
        keep: int = KEPT_SENTENCES,
        **knobs: object,
    ) -> Session:
        """A live translation of running text; with `by_line`, `finish` alone ends sentences.

        `listener` is called with every event; events and records of `keep` sentences are kept.
        """
        return Session(
            self.engine(),
            self.tokenizers,
            partial(self.knobs, **knobs),
            rules=SentenceRules(by_line=by_line, segmenter=self.segmenter),
            listener=listener,
            keep=keep,
        )

    def engine(self, slots: int = 1) -> Engine:
        """An engine for this model that writes by the rules of its configuration."""
        config = self.config
        rules = ChoiceRules.of(self.target_tokenizer, config.avoids_loops, config.end_penalty)
        return Engine(self.system, slots, rules=rules)

    def translate(self, lines: Sequence[str], batch: int = 64, **knobs: Any) -> list[Record]:
        """Simulate streaming of whole sentences, `batch` at a time; records in order.

        The text of a translation is `record.prediction`; its reads, confidences and times are the
        other fields of `hmt.Record`.
        """
        records = dict(self.translate_each(lines, batch, **knobs))
        return [records[n] for n in range(len(records))]

    def translate_each(
        self, lines: Sequence[str], batch: int = 64, **knobs: Any
    ) -> Iterator[tuple[int, Record]]:
        """Like `translate`, but yields each record with its index as soon as it is complete."""
        if isinstance(lines, str):
            raise UserError("A single text was given; give a list of sentences, as in [text].")
        lines = _texts(lines)
        if not isinstance(batch, int) or not 1 <= batch <= MOST_SLOTS:
            raise UserError(
                f"batch = {shortened(batch)}: give 1 to {MOST_SLOTS:,} sentences side by side."
            )
        sources = self.source_tokenizer.encode_batch(list(lines))
        for n, source in enumerate(sources):
            if len(source) >= MAX_SENTENCE_TOKENS:
                raise UserError(
                    f"Sentence {n + 1} has {len(source)} tokens; at most {MAX_SENTENCE_TOKENS - 1} "
                    "can be translated at once: split it into sentences."
                )
        settings = self.knobs(**knobs)
        spoken = [n for n, source in enumerate(sources) if source]
        nothing: Stream = Stream(
            slot=0, knobs=settings, memory=None, source=[EOS], source_ended=True
        )
        for n, source in enumerate(sources):
            if not source:  # without source, nothing is written
                yield n, self.record(nothing, lines[n], n)
        engine = self.engine(max(1, min(batch, len(spoken))))
        for found, stream in engine.translate([sources[n] for n in spoken], settings):
            yield spoken[found], self.record(stream, lines[spoken[found]], spoken[found])

    def record(self, stream: Stream, source: str, index: int = 0) -> Record:
        """The record of a stream, in words and tokens."""
        return record_of(stream, self.tokenizers, source, index)


def _texts(lines: object) -> list[str]:
    """Accept a list of sentences and nothing else."""
    if not isinstance(lines, Iterable):
        raise UserError(f"translate takes a list of sentences, not {type(lines).__name__}.")
    texts = list(lines)
    for n, text in enumerate(texts, 1):
        if not isinstance(text, str):
            raise UserError(f"Sentence {n} is {type(text).__name__}, not text: give a str.")
    return texts


def load(
    path: str | Path | None = None, device: str = "cpu", int8: bool = False, trust: bool = False
) -> Model:
    """A model: the one that ships, a model directory, or "hf:user/name[@revision]" on the hub.

    `int8` stores linear layers in eight bits: large models run about twice as fast on a CPU.
    `trust` allows a model whose system is code outside hmt, which runs when it is loaded.
    """
    if int8 and str(device).partition(":")[0] != "cpu":
        raise UserError(f"int8 is for the CPU, not for {device}: leave out one of the two.")
    place = _device(device)
    if not isinstance(path, str | Path | None):
        raise UserError(f"load takes a path, not {type(path).__name__}: name a model directory.")
    directory = PRETRAINED if path is None else Path(path)
    if path is not None and is_hub_name(str(path)):
        directory = fetch(str(path))
    system, config = load_system(directory, trust)
    system.to(place)
    source, target = open_tokenizers(directory)
    segmenter = load_segmenter(directory, system.transformers[0].dims)
    model = Model(system, (CapitalsReader(source.backend), target), config, segmenter)
    if int8:  # counted before: in eight bits some weights exist twice
        quantise(module for module in list(system.modules()) if isinstance(module, Transformer))
    elif place.type == "cpu":
        make_ready(system)
    if segmenter is not None:  # which stays on the CPU
        make_ready(segmenter)
    return model


def _device(name: str) -> torch.device:
    """A device of this machine; any other name is refused."""
    try:
        device = torch.device(name)
    except (RuntimeError, TypeError):
        raise UserError(f"There is no device {name!r}; name one like cpu or cuda:0.") from None
    # without an index it is the current one; cuda counts zero devices where there is no GPU
    is_there = device.type == "cuda" and (device.index or 0) < torch.cuda.device_count()
    if device.type != "cpu" and not is_there:
        raise UserError(f"The device {name!r} is not available on this machine; use cpu.")
    return device
