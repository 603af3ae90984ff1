"""The conductor: fair rounds, faults that stay alone, slow readers, memory that comes back."""

import asyncio
import random
import socket
import time
from collections.abc import Sequence
from typing import Any

import pytest

pytest.importorskip("starlette", reason="the extra `serve` is not installed")
pytest.importorskip("msgspec", reason="the extra `serve` is not installed")

from doubtful import Doubtful
from live_server import WORDS, Running, Talk, eventually, piped, serving, small_model, talking
from websockets.asyncio.client import connect

from hmt.models.model import Model
from hmt.server.channels import (
    Channel,
    End,
    Failed,
    FinishedSentence,
    HeardWord,
    Mark,
    Opening,
    Output,
    Text,
)
from hmt.server.conductor import FIRST_SLOTS, Conductor
from hmt.streaming.engine import Engine
from hmt.systems.stream import Stream


@pytest.fixture(scope="module")
def model() -> Model:
    return small_model()


class Stage:
    """A conductor whose rounds the test runs by hand."""

    def __init__(self, model: Model) -> None:
        self.heard: dict[Channel, list[Output]] = {}
        self.conductor = Conductor(model, self._take)

    def _take(self, batch: Any) -> None:
        for channel, outputs in batch:
            self.heard.setdefault(channel, []).extend(outputs)

    def open(self, **options: Any) -> Channel:
        opening = Opening(self.conductor.model.knobs(), **options)
        channel = self.conductor.open(opening, lambda outputs: None)
        self.heard[channel] = []
        return channel

    def text(self, channel: Channel) -> str:
        parts = [output for output in self.heard[channel] if isinstance(output, Text)]
        return "".join(event.text for part in parts for event in part.events)

    def step(self) -> None:
        batch: Any = []
        self.conductor._step(batch)
        self._take(batch)

    def run(self, *until: Channel) -> int:
        """Rounds until these channels have come to their mark."""
        for rounds in range(20_000):
            if all(any(isinstance(o, Mark) for o in self.heard[channel]) for channel in until):
                return rounds
            self.step()
        raise AssertionError("never done")


def say(channel: Channel, words: Sequence[str]) -> None:
    channel.put([HeardWord(word, None, 0.0) for word in words])
    channel.put([End("pause", "pause"), Mark("end")])


def draw(seed: int, count: int) -> list[str]:
    return random.Random(seed).choices(WORDS, k=count)


def spoken(seed: int, count: int) -> list[str]:
    """Words without punctuation."""
    return random.Random(seed).choices(["nolu", "ka", "besi", "tarum", "pelo"], k=count)


def in_doubt(model: Model) -> Model:
    """The model with a segmenter that is often unsure."""
    segmenter = Doubtful(model.tokenizers[0])
    return Model(model.system, model.tokenizers, model.config, segmenter=segmenter)


def test_words_that_wait_for_the_next_are_neither_lost_nor_worked_on(model: Model) -> None:
    """Planted bug: a round is asked for again and again until the next word comes."""
    doubtful = in_doubt(model)
    stage, waited = Stage(doubtful), 0
    for seed in range(4):
        words = spoken(seed, 10)
        channel = stage.open()
        for word in words:  # one after the other, until there is nothing to do
            channel.put([HeardWord(word, None, 0.0)])
            for _ in range(100):
                stage.step()
                if not channel.has_work:
                    break
            assert not channel.has_work
            assert channel.live is not None
            waited += channel.live.waiting_words
        channel.put([End("pause", "pause"), Mark("end")])
        stage.run(channel)
        together = stage.open()
        say(together, words)
        stage.run(together)
        for each in (channel, together):
            ended = [o.ended for o in stage.heard[each] if isinstance(o, FinishedSentence)]
            assert " ".join(event.source for event in ended).split() == words
            assert stage.text(each) == piped(doubtful, words)
    assert waited > 5


def test_a_word_that_waits_is_dropped_with_its_sentence(model: Model) -> None:
    """Planted bug: it is not counted, and the words after it are taken for earlier ones."""
    doubtful = in_doubt(model)
    stage, dropped = Stage(doubtful), 0
    for seed in range(12):
        words = spoken(seed, 6)
        channel = stage.open()
        channel.put([HeardWord(word, None, 0.0) for word in words])
        for _ in range(100):
            stage.step()
        assert channel.live is not None
        waits = channel.live.waiting_words
        dropped += waits
        channel.skip()
        stage.step()
        assert channel.live.waiting_words == 0
        stage.heard[channel].clear()
        channel.put([HeardWord("ka", None, 7.0), End("pause", "pause"), Mark("end")])
        stage.run(channel)
        needed = [o.needed for o in stage.heard[channel] if isinstance(o, Text)]
        assert needed and set(needed) == {7.0}
    assert dropped > 2


