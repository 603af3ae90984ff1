"""Readers of a room: the events that are kept for them, and how far each of them has come.

A reader is a cursor. An event is encoded once, and the same bytes go straight into the transport of
every reader who has taken those before; whoever is slower gets more at once later, and costs nobody
else anything. A reader who falls behind the kept events gets a snapshot.
"""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from itertools import islice
from typing import Any

from hmt.server.room_events import RoomEvent, ping
from hmt.server.wire import text_frame

KEPT_EVENTS = 2000
PING_SECONDS = 15
AT_ONCE = 50  # readers who are written to before others have the event loop: about a millisecond
MOST_BYTES = 65_536  # in one write, and so in the memory of a reader who takes nothing
SHARED = 16  # different texts that are kept until the next event; usually there are one or two

Framing = Callable[[bytes], bytes]
Place = tuple[int, frozenset[str], Framing]  # cursor, kinds, framing: who share these share bytes


class Reader:
    """One connection that reads along."""

    def __init__(
        self,
        transport: asyncio.Transport,
        framing: Framing,
        kinds: frozenset[str],
        after: int | None,
        end: Callable[[], Awaitable[None]],
    ) -> None:
        self.transport, self.framing, self.kinds = transport, framing, kinds
        self.cursor = after  # the last event that was written; None before the snapshot
        self.has_read = after is not None
        self._end = end
        self._ending: asyncio.Future[None] | None = None

    @property
    def is_slow(self) -> bool:
        """Whether bytes are still waiting to be sent, or nothing can be written any more."""
        return self.transport.get_write_buffer_size() > 0 or self.transport.is_closing()

    def ping(self) -> None:
        """Show that the connection is alive; WebSockets have pings of their own."""
        if self.framing is not text_frame:
            self.transport.write(self.framing(ping()))

    def finish(self) -> None:
        """There is nothing more to come."""
        if self._ending is None:
            self._ending = asyncio.ensure_future(self._end())


class Feed:
    """The events of a room on their way to its readers."""

    def __init__(self, snapshot: Callable[[bool], RoomEvent], stall_seconds: float) -> None:
        # above every number that a room of this name has used before, here or on another host
        self.seq = time.time_ns() // 1_000_000
        self.is_closed = False
        self._snapshot, self._stall_seconds = snapshot, stall_seconds
        self._events: deque[RoomEvent] = deque(maxlen=KEPT_EVENTS)
        self._readers: dict[Reader, float] = {}  # and when each was pinged, in this order
        self._slow: dict[Reader, float] = {}  # and since when
        self._round: Iterator[Reader] | None = None  # readers whose turn is yet to come
        self._has_news = False  # since the round began
        self._shared: dict[Place, tuple[bytes, int]] = {}

    @property
    def readers(self) -> int:
        """How many there are."""
        return len(self._readers)

    def enter(self, reader: Reader) -> None:
        """Take a reader in: newcomers, and those who missed something, get a snapshot."""
        if reader.cursor is not None and reader.cursor > self.seq:
            reader.cursor = None  # of a room that this process does not know
        self._readers[reader] = time.monotonic()
        self._catch_up(reader)

    def leave(self, reader: Reader) -> None:
        """Forget a reader."""
        self._readers.pop(reader, None)
        self._slow.pop(reader, None)

    def publish(self, name: str, kind: str | None, payload: Any) -> None:
        """Send an event to all readers."""
        self.seq += 1
        self._events.append(RoomEvent(self.seq, name, kind, payload))
        self._shared.clear()
        self._has_news = True
        if self._round is None and self._readers:
            self._begin_round()

    def tick(self, now: float) -> None:
        """Continue with slow readers, cut off those who have stalled, and ping."""
        for reader, since in list(self._slow.items()):
            if not reader.is_slow:
                del self._slow[reader]
                self._catch_up(reader)
            elif now - since > self._stall_seconds:
                reader.transport.abort()
        while self._readers:
            reader, pinged_at = next(iter(self._readers.items()))
            if now - pinged_at < PING_SECONDS:
                break
            del self._readers[reader]
            self._readers[reader] = now
            if reader.is_slow:
                self._slow.setdefault(reader, now)
            else:
                reader.ping()

    def _begin_round(self) -> None:
        self._round, self._has_news = iter(list(self._readers)), False
        asyncio.get_running_loop().call_soon(self._go_on)

    def _go_on(self) -> None:
        """Write to some readers; the others then also get the events that arrive in between."""
        assert self._round is not None
        some = list(islice(self._round, AT_ONCE))
        if some:
            asyncio.get_running_loop().call_soon(self._go_on)
        elif self._has_news:
            self._begin_round()
        else:
            self._round = None
        for reader in some:
            self._catch_up(reader)

    def _catch_up(self, reader: Reader) -> None:
        """Write everything that a reader lacks, as far as the connection accepts it."""
        while reader.cursor != self.seq:
            if reader.is_slow:
                self._slow.setdefault(reader, time.monotonic())
                return
            if reader.cursor is None or reader.cursor < self._first - 1:
                self._begin(reader)
                continue
            place = (reader.cursor, reader.kinds, reader.framing)
            data, reader.cursor = self._shared.get(place) or self._share(place)
            if data:
                reader.transport.write(data)
        if self.is_closed:
            reader.finish()

    def _begin(self, reader: Reader) -> None:
        event = self._snapshot(reader.has_read)
        reader.cursor, reader.has_read = self.seq, True
        reader.transport.write(_framed(event, reader.framing))

    def _share(self, place: Place) -> tuple[bytes, int]:
        """The bytes that come next at a place, up to a limit, and the cursor after them."""
        cursor, kinds, framing = place
        parts, size = list[bytes](), 0
        for event in self._since(cursor):
            cursor = event.seq
            if event.kind is None or event.kind in kinds:
                parts.append(_framed(event, framing))
                size += len(parts[-1])
                if size > MOST_BYTES:
                    break
        found = b"".join(parts), cursor
        if len(self._shared) < SHARED:
            self._shared[place] = found
        return found

    @property
    def _first(self) -> int:
        return self._events[0].seq if self._events else self.seq + 1

    def _since(self, cursor: int) -> list[RoomEvent]:
        new: list[RoomEvent] = []
        for event in reversed(self._events):
            if event.seq <= cursor:
                break
            new.append(event)
        return new[::-1]


def _framed(event: RoomEvent, framing: Framing) -> bytes:
    return framing(event.json if framing is text_frame else event.sse)
