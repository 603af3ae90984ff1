"""Rooms: one speaker, one translation, any number of readers.

A reader is only a cursor into the room's events, so that a slow one costs nothing: a reader who
falls behind the kept events gets a snapshot.
"""

import asyncio
import re
import time
from collections import deque
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

from msgspec import Struct
from sse_starlette.event import ServerSentEvent

from hmt.server.channels import Sentence
from hmt.server.messages import encode
from hmt.server.sessions import Session
from hmt.server.settings import Limits
from hmt.server.transcripts import Shelf, Transcript
from hmt.streaming.events import Written

NAME = re.compile(r"[A-Za-z0-9_][\w.-]{0,63}", re.ASCII)
KEPT_EVENTS = 2000
KINDS = ("words", "cues", "source")
SOURCE = "source"


class RoomDelta(Struct):
    track: str
    sentence: int
    delta: str
    elapsed_ms: int
    offset: int = 0  # characters of the sentence before it: readers may know it from another host


class RoomSentence(Struct):
    track: str
    sentence: int
    text: str
    source: str


class RoomTentative(Struct):
    text: str
    track: str = SOURCE


class RoomCue(Struct):
    track: str
    number: int
    start_ms: int
    end_ms: int
    lines: list[str]


class RoomState(Struct):
    state: str  # live, waiting or closed
    tracks: list[str]


class Shown(Struct):
    """The most recent text of a track."""

    sentences: list[str]
    open: str
    sentence: int = 0  # number of the open one


class Snapshot(Struct):
    room: str
    state: str
    gap: bool  # the reader has missed something
    tracks: dict[str, Shown]


EVENTS: dict[str, type[Struct]] = {
    "snapshot": Snapshot,
    "delta": RoomDelta,
    "sentence": RoomSentence,
    "tentative": RoomTentative,
    "cue": RoomCue,
    "state": RoomState,
}


class Item:
    """One event of a room, encoded once for all readers."""

    def __init__(self, seq: int, name: str, kind: str | None, payload: Any) -> None:
        data = encode(payload).decode()
        self.seq, self.name, self.kind = seq, name, kind
        self.sse = ServerSentEvent(data, event=name, id=str(seq)).encode()
        self.json = f'{{"id":{seq},"event":"{name}","data":{data}}}'


class Track:
    """One language of a room: the audience of a session."""

    def __init__(self, room: "Room", language: str, shelf: Shelf | None) -> None:
        self.room, self.language = room, language
        self.speaker: Session | None = None
        self.transcript = Transcript(room.name, language, shelf)
        self.heard_words: deque[str] = deque(maxlen=200)
        self.guessed = ""

    def heard(self, words: list[str]) -> None:
        self.heard_words.extend(words)
        elapsed = self.transcript.elapsed_ms()
        number = self.transcript.sentence
        self.room.publish(
            "delta", SOURCE, RoomDelta(SOURCE, number, " ".join(words) + " ", elapsed)
        )

    def tentative(self, text: str) -> None:
        if text != self.guessed:
            self.guessed = text
            self.room.publish("tentative", SOURCE, RoomTentative(text))

    def wrote(self, events: list[Written]) -> None:
        number, offset = self.transcript.place
        text, cues = self.transcript.write(events)
        self._publish_text(number, offset, text)
        self._publish_cues(cues)

    def begins_again(self, sentence: int) -> None:
        """The open sentence is read again: this process does not know it."""
        self.transcript.begin_again(sentence)

    def ended(self, sentence: Sentence) -> None:
        number, offset = self.transcript.place
        rest, cues = self.transcript.end(sentence)
        self._publish_text(number, offset, rest)
        done = RoomSentence(
            self.language, number, sentence.ended.text.strip(), sentence.ended.source
        )
        self.room.publish("sentence", "words", done)
        self._publish_cues(cues)

    def tick(self) -> None:
        """Close a cue after a silence."""
        self._publish_cues(self.transcript.after_silence())

    def _publish_text(self, sentence: int, offset: int, text: str) -> None:
        if text:
            elapsed = self.transcript.elapsed_ms()
            delta = RoomDelta(self.language, sentence, text, elapsed, offset)
            self.room.publish("delta", "words", delta)

    def _publish_cues(self, cues: list[Any]) -> None:
        for cue in cues:
            self.room.publish(
                "cue",
                "cues",
                RoomCue(self.language, cue.number, cue.start_ms, cue.end_ms, list(cue.lines)),
            )

    @property
    def shown(self) -> Shown:
        script = self.transcript
        return Shown(script.last_sentences(), script.open_text, script.sentence)


