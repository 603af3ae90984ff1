"""Slots that come and go: other numbers of slots, other engines, the same text."""

import mmap
import random
from pathlib import Path

import pytest
from lively import HMT_SYMBOLS, lively, lively_hmt, random_tokens

from hmt.models.model import Model
from hmt.streaming.engine import Engine
from hmt.streaming.events import Written
from hmt.streaming.live import Live
from hmt.systems.contract import of_some_type
from hmt.systems.hmt import HMT
from hmt.text.tokenizer import train_bpe

TEXT = ["Nolu ka, besi tarum!", "Ka besi nolu tarum, 12 pelo.", "Lim pelo-besi: tarum ka, nolu."]


@pytest.fixture(scope="module")
def system() -> HMT:
    return lively_hmt(3)


@pytest.mark.parametrize("name", ["hmt", "mma", "gma"])
def test_resizing_changes_nothing_but_memory(name: str) -> None:
    """Planted bugs: slots copied in another order; sums (HMT) or registers (MMA, GMA) forgotten."""
    system = of_some_type(lively_hmt(3)) if name == "hmt" else lively(name)
    draw = random.Random(1)
    symbols = system.transformer.dims.source_vocabulary
    sources = [random_tokens(draw, 30, symbols) for _ in range(5)]
    expected = {n: s.target for n, s in Engine(system, 5).translate(sources)}
    engine = Engine(system, 2)
    streams = [engine.open() for _ in range(2)]
    for at in range(30):
        if at in (3, 5, 9):
            engine.resize(at, streams[::-1])
            while engine.free and len(streams) < 5:
                streams.append(engine.open())
                engine.push(streams[-1], sources[len(streams) - 1][:at])
        for n, stream in enumerate(streams):
            if not stream.target_ended:
                engine.push(stream, sources[n][at : at + 1])
        engine.advance(streams)
    for stream in streams:
        if not stream.target_ended:
            engine.finish(stream)
    engine.advance(streams)
    assert {n: s.target for n, s in enumerate(streams)} == expected
    assert len({tuple(target) for target in expected.values()}) > 2


def test_memory_shrinks_when_nothing_long_is_open(system: HMT) -> None:
    """Planted bug: the new caches keep the old capacity."""
    engine = Engine(system, 8)
    small = engine.caches[0].bytes
    long = engine.open()
    engine.push(long, random_tokens(random.Random(2), 300, HMT_SYMBOLS))
    engine.advance([long])
    assert engine.caches[0].bytes > 2 * small
    engine.close(long)
    engine.resize(8, [])
    assert engine.caches[0].bytes == small
    assert len(engine.free) == 8


def test_room_that_nobody_uses_takes_no_memory(system: HMT) -> None:
    """Planted bugs: zeros are written into new caches; growing copies slots that are free."""
    status = Path("/proc/self/statm")
    if not status.exists():
        pytest.skip("needs /proc to see how much memory is in use")

    def resident() -> int:
        return int(status.read_text(encoding="ascii").split()[1]) * mmap.PAGESIZE

    before = resident()
    engine = Engine(system, 4000)
    stream = engine.open()
    engine.push(stream, random_tokens(random.Random(2), 300, HMT_SYMBOLS))
    engine.advance([stream])  # and the caches grow
    reserved = engine.caches[0].bytes
    assert reserved > 200e6
    assert resident() - before < reserved / 10


@pytest.mark.parametrize("cut", range(1, 9))
def test_a_sentence_goes_on_in_another_engine(cut: int) -> None:
    """Planted bugs: what was shown is shown again; words after the change are lost."""
    tokenizer = train_bpe(TEXT, 60)
    size = {"source_vocabulary": tokenizer.size, "target_vocabulary": tokenizer.size}
    model = Model(lively_hmt(5, 2, 3, **size), (tokenizer, tokenizer))
    words = " ".join(TEXT).split()[:10]

    def run(moves: bool) -> str:
        live = Live(model.engine(), model.tokenizers, model.knobs())
        text = ""
        for n, word in enumerate([*words, None]):
            live.end("finish") if word is None else live.hear(word)
            if moves and n == cut:
                assert live.rebuild(model.engine(2))
            while (stream := live.feed()) is not None:
                live.engine.advance([stream])
                text += "".join(e.text for e in live.collect() if isinstance(e, Written))
        return text

    assert run(True) == run(False) != ""
