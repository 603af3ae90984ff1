"""The translation sidecar of WhisperLiveKit, protocol 1: it gives this server a microphone.

The recogniser sends all words of an utterance each time, with a tail that may still change and is
not translated here; every update is answered with the text so far, which only grows.
"""

import asyncio
import contextlib
import time
from typing import Annotated, Any

from msgspec import Meta, Struct
from starlette.websockets import WebSocket, WebSocketDisconnect

from hmt.server.access import address_of, grant_of, has_good_origin, service_of
from hmt.server.channels import End, Failed, HeardWord, Mark, Opening, Output, Text
from hmt.server.hearing import clean
from hmt.server.messages import InvalidError, decode_as, encode
from hmt.server.models import Served, short_code
from hmt.server.rate_limits import Bucket
from hmt.server.service import BusyError, Service
from hmt.server.settings import Limits
from hmt.streaming import events

PROTOCOL = 1
# What its presets quality, balanced and low send, and the latency we choose for each.
LOWER = {1: 6, None: None, 0: 1}
HOLD_BACK = "translation_alignatt_hold_back_target_units"
ANSWER_SECONDS = 14.0  # its client gives up after 15


class Init(Struct):
    type: str
    protocol_version: int = 0
    source_lang: str = ""
    target_lang: str = ""
    overrides: dict[str, Any] = {}
    accepted_target_prefix: str = ""


class Tail(Struct):
    words: list[tuple[str, float | None, float | None]] = []


class Update(Struct):
    type: str
    seq: int = 0
    utterance_id: int = 0
    words: Annotated[list[tuple[str, float | None, float | None]], Meta(max_length=500)] = []
    tail: Tail | None = None
    is_final: bool = False


async def sidecar(websocket: WebSocket) -> None:
    """One recogniser's connection."""
    service, address = service_of(websocket), address_of(websocket)
    await websocket.accept()
    grant = grant_of(websocket)
    if not has_good_origin(websocket) or grant is None or not grant.allows("translate"):
        await websocket.close(4401 if grant is None else 4403, "token or origin")
        return
    if not service.guests.enter(address):
        await websocket.close(4429, "rate")
        return
    try:
        with contextlib.suppress(WebSocketDisconnect, RuntimeError):
            await _converse(websocket, service)
    except TimeoutError:
        await websocket.close(4408, "idle")
    finally:
        service.guests.leave(address)


class Inbox:
    """A recogniser's messages, with a limit of rate and of silence."""

    def __init__(self, websocket: WebSocket, limits: Limits) -> None:
        self._websocket, self._idle_seconds = websocket, limits.idle_seconds
        self._bucket = Bucket(limits.messages_per_second, limits.burst_messages)

    async def next(self) -> str:
        """The next message."""
        await asyncio.sleep(self._bucket.take(1))
        async with asyncio.timeout(self._idle_seconds):
            message = await self._websocket.receive()
        if message["type"] == "websocket.disconnect":
            raise WebSocketDisconnect(message.get("code") or 1005)
        text: str | None = message.get("text")
        if text is None:
            raise InvalidError("bad_message", "Messages are JSON in text frames.")
        return text


async def _converse(websocket: WebSocket, service: Service) -> None:
    inbox = Inbox(websocket, service.limits)
    try:
        init = decode_as(Init, await inbox.next())
        served = _served(service, init)
        service.admit(served)
    except InvalidError as error:
        supported = [f"{m.source}-{m.target}" for m in service.served.values()]
        await _error(websocket, error.code, error.message, supported=supported)
        return
    except BusyError as error:
        await _error(websocket, "busy", str(error), code=1013)
        return
    await _send(websocket, type="init_ok", direction=f"{served.source}-{served.target}")
    knobs, most = _knobs(served, init), service.limits.word_characters
    utterance = Utterances(served, knobs, init.accepted_target_prefix, most)
    service.sidecars += 1
    try:
        while True:
            try:
                update = decode_as(Update, await inbox.next())
                await _send(websocket, **await utterance.take(update))
            except InvalidError as error:
                await _send(
                    websocket, type="error", code="processing_failed", message=error.message
                )
    finally:
        service.sidecars -= 1
        utterance.channel.close()


