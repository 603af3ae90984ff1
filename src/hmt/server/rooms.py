"""Rooms: one speaker, one translation, any number of readers.

How its events reach them is in readers.py.
"""

import contextlib
import re
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hmt.server.channels import FinishedSentence
from hmt.server.readers import Feed, Reader
from hmt.server.room_events import (
    SOURCE,
    RoomCue,
    RoomDelta,
    RoomEvent,
    RoomSentence,
    RoomState,
    RoomTentative,
    Shown,
    Snapshot,
)
from hmt.server.sessions import LiveSession
from hmt.server.settings import Limits
from hmt.server.transcripts import Shelf, Transcript
from hmt.streaming.events import Written

NAME = re.compile(r"[A-Za-z0-9_][\w.-]{0,63}", re.ASCII)


class Track:
    """One language of a room: the audience of a session."""

    def __init__(self, room: "Room", language: str, shelf: Shelf | None) -> None:
        self.room, self.language = room, language
        self.speaker: LiveSession | None = None
        self.transcript = Transcript(room.name, language, shelf)
        self.heard_words: deque[str] = deque(maxlen=200)
        self.guessed = ""

    def heard(self, words: list[str]) -> None:
        self.heard_words.extend(words)
        elapsed = self.transcript.elapsed_ms()
        number = self.transcript.sentence
        self.room.feed.publish(
            "delta", SOURCE, RoomDelta(SOURCE, number, " ".join(words) + " ", elapsed)
        )

    def tentative(self, text: str) -> None:
        if text != self.guessed:
            self.guessed = text
            self.room.feed.publish("tentative", SOURCE, RoomTentative(text))

    def wrote(self, events: list[Written]) -> None:
        number, offset = self.transcript.place
        text, cues = self.transcript.write(events)
        self._publish_text(number, offset, text)
        self._publish_cues(cues)

    def begins_again(self, sentence: int) -> None:
        """The open sentence is read again: this process does not know it."""
        self.transcript.begin_again(sentence)

    def ended(self, sentence: FinishedSentence) -> None:
        number, offset = self.transcript.place
        rest, cues = self.transcript.end(sentence)
        self._publish_text(number, offset, rest)
        done = RoomSentence(
            self.language, number, sentence.ended.text.strip(), sentence.ended.source
        )
        self.room.feed.publish("sentence", "words", done)
        self._publish_cues(cues)

    def tick(self) -> None:
        """Close a cue after a silence."""
        self._publish_cues(self.transcript.after_silence())

    def _publish_text(self, sentence: int, offset: int, text: str) -> None:
        if text:
            elapsed = self.transcript.elapsed_ms()
            delta = RoomDelta(self.language, sentence, text, elapsed, offset)
            self.room.feed.publish("delta", "words", delta)

    def _publish_cues(self, cues: list[Any]) -> None:
        for cue in cues:
            self.room.feed.publish(
                "cue",
                "cues",
                RoomCue(self.language, cue.number, cue.start_ms, cue.end_ms, list(cue.lines)),
            )

    @property
    def shown(self) -> Shown:
        script = self.transcript
        return Shown(script.last_sentences(), script.open_text, script.sentence)


