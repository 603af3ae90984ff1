"""Access control: the token, origin and address of a request."""

from urllib.parse import urlsplit

from starlette.requests import HTTPConnection
from starlette.responses import JSONResponse

from hmt.server.service import Service
from hmt.server.tokens import Grant

TOKEN_PROTOCOLS = ("hmt.token.", "openai-insecure-api-key.")


def service_of(connection: HTTPConnection) -> Service:
    """The service that a request reached."""
    service: Service = connection.app.state.service
    return service


def address_of(connection: HTTPConnection) -> str:
    """Where a request comes from."""
    return connection.client.host if connection.client else "unknown"


def secret_of(connection: HTTPConnection) -> str | None:
    """The token of a request: bearer, or a sub-protocol for browsers."""
    kind, _, secret = connection.headers.get("authorization", "").partition(" ")
    if kind.lower() == "bearer" and secret:
        return secret.strip()
    for offered in protocols_of(connection):
        for prefix in TOKEN_PROTOCOLS:
            if offered.startswith(prefix):
                return offered.removeprefix(prefix)
    return None


def protocols_of(connection: HTTPConnection) -> list[str]:
    """The sub-protocols that a WebSocket client offers."""
    offered = connection.headers.get("sec-websocket-protocol", "")
    return [part.strip() for part in offered.split(",") if part.strip()]


def grant_of(connection: HTTPConnection, secret: str | None = None) -> Grant | None:
    """What a request may do."""
    return service_of(connection).tokens.find(secret or secret_of(connection))


def token_needed() -> JSONResponse:
    """The 401 answer at OpenAI's endpoints, in the format that its clients can read."""
    message = "A token is needed: Authorization: Bearer ..."
    error = {"type": "invalid_request_error", "code": "token", "message": message}
    return JSONResponse({"error": error}, 401)


def has_good_origin(connection: HTTPConnection) -> bool:
    """Whether the page that the request comes from may use this server."""
    origin = connection.headers.get("origin")
    if origin is None:  # not a browser
        return True
    if origin in service_of(connection).settings.origins:
        return True
    return urlsplit(origin).netloc == connection.headers.get("host", "")
