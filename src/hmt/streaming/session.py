"""Text in, text out, append-only: one live translation with an engine of its own."""

import logging
import threading
from collections.abc import Callable, Iterable
from typing import Self

from hmt.errors import UserError
from hmt.streaming import events
from hmt.streaming.engine import Engine
from hmt.streaming.events import Ended, Event, Notice, Written
from hmt.streaming.hypotheses import Hypotheses
from hmt.streaming.live import Live
from hmt.streaming.record import Record
from hmt.streaming.recording import Tokenizers, record_of
from hmt.systems.stream import Stream

logger = logging.getLogger("hmt.streaming")

# Events and records that a session keeps: an evening of speech, and bounded memory.
KEPT = 100_000


class Session:
    """Words in, newly written text out; what was returned is never taken back.

    It takes running text: a sentence ends by punctuation, `pause`, `finish`, or the model itself.
    With `by_line` only `finish` ends a sentence, for corpora of one sentence per line.
    `listener` is called with every event the moment it happens.
    """

    def __init__(
        self,
        engine: Engine,
        tokenizers: Tokenizers,
        settings: Callable[..., object],
        chosen: dict[str, object],
        *,
        by_line: bool = False,
        listener: Callable[[Event], None] | None = None,
    ) -> None:
        self._engine, self._tokenizers = engine, tokenizers
        self._settings, self._chosen = settings, chosen
        self._listener = listener
        self._lock = threading.Lock()
        self._live = Live(engine, tokenizers, settings(**chosen), by_line=by_line)
        self._hypotheses = Hypotheses()
        self._warned: set[str] = set()
        self.events: list[Event] = []
        self.records: list[Record] = []
        self._last_stream: Stream | None = None
        self._warn()

    def push(self, text: str, spoken: float | None = None) -> str:
        """Take one word, or several; return the text that can be written now, often "".

        `spoken` is when the words were spoken, in seconds on a clock of the caller's.
        """
        if not isinstance(text, str):
            raise UserError(f"A session takes text, not {type(text).__name__}: push a str.")
        with self._alone():
            return "".join(self._hear(word, spoken) for word in text.split())

    def finish(self) -> str:
        """End the sentence; return the rest of its translation."""
        return self._end(events.FINISH)

    def pause(self) -> str:
        """The speaker paused: end the sentence here; the text goes on."""
        return self._end(events.PAUSE)

    def guess(self, text: str, committed: int | None = None, spoken: float | None = None) -> str:
        """Take a recogniser's whole current guess of an utterance, which may still change.

        Its first `committed` words are final; without that number, words are final once two guesses
        in a row agree on them.  The tail that may still change is not translated: see `tentative`.
        """
        with self._alone():
            words = self._hypotheses.update(text.split(), committed)
            return "".join(self._hear(word, spoken) for word in words)

    def commit(self) -> str:
        """The utterance is over: what was guessed last is final, and ends the sentence."""
        with self._alone():
            words = self._hypotheses.commit()
            text = "".join(self._hear(word, None) for word in words)
        return text + self._end(events.PAUSE)

    @property
    def tentative(self) -> str:
        """The words of the last guess that are not final yet."""
        return " ".join(self._hypotheses.tail)

    def set(self, **knobs: object) -> dict[str, str]:
        """Move the dial; says of each setting whether it applies "now" or from "next_sentence"."""
        with self._alone():
            chosen = {**self._chosen, **knobs}
            settings = self._settings(**chosen)
            applies = self._live.set(settings, knobs)
            self._chosen = chosen
            self._warn()
        return applies

    @property
    def stream(self) -> Stream:
        """The sentence in progress, or the last one that ended."""
        stream = self._live.stream or self._last_stream
        if stream is None:
            raise UserError("The session has not been given any words yet.")
        return stream

    @property
    def record(self) -> Record:
        """What happened in the current sentence so far, or in the last one."""
        if self._live.stream is None and self.records:
            return self.records[-1]
        source = " ".join(word.text for word in self._live.words)
        return record_of(self.stream, self._tokenizers, source, self._live.sentence)

    def close(self) -> None:
        """Free the engine's slot; a sentence in progress is dropped."""
        with self._alone():
            self._live.drop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        words = sum(event.source_words for event in self.events if isinstance(event, Ended))
        return f"<Session: {self._live.sentence} sentences, {words} words, {self._live.knobs}>"

    def _hear(self, word: str, spoken: float | None) -> str:
        self._live.hear(word, spoken)
        return self._run()

    def _end(self, reason: str) -> str:
        with self._alone():
            self._live.end(reason)
            return self._run()

    def _run(self) -> str:
        """Work on all that was heard; return what was written."""
        text = ""
        while (stream := self._live.feed()) is not None:
            self._last_stream = stream
            self._engine.advance([stream])
            text += self._take(self._live.collect())
        return text

    def _take(self, new: Iterable[Event]) -> str:
        text = ""
        for event in new:
            if isinstance(event, Written):
                text += event.text
            if isinstance(event, Ended) and self._live.record is not None:
                self.records.append(self._live.record)
                del self.records[:-KEPT]
            self.events.append(event)
            del self.events[:-KEPT]
            if self._listener is not None:
                self._listener(event)
        return text

    def _warn(self) -> None:
        """Report settings outside what the model was trained for, each once."""
        for message in self._engine.system.doubts(self._live.knobs):
            if message not in self._warned:
                self._warned.add(message)
                logger.warning(message)
                self._take([Notice(self._live.sentence, 0.0, "untrained", message)])

    def _alone(self) -> "_Alone":
        return _Alone(self._lock)


class _Alone:
    """Holds a session while one call works on it; a second thread is refused, not interleaved."""

    def __init__(self, lock: threading.Lock) -> None:
        self._lock = lock

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            raise UserError(
                "This session is in use by another thread: give every thread a session of its own "
                "(one model serves any number of them)."
            )

    def __exit__(self, *_: object) -> None:
        self._lock.release()
