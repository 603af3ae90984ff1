"""Timeouts for slow clients: requests that never become complete."""

import asyncio
import time
from typing import Any

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEAD_SECONDS = 10.0  # from connecting, or the previous response, to the end of a request's headers
BODY_SECONDS = 20.0  # for a whole body, which is at most 64 kB


class WholeBodies:
    """Answers 408 to a request whose body does not arrive."""

    def __init__(self, app: ASGIApp, seconds: float = BODY_SECONDS) -> None:
        self._app, self._seconds = app, seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        end, is_whole = asyncio.get_running_loop().time() + self._seconds, False

        async def receive_in_time() -> Message:
            nonlocal is_whole
            if is_whole:  # all that can come now is the disconnect, at any time
                return await receive()
            try:
                async with asyncio.timeout_at(end):
                    message = await receive()
            except TimeoutError:
                raise HTTPException(408, "The body of the request did not arrive.") from None
            is_whole = not message.get("more_body", False)
            return message

        await self._app(scope, receive_in_time, send)


class Doorkeeper:
    """Closes connections without a request: each costs a file descriptor, and those run out."""

    def __init__(self, seconds: float = HEAD_SECONDS) -> None:
        self._seconds = seconds
        self._since: dict[Any, float] = {}

    def look(self, connections: set[Any]) -> None:
        """Close connections that have had no request in progress for too long.

        uvicorn itself closes connections between two requests, but waits forever for the first one,
        and for one that trickles in byte by byte.
        """
        now = time.monotonic()
        idle = {connection for connection in connections if _is_idle(connection)}
        self._since = {connection: self._since.get(connection, now) for connection in idle}
        for connection, since in self._since.items():
            if now - since > self._seconds:
                connection.transport.close()


def _is_idle(connection: Any) -> bool:
    """Whether a connection of uvicorn speaks HTTP and has no request in progress."""
    if not hasattr(connection, "cycle"):  # a WebSocket
        return False
    return connection.cycle is None or connection.cycle.response_complete
