"""A first policy: write a token once the model is sure of it.  Run: python examples/first_system.py

`Sure` is all there is to it.  The rest trains it on an invented language for a few seconds and
translates with it; `docs/architecture.md` explains the parts that it overrides.
"""

import argparse
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import ClassVar

import hmt
from hmt import toy
from hmt.model.dims import Dims
from hmt.systems.batch import Batch
from hmt.systems.contract import PassOutput
from hmt.systems.stream import Plan, Read, Stream, Write
from hmt.systems.token_system import TokenSystem, trial_plan
from hmt.text.prepare import Prepare, prepare
from hmt.training import parse_recipe, train


@dataclass(frozen=True)
class SureConfig:
    """What is decided in training."""

    dims: Dims
    label_smoothing: float = 0.1


@dataclass(frozen=True)
class SureKnobs:
    """What may be chosen for every translation."""

    threshold: float = 0.7  # probability of the best token that suffices to write it
    lag: int = 1  # in training: source tokens that y_1 sees


class Sure(TokenSystem[SureConfig, SureKnobs, None]):
    """Trained at every lag, written at the first moment that the model is sure at."""

    name: ClassVar[str] = "sure"
    Config: ClassVar[type] = SureConfig
    Knobs: ClassVar[type] = SureKnobs

    def sample(self, draw: random.Random, batch: Batch) -> SureKnobs:
        return SureKnobs(lag=draw.randint(1, 6))

    def needed(self, token: int, knobs: SureKnobs) -> int:
        return knobs.lag + token - 1

    def plan(self, stream: Stream[SureKnobs, None]) -> Plan | Read:
        return trial_plan(stream, first=stream.next_token)  # training knows no shorter lag

    def decide(
        self, streams: Sequence[Stream[SureKnobs, None]], plans: Sequence[Plan], output: PassOutput
    ) -> list[Read | Write]:
        best = output.transformer.output(output.last_rows()).softmax(-1).amax(-1).tolist()
        decisions: list[Read | Write] = []
        for stream, sureness in zip(streams, best, strict=True):
            writes = stream.source_read or sureness >= stream.knobs.threshold
            stream.note(stream.next_token, stream.read, 1.0 if stream.source_read else sureness)
            decisions.append(Write(0) if writes else Read(stream.read + 1))
        return decisions


def learn(folder: Path, updates: int) -> hmt.Model:
    """Text, prepared data and a trained model, all in one folder."""
    training, validation = (toy.write(folder, name, n) for name, n in (("train", 4000), ("v", 50)))
    text = *training, *validation, folder / "data"
    prepare(Prepare(*text, vocabulary="words", min_count=1, workers=1))
    small = {"width": 64, "ffn": 128, "heads": 4, "encoder_layers": 2, "decoder_layers": 2}
    schedule = {"updates": updates, "batch_tokens": 1000, "learning_rate": 3e-3, "warmup": 100}
    train(
        parse_recipe(
            {
                "output": str(folder / "model"),
                "data": {"directory": str(folder / "data")},
                "model": {"system": "first_system:Sure", "config": {"dims": small}},
                "training": {**schedule, "threads": 1},
            }
        )
    )
    return hmt.load(folder / "model", trust=True)  # trust: the model's code is this file


def main(updates: int) -> None:
    """Train, then translate word by word."""
    with TemporaryDirectory() as folder:
        model = learn(Path(folder), updates)
    for pair in toy.sentences(3, seed=4):
        session = model.session(threshold=0.7)
        shown = [f"{word}[{session.push(word)}]" for word in pair.source]
        print(" ".join(shown) + session.finish())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--updates", type=int, default=300)
    main(parser.parse_args().updates)
