"""Short-lived secrets for browsers, in the shape of OpenAI's client secrets."""

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from hmt.server.access import grant_of, service_of

PATH = "/v1/realtime/translations/client_secrets"


async def make(request: Request) -> Response:
    """A secret that grants what the request's token grants, for ten minutes."""
    service, grant = service_of(request), grant_of(request)
    if grant is None or not grant.allows("translate"):
        return JSONResponse({"error": {"code": "token", "message": "A token is needed."}}, 401)
    value, expires_at = service.tokens.shorten(grant)
    served = service.find(None)
    assert served is not None
    session = {
        "type": "translation",
        "model": served.name,
        "audio": {"output": {"language": served.target}},
    }
    return JSONResponse({"value": value, "expires_at": expires_at, "session": session})
