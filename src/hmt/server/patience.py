"""How long the server waits for those who take their time: requests that never become whole."""

import asyncio
import time
from typing import Any

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEAD_SECONDS = 10.0  # from a connection, or the answer before, to the end of a request's headers
BODY_SECONDS = 20.0  # for a whole body, of which 64 kB are the most


class WholeBodies:
    """Answers 408 to a request whose body does not come."""

    def __init__(self, app: ASGIApp, seconds: float = BODY_SECONDS) -> None:
        self._app, self._seconds = app, seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        end, is_whole = asyncio.get_running_loop().time() + self._seconds, False

        async def receive_in_time() -> Message:
            nonlocal is_whole
            if is_whole:  # what comes now is that the client has left, whenever it likes
                return await receive()
            try:
                async with asyncio.timeout_at(end):
                    message = await receive()
            except TimeoutError:
                raise HTTPException(408, "The body of the request did not come.") from None
            is_whole = not message.get("more_body", False)
            return message

        await self._app(scope, receive_in_time, send)


class Doorkeeper:
    """Hangs up on connections that ask for nothing: they cost a file each, and files run out."""

    def __init__(self, seconds: float = HEAD_SECONDS) -> None:
        self._seconds = seconds
        self._since: dict[Any, float] = {}

    def look(self, connections: set[Any]) -> None:
        """Close whoever has had no request under way for too long.

        uvicorn itself ends connections between two requests, but waits for ever for the first one,
        and for one of which a byte arrives now and then.
        """
        now = time.monotonic()
        idle = {connection for connection in connections if _is_idle(connection)}
        self._since = {connection: self._since.get(connection, now) for connection in idle}
        for connection, since in self._since.items():
            if now - since > self._seconds:
                connection.transport.close()


def _is_idle(connection: Any) -> bool:
    """Whether a connection of uvicorn speaks HTTP and has no request under way."""
    if not hasattr(connection, "cycle"):  # a WebSocket
        return False
    return connection.cycle is None or connection.cycle.response_complete