class Room:
    """One room: its tracks, its events and its readers."""

    def __init__(self, name: str, shelf: Shelf | None) -> None:
        self.name, self._shelf = name, shelf
        self.tracks: dict[str, Track] = {}
        # above every number that a room of this name has used before, here or on another host
        self.seq = time.time_ns() // 1_000_000
        self.left_at: float | None = time.monotonic()
        self.is_closed = False
        self._items: deque[Item] = deque(maxlen=KEPT_EVENTS)
        self._readers: set[asyncio.Event] = set()

    @property
    def readers(self) -> int:
        return len(self._readers)

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

    def publish(self, name: str, kind: str | None, payload: Any) -> None:
        """Send an event to all readers."""
        self.seq += 1
        self._items.append(Item(self.seq, name, kind, payload))
        for reader in self._readers:
            reader.set()

    def publish_state(self) -> None:
        self.publish("state", None, RoomState(self.state, list(self.tracks)))

    def snapshot(self, gap: bool) -> Item:
        tracks = {name: track.shown for name, track in self.tracks.items()}
        heard = [word for track in self.tracks.values() for word in track.heard_words][-60:]
        if heard:
            tracks[SOURCE] = Shown([], " ".join(heard))
        return Item(self.seq, "snapshot", None, Snapshot(self.name, self.state, gap, tracks))

    async def follow(self, after: int | None, kinds: frozenset[str]) -> AsyncGenerator[Item, None]:
        """Events as they come; newcomers, and readers who missed some, first get a snapshot."""
        ready = asyncio.Event()
        self._readers.add(ready)
        try:
            cursor = after if after is not None and after <= self.seq else None
            while True:
                ready.clear()
                if cursor is None or self._first - 1 > cursor:
                    has_gap = after is not None or cursor is not None
                    cursor = self.seq
                    yield self.snapshot(has_gap)
                for item in self._since(cursor):
                    cursor = item.seq
                    if item.kind is None or item.kind in kinds:
                        yield item
                if self.is_closed and cursor >= self.seq:
                    return
                if cursor >= self.seq:
                    await ready.wait()
        finally:
            self._readers.discard(ready)

    @property
    def _first(self) -> int:
        return self._items[0].seq if self._items else self.seq + 1

    def _since(self, cursor: int) -> list[Item]:
        new: list[Item] = []
        for item in reversed(self._items):
            if item.seq <= cursor:
                break
            new.append(item)
        return new[::-1]


class Rooms:
    """All rooms by name."""

    def __init__(self, limits: Limits, folder: Path | None) -> None:
        self._limits = limits
        self._shelf = None if folder is None else Shelf(folder)
        self._rooms: dict[str, Room] = {}

    @property
    def listeners(self) -> int:
        return sum(room.readers for room in self._rooms.values())

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
            self._rooms[name] = Room(name, self._shelf)
        return self._rooms[name]

    def _make_way(self, to_speak: bool) -> bool:
        """Close the room left first: one without readers or, for a speaker, without tracks."""
        left = [
            room
            for room in self._rooms.values()
            if room.left_at is not None and not (room.readers and (room.tracks or not to_speak))
        ]
        if left:
            self._end(min(left, key=lambda room: room.left_at or 0))
        return bool(left)

    def _end(self, room: Room) -> None:
        room.is_closed = True
        room.publish_state()
        del self._rooms[room.name]

    def enter(self, session: Session, room: Room) -> bool:
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

    def speaker_left(self, session: Session) -> None:
        """Mark the room as waiting for its speaker to come back."""
        track = session.audience
        if isinstance(track, Track) and track.speaker is session:
            track.speaker = None
            track.tentative("")
            if track.room.state == "waiting":
                track.room.left_at = time.monotonic()
            track.room.publish_state()

    def tick(self, now: float) -> None:
        """Close cues after silences, and rooms that nobody speaks in."""
        for room in list(self._rooms.values()):
            for track in room.tracks.values():
                track.tick()
            if room.left_at is not None and now - room.left_at > self._limits.room_seconds:
                self._end(room)

    def close(self) -> None:
        """Flush captions and release readers."""
        for room in self._rooms.values():
            for track in room.tracks.values():
                track.transcript.flush()
            room.is_closed = True
            room.publish_state()