def _served(service: Service, init: Init) -> Served:
    if init.type != "init" or init.protocol_version != PROTOCOL:
        raise InvalidError("bad_protocol", f"Send init with protocol_version {PROTOCOL} first.")
    asked = short_code(init.source_lang), short_code(init.target_lang)
    for served in service.served.values():
        if asked == (short_code(served.source), short_code(served.target)):
            return served
    raise InvalidError("unsupported_direction", f"{asked[0]}-{asked[1]} is not served here.")


def _knobs(served: Served, init: Init) -> Any:
    """Overrides that mean nothing here are ignored."""
    held = init.overrides.get(HOLD_BACK)
    lower = LOWER.get(held) if held is None or isinstance(held, int) else None
    with contextlib.suppress(InvalidError):
        return served.knobs({} if lower is None else {"lower": lower})
    return served.knobs({})


class Utterances:
    """The text of one utterance after another."""

    def __init__(self, served: Served, knobs: Any, prefix: str, word_characters: int) -> None:
        self._word_characters = word_characters
        self.channel = served.conductor.open(Opening(knobs), self._deliver)
        self._number: int | None = None
        self._taken = 0  # words of the utterance
        self._text = ""
        self._prefix = prefix  # shown before the connection was lost
        self._sent = ""
        self._answer: asyncio.Future[None] | None = None

    async def take(self, update: Update) -> dict[str, Any]:
        """The answer to an update."""
        if update.type != "update":
            raise InvalidError("bad_message", "After init only updates are expected.")
        if self._number is not None and update.utterance_id != self._number:
            self._end()
        self._number = update.utterance_id
        words = [w for word, _, _ in update.words for w in clean(word).split()]
        if any(len(word) > self._word_characters for word in words):
            most = self._word_characters
            raise InvalidError("limit", f"A word has more than {most} characters.")
        now = time.monotonic()
        self.channel.put([HeardWord(word, None, now) for word in words[self._taken :]])
        self._taken = max(self._taken, len(words))
        if update.is_final:
            self.channel.put([End(events.FINISH, "finish")])
        await self._through()
        committed = self._committed()
        new = committed[len(self._sent) :] if committed.startswith(self._sent) else ""
        self._sent = committed
        answer = {
            "type": "translation",
            "seq": update.seq,
            "utterance_id": update.utterance_id,
            "committed_text": committed,
            "committed_delta": new,
            "buffer_text": "",
            "covered_source_units": self._taken,
            "final": update.is_final,
            "forced_final": False,
            "stop_reason": "hmt",
        }
        if update.is_final:
            self._begin()
        return answer

    def _committed(self) -> str:
        """The text so far; never less than what was shown before."""
        text = self._text.strip()
        return text if text.startswith(self._prefix) else self._prefix

    def _end(self) -> None:
        """End an utterance that was never marked as final."""
        self.channel.put([End(events.FINISH, "finish")])
        self._begin()

    def _begin(self) -> None:
        self._number, self._taken = None, 0
        self._text = self._prefix = self._sent = ""

    async def _through(self) -> None:
        """Wait until everything sent so far has been translated."""
        self._answer = asyncio.get_running_loop().create_future()
        self.channel.put([Mark("through")])
        try:
            await asyncio.wait_for(self._answer, ANSWER_SECONDS)
        except TimeoutError:
            raise InvalidError("processing_failed", "The server is too busy.") from None

    def _deliver(self, outputs: list[Output]) -> None:
        for output in outputs:
            if isinstance(output, Text):
                self._text += "".join(event.text for event in output.events)
            elif self._answer is not None and not self._answer.done():
                if isinstance(output, Mark):
                    self._answer.set_result(None)
                elif isinstance(output, Failed):
                    self._answer.set_exception(InvalidError("processing_failed", output.reason))


async def _send(websocket: WebSocket, **message: Any) -> None:
    await websocket.send_text(encode(message).decode())


async def _error(
    websocket: WebSocket, name: str, message: str, code: int = 4400, **more: Any
) -> None:
    await _send(websocket, type="error", code=name, message=message, **more)
    await websocket.close(code, name)
