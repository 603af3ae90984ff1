"""The conductor: owns a model's engine and advances all channels together.

Each round gives every channel its next word and computes one pass for all of them; words that
arrive meanwhile join the next round. So nobody waits for more than the current round and their own,
however much another client has sent.
"""

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Protocol

from hmt.errors import UserError
from hmt.models.model import Model
from hmt.server.channels import Channel, Failed, Opening, Output
from hmt.server.delays import Delays
from hmt.streaming.engine import Engine
from hmt.streaming.live import SentenceRules
from hmt.systems.stream import Stream

logger = logging.getLogger("hmt.server")

# On a CPU, slots that were never used take no memory, but everybody waits while more are made:
# 257 ms for twice as many when 200 speakers began.
FIRST_SLOTS = 256
BATCH_SHARE = 3  # live channels per batch channel in the same round
BATCH_ALONE = 16
TIDY_SECONDS = 5.0
MANY = 30  # channels from which pausing to gather more words pays
MOST_FAILURES = 3  # in a row, after which it gives up
LONG = 256  # rows per slot from which freeing memory is worthwhile
FEW = 16  # slots that may keep their memory while nobody uses them

Batch = list[tuple[Channel, list[Output]]]


class Observer:
    """Receives measurements of rounds, as the metrics of a server do."""

    def round(self, seconds: float, streams: int) -> None:
        """A round is over."""

    def delay(self, seconds: float) -> None:
        """A word waited this long until its first round was over."""

    def fault(self) -> None:
        """A round failed."""


class Bell(Protocol):
    """Tells a conductor that there is something to do."""

    def wait(self, seconds: float) -> None:
        """Wait for it, but no longer than this; called before every round."""

    def ring(self) -> None:
        """Report that there is something to do."""


