"""The typed messages of a server: OpenAI's realtime translation events and our `hmt`."""

import math

import msgspec
from msgspec import Struct

from hmt.streaming.record import Record

PROTOCOL = 1

Knob = int | float | str | bool | None


class ServerEvent(Struct, tag_field="type", kw_only=True):
    """Fields of all server events."""

    event_id: str = ""


class SessionFacts(Struct, kw_only=True):
    """Our part of a session."""

    protocol: int = PROTOCOL
    source_language: str
    resume_token: str
    knobs: dict[str, Knob]
    sentences: str
    granularity: str
    detail: bool
    echo: bool
    commit: str | None
    pause_ms: float
    started_at: float  # UTC of elapsed_ms = 0, seconds since 1970
    limits: dict[str, int]
    room: str | None = None
    room_token: str | None = None  # for links to the room, if tokens are required


class SessionObject(Struct, kw_only=True):
    """A session as its client sees it."""

    id: str
    type: str = "translation"
    model: str
    expires_at: int
    audio: dict[str, dict[str, str]]
    hmt: SessionFacts


class Created(ServerEvent, tag="session.created"):
    session: SessionObject


class UpdatedFacts(Struct):
    applies: dict[str, str]  # per knob: "now" or "next_sentence"


class Updated(ServerEvent, tag="session.updated"):
    session: SessionObject
    hmt: UpdatedFacts


class ResumedFacts(Struct):
    how: str  # "kept" or "rebuilt"
    seq: int | None  # the last accepted one


class Resumed(ServerEvent, tag="session.resumed"):
    session: SessionObject
    hmt: ResumedFacts


class AcceptedFacts(Struct):
    seq: int | None
    words: int  # accepted since the session began
    queued: int
    tentative: str


class Accepted(ServerEvent, tag="session.input_text.accepted"):
    hmt: AcceptedFacts


class InputDelta(ServerEvent, tag="session.input_transcript.delta"):
    delta: str
    elapsed_ms: int


class WordFacts(Struct):
    i: int  # from 0, within its sentence
    text: str
    read: int  # source words of the sentence that had been read
    complete: bool
    forced: bool


class DeltaFacts(Struct, omit_defaults=True, kw_only=True):
    n: int
    offset: int  # characters of translation before this one
    sentence: int
    source_words: int
    read_of: int
    confidence: list[float | None] = []
    log_prob: list[float] = []
    forced: bool = False  # written because it was the last allowed moment
    words: list[WordFacts] = []
    lag_ms: int | None = None
    compute_ms: int | None = None


class Delta(ServerEvent, tag="session.output_transcript.delta"):
    delta: str
    elapsed_ms: int
    hmt: DeltaFacts


class DoneFacts(Struct, omit_defaults=True, kw_only=True):
    n: int
    sentence: int
    text: str
    source: str
    reason: str
    seq: int | None = None
    record: Record | None = None


class Done(ServerEvent, tag="session.output_transcript.done"):
    hmt: DoneFacts


class WaitingFacts(Struct, kw_only=True):
    sentence: int
    token: int
    moment: int
    confidence: float
    threshold: float | None
    latest: int | None


class Waiting(ServerEvent, tag="session.waiting"):
    hmt: WaitingFacts


class NoticeFacts(Struct, omit_defaults=True):
    code: str
    message: str
    sentence: int | None = None
    words: int | None = None
    deadline_ms: int | None = None
    resume_token: str | None = None


class Notice(ServerEvent, tag="session.notice"):
    hmt: NoticeFacts


class Heartbeat(ServerEvent, tag="session.heartbeat"):
    elapsed_ms: int


class Fault(Struct, omit_defaults=True):
    code: str
    message: str
    type: str = msgspec.field(default_factory=lambda: "invalid_request_error")
    param: str | None = None
    event_id: str | None = None
    retry_after: int | None = None


class Error(ServerEvent, tag="error"):
    error: Fault


class ClosedFacts(Struct):
    reason: str
    words_in: int
    words_out: int
    sentences: int


class Closed(ServerEvent, tag="session.closed"):
    hmt: ClosedFacts


AnyServerEvent = (
    Created
    | Updated
    | Resumed
    | Accepted
    | InputDelta
    | Delta
    | Done
    | Waiting
    | Notice
    | Heartbeat
    | Error
    | Closed
)


def rounded(value: float | None, digits: int = 4) -> float | None:
    """A number as it is sent: finite and short."""
    return None if value is None or not math.isfinite(value) else round(value, digits)