class Room:
    """One room: its tracks, and the feed of its readers."""

    def __init__(self, name: str, shelf: Shelf | None, stall_seconds: float) -> None:
        self.name, self._shelf = name, shelf
        self.tracks: dict[str, Track] = {}
        self.left_at: float | None = time.monotonic()
        self.feed = Feed(self.snapshot, stall_seconds)

    @property
    def is_closed(self) -> bool:
        return self.feed.is_closed

    @property
    def state(self) -> str:
        if self.is_closed:
            return "closed"
        has_speaker = any(track.speaker is not None for track in self.tracks.values())
        return "live" if has_speaker else "waiting"

    def track(self, language: str) -> Track:
        """A language of the room."""
        if language not in self.tracks:
            self.tracks[language] = Track(self, language, self._shelf)
        return self.tracks[language]

    def publish_state(self) -> None:
        self.feed.publish("state", None, RoomState(self.state, list(self.tracks)))

    def snapshot(self, gap: bool) -> RoomEvent:
        tracks = {name: track.shown for name, track in self.tracks.items()}
        heard = [word for track in self.tracks.values() for word in track.heard_words][-60:]
        if heard:
            tracks[SOURCE] = Shown([], " ".join(heard))
        payload = Snapshot(self.name, self.state, gap, tracks)
        return RoomEvent(self.feed.seq, "snapshot", None, payload)

    @contextlib.contextmanager
    def reading(self, reader: Reader) -> Iterator[None]:
        """While somebody reads along."""
        self.feed.enter(reader)
        try:
            yield
        finally:
            self.feed.leave(reader)

    def close(self) -> None:
        """Disconnect readers once they have received everything."""
        self.feed.is_closed = True
        self.publish_state()


class Rooms:
    """All rooms by name."""

    def __init__(self, limits: Limits, folder: Path | None) -> None:
        self._limits = limits
        self._shelf = None if folder is None else Shelf(folder)
        self._rooms: dict[str, Room] = {}
        self._closed: list[Room] = []  # which readers have not left yet

    @property
    def listeners(self) -> int:
        return sum(room.feed.readers for room in self._rooms.values())

    @property
    def failures(self) -> int:
        """How often captions could not be written."""
        return 0 if self._shelf is None else self._shelf.failures

    def find(self, name: str) -> Room | None:
        return self._rooms.get(name)

    def make(self, name: str, to_speak: bool = True) -> Room | None:
        """Find or create a room; None if the name is invalid or there are too many rooms."""
        if name not in self._rooms:
            if not NAME.fullmatch(name):
                return None
            if len(self._rooms) >= self._limits.rooms and not self._make_way(to_speak):
                return None
            self._rooms[name] = Room(name, self._shelf, self._limits.stall_seconds)
        return self._rooms[name]

    def _make_way(self, to_speak: bool) -> bool:
        """Close, of the rooms without readers (or, for a speaker, tracks), the one left first."""
        left = [
            room
            for room in self._rooms.values()
            if room.left_at is not None
            and not (room.feed.readers and (room.tracks or not to_speak))
        ]
        if left:
            self._end(min(left, key=lambda room: room.left_at or 0))
        return bool(left)

    def _end(self, room: Room) -> None:
        room.close()
        self._closed.append(room)
        del self._rooms[room.name]

    def enter(self, session: LiveSession, room: Room) -> bool:
        """Let a session speak in a room; False if another one already does in its language."""
        track = room.track(session.served.target)
        if track.speaker is not None and track.speaker.lost_at is None:
            return False
        if track.speaker is not None:
            track.speaker.stop(4409, "taken over")
        track.speaker, session.audience = session, track
        room.left_at = None
        room.publish_state()
        return True

    def speaker_left(self, session: LiveSession) -> None:
        """Mark the room as waiting for its speaker to come back."""
        track = session.audience
        if isinstance(track, Track) and track.speaker is session:
            track.speaker = None
            track.tentative("")
            if track.room.state == "waiting":
                track.room.left_at = time.monotonic()
            track.room.publish_state()

    def tick(self, now: float) -> None:
        """Close cues after silences, and rooms that nobody speaks in; look after readers."""
        self._closed = [room for room in self._closed if room.feed.readers]
        for room in self._closed:
            room.feed.tick(now)
        for room in list(self._rooms.values()):
            room.feed.tick(now)
            for track in room.tracks.values():
                track.tick()
            if room.left_at is not None and now - room.left_at > self._limits.room_seconds:
                self._end(room)

    def close(self) -> None:
        """Flush captions and release readers."""
        for room in self._rooms.values():
            for track in room.tracks.values():
                track.transcript.flush()
            room.close()
