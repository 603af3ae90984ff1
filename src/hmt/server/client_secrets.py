"""Short-lived secrets for browsers, in the shape of OpenAI's client secrets."""

import secrets
from typing import Annotated

from msgspec import Meta, Struct, field
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from hmt.server.access import grant_of, service_of, token_needed
from hmt.server.messages import InvalidError, decode_as
from hmt.server.tokens import SHORT_SECONDS

PATH = "/v1/realtime/translations/client_secrets"


class Expiry(Struct):
    seconds: Annotated[int, Meta(ge=10, le=7200)] = SHORT_SECONDS


class Wish(Struct):
    model: str | None = None


class SecretAsked(Struct):
    """The body of a request for a secret."""

    expires_after: Expiry = field(default_factory=Expiry)
    session: Wish = field(default_factory=Wish)


def _refused(code: str, message: str) -> Response:
    error = {"type": "invalid_request_error", "code": code, "message": message}
    return JSONResponse({"error": error}, 400)


async def make(request: Request) -> Response:
    """A secret that grants what the request's token grants, for ten minutes by default."""
    service, grant = service_of(request), grant_of(request)
    if grant is None or not grant.allows("translate"):
        return token_needed()
    try:
        asked = decode_as(SecretAsked, await request.body() or b"{}")
    except InvalidError as error:
        return _refused(error.code, error.message)
    served = service.find(asked.session.model)
    if served is None:
        names = ", ".join(service.served)
        return _refused("model_not_found", f"There is no such model; available: {names}.")
    value, expires_at = service.tokens.shorten(grant, asked.expires_after.seconds)
    session = {
        "id": f"sess_{service.settings.name}_{secrets.token_hex(6)}",
        "type": "translation",
        "model": served.name,
        "expires_at": expires_at,
        "audio": {"output": {"language": served.target}},
    }
    return JSONResponse({"value": value, "expires_at": expires_at, "session": session})