def test_a_long_paste_delays_others_by_at_most_two_rounds(model: Model) -> None:
    """Planted bug: a channel's whole queue is worked on before the others."""
    alone = Stage(model)
    channel = alone.open()
    say(channel, draw(1, 8))
    expected = alone.run(channel)
    stage = Stage(model)
    paste, other = stage.open(), stage.open()
    say(paste, draw(2, 10_000))
    for _ in range(20):
        stage.step()
    say(other, draw(1, 8))
    assert stage.run(other) <= expected + 2
    assert stage.text(other) == alone.text(channel)
    assert paste.queued > 9_000


def test_words_that_wait_are_dropped_unread(model: Model) -> None:
    """As `clear` promises. Planted bug: they are translated before the sentence is dropped."""
    stage = Stage(model)
    channel = stage.open()
    channel.put([HeardWord(word, None, 0.0) for word in ("Nolu", "ka.", "Besi", "tarum.")])
    stage.step()
    assert channel.queued == 3
    channel.skip()
    channel.put([Mark("end")])
    stage.run(channel)
    assert not any(isinstance(output, FinishedSentence) for output in stage.heard[channel])


def test_a_speaker_who_pauses_does_not_delay_the_translation(model: Model) -> None:
    """Planted bug: what the end of a sentence brings is timed from its last word."""
    stage = Stage(model)
    channel = stage.open()
    channel.put([HeardWord(word, None, time.monotonic() - 3600) for word in draw(3, 6)])
    channel.put([Mark("read")])
    stage.run(channel)
    stage.heard[channel].clear()
    channel.put([End("pause", "pause"), Mark("end")])
    stage.run(channel)
    texts = [output for output in stage.heard[channel] if isinstance(output, Text)]
    assert texts
    assert all(text.given is not None and text.now - text.given < 1800 for text in texts)


def test_text_to_translate_waits_for_who_is_live(model: Model) -> None:
    """Of each round at most about a quarter. Planted bug: no class of its own."""
    stage = Stage(model)
    live = [stage.open() for _ in range(6)]
    batch = [stage.open(is_live=False) for _ in range(12)]
    for channel in (*live, *batch):
        say(channel, draw(3, 8))
    stage.step()
    for _ in range(3):
        chosen = stage.conductor._chosen()
        assert set(live) <= set(chosen)
        assert sum(not channel.is_live for channel in chosen) <= 2
        stage.step()
    stage.run(*live, *batch)
    assert len({stage.text(channel) for channel in (*live, *batch)}) == 1


def test_slots_grow_and_come_back(model: Model, monkeypatch: Any) -> None:
    """Planted bug: slots are never given back."""
    few = 64
    monkeypatch.setattr("hmt.server.conductor.FIRST_SLOTS", few)
    stage = Stage(model)
    channels = [stage.open() for _ in range(5 * few)]
    for channel in channels:
        channel.put([HeardWord(word, None, 0.0) for word in ("nolu", "ka", "besi")])
    for _ in range(20):
        stage.step()
    engine = stage.conductor.engine
    assert engine.slots == 8 * few
    for channel in channels:
        channel.close()
    stage.step()
    stage.conductor._tidy()
    assert engine.slots == len(engine.free) == few
    assert not stage.conductor._channels


def test_memory_of_slots_that_were_used_comes_back(model: Model) -> None:
    """Planted bug: slots keep their memory as long as their number need not change."""
    stage = Stage(model)
    channels = [stage.open() for _ in range(FIRST_SLOTS)]
    for channel in channels:
        channel.put([HeardWord(word, None, 0.0) for word in ("nolu", "ka", "besi")])
    for _ in range(20):
        stage.step()
    caches = stage.conductor.engine.caches
    stage.conductor._tidy()
    assert stage.conductor.engine.caches is caches
    for channel in channels[1:]:
        channel.close()
    stage.step()
    stage.conductor._tidy()
    assert stage.conductor.engine.caches is not caches
    say(channels[0], ["tarum", "nolu"])
    stage.run(channels[0])


class Faulty(Engine):
    """Fails in every round that a certain stream takes part in."""

    poison: int

    def round(self, streams: Sequence[Stream]) -> list[Stream]:
        if any(self.poison in stream.source for stream in streams):
            raise RuntimeError("planted")
        return super().round(streams)


