"""WebSocket /v1/realtime/translations: text in, append-only text out."""

import asyncio
import contextlib
import logging
from typing import Any

from starlette.responses import PlainTextResponse
from starlette.websockets import WebSocket, WebSocketDisconnect

from hmt.server.access import address_of, grant_of, has_good_origin, protocols_of, service_of
from hmt.server.messages import InvalidError, Resume, decode, encode
from hmt.server.rate_limits import Bucket
from hmt.server.replies import Created, Error, Fault
from hmt.server.rooms import Room
from hmt.server.service import RETRY_SECONDS, BusyError, Service
from hmt.server.sessions import LiveSession
from hmt.server.wire import text_frame, transport_of

logger = logging.getLogger("hmt.server")

PROTOCOLS = ("hmt.v1", "realtime")
MALFORMED = 3  # messages in a row after which a client is disconnected
FIRST_SECONDS = 10.0  # for the first message of a client that resumes
STUCK_POLL_SECONDS = 0.05
RETURN_SECONDS = 5  # until a speaker who lost the connection should try again


class RefusedError(Exception):
    """A refused connection, closed at once with its own code."""

    def __init__(self, close: int, code: str, message: str, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.close = close
        self.fault = Fault(code, message, retry_after=retry_after)


async def realtime(websocket: WebSocket) -> None:
    """One connection, from the handshake to its end."""
    service, address = service_of(websocket), address_of(websocket)
    if service.sockets >= service.limits.sockets:
        headers = {"Retry-After": str(RETRY_SECONDS)}
        message = f"Too many connections; try again in {RETRY_SECONDS} s."
        await websocket.send_denial_response(PlainTextResponse(message, 503, headers))
        return
    service.sockets += 1
    has_entered = service.guests.enter(address)
    try:
        offered = protocols_of(websocket)
        await websocket.accept(next((p for p in PROTOCOLS if p in offered), None))
        if not has_entered:
            most = service.limits.per_address
            message = f"There are already {most} sessions from this address."
            raise RefusedError(4429, "rate", message, RETRY_SECONDS)
        await Line(websocket, service).run()
    except RefusedError as error:
        service.metrics.rejected.labels(error.fault.code).inc()
        await _refuse(websocket, error)
    except WebSocketDisconnect:
        pass
    finally:
        service.sockets -= 1
        if has_entered:
            service.guests.leave(address)


async def _refuse(websocket: WebSocket, error: RefusedError) -> None:
    with contextlib.suppress(WebSocketDisconnect, RuntimeError):
        await websocket.send_text(encode(Error(event_id="evt_1", error=error.fault)).decode())
        await websocket.close(error.close, error.fault.code)


class Line:
    """One WebSocket and the session that it currently carries."""

    def __init__(self, websocket: WebSocket, service: Service) -> None:
        self._websocket, self._service = websocket, service
        self._session: LiveSession | None = None
        self._room: Room | None = None
        self._closing: tuple[int, str] | None = None
        self._transport = transport_of(websocket)
        self._is_awake = False  # it will write soon
        self._is_over = False  # it will never write again
        self._stuck_since: float | None = None  # the client has not taken what was written
        self._closer: asyncio.Task[None] | None = None
        self._malformed = 0
        limits = service.limits
        self._bucket = Bucket(limits.messages_per_second, limits.burst_messages)

    async def run(self) -> None:
        """Carry messages both ways until one side ends it."""
        self._check()
        code = 1006
        try:
            if "resume" not in self._websocket.query_params:
                session = self._new_session()
                session.outbox.put(Created(session=session.describe()))
                self._begin(session)
            else:
                await self._resume_first()
            code = await self._read()
        finally:
            await self._end(code)

    def close(self, code: int, reason: str) -> None:
        """Close once everything has been sent."""
        if self._closing is None:
            self._closing = code, reason
        self.wake()

    def cut(self, code: int, reason: str) -> None:
        """Close at once: unsent messages now belong to another connection."""
        self._closing = code, reason
        self._hang_up()

    # ---- the beginning

    def _check(self) -> None:
        """Refuse clients that may not connect."""
        if not has_good_origin(self._websocket):
            raise RefusedError(4403, "origin", "Pages of this origin may not use this server.")
        grant = grant_of(self._websocket)
        if grant is None:
            raise RefusedError(4401, "token", "A token is needed: Authorization: Bearer ...")
        name = self._websocket.query_params.get("room")
        scope = "translate" if name is None else f"speak:{name}"
        if not grant.allows(scope):
            raise RefusedError(
                4403, "scope", f"This token does not grant {scope}; use one that does."
            )
        if name is not None:
            self._room = self._service.rooms.make(name)
            if self._room is None:
                message = "A room has up to 64 letters, digits, _ . -; or there are too many."
                raise RefusedError(4403, "room", message)

    def _new_session(self) -> LiveSession:
        served = self._service.find(self._websocket.query_params.get("model"))
        if served is None:
            names = ", ".join(self._service.served)
            raise RefusedError(
                4404, "model_not_found", f"There is no such model; available: {names}."
            )
        try:
            session = self._service.open(served, self._room.name if self._room else None)
        except BusyError as error:
            raise RefusedError(1013, error.code, str(error), error.retry_after) from None
        if self._room is not None:  # it may have been closed before its speaker resumed
            self._room = self._service.rooms.make(self._room.name) or self._room
        if self._room is not None and not self._service.rooms.enter(session, self._room):
            self._service.discard(session)
            message = f"Somebody already speaks {served.target} in this room."
            # that somebody may be this client, whose old connection is not yet known to be dead
            wait = RETURN_SECONDS if "resume" in self._websocket.query_params else None
            raise RefusedError(4403, "room_taken", message, wait)
        if self._room is not None:
            grant = grant_of(self._websocket)
            assert grant is not None  # checked before
            session.room_token = self._service.tokens.invite(grant, self._room.name)
        return session

    def _begin(self, session: LiveSession) -> None:
        self._session, session.connection = session, self
        session.outbox.on_news = self.wake
        self.wake()

    # ---- reading

    async def _read(self) -> int:
        """Take messages until the client disconnects; return its close code."""
        is_first = True
        while True:
            data = await self._receive()
            if isinstance(data, int):
                return data
            await asyncio.sleep(self._bucket.take(1))
            if self._closing is not None:
                continue  # sent by the client after the end: ignored
            assert self._session is not None
            try:
                event = decode(_text(data))
                self._malformed = 0
                if isinstance(event, Resume) and is_first:
                    await self._resume(event)
                else:
                    await self._take(event)
            except InvalidError as error:
                self._note_malformed(error)
            is_first = False

    async def _take(self, event: Any) -> None:
        assert self._session is not None
        try:
            await self._session.take(event)
        except InvalidError as error:
            error.event_id = event.event_id
            self._session.refuse(error)

    def _note_malformed(self, error: InvalidError) -> None:
        assert self._session is not None
        self._session.refuse(error)
        self._malformed += 1
        if self._malformed >= MALFORMED:
            self._session.stop(4400, "malformed")

    async def _receive(self) -> str | bytes | int:
        """The next frame, or the client's close code."""
        message = await self._websocket.receive()
        if message["type"] == "websocket.disconnect":
            return int(message.get("code") or 1005)
        text = message.get("text")
        data: str | bytes = message["bytes"] if text is None else text
        if len(data) > self._service.limits.message_bytes:
            self.close(1009, "too big")
        return data

    # ---- resuming

    async def _resume_first(self) -> None:
        """Resume before a session is created, for clients that announce it."""
        try:
            data = await asyncio.wait_for(self._receive(), FIRST_SECONDS)
            event = None if isinstance(data, int) else decode(_text(data))
        except (TimeoutError, InvalidError):
            event = None
        if not isinstance(event, Resume):
            raise RefusedError(4400, "resume", "The first message must be `session.resume`.")
        await self._resume(event)

    async def _resume(self, event: Resume) -> None:
        """Resume a session of this process, or rebuild one of another."""
        fresh, known = self._session, self._service.known(event.hmt.token)
        if known is not None:
            if fresh is not None:
                fresh.outbox.detach()
                self._service.discard(fresh)
            known.keep(self, event.hmt.after)
            self._service.metrics.resumes.labels("kept").inc()
            self._begin(known)
            return
        if event.hmt.open_sentence is None:
            raise RefusedError(
                4404, "session_not_found", "This session is no longer known; start a new one."
            )
        session = fresh or self._new_session()
        try:
            session.rebuild(event.hmt)
        except InvalidError as error:
            self._service.discard(session)
            raise RefusedError(4400, error.code, error.message) from None
        self._service.metrics.resumes.labels("rebuilt").inc()
        if fresh is None:
            self._begin(session)

    # ---- writing

    def wake(self) -> None:
        """Write soon; what is added until then goes along."""
        if not self._is_awake:
            self._is_awake = True
            asyncio.get_running_loop().call_soon(self._write)

    def _write(self) -> None:
        """Write everything that waits in one go, if the client has taken what came before."""
        self._is_awake = False
        if self._session is None or self._is_over:
            return
        if self._transport.get_write_buffer_size() or self._transport.is_closing():
            self._try_again(self._session)
            return
        self._stuck_since = None
        frames, outbox = list[bytes](), self._session.outbox
        while (event := outbox.pop()) is not None:
            frames.append(text_frame(encode(event)))
        if frames:
            self._transport.write(b"".join(frames))
        if self._closing is not None:
            self._hang_up()

    def _try_again(self, session: LiveSession) -> None:
        """Try again later; what arrives until then is merged, within limits of size and time."""
        loop = asyncio.get_running_loop()
        if self._stuck_since is None:
            self._stuck_since = loop.time()
        if loop.time() - self._stuck_since < self._service.limits.stall_seconds:
            self._is_awake = True
            loop.call_later(STUCK_POLL_SECONDS, self._write)
            return
        session.stop(4408, "stalled")
        self._closing = 4408, "stalled"
        self._hang_up()

    def _hang_up(self) -> None:
        self._is_over = True
        if self._closer is None:
            self._closer = asyncio.create_task(self._close())

    async def _close(self) -> None:
        assert self._closing is not None
        with contextlib.suppress(TimeoutError, RuntimeError, WebSocketDisconnect):
            await asyncio.wait_for(self._websocket.close(*self._closing), 5)

    # ---- the end

    async def _end(self, code: int) -> None:
        session = self._session
        if session is not None and session.connection is self:
            if session.is_over:
                session.connection = None
            elif code == 1000:
                session.connection = None
                session.finish()
            else:
                session.lose()
        if session is not None and session.connection is None:
            session.outbox.detach()
        self._is_over = True
        if self._closer is not None:
            await self._closer


def _text(data: str | bytes) -> str:
    if isinstance(data, bytes):
        raise InvalidError("binary", "Events are JSON in text frames; this one was binary.")
    return data
