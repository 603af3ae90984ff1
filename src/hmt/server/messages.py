"""What clients send, typed, and the one place that decodes and encodes; replies.py has the answers.

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
    """A message that cannot be taken; says what is wrong and what would be right."""

    def __init__(self, code: str, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.code, self.message, self.param = code, message, param
        self.event_id: str | None = None


# ---- from clients


class ClientEvent(Struct, tag_field="type"):
    """What all events of a client have."""

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
    """That what was heard is to be sent back; which model hears it is not ours to choose."""

    model: str = ""


class InputChange(Struct):
    transcription: Transcription | UnsetType | None = UNSET


class AudioChange(Struct):
    input: InputChange | UnsetType = UNSET
    output: OutputChange | UnsetType = UNSET


class SessionChange(Struct):
    """The session as a client would have it."""

    hmt: HmtChange | UnsetType = UNSET
    audio: AudioChange | UnsetType = UNSET


class Update(ClientEvent, tag="session.update"):
    """Change settings; what was not named stays."""

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
    """The sentence ends here."""

    hmt: CommitFacts = msgspec.field(default_factory=CommitFacts)


class ClearFacts(Struct):
    seq: Count | None = None


class Clear(ClientEvent, tag="session.input_text.clear"):
    """Drop queued and tentative words and the open sentence; what was written stays."""

    hmt: ClearFacts = msgspec.field(default_factory=ClearFacts)


class AppendAudio(ClientEvent, tag="session.input_audio_buffer.append"):
    """Audio, which is refused in words."""


class ResumeFacts(Struct):
    token: str
    after: Count = 0  # the last `n` that arrived
    source_seq: Count | None = None
    open_sentence: list[str] | None = None  # words of it, for a server that knows nothing of it
    shown: str = ""  # what the client shows of the open sentence
    sentence: Count = 0
    offset: Count = 0
    knobs: dict[str, Knob] | None = None


class Resume(ClientEvent, tag="session.resume", kw_only=True):
    """Go on with a session whose connection was lost; the first message."""

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


# What msgspec raises for bytes that are no message; a RecursionError if they nest too deep.
MALFORMED = (msgspec.MsgspecError, UnicodeEncodeError, UnicodeDecodeError, RecursionError)


def shortened(text: str) -> str:
    """A client's input as it may stand in an error."""
    return text if len(text) <= SHOWN else text[: SHOWN - 1] + "…"


def decode(data: str | bytes) -> AnyClientEvent:
    """The event that a frame holds."""
    try:
        return _client.decode(data)
    except MALFORMED as error:
        raise _diagnosis(data, error) from None


def _diagnosis(data: str | bytes, error: Exception) -> InvalidError:
    """Why a frame is no event, with the client's own event id where it has one."""
    try:
        envelope = _envelope.decode(data)
    except MALFORMED:
        reason = shortened(str(error))
        return InvalidError("invalid_json", f"This is no event in JSON: {reason}.")
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
            f"`{envelope.type}` is not as it should be: {shortened(reason)}.",
            where.rstrip("`").removeprefix("$.") or None,
        )
    found.event_id = envelope.event_id
    return found


def encode(message: Any) -> bytes:
    """Any message as JSON."""
    return _encoder.encode(message)


def decode_server(data: str | bytes) -> AnyServerEvent:
    """What a server sent, for clients and tests."""
    return _server.decode(data)


def decode_as(kind: type[T], data: bytes | str) -> T:
    """JSON of one type, for the HTTP endpoints; says what is wrong with it."""
    try:
        return msgspec.json.decode(data, type=kind)
    except MALFORMED as error:
        raise InvalidError("invalid_body", f"{shortened(str(error))}.") from None
