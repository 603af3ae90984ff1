"""The events of a room, as its readers get them."""

from datetime import UTC, datetime
from typing import Any

from msgspec import Struct
from sse_starlette.event import ServerSentEvent

from hmt.server.messages import encode

SOURCE = "source"
KINDS = ("words", "cues", SOURCE)


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


class RoomEvent:
    """One event, encoded once for all readers."""

    def __init__(self, seq: int, name: str, kind: str | None, payload: Any) -> None:
        data = encode(payload).decode()
        self.seq, self.kind = seq, kind  # without a kind it is for everybody
        self.sse = ServerSentEvent(data, event=name, id=str(seq)).encode()
        self.json = f'{{"id":{seq},"event":"{name}","data":{data}}}'.encode()


def ping() -> bytes:
    """A comment that keeps proxies from closing a silent connection."""
    return ServerSentEvent(comment=f"ping - {datetime.now(UTC)}").encode()
