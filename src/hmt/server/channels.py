"""A channel: one text on its way to a conductor's engine, and what comes back.

The event loop fills the inbox; the conductor's thread alone touches everything else.
"""

import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from hmt.streaming.engine import Engine
from hmt.streaming.events import Ended, Notice, Written
from hmt.streaming.live import Live, SentenceRules
from hmt.streaming.record import Record
from hmt.systems.stream import Stream
from hmt.text.language_pair import Tokenizers

BEHIND = 20  # queued words beyond which a channel gets several per round
CATCH_UP = 4
KEPT_ARRIVALS = 1000

# ---- what goes in


@dataclass(frozen=True)
class Opening:
    """How a channel begins."""

    knobs: object
    is_live: bool = True  # a speaker's, who waits for each word
    cuts: bool = True  # whether punctuation ends sentences
    has_detail: bool = False  # whether it reports waits and records
    keeps_records: bool = False  # also without detail
    starts_line: bool = True  # there is no text before the first sentence


@dataclass(frozen=True)
class HeardWord:
    """A word that was heard."""

    text: str
    spoken: float | None
    arrived: float


@dataclass(frozen=True)
class End:
    """The sentence ends."""

    reason: str
    label: str  # the reason as reported to the client
    seq: int | None = None


@dataclass(frozen=True)
class Turn:
    """Change settings."""

    knobs: object
    changed: tuple[str, ...]
    cuts: bool
    has_detail: bool = False


@dataclass(frozen=True)
class Drop:
    """Forget the open sentence."""


@dataclass(frozen=True)
class Mark:
    """Is returned once everything before it has been processed."""

    value: str


@dataclass(frozen=True)
class Leave:
    """Close the channel."""


Item = HeardWord | End | Turn | Drop | Mark | Leave

# ---- what comes out


@dataclass(frozen=True)
class Text:
    """What one round wrote."""

    events: list[Written]
    read_of: int  # words of the sentence that the model was given
    needed: float | None  # arrival of the last word that it needed
    given: float | None  # when the model was given its last word, or the end of the sentence
    now: float


@dataclass(frozen=True)
class FinishedSentence:
    """A sentence is over."""

    ended: Ended
    label: str
    seq: int | None
    record: Record | None


@dataclass(frozen=True)
class Wait:
    """The model waits for more source before it writes a token."""

    sentence: int
    token: int
    moment: int
    confidence: float
    threshold: float | None
    latest: int | None


@dataclass(frozen=True)
class Applied:
    """When changed settings apply."""

    applies: dict[str, str]


@dataclass(frozen=True)
class Failed:
    """The channel cannot continue."""

    reason: str


Output = Text | FinishedSentence | Wait | Notice | Applied | Mark | Failed