def test_a_fault_ends_one_session_and_no_other(model: Model, monkeypatch: Any) -> None:
    """Planted bugs: all streams of the round fail; text of the others is repeated or lost."""
    encode = model.source_tokenizer.encode
    others = {token for word in WORDS if word != "12" for token in encode(word)}
    Faulty.poison = next(token for token in encode("12") if token not in others)
    monkeypatch.setattr(model, "engine", lambda slots=1: Faulty(model.system, slots))
    stage = Stage(model)
    channels = [stage.open() for _ in range(5)]
    words = [[word for word in draw(n, 8) if word != "12"] for n in range(5)]
    words[3].insert(4, "12")
    for channel, own in zip(channels, words, strict=True):
        say(channel, own)
    well = [channel for n, channel in enumerate(channels) if n != 3]
    stage.run(*well)
    assert any(isinstance(output, Failed) for output in stage.heard[channels[3]])
    monkeypatch.undo()
    for n, channel in enumerate(channels):
        if n != 3:
            assert stage.text(channel) == piped(model, words[n])
    assert channels[3] not in stage.conductor._channels


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_the_engine_s_thread_survives_a_failure_and_gives_up_after_many(
    model: Model, monkeypatch: Any
) -> None:
    """Planted bugs: the thread dies of the first one; the text of that round is lost."""
    stage = Stage(model)
    conductor, tidy, failures = stage.conductor, stage.conductor._tidy, [1, 0, 1, 1, 0]

    def fails_at_times() -> None:
        if failures and failures.pop():
            raise MemoryError("planted")
        tidy()

    monkeypatch.setattr(conductor, "_tidy", fails_at_times)
    monkeypatch.setattr("hmt.server.conductor.TIDY_SECONDS", 0.0)
    channel = stage.open()
    say(channel, draw(1, 12))
    asyncio.run(conductor.start())
    heard = stage.heard[channel]
    assert eventually(lambda: any(isinstance(output, Mark) for output in heard))
    assert stage.text(channel) == piped(model, draw(1, 12))
    assert eventually(lambda: not failures) and conductor.is_alive
    monkeypatch.setattr(conductor, "_tidy", lambda: [][0])
    assert eventually(lambda: not conductor.is_alive)


@pytest.mark.parametrize(("stall_seconds", "pending_bytes"), [(600, 20_000), (2, 10**9)])
def test_a_reader_that_does_not_read_costs_nobody_anything(
    model: Model, stall_seconds: int, pending_bytes: int
) -> None:
    """It is cut off, for its size or its time; meanwhile others are served.

    Planted bugs: an endless buffer, no timeout.
    """

    async def run(server: Running) -> None:
        narrow = socket.socket()
        narrow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        narrow.connect(("127.0.0.1", server.port))
        narrow.setblocking(False)
        silent = connect(server.url, sock=narrow, max_queue=1, ping_interval=None)
        async with silent as lazy, talking(server) as keen:
            session = next(s for s in server.service.sessions if s.id != _id(keen))
            talk = Talk(lazy)
            await talk.send("session.update", session={"hmt": {"detail": True, "echo": True}})
            most = 0
            for _ in range(400):
                if not session.is_over:
                    await talk.append("Nolu ka. " * 5)
                most = max(most, session.outbox.waiting_bytes)
                await keen.append("besi ")
                await keen.until("session.input_text.accepted")
                if session.is_over:
                    break
            assert session.is_over and most < pending_bytes + 16_384
            await keen.finish()
            heard = [done["hmt"]["source"] for done in keen.of("session.output_transcript.done")]
            assert set(" ".join(heard).split()) == {"besi"}
            lazy.transport.abort()

    unlimited = {"words_per_second": 10_000, "burst_words": 10_000}
    limits = {"stall_seconds": stall_seconds, "pending_bytes": pending_bytes}
    with serving(model, send_bytes=4096, **unlimited, **limits) as server:
        asyncio.run(run(server))


def _id(talk: Talk) -> str:
    return str(talk.events[0]["session"]["id"])


def test_clients_that_vanish_leave_nothing_behind(model: Model) -> None:
    """Planted bug: sessions of lost connections are kept for ever."""

    async def run(server: Running) -> None:
        for _ in range(12):
            async with talking(server) as talk:
                await talk.append("Nolu ka besi ")
                talk.websocket.transport.abort()

    with serving(model, resume_seconds=1) as server:
        asyncio.run(run(server))
        service = server.service
        conductor = service.served["xx-yy"].conductor
        assert isinstance(conductor, Conductor)
        assert eventually(lambda: not service.sessions)
        assert eventually(lambda: not conductor._channels)
        assert len(conductor.engine.free) == conductor.engine.slots
        assert eventually(lambda: service.sockets == 0)
        assert not service.guests._counts
