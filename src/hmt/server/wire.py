"""A shortcut past the layers of a response, for bytes that go to very many connections.

A message takes some 80 us through the ASGI stack and the HTTP library, and 15 us as a plain write
into the connection's transport. The head and the end of a response still take the ordinary way, so
that the libraries know what state their connections are in.
"""

import asyncio
from functools import partial
from typing import Any

from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import Frame, Opcode

KEY = "hmt.transport"


class Http(H11Protocol):
    """HTTP whose application knows the transport; h11, since what it refuses was tested."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Called by asyncio."""
        super().connection_made(transport)
        self.app: Any = partial(_with_transport, self.app, transport)


class WebSockets(WebSocketsSansIOProtocol):
    """WebSockets whose application knows the transport."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by asyncio."""
        super().connection_made(transport)
        self.app: Any = partial(_with_transport, self.app, transport)


async def _with_transport(
    app: ASGIApp, transport: asyncio.BaseTransport, scope: Scope, receive: Receive, send: Send
) -> None:
    scope.setdefault("extensions", {})[KEY] = transport
    await app(scope, receive, send)


def transport_of(connection: HTTPConnection) -> asyncio.Transport:
    """What a connection's bytes are written into."""
    transport: asyncio.Transport = connection.scope["extensions"][KEY]
    return transport


def chunk(body: bytes) -> bytes:
    """A part of a response to HTTP/1.1 whose length was not announced."""
    return b"%x\r\n%b\r\n" % (len(body), body)


def whole(body: bytes) -> bytes:
    """A part of a response to HTTP/1.0, which lasts until the connection ends."""
    return body


def text_frame(body: bytes) -> bytes:
    """A text message of a WebSocket."""
    return Frame(Opcode.TEXT, body).serialize(mask=False)
