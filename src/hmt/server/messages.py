"""The typed messages of clients, and all decoding and encoding; replies.py has the server's.

The event family is OpenAI's realtime translations; everything of ours is in one object, `hmt`.
Unknown fields are ignored, so that clients written for either work unchanged.
"""

from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from hmt.server.replies import AnyServerEvent, Knob

SHOWN = 60  # characters of a client's input that an error may repeat

Count = Annotated[int, Meta(ge=0, le=2**53)]
Milliseconds = Annotated[float, Meta(ge=0, le=1e12)]


class InvalidError(Exception):
    """A message that cannot be accepted; says what is wrong and what is allowed."""

    def __init__(self, code: str, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.code, self.message, self.param = code, message, param
        self.event_id: str | None = None


# ---- from clients


class ClientEvent(Struct, tag_field="type"):
    """Fields of all client events."""

    event_id: str | None = None


class HmtChange(Struct):
    """Settings of ours that a client may change."""

    knobs: dict[str, Knob] | UnsetType = UNSET
    granularity: str | UnsetType = UNSET
    detail: bool | UnsetType = UNSET
    echo: bool | UnsetType = UNSET
    sentences: str | UnsetType = UNSET
    pause_ms: Milliseconds | UnsetType = UNSET
    commit: str | UnsetType = UNSET


class OutputChange(Struct):
    language: str | UnsetType = UNSET


class Transcription(Struct):
    """A request to echo the input; the transcription model that it names is ignored."""

    model: str = ""


class InputChange(Struct):
    transcription: Transcription | UnsetType | None = UNSET


class AudioChange(Struct):
    input: InputChange | UnsetType = UNSET
    output: OutputChange | UnsetType = UNSET


class SessionChange(Struct):
    """The session settings that a client requests."""

    hmt: HmtChange | UnsetType = UNSET
    audio: AudioChange | UnsetType = UNSET


class Update(ClientEvent, tag="session.update"):
    """Change settings; those not named stay."""

    session: SessionChange = msgspec.field(default_factory=SessionChange)


class AppendFacts(Struct):
    seq: Count | None = None
    at_ms: list[Milliseconds] | None = None  # when each word was spoken


class Append(ClientEvent, tag="session.input_text.append"):
    """Final words: `text`, in which whitespace completes a word, or whole `words`."""

    text: str | None = None
    words: list[str] | None = None
    hmt: AppendFacts = msgspec.field(default_factory=AppendFacts)


class Guess(Struct):
    text: str
    utterance: Count | None = None
    seq: Count | None = None
    committed: Count | None = None


class Hypothesis(ClientEvent, tag="session.input_text.hypothesis", kw_only=True):
    """A recogniser's whole current guess of one utterance; it replaces the one before."""

    hmt: Guess


class CommitFacts(Struct):
    seq: Count | None = None
    reason: str | None = None


class Commit(ClientEvent, tag="session.input_text.commit"):
    """End the sentence."""

    hmt: CommitFacts = msgspec.field(default_factory=CommitFacts)


class ClearFacts(Struct):
    seq: Count | None = None


class Clear(ClientEvent, tag="session.input_text.clear"):
    """Drop queued and tentative words and the open sentence; what was written stays."""

    hmt: ClearFacts = msgspec.field(default_factory=ClearFacts)


class AppendAudio(ClientEvent, tag="session.input_audio_buffer.append"):
    """Audio, which is refused with an explanation."""


class ResumeFacts(Struct):
    token: str
    after: Count = 0  # the last `n` that arrived
    source_seq: Count | None = None
    open_sentence: list[str] | None = None  # its words, for a server that does not know the session
    shown: str = ""  # what the client already shows of the open sentence
    sentence: Count = 0
    offset: Count = 0
    knobs: dict[str, Knob] | None = None


class Resume(ClientEvent, tag="session.resume", kw_only=True):
    """Resume a session whose connection was lost; must be the first message."""

    hmt: ResumeFacts


class Close(ClientEvent, tag="session.close"):
    """Finish the open sentence and close."""


AnyClientEvent = Update | Append | Hypothesis | Commit | Clear | AppendAudio | Resume | Close

# ---- in and out

_client: msgspec.json.Decoder[AnyClientEvent] = msgspec.json.Decoder(AnyClientEvent)
_server: msgspec.json.Decoder[AnyServerEvent] = msgspec.json.Decoder(AnyServerEvent)
_encoder = msgspec.json.Encoder()
KNOWN = sorted(kind.__struct_config__.tag for kind in AnyClientEvent.__args__)
T = TypeVar("T")


class _Envelope(Struct):
    type: str | None = None
    event_id: str | None = None


_envelope = msgspec.json.Decoder(_Envelope)


# What msgspec raises for invalid input; a RecursionError if it is nested too deeply.
MALFORMED = (msgspec.MsgspecError, UnicodeEncodeError, UnicodeDecodeError, RecursionError)


def shortened(text: str) -> str:
    """A client's input, cut to be quoted in an error."""
    return text if len(text) <= SHOWN else text[: SHOWN - 1] + "…"


def decode(data: str | bytes) -> AnyClientEvent:
    """Decode the event in a frame."""
    try:
        return _client.decode(data)
    except MALFORMED as error:
        raise _diagnosis(data, error) from None


def _diagnosis(data: str | bytes, error: Exception) -> InvalidError:
    """Why a frame is not an event, with the client's event id if it has one."""
    try:
        envelope = _envelope.decode(data)
    except MALFORMED:
        reason = shortened(str(error))
        return InvalidError("invalid_json", f"This is not an event in JSON: {reason}.")
    if envelope.type is None:
        found = InvalidError("missing_type", 'The event has no "type".', "type")
    elif envelope.type not in KNOWN:
        found = InvalidError(
            "unknown_event",
            f"There is no event `{shortened(envelope.type)}`; a client sends {', '.join(KNOWN)}.",
            "type",
        )
    else:
        reason, _, where = str(error).partition(" - at `")
        found = InvalidError(
            "invalid_event",
            f"`{envelope.type}` is invalid: {shortened(reason)}.",
            where.rstrip("`").removeprefix("$.") or None,
        )
    found.event_id = envelope.event_id
    return found


def encode(message: Any) -> bytes:
    """Encode any message as JSON."""
    return _encoder.encode(message)


def decode_server(data: str | bytes) -> AnyServerEvent:
    """Decode what a server sent, for clients and tests."""
    return _server.decode(data)


def decode_as(kind: type[T], data: bytes | str) -> T:
    """Decode JSON of one type, for the HTTP endpoints; errors say what is wrong."""
    try:
        return msgspec.json.decode(data, type=kind)
    except MALFORMED as error:
        raise InvalidError("invalid_body", f"{shortened(str(error))}.") from None
