"""The service: its models, its sessions and rooms, and admission."""

import asyncio
import contextlib
import logging
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

from hmt.models.model import Model
from hmt.server.conductor import Batch, Conductor
from hmt.server.engine_process import Orders
from hmt.server.far_conductor import AnyConductor, FarConductor
from hmt.server.metrics import Metrics, RoundMetrics
from hmt.server.models import Served
from hmt.server.rate_limits import Guests, Visits
from hmt.server.rooms import Rooms
from hmt.server.sessions import GOING_AWAY, LiveSession
from hmt.server.settings import Settings
from hmt.server.tokens import Tokens

logger = logging.getLogger("hmt.server")

TICK_SECONDS = 0.1
RETRY_SECONDS = 20
READER_SECONDS = 3.0  # for readers in rooms to get the last words when the server goes away


class BusyError(Exception):
    """No further session is admitted; says when to try again."""

    def __init__(self, message: str, code: str = "busy", retry_after: int = RETRY_SECONDS) -> None:
        super().__init__(f"{message}; try again in {retry_after} s.")
        self.code, self.retry_after = code, retry_after


@dataclass(frozen=True)
class Offer:
    """A model to serve, with its name and languages."""

    name: str
    model: Model
    source: str
    target: str


class Service:
    """Everything that one process serves."""

    def __init__(self, settings: Settings, offers: Iterable[Offer], tokens: Tokens) -> None:
        self.settings, self.limits, self.tokens = settings, settings.limits, tokens
        self.metrics = Metrics()
        self._loop: asyncio.AbstractEventLoop | None = None
        self.served = {offer.name: self._serve(offer) for offer in offers}
        self.sessions: set[LiveSession] = set()
        self.rooms = Rooms(self.limits, settings.captions)
        self.guests = Guests(self.limits.per_address)
        self.listeners = Guests(self.limits.listeners_per_address)
        self.visits = Visits(self.limits.translate_per_minute)
        self.sockets = 0
        self.sidecars = 0  # of recognisers; each counts as a live session
        self.is_warm = self.is_draining = False
        self._ticker: asyncio.Task[None] | None = None

    def _serve(self, offer: Offer) -> Served:
        settings, observer = self.settings, RoundMetrics(self.metrics)
        gather_seconds, max_tokens = settings.gather_ms / 1000, self.limits.sentence_tokens
        conductor: AnyConductor
        if settings.engine == "process":
            orders = Orders(gather_seconds, max_tokens, settings.threads)
            conductor = FarConductor(offer.model, observer, orders)
        else:
            conductor = Conductor(
                offer.model,
                self._hand_over,
                observer=observer,
                gather_seconds=gather_seconds,
                max_tokens=max_tokens,
            )
        return Served(offer.name, offer.model, offer.source, offer.target, conductor)

    # ---- life

    async def start(self) -> None:
        """Warm up the models and start."""
        self._loop = asyncio.get_running_loop()
        for served in self.served.values():
            await served.conductor.start()
        self.is_warm = True
        self._ticker = asyncio.create_task(self._tick())

    async def stop(self) -> None:
        """End everything at once."""
        self.is_draining = True
        if self._ticker is not None:
            self._ticker.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._ticker
        for session in list(self.sessions):
            session.stop(1001, "restart")
        self.rooms.close()
        for served in self.served.values():
            await served.conductor.stop()

    async def drain(self) -> None:
        """Let open sentences finish, and tell clients to resume elsewhere."""
        self.is_draining = True
        deadline_ms = round(1000 * self.settings.drain_seconds)
        for session in list(self.sessions):
            message = "The server is going away; resume on another."
            session.notice(GOING_AWAY, message, deadline_ms=deadline_ms, resume_token=session.token)
            session.finish(GOING_AWAY)
        end = time.monotonic() + self.settings.drain_seconds
        while (self.sessions or self.sockets) and time.monotonic() < end:
            await asyncio.sleep(TICK_SECONDS)
        self.rooms.close()
        end = time.monotonic() + READER_SECONDS
        while self.listeners.total and time.monotonic() < end:
            await asyncio.sleep(TICK_SECONDS)

    def why_not_ready(self) -> str | None:
        """The reason in one line, or None if all is well."""
        if not self.is_warm:
            return "The models are not warm yet."
        if self.is_draining:
            return "The server is going away."
        if stopped := self.stopped_engines():
            return f"The engine of {', '.join(stopped)} has stopped."
        for served in self.served.values():
            if (delay := served.conductor.delay()) > self.limits.delay_ms / 1000:
                most = self.limits.delay_ms
                return f"Words wait {1000 * delay:.0f} ms (p95); the limit is {most} ms."
        return None

    def stopped_engines(self) -> list[str]:
        """Models whose engines have failed for good."""
        if not self.is_warm or self.is_draining:
            return []
        return [name for name, served in self.served.items() if not served.conductor.is_alive]

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK_SECONDS)
            now = time.monotonic()
            for session in list(self.sessions):
                session.tick(now, self.settings.heartbeat_seconds)
            self.rooms.tick(now)

    # ---- sessions

    def find(self, name: str | None) -> Served | None:
        """A model by its name; the first one if none is named."""
        return self.served.get(name) if name else next(iter(self.served.values()))

    def open(self, served: Served, room: str | None = None) -> LiveSession:
        """A new session, if there is room for one."""
        self.admit(served)
        session = LiveSession(served, self.limits, self.settings.name, room)
        session.on_over = self._over
        session.meter = self.metrics
        session.logs_text = self.settings.logs_text
        self.sessions.add(session)
        return session

    def admit(self, served: Served) -> None:
        """Refuse a new session rather than slow down the others."""
        if self.is_draining:
            raise BusyError("The server is going away", retry_after=1)
        live = sum(session.lost_at is None for session in self.sessions)
        lost = len(self.sessions) - live
        live += self.sidecars
        if live >= self.limits.places:
            self.metrics.rejected.labels("places").inc()
            raise BusyError(f"All {self.limits.places} places are taken")
        if lost >= self.limits.places:  # so that lost sessions cannot pile up
            gone = (s for s in self.sessions if s.lost_at is not None)
            # first those that never sent a word, or strangers could displace the others
            min(gone, key=lambda s: (s.words_in > 0, s.lost_at)).stop(4408, "lost")
        delay = served.conductor.delay()
        if delay > self.limits.delay_ms / 1000:
            self.metrics.rejected.labels("delay").inc()
            raise BusyError(f"Words already wait {1000 * delay:.0f} ms here")

    def known(self, token: str) -> LiveSession | None:
        """The session that a resume token belongs to."""
        return next((s for s in self.sessions if s.token == token and not s.is_over), None)

    def discard(self, session: LiveSession) -> None:
        """Forget a session that nobody has used."""
        session.connection = None
        session.stop(1000, "resumed")

    def _over(self, session: LiveSession) -> None:
        if session in self.sessions:
            self.sessions.remove(session)
            self.metrics.merged.inc(session.outbox.merged)
        if session.audience is not None:
            self.rooms.speaker_left(session)

    def measure(self) -> bytes:
        """The metrics, including those that are computed only on request."""
        usages = [served.conductor.usage for served in self.served.values()]
        free = sum(usage.free for usage in usages)
        self.metrics.slots.labels("free").set(free)
        self.metrics.slots.labels("taken").set(sum(usage.slots for usage in usages) - free)
        self.metrics.cache_bytes.set(sum(usage.cache_bytes for usage in usages))
        live = Counter(s.served.name for s in self.sessions if s.lost_at is None)
        for name in self.served:
            self.metrics.sessions.labels(name).set(live[name])
        self.metrics.lost.set(len(self.sessions) - live.total())
        self.metrics.queued.set(sum(session.queued for session in self.sessions))
        self.metrics.unwritten.set(self.rooms.failures)
        self.metrics.listeners.set(self.rooms.listeners)
        return self.metrics.text()

    def _hand_over(self, batch: Batch) -> None:
        """Pass outputs from a conductor's thread to the event loop."""
        if self._loop is not None and not self._loop.is_closed():
            with contextlib.suppress(RuntimeError):  # the loop closed meanwhile
                self._loop.call_soon_threadsafe(partial(_dispatch, batch))


def _dispatch(batch: Batch) -> None:
    for channel, outputs in batch:
        try:
            channel.deliver(outputs)
        except Exception:
            logger.exception("A session could not handle its output.")