class ThreadBell:
    """Rung by another thread."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self.ring = self._event.set

    def wait(self, seconds: float) -> None:
        """Wait until it is rung, or return at once if it was since the last wait."""
        if seconds:
            self._event.wait(seconds)
        self._event.clear()


@dataclass(frozen=True)
class Usage:
    """Slots of an engine, and their memory."""

    slots: int
    free: int
    cache_bytes: int


class Conductor:
    """The engine of one model, and the thread that runs it unless its owner does."""

    def __init__(
        self,
        model: Model,
        deliver: Callable[[Batch], None],
        *,
        observer: Observer | None = None,
        gather_seconds: float = 0.0,
        max_tokens: int = 256,
        bell: Bell | None = None,
    ) -> None:
        self.model, self._deliver = model, deliver
        self.observer = observer or Observer()
        self._gather, self._max_tokens = gather_seconds, max_tokens
        self.engine = model.engine(FIRST_SLOTS)
        self.rounds = 0
        self._most_taken = 0  # slots at once, since memory was last freed
        self._arrivals: deque[Channel] = deque()
        self._bell = bell or ThreadBell()
        self._channels: dict[Channel, None] = {}
        self._due: dict[Channel, None] = {}
        self._delays = Delays()
        self._tidied_at = time.monotonic()
        self._is_stopping = False
        self._thread = threading.Thread(target=self.run, name="conductor", daemon=True)

    # ---- called by the event loop

    async def start(self) -> None:
        """Warm up and start the thread."""
        await asyncio.to_thread(self.warm_up)
        self._thread.start()

    async def stop(self) -> None:
        """End the thread after its round."""
        self._is_stopping = True
        self._bell.ring()
        if self._thread.is_alive():
            await asyncio.to_thread(self._thread.join, timeout=10)

    @property
    def is_alive(self) -> bool:
        """Whether the thread is running."""
        return self._thread.is_alive()

    def open(self, opening: Opening, deliver: Callable[[list[Output]], None]) -> Channel:
        """A new channel; it takes a slot only while a sentence is open."""
        rules = SentenceRules(
            cuts=opening.cuts, max_tokens=self._max_tokens, segmenter=self.model.segmenter
        )
        return Channel(self._wake, self.model.tokenizers, rules, opening, deliver)

    def delay(self) -> float:
        """How long recent words waited, in seconds (p95)."""
        return self._delays.p95()

    @property
    def usage(self) -> Usage:
        """The slots of the engine at the moment."""
        engine = self.engine
        return Usage(engine.slots, len(engine.free), sum(cache.bytes for cache in engine.caches))

    def _wake(self, channel: Channel) -> None:
        self._arrivals.append(channel)
        self._bell.ring()

    # ---- the thread

    def warm_up(self) -> None:
        """Translate something, so that the first words of a client are not the slowest."""
        session = self.model.session()
        session.push("1 2 3 4 5 6 7 8")
        session.finish()

    def run(self) -> None:
        """Conduct until stopped; fails only after many failures in a row."""
        failures = 0
        while not self._is_stopping:
            try:
                self._turn()
                failures = 0
            except Exception:
                failures += 1
                if failures > MOST_FAILURES:
                    raise  # after this the server is neither ready nor live
                logger.exception("The engine failed; all open sentences are read again.")
                self.observer.fault()
                batch: Batch = []
                self._recover(batch)
                self._deliver(batch)

    def _turn(self) -> None:
        is_idle = not self._due and not self._arrivals
        self._bell.wait(TIDY_SECONDS if is_idle else 0.0)
        if is_idle:
            self._tidy()
        if self._gather and len(self._channels) > MANY:
            time.sleep(self._gather)
            self._bell.wait(0.0)
        batch: Batch = []
        try:
            self._step(batch)
        finally:  # text already written must be delivered
            if batch:
                self._deliver(batch)
        if time.monotonic() - self._tidied_at > TIDY_SECONDS:
            self._tidy()

    def _step(self, batch: Batch) -> None:
        """One round: give everybody a word, compute one pass for all, collect the output."""
        start = time.monotonic()
        while self._arrivals:
            channel = self._arrivals.popleft()
            if not channel.has_left:
                self._due[channel] = self._channels[channel] = None
        running = list(self._prepared(self._chosen(), batch))
        if running:
            self._advance(running, batch)
            now = time.monotonic()
            self.rounds += 1
            self._most_taken = max(self._most_taken, self.engine.slots - len(self.engine.free))
            self.observer.round(now - start, len(running))
            for channel, _ in running:
                for arrived in channel.just_heard:
                    self.observer.delay(now - arrived)
                    self._delays.add(now, now - arrived)

    def _chosen(self) -> list[Channel]:
        """All live channels, and as many others as do not slow them down."""
        live = [channel for channel in self._due if channel.is_live]
        room = max(1, len(live) // BATCH_SHARE) if live else BATCH_ALONE
        others = list(islice((c for c in self._due if not c.is_live), room))
        for channel in others:  # to the end of the queue
            del self._due[channel]
            self._due[channel] = None
        return live + others

    def _prepared(
        self, channels: Iterable[Channel], batch: Batch
    ) -> Iterable[tuple[Channel, Stream]]:
        for channel in channels:
            try:
                answers = channel.prepare(self.engine, self._grow)
                stream = None if channel.has_left else channel.feed()
            except Exception:
                self._fail(channel, batch)
                continue
            if answers:
                batch.append((channel, answers))
            if stream is not None:
                yield channel, stream
            elif not channel.has_work:
                del self._due[channel]
            if channel.has_left:
                self._forget(channel)

    def _advance(self, running: list[tuple[Channel, Stream]], batch: Batch) -> None:
        try:
            gone = {id(stream) for stream in self.engine.round([s for _, s in running])}
        except Exception:
            logger.exception("A round failed; its sentences are read again, each alone.")
            self.observer.fault()
            self._recover(batch)
            gone = {id(channel.stream) for channel, _ in running}
        for channel, stream in running:
            if channel.has_left:
                continue
            channel.is_going = id(channel.stream or stream) in gone
            try:
                outputs = channel.collect()
            except Exception:
                self._fail(channel, batch)
                continue
            if channel.stream is None:
                channel.is_going = False
            if outputs:
                batch.append((channel, outputs))

    def _recover(self, batch: Batch) -> None:
        """Read all open sentences again in a new engine; a channel that fails again is at fault."""
        self.engine = self.model.engine(self.engine.slots)
        for channel in list(self._channels):
            if channel.live is None:
                continue
            self._due[channel] = None
            try:
                if not channel.live.rebuild(self.engine):
                    raise UserError("The sentence came out differently.")
            except Exception:
                self._fail(channel, batch)

    def _fail(self, channel: Channel, batch: Batch) -> None:
        """End one channel without affecting the others."""
        logger.exception("A stream failed; its session ends.")
        live = channel.live
        if live is not None and channel.stream and channel.stream.slot in self.engine.free:
            live.sentence = None
        try:
            channel.leave()
        except Exception:  # the next tidying recovers its slot
            logger.exception("A failed stream could not be closed.")
        self._forget(channel)
        batch.append((channel, [Failed("The translation failed.")]))

    def _forget(self, channel: Channel) -> None:
        self._due.pop(channel, None)
        self._channels.pop(channel, None)

    # ---- slots

    def _open_streams(self) -> list[Stream]:
        streams = (channel.stream for channel in self._channels)
        return [stream for stream in streams if stream is not None]

    def _grow(self) -> None:
        self.engine.resize(2 * self.engine.slots, self._open_streams())

    def _tidy(self) -> None:
        """Free memory that is no longer used."""
        self._tidied_at = time.monotonic()
        streams, engine = self._open_streams(), self.engine
        slots = FIRST_SLOTS
        while slots < 2 * len(streams):
            slots *= 2
        rows = max((max(stream.rows) for stream in streams), default=0)
        is_long = capacity(engine) > LONG and 2 * rows <= capacity(engine) // 2
        is_sparse = max(FEW, len(streams)) <= self._most_taken // 4
        if is_sparse or is_long:
            engine.resize(min(slots, engine.slots), streams)
            self._most_taken = len(streams)


def capacity(engine: Engine) -> int:
    """Rows that each slot has room for."""
    return max(cache.rows.capacity for cache in engine.caches)
