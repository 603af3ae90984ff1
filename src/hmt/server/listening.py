"""Reading along in a room: server-sent events, WebSocket, and captions as files."""

import contextlib
from collections.abc import AsyncIterator
from functools import partial

from starlette.requests import HTTPConnection, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketDisconnect

from hmt.server.access import address_of, grant_of, has_good_origin, service_of
from hmt.server.readers import Reader
from hmt.server.room_events import KINDS
from hmt.server.rooms import Room
from hmt.server.service import Service
from hmt.server.transcripts import MEDIA
from hmt.server.wire import chunk, text_frame, transport_of, whole

NO_STORE = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


class TurnedAwayError(Exception):
    """A reader who is refused."""

    def __init__(self, status: int, close: int, message: str) -> None:
        super().__init__(message)
        self.status, self.close = status, close


def _room(connection: HTTPConnection) -> Room:
    """The requested room, if the request may listen there."""
    service, name = service_of(connection), connection.path_params["room"]
    # a link for listeners is meant to be shared: its token may be in the URL
    grant = grant_of(connection, connection.query_params.get("token"))
    if grant is None or not (grant.allows(f"listen:{name}") or grant.allows(f"speak:{name}")):
        raise TurnedAwayError(403, 4403, "A token that lets you listen in this room is needed.")
    room = service.rooms.find(name)
    if room is None and (connection.query_params.get("wait") or grant.allows(f"speak:{name}")):
        room = service.rooms.make(name, to_speak=False)  # readers may wait for its speaker
    if room is None:
        raise TurnedAwayError(404, 4404, "There is no such room; add wait=1 to wait for it.")
    if service.rooms.listeners >= service.limits.listeners:
        raise TurnedAwayError(503, 1013, "Too many listeners; try again in 20 s.")
    return room


def _kinds(connection: HTTPConnection) -> frozenset[str]:
    asked = frozenset(connection.query_params.get("kind", "words").split(","))
    if not asked <= set(KINDS):
        raise TurnedAwayError(400, 4400, f"kind is any of {', '.join(KINDS)}, joined by commas.")
    return asked


def _after(connection: HTTPConnection) -> int | None:
    given = connection.headers.get("last-event-id") or connection.query_params.get("after") or ""
    return int(given) if given.isascii() and given.isdigit() and len(given) < 16 else None


async def events(request: Request) -> Response:
    """Server-sent events of a room."""
    service, address = service_of(request), address_of(request)
    try:
        room, kinds = _room(request), _kinds(request)
    except TurnedAwayError as error:
        return JSONResponse({"error": str(error)}, error.status)
    if not service.listeners.enter(address):
        return JSONResponse({"error": "Too many listeners at this address."}, 429)

    return EventStream(request, room, kinds)


class EventStream(Response):
    """A response that lasts as long as its reader and its room do."""

    media_type = "text/event-stream"

    def __init__(self, request: Request, room: Room, kinds: frozenset[str]) -> None:
        self.status_code, self.background = 200, None
        self.init_headers({**NO_STORE, "Connection": "keep-alive"})
        self._request, self._room, self._kinds = request, room, kinds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the head; the room writes what follows, until the end or until the reader leaves."""
        last = partial(send, {"type": "http.response.body", "body": b"", "more_body": False})
        try:
            head = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
            await send(head)
            if scope["method"] == "HEAD":
                await last()
                return
            framing = whole if scope["http_version"] == "1.0" else chunk
            transport, after = transport_of(self._request), _after(self._request)
            with self._room.reading(Reader(transport, framing, self._kinds, after, last)):
                while (await receive())["type"] != "http.disconnect":
                    pass  # the body of the request, which means nothing
        finally:
            service_of(self._request).listeners.leave(address_of(self._request))


async def socket(websocket: WebSocket) -> None:
    """The same events over a WebSocket."""
    service, address = service_of(websocket), address_of(websocket)
    await websocket.accept()
    try:
        if not has_good_origin(websocket):
            raise TurnedAwayError(403, 4403, "Pages of this origin may not use this server.")
        room, kinds = _room(websocket), _kinds(websocket)
        if not service.listeners.enter(address):
            raise TurnedAwayError(429, 4429, "Too many listeners at this address.")
    except TurnedAwayError as error:
        await websocket.close(error.close, str(error)[:120])
        return
    last = partial(_close, websocket, service)
    reader = Reader(transport_of(websocket), text_frame, kinds, _after(websocket), last)
    try:
        with room.reading(reader):
            while (await websocket.receive())["type"] != "websocket.disconnect":
                pass  # readers send nothing, but only receiving shows that they have left
    finally:
        service.listeners.leave(address)


async def _close(websocket: WebSocket, service: Service) -> None:
    with contextlib.suppress(WebSocketDisconnect, RuntimeError):
        code = 1012 if service.is_draining else 1000  # come back, or there is no more
        await websocket.close(code, "closed")


async def captions(request: Request) -> Response:
    """Everything written in a room so far; with `?follow=1` also what follows."""
    kind = request.path_params["kind"]
    if kind not in MEDIA:
        return JSONResponse({"error": f"Captions are available as {', '.join(MEDIA)}."}, 404)
    try:
        room = _room(request)
    except TurnedAwayError as error:
        return JSONResponse({"error": str(error)}, error.status)
    languages = list(room.tracks)
    language = request.query_params.get("track") or next(iter(languages), "")
    if language not in room.tracks:
        return JSONResponse({"error": f"Tracks of this room: {', '.join(languages)}."}, 404)
    follows = request.query_params.get("follow", "") in ("1", "true")
    service, address = service_of(request), address_of(request)
    if not service.listeners.enter(address):
        return JSONResponse({"error": "Too many listeners at this address."}, 429)
    transcript = room.tracks[language].transcript

    async def read() -> AsyncIterator[str]:
        try:
            async for text in transcript.read(kind, follows, lambda: room.is_closed):
                yield text
        finally:
            service.listeners.leave(address)

    headers = {**NO_STORE, "Content-Language": language}
    return StreamingResponse(read(), media_type=MEDIA[kind], headers=headers)
