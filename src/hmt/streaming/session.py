"""Text in, text out, append-only: one live translation with its own engine."""

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Self

from hmt.errors import UserError
from hmt.plain import HALF, LIMIT, shortened
from hmt.streaming import events
from hmt.streaming.engine import Engine
from hmt.streaming.events import Ended, Event, Notice, Written
from hmt.streaming.hypotheses import Hypotheses
from hmt.streaming.live import RUNNING_TEXT, Live, SentenceRules
from hmt.streaming.record import Record
from hmt.systems.stream import Stream
from hmt.text.language_pair import Tokenizers

logger = logging.getLogger("hmt.streaming")

# Sentences whose events and records a session keeps: about an hour of speech, some 25 MB.
KEPT_SENTENCES = 1000


class Session:
    """Words in, newly written text out; what was returned is never taken back.

    It takes running text: punctuation, `pause`, `finish` or the model itself ends a sentence.  With
    `rules.by_line`, for corpora of one sentence per line, only the caller ends one.
    `listener` is called with every event; `events` and `records` hold those of the last `keep`
    sentences.  A session serves one thread; one model serves any number of sessions.
    """

    def __init__(
        self,
        engine: Engine,
        tokenizers: Tokenizers,
        settings: Callable[..., object],  # makes the knobs; those that change are given by name
        *,
        rules: SentenceRules = RUNNING_TEXT,
        listener: Callable[[Event], None] | None = None,
        keep: int = KEPT_SENTENCES,
    ) -> None:
        if not isinstance(keep, int) or keep < 1:
            raise UserError(f"keep = {keep!r}: a session keeps the events of 1 or more sentences.")
        self._engine, self._settings, self._keep = engine, settings, keep
        self._lock = threading.Lock()
        self._live = Live(engine, tokenizers, settings(), rules)
        self._hypotheses = Hypotheses()
        self._guessed_at: float | None = None  # when the words of the last guess were spoken
        self._warnings: set[str] = set()
        self._last_stream: Stream | None = None
        self.listener = listener
        self.events: list[Event] = []  # of the last `keep` sentences, or somewhat more
        self.records: list[Record] = []
        self._warn()

    # ---- the source

    def push(self, text: str, spoken: float | None = None) -> str:
        """Take one word, or several; return the text that can be written now, often "".

        `spoken` is when the words were spoken, in seconds on the caller's own clock.  After a
        `guess`, they are the recogniser's result: what the utterance really was, as a whole.
        """
        words = _words(text, "push")
        _check_time(spoken)
        with self._alone():
            if words and self._hypotheses.is_open:
                with self._conflicts_reported():
                    words = self._hypotheses.settle(words)
            return self._hear_all(words, spoken)

    def pause(self) -> str:
        """The speaker paused: end the sentence, but not the line."""
        with self._alone():
            return self._end(events.PAUSE)

    def finish(self) -> str:
        """End the sentence and the line; return the rest of the translation.

        What was guessed last is final.
        """
        with self._alone():
            return self._hear_tail(None) + self._end(events.FINISH)

    def guess(self, text: str, committed: int | None = None, spoken: float | None = None) -> str:
        """Take a recogniser's whole current guess of an utterance, which may still change.

        Its first `committed` words are final; without that number, words are final once two guesses
        in a row agree on them.  The tail that may still change is not translated: see `tentative`.
        A guess that contradicts final words changes nothing; a notice "conflict" reports it.
        """
        guess = _words(text, "guess")
        _check_time(spoken)
        with self._alone():
            with self._conflicts_reported():
                words = self._hypotheses.update(guess, committed)
            self._guessed_at = spoken
            return self._hear_all(words, spoken)

    def commit(self, spoken: float | None = None) -> str:
        """The utterance is over: the last guess is final, and the sentence ends.

        Without `spoken`, its last words have the time of that guess.
        """
        with self._alone():
            return self._hear_tail(spoken) + self._end(events.PAUSE)

    @property
    def tentative(self) -> str:
        """The words of the last guess that are not final yet."""
        return " ".join(self._hypotheses.tail)

    # ---- the dial

    def set(self, **knobs: object) -> dict[str, str]:
        """Change settings; return for each whether it applies "now" or from "next_sentence"."""
        with self._alone():
            settings = partial(self._settings, **knobs)
            applies = self._live.set(settings(), knobs)
            self._settings = settings
            self._warn()
        return applies

    # ---- what happened

    @property
    def stream(self) -> Stream:
        """The sentence in progress, or the last one that ended."""
        sentence = self._live.sentence
        stream = self._last_stream if sentence is None else sentence.stream
        if stream is None:
            raise UserError("The session has not been given any words yet: push some first.")
        return stream

    @property
    def record(self) -> Record:
        """What happened in the current sentence so far, or in the last one."""
        if self._live.sentence is not None:
            return self._live.sentence.record(self._live.number)
        if self._live.record is None:
            raise UserError("The session has not been given any words yet: push some first.")
        return self._live.record

    def close(self) -> None:
        """Free the engine's slot; a sentence in progress is dropped."""
        with self._alone():
            self._live.drop()
            self._hypotheses = Hypotheses()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        live = self._live
        sentences, words = live.number, live.words_heard
        knobs = ", ".join(f"{name}={value}" for name, value in vars(live.knobs).items())
        return (
            f"<Session: {sentences} sentence{'s' * (sentences != 1)}, "
            f"{words} word{'s' * (words != 1)}; {knobs}>"
        )

    # ---- within

    def _hear(self, word: str, spoken: float | None) -> str:
        self._live.hear(word, spoken)
        return self._run()

    def _hear_all(self, words: Sequence[str], spoken: float | None) -> str:
        return "".join([self._hear(word, spoken) for word in words])

    def _hear_tail(self, spoken: float | None) -> str:
        """The utterance is over: hear what was guessed last."""
        at, self._guessed_at = self._guessed_at if spoken is None else spoken, None
        return self._hear_all(self._hypotheses.commit(), at)

    def _end(self, reason: str) -> str:
        self._live.end(reason)
        return self._run()

    def _run(self) -> str:
        """Process everything heard; return the new text."""
        text = ""
        while (stream := self._live.feed()) is not None:
            self._last_stream = stream
            self._engine.advance([stream])
            new = self._live.collect()
            text += "".join([event.text for event in new if isinstance(event, Written)])
            self._report(new)
        return text

    def _report(self, new: Sequence[Event]) -> None:
        self.events += new
        for event in new:
            if isinstance(event, Notice):
                logger.warning(event.message)
        if new and isinstance(new[-1], Ended) and self._live.record is not None:
            self.records.append(self._live.record)
            self._forget()
        if self.listener is not None:
            for event in new:
                self.listener(event)

    def _forget(self) -> None:
        """Discard old sentences, in large steps because each one moves what is kept."""
        if len(self.records) > self._keep + max(1, self._keep // 10):
            del self.records[: -self._keep]
            first = self.records[0].index
            start = next(n for n, event in enumerate(self.events) if event.sentence >= first)
            del self.events[:start]

    def _warn(self) -> None:
        """Report each setting outside the trained range once."""
        for message in self._engine.system.doubts(self._live.knobs):
            if message not in self._warnings:
                self._warnings.add(message)
                self._notice("untrained", message)

    def _notice(self, code: str, message: str) -> None:
        self._report([Notice(self._live.number, self._live.seconds, code, message)])

    @contextmanager
    def _conflicts_reported(self) -> Iterator[None]:
        """Report how many final words the recogniser changes within."""
        before = self._hypotheses.conflicts
        yield
        if (conflicts := self._hypotheses.conflicts - before) > 0:
            self._notice("conflict", f"{conflicts} words that were final have been changed.")

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Reserve the session for one call; refuse a second thread."""
        if not self._lock.acquire(blocking=False):
            raise UserError(
                "This session is in use by another thread or by its own listener: give every "
                "thread a session of its own (one model serves any number of them)."
            )
        try:
            yield
        finally:
            self._lock.release()


def _check_time(spoken: object) -> None:
    is_number = isinstance(spoken, int | float) and not isinstance(spoken, bool)
    if spoken is not None and not (is_number and abs(spoken) < LIMIT):  # type: ignore[arg-type]
        raise UserError(f"spoken = {shortened(spoken)}: give seconds, as in 1.25.")


def _words(text: str, method: str) -> list[str]:
    if not isinstance(text, str):
        raise UserError(f"{method} takes text, not {type(text).__name__}: give a str.")
    return HALF.sub("\N{REPLACEMENT CHARACTER}", text).split()
