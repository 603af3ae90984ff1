"""A live session: a speaker's input, its translation, and surviving lost connections."""

import asyncio
import logging
import secrets
import time
from collections.abc import Callable
from dataclasses import replace

from msgspec import UNSET

from hmt.server import channels, messages, replies
from hmt.server.channels import Applied, Failed, FinishedSentence, Mark, Output, Text, Wait
from hmt.server.deltas import Wording
from hmt.server.far_conductor import AnyChannel
from hmt.server.hearing import Hearing
from hmt.server.messages import InvalidError, shortened
from hmt.server.metrics import Metrics
from hmt.server.models import Served
from hmt.server.outbox import Outbox
from hmt.server.parties import Audience, Connection
from hmt.server.preferences import Preferences
from hmt.server.rate_limits import Bucket
from hmt.server.rebuilt import Rebuilt
from hmt.server.receipts import Receipts
from hmt.server.settings import Limits
from hmt.server.tokens import new_resume_token
from hmt.streaming import events

logger = logging.getLogger("hmt.server")

QUEUE_POLL_SECONDS = 0.02
LAGGING_SECONDS = 1.0
TOO_LATE = "A session is resumed by the first message only; connect again."
NO_AUDIO = "This server takes text; put a speech recogniser before it, see docs/serve.md."
GOING_AWAY = "going_away"
ENDS = {
    events.MODEL: ("early_end", "The model ended its sentence; what follows begins a new one."),
    events.LENGTH: ("cut_long", "The sentence reached the maximum length and was cut."),
}
Spoken = messages.Append | messages.Hypothesis | messages.Commit | messages.Clear