class Channel:
    """One text on its way through an engine."""

    def __init__(
        self,
        wake: Callable[["Channel"], None],
        tokenizers: Tokenizers,
        rules: SentenceRules,
        opening: Opening,
        deliver: Callable[[list[Output]], None],
    ) -> None:
        self._wake, self.deliver = wake, deliver
        self._tokenizers, self._rules, self._opening = tokenizers, rules, opening
        self.is_live = opening.is_live
        self.inbox: deque[Item] = deque()
        self.has_left = False
        # used by the conductor's thread only
        self.live: Live | None = None
        self._has_detail = opening.has_detail
        self.is_going = False
        self.just_heard: list[float] = []  # arrivals of the words given in this round
        self._ending: End | None = None
        self._arrivals: deque[float] = deque()  # of words from number _first_arrival on
        self._first_arrival = 0
        self._ended_at = 0.0  # when the last end was taken; the last word may be much older
        self._reported_wait = (-1, -1)

    # ---- called by the event loop

    def put(self, items: Iterable[Item]) -> None:
        """Queue items."""
        self.inbox.extend(items)
        self._wake(self)

    def skip(self) -> None:
        """Drop all queued items and the open sentence."""
        self.inbox.clear()
        self.put([Drop()])

    def close(self) -> None:
        """Close the channel; its open sentence is dropped."""
        self.inbox.clear()
        self.put([Leave()])

    @property
    def queued(self) -> int:
        """Number of queued items, nearly all of them words."""
        return len(self.inbox)

    # ---- called by the conductor

    @property
    def stream(self) -> Stream | None:
        """The open sentence."""
        sentence = None if self.live is None else self.live.sentence
        return None if sentence is None else sentence.stream

    def prepare(self, engine: Engine, make_room: Callable[[], None]) -> list[Output]:
        """Take the next items of the inbox; return immediate answers."""
        if self.live is None:
            self.live = Live(engine, self._tokenizers, self._opening.knobs, self._rules)
            self.live.starts_line = self._opening.starts_line
        live, out = self.live, list[Output]()
        words = CATCH_UP if len(self.inbox) > BEHIND else 1
        self.just_heard = []
        is_free = live.is_idle and not (self.stream and self.stream.source_ended)
        while is_free and words:
            try:
                has_more = self.is_going or self.just_heard
                if has_more and isinstance(self.inbox[0], End | Turn | Mark):
                    break  # first let the model write all it can from the words before it
                item = self.inbox.popleft()
            except IndexError:  # empty, or just emptied by the event loop
                break
            words -= isinstance(item, HeardWord)
            self._take(live, item, out)
            if isinstance(item, End | Leave):
                break
        if live.sentence is None and not live.is_idle and not engine.free:
            make_room()
        return out

    def feed(self) -> Stream | None:
        """The stream to advance, if there is anything to do."""
        assert self.live is not None
        stream = self.live.feed()
        if self._ending is not None and self.live.sentence is None:
            self._ending = None  # there was no sentence to end
        if stream is None and self.is_going:
            stream = self.stream
        return stream

    def collect(self) -> list[Output]:
        """What the last round wrote."""
        live = self.live
        assert live is not None
        given = 0 if live.sentence is None else len(live.sentence.words)
        out = list[Output]()
        written: list[Written] = []
        for event in live.collect():
            if isinstance(event, Written):
                written += [event] if event.text else []  # some tokens are half a character
            elif isinstance(event, Notice):
                out.append(event)
            elif isinstance(event, Ended):
                if written:
                    out.append(self._text(written, given))
                    written = []
                out.append(self._sentence(live, event))
        if written:
            out.append(self._text(written, given))
        if self._has_detail and not self.is_going and (wait := self._wait(live)) is not None:
            out.append(wait)
        return out

    @property
    def has_work(self) -> bool:
        """Whether there is anything to do in another round."""
        return (
            self.is_going or bool(self.inbox) or (self.live is not None and not self.live.is_idle)
        )

    def leave(self) -> None:
        """Give up the slot."""
        self.has_left = True
        self.inbox.clear()
        self.is_going = False
        if self.live is not None:
            self.live.drop()

    def _take(self, live: Live, item: Item, out: list[Output]) -> None:
        match item:
            case HeardWord(text, spoken, arrived):
                live.hear(text, spoken)
                self.just_heard.append(arrived)
                self._arrivals.append(arrived)
                if len(self._arrivals) > KEPT_ARRIVALS:
                    self._arrivals.popleft()
                    self._first_arrival += 1
            case End():
                live.end(item.reason)
                self._ending, self._ended_at = item, time.monotonic()
            case Turn(knobs, changed, cuts, has_detail):
                self._has_detail = has_detail
                live.rules = replace(live.rules, cuts=cuts)
                out.append(Applied(live.set(knobs, changed)))
            case Drop():
                self._drop(live)
            case Mark():
                out.append(item)
            case Leave():
                self.leave()

    def _drop(self, live: Live) -> None:
        heard = self._first_arrival + len(self._arrivals)
        self._first_arrival = heard - live.waiting_words
        self._arrivals.clear()
        self._ending, self.is_going = None, False
        live.drop()

    def _text(self, written: list[Written], given: int) -> Text:
        at = written[-1].read_words - 1 - self._first_arrival
        needed = self._arrivals[at] if 0 <= at < len(self._arrivals) else None
        last = max(self._arrivals[-1], self._ended_at) if self._arrivals else None
        return Text(written, given, needed, last, time.monotonic())

    def _sentence(self, live: Live, ended: Ended) -> FinishedSentence:
        keeps_record = self._has_detail or self._opening.keeps_records
        end, record = self._ending, live.record if keeps_record else None
        if end is None or ended.reason != end.reason or not live.is_idle:
            return FinishedSentence(ended, ended.reason, None, record)
        self._ending = None
        return FinishedSentence(ended, end.label, end.seq, record)

    def _wait(self, live: Live) -> Wait | None:
        """Why the open sentence waits, once for each amount of source."""
        stream = self.stream
        if stream is None or len(stream.states) < stream.next_token:
            return None
        if (live.number, stream.read) == self._reported_wait:
            return None
        self._reported_wait = live.number, stream.read
        moment, confidence = max(stream.states[stream.next_token - 1].items())
        latest = getattr(stream.knobs, "last", None)
        return Wait(
            live.number,
            stream.next_token,
            moment,
            confidence,
            getattr(stream.knobs, "threshold", None),
            latest(stream.next_token) if callable(latest) else None,
        )
