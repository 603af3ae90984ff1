"""Messages to a client: merged while it is slow, kept for when it reconnects.

Text only grows, so unread deltas can be merged into one; nothing is ever dropped except what a
later message of its kind replaces.
"""

from collections import deque
from collections.abc import Callable

from hmt.server.replies import Accepted, AnyServerEvent, Delta, Done, Heartbeat, InputDelta, Waiting

KEPT = 256  # deltas and ends of sentences that a resuming client may request
EVENT_BYTES = 300  # approximate size of an event without its text
REPLACED = (Accepted, Heartbeat, Waiting)  # only the last one matters


class Outbox:
    """Messages to one client, in order."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._pending: deque[AnyServerEvent] = deque()
        self._text: deque[Delta | Done] = deque(maxlen=KEPT)  # sent or not
        self._count = 0
        self.n = 0  # number of the last delta or end of a sentence
        self.merged = 0
        self.on_news: Callable[[], None] = _nobody  # called when there is something to send

    def put(self, event: AnyServerEvent) -> None:
        """Add a message, or merge it with one that was not sent yet."""
        if isinstance(event, Delta | Done):
            if isinstance(event, Delta) and self._merge(event):
                return
            self.n += 1
            event.hmt.n = self.n
            self._text.append(event)
        elif isinstance(event, InputDelta) and self._merge_input(event):
            return
        elif isinstance(event, REPLACED):
            self._remove(type(event))
        self._pending.append(event)
        self.on_news()

    def put_first(self, event: AnyServerEvent) -> None:
        """Add a message before all others."""
        self._pending.appendleft(event)
        self.on_news()

    def pop(self) -> AnyServerEvent | None:
        """The next message to send."""
        if not self._pending:
            return None
        event = self._pending.popleft()
        self._count += 1
        event.event_id = f"evt_{self._count}"
        return event

    def detach(self) -> None:
        """Keep messages until another connection takes them."""
        self.on_news = _nobody

    def rewind(self, after: int) -> bool:
        """Send everything after message `after` again; False if some of it is no longer kept."""
        others = [event for event in self._pending if not isinstance(event, Delta | Done)]
        text = [event for event in self._text if event.hmt.n > after]
        self._pending = deque([*others, *text])
        if self._pending:
            self.on_news()
        is_known = after <= self.n
        return is_known and len(text) == self.n - after

    @property
    def is_over(self) -> bool:
        """Whether more is unsent than a client may leave unread."""
        return self.waiting_bytes > self._most_bytes

    @property
    def waiting_bytes(self) -> int:
        """Approximate size of the unsent messages."""
        return sum(EVENT_BYTES + 4 * _length(event) for event in self._pending)

    def _merge(self, event: Delta) -> bool:
        """Append the text to the last unsent delta of its sentence."""
        last = next((e for e in reversed(self._pending) if isinstance(e, Delta | Done)), None)
        if not isinstance(last, Delta) or last.hmt.sentence != event.hmt.sentence:
            return False
        last.delta += event.delta
        last.elapsed_ms = event.elapsed_ms
        mine, new = last.hmt, event.hmt
        mine.confidence = mine.confidence + new.confidence
        mine.log_prob = mine.log_prob + new.log_prob
        mine.words = mine.words + new.words
        mine.forced |= new.forced
        mine.source_words, mine.read_of = new.source_words, new.read_of
        mine.lag_ms, mine.compute_ms = new.lag_ms, new.compute_ms
        self.merged += 1
        return True

    def _merge_input(self, event: InputDelta) -> bool:
        last = self._pending[-1] if self._pending else None
        if not isinstance(last, InputDelta):
            return False
        last.delta += event.delta
        last.elapsed_ms = event.elapsed_ms
        return True

    def _remove(self, kind: type) -> None:
        kept = [event for event in self._pending if type(event) is not kind]
        if len(kept) < len(self._pending):
            self._pending = deque(kept)


def _nobody() -> None:
    """There is no connection to send anything over."""


def _length(event: AnyServerEvent) -> int:
    match event:
        case Delta(delta=text) | InputDelta(delta=text):
            return len(text) + 30 * len(event.hmt.confidence if isinstance(event, Delta) else ())
        case Done():
            return len(event.hmt.text) + len(event.hmt.source)
        case _:
            return 0