class LiveSession:
    """One speaker's text on its way to its readers."""

    def __init__(self, served: Served, limits: Limits, name: str, room: str | None = None) -> None:
        self.served, self.limits, self.room = served, limits, room
        self.id = f"sess_{name}_{secrets.token_hex(6)}"
        self.token = new_resume_token()
        self.started, self.started_at = time.monotonic(), time.time()
        self.outbox = Outbox(limits.pending_bytes)
        self.connection: Connection | None = None
        self.audience: Audience | None = None
        self.room_token: str | None = None
        self.lost_at: float | None = None
        self.is_over = False
        self.on_over: Callable[[LiveSession], None] = lambda session: None
        self.meter: Metrics | None = None
        self.logs_text = False
        self.last_input = self.started
        self.words_in = 0
        self._receipts = Receipts(self._accept)
        self.preferences = Preferences()
        self._hearing = Hearing(limits)
        self._bucket = Bucket(limits.words_per_second, limits.burst_words)
        self._wording = Wording(self.started)
        self._channel: AnyChannel | None = None
        self._starts_line = True  # no text comes before the channel's
        self._is_open = False  # words have arrived since the last requested end
        self._rebuilt: Rebuilt | None = None  # a sentence being read again
        self._lag_reported_at = 0.0
        self._is_finishing = False
        self._taking = asyncio.Lock()  # held while a message waits: its client is not idle
        self._beat_at = self.started

    # ---- as its client sees it

    def describe(self) -> replies.SessionObject:
        """The session as a client sees it."""
        limits, served = self.limits, self.served
        return replies.SessionObject(
            id=self.id,
            model=served.name,
            expires_at=int(self.started_at + limits.session_seconds),
            audio={"output": {"language": served.target}},
            hmt=replies.SessionFacts(
                source_language=served.source,
                resume_token=self.token,
                **{**vars(self.preferences), "knobs": served.plain_knobs(self.preferences.knobs)},
                started_at=round(self.started_at, 3),
                limits=limits.of_a_session(),
                room=self.room,
                room_token=self.room_token,
            ),
        )

    async def take(self, event: messages.AnyClientEvent) -> None:
        """Handle one event; an InvalidError says why it was refused."""
        self.last_input = time.monotonic()
        if self._is_finishing:
            return  # not accepted: a client that resumes sends it again
        match event:
            case messages.Update():
                self._update(event)
            case messages.Append() | messages.Hypothesis() | messages.Commit() | messages.Clear():
                # one at a time: a waiting message may arrive again over a newer connection
                async with self._taking:
                    if self._receipts.is_new(event.hmt.seq):
                        await self._hear(event)
                    self._receipts.take(event.hmt.seq)
            case messages.Close():
                await self._say(self._hearing.commit())
                self.finish()
            case messages.AppendAudio():
                raise InvalidError("unsupported_input", NO_AUDIO, "type")
            case _:
                raise InvalidError("unexpected_event", TOO_LATE, "type")

    # ---- what comes in

    async def _hear(self, event: Spoken) -> None:
        match event:
            case messages.Append(hmt=facts):
                times = [ms / 1000 for ms in facts.at_ms or ()]
                await self._say(self._hearing.append(event), times)
            case messages.Hypothesis(hmt=guess):
                words, conflicts = self._hearing.guess(guess)
                await self._say(words)
                self._guessed(conflicts)
            case messages.Commit(hmt=commit):
                await self._say(self._hearing.commit())
                self.end(events.PAUSE, shortened(commit.reason or "commit"), commit.seq)
            case messages.Clear():
                self._clear()

    def _accept(self) -> None:
        tentative = self._hearing.tentative
        facts = replies.AcceptedFacts(self._receipts.seq, self.words_in, self.queued, tentative)
        self.outbox.put(replies.Accepted(hmt=facts))

    async def _say(self, words: list[str], spoken: list[float] | None = None) -> None:
        """Queue words; waits while there are too many, so that no more is read from the client."""
        if not words:
            return
        channel = self.channel
        if wait := self._bucket.take(len(words)):
            await asyncio.sleep(wait)
        while channel.queued + len(words) > self.limits.queue_words and not self.is_over:
            await asyncio.sleep(QUEUE_POLL_SECONDS)
        times = iter(spoken or ())
        now = self.last_input = time.monotonic()
        channel.put([channels.HeardWord(word, next(times, None), now) for word in words])
        self.words_in += len(words)
        self._is_open = True
        if self.meter is not None:
            self.meter.words.labels("source").inc(len(words))
        if self.preferences.echo:
            delta, elapsed_ms = " ".join(words) + " ", self._wording.elapsed_ms(now)
            self.outbox.put(replies.InputDelta(delta=delta, elapsed_ms=elapsed_ms))
        if self.audience is not None:
            self.audience.heard(words)

    def _guessed(self, conflicts: int) -> None:
        if self.audience is not None:
            self.audience.tentative(self._hearing.tentative)
        if conflicts:
            self.notice(
                "conflict",
                f"The guess contradicts {conflicts} words that are final; they stay.",
                words=conflicts,
            )

    def _clear(self) -> None:
        self._hearing.clear()
        self._is_open = False
        if self._channel is not None:
            self._channel.skip()

    def end(self, reason: str, label: str, seq: int | None = None) -> None:
        """End the sentence."""
        self._is_open = False
        if self._channel is not None:
            self._channel.put([channels.End(reason, label, seq)])

    def finish(self, label: str = "client") -> None:
        """End the open sentence, then the session."""
        if self._is_finishing:
            return
        self._is_finishing = True
        self.end(events.PAUSE, "finish")
        if self._channel is None:
            self._leave(label)
        else:
            self._channel.put([Mark(label)])

    # ---- settings

    def _update(self, event: messages.Update) -> None:
        change, audio = event.session.hmt, event.session.audio
        if audio is not UNSET and audio.output is not UNSET and audio.output.language is not UNSET:
            self.served.check_target(audio.output.language)
        asked = self.preferences.changed(event.session)
        knobs = self.served.knobs(asked.knobs)
        self.preferences = asked
        names = () if change is UNSET or change.knobs is UNSET else tuple(change.knobs)
        self._hearing.mode = self.preferences.commit
        self.channel.put([channels.Turn(knobs, names, asked.cuts, asked.detail)])

    # ---- what comes out

    @property
    def queued(self) -> int:
        """Words waiting for a round."""
        return 0 if self._channel is None else self._channel.queued

    @property
    def channel(self) -> AnyChannel:
        """The channel to the engine, opened when first needed."""
        if self._channel is None:
            opening = channels.Opening(
                self.served.knobs(self.preferences.knobs),
                cuts=self.preferences.cuts,
                has_detail=self.preferences.detail,
                keeps_records=self.audience is not None,
                starts_line=self._starts_line,
            )
            self._channel = self.served.conductor.open(opening, self._deliver)
        return self._channel

    def _deliver(self, outputs: list[Output]) -> None:
        self._receipts.flush()
        for output in outputs:
            if self.is_over:
                return
            match output:
                case Text():
                    self._wrote(output)
                case FinishedSentence():
                    self._ended(output)
                case Wait():
                    self.outbox.put(self._wording.waiting(output))
                case events.Notice(code=code, message=message):
                    self.notice(code, message)
                case Applied(applies):
                    facts = replies.UpdatedFacts(applies)
                    self.outbox.put(replies.Updated(session=self.describe(), hmt=facts))
                case Mark(label):
                    self._leave(label)
                case Failed(reason):
                    self._fail(reason)
        if self.outbox.is_over:
            self.stop(4408, "stalled")

    def _wrote(self, text: Text) -> None:
        if self._rebuilt is not None:
            self._rebuilt.hold(text)
            if not self._rebuilt.is_known:
                self._release()
            return
        self._tell(text)
        if self.audience is not None:
            self.audience.wrote(text.events)
        self._note_lag(text)

    def _tell(self, text: Text) -> None:
        by_word = self.preferences.granularity == "word"
        for delta in self._wording.text(text, by_word, self.preferences.detail):
            self.outbox.put(delta)

    def _note_lag(self, text: Text) -> None:
        behind = 0.0 if text.given is None else text.now - text.given
        if behind > LAGGING_SECONDS and text.now - self._lag_reported_at > 10 * LAGGING_SECONDS:
            self._lag_reported_at = text.now
            self.notice("lagging", f"The translation is {behind:.1f} s behind.")

    def _ended(self, sentence: FinishedSentence) -> None:
        self._release()
        for event in self._wording.sentence(sentence, self.preferences.detail):
            self.outbox.put(event)
        if self.meter is not None:
            self.meter.cuts.labels(sentence.ended.reason).inc()
            self.meter.words.labels("target").inc(len(sentence.ended.text.split()))
        if self.audience is not None:
            self.audience.ended(sentence)
        if self.logs_text:
            logger.info("%s: %s -> %s", self.id, sentence.ended.source, sentence.ended.text.strip())
        if sentence.ended.reason in ENDS:
            self.notice(*ENDS[sentence.ended.reason], sentence=sentence.ended.sentence)

    def notice(self, code: str, message: str, **facts: int | str) -> None:
        """Send the client a notice, which is not an error."""
        notice = replies.NoticeFacts(code, message, **facts)  # type: ignore[arg-type]
        self.outbox.put(replies.Notice(hmt=notice))

    def refuse(self, error: InvalidError) -> None:
        """Report to the client that an event was refused."""
        fault = replies.Fault(error.code, error.message, param=error.param, event_id=error.event_id)
        self.outbox.put(replies.Error(error=fault))

    def _fail(self, reason: str) -> None:
        fault = replies.Fault("internal", f"{reason} Start a new session.", "server_error")
        self.outbox.put(replies.Error(error=fault))
        self.stop(4500, "internal error")

    def _leave(self, label: str) -> None:
        self._receipts.flush_now()
        wording = self._wording
        facts = replies.ClosedFacts(label, self.words_in, wording.words, wording.sentences)
        self.outbox.put(replies.Closed(hmt=facts))
        self.stop(1012 if label == GOING_AWAY else 1000, label)

    def stop(self, code: int, reason: str) -> None:
        """End the session; its connection closes once everything has been sent."""
        if self.is_over:
            return
        self.is_over = True
        if self._channel is not None:
            self._channel.close()
        if self.connection is not None:
            self.connection.close(code, reason)
        self.on_over(self)

    # ---- time

    def tick(self, now: float, heartbeat_seconds: float) -> None:
        """Handle timeouts, pauses and heartbeats."""
        limits = self.limits
        if self.lost_at is not None:
            if now - self.lost_at > limits.resume_seconds:
                self.stop(4408, "lost")
            return
        self._receipts.flush()
        quiet = 0.0 if self._taking.locked() else now - self.last_input
        wishes = self.preferences
        has_pause = self._is_open and wishes.cuts and wishes.pause_ms > 0
        if has_pause and quiet * 1000 >= wishes.pause_ms and not self.channel.queued:
            self.end(events.PAUSE, "pause")
        if quiet > limits.idle_seconds and not self.queued:
            self.stop(4408, "idle")
        elif now - self.started > limits.session_seconds:
            self.finish("expired")
        elif now - self._beat_at >= heartbeat_seconds:
            self._beat_at = now
            self.outbox.put(replies.Heartbeat(elapsed_ms=self._wording.elapsed_ms(now)))

    # ---- resume

    def lose(self) -> None:
        """The connection is gone; the session waits for another."""
        self.connection, self.lost_at = None, time.monotonic()

    def keep(self, connection: Connection, after: int) -> None:
        """Continue over another connection, from the message after `after`."""
        if self.connection is not None:
            self.connection.cut(4409, "taken over")
        self.connection, self.lost_at = connection, None
        self.last_input = time.monotonic()
        self.token = new_resume_token()
        is_complete = self.outbox.rewind(after)
        self.outbox.put_first(self._resumed("kept"))
        if not is_complete:
            self.notice("resumed_differently", "Some of the text is no longer kept here.")

    def _resumed(self, how: str) -> replies.Resumed:
        facts = replies.ResumedFacts(how, self._receipts.seq)
        return replies.Resumed(session=self.describe(), hmt=facts)

    def rebuild(self, facts: messages.ResumeFacts) -> None:
        """Rebuild a session unknown to this process by reading its open sentence again."""
        words = facts.open_sentence or []
        words = self._hearing.append(messages.Append(words=words)) if words else []
        if facts.knobs:
            self.served.knobs(facts.knobs)
            self.preferences = replace(self.preferences, knobs=dict(facts.knobs))
        self._receipts.seq, self.outbox.n = facts.source_seq, facts.after
        shown = len(facts.shown.split())
        self._wording = Wording(self.started, facts.sentence, facts.offset, shown)
        self._rebuilt = Rebuilt(facts.shown) if facts.shown else None
        self._starts_line = facts.offset <= len(facts.shown)
        if self.audience is not None:
            self.audience.begins_again(facts.sentence)
        self.outbox.put(self._resumed("rebuilt"))
        now = time.monotonic()
        self._is_open = bool(words)
        self.words_in += len(words)
        self.channel.put([channels.HeardWord(word, None, now) for word in words])

    def _release(self) -> None:
        """Send the part of a rebuilt sentence that the client does not show yet."""
        rebuilt, self._rebuilt = self._rebuilt, None
        if rebuilt is None:
            return
        if not rebuilt.continues:
            message = "The sentence came out differently; it is written again."
            self.notice("resumed_differently", message)
        for part in rebuilt.rest():
            self._tell(part)
        if self.audience is not None:
            self.audience.wrote([event for part in rebuilt.held for event in part.events])
