"""Liveness, readiness, metrics, and the list of models."""

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from hmt.server.access import grant_of, service_of, token_needed
from hmt.server.models import Served


async def live(request: Request) -> Response:
    """Whether the process answers and its engines run; 503 if it should be restarted."""
    stopped = service_of(request).stopped_engines()
    if stopped:
        return PlainTextResponse(f"The engine of {', '.join(stopped)} has stopped.\n", 503)
    return PlainTextResponse("alive\n")


async def ready(request: Request) -> Response:
    """Whether to send new clients here; 503 with a one-line reason if not."""
    reason = service_of(request).why_not_ready()
    return PlainTextResponse(f"{reason or 'ready'}\n", 200 if reason is None else 503)


async def health(request: Request) -> Response:
    """LibreTranslate's health check."""
    reason = service_of(request).why_not_ready()
    if reason is None:
        return JSONResponse({"status": "ok"})
    return JSONResponse({"status": "unhealthy", "error": reason}, 503)


async def models(request: Request) -> Response:
    """The list of models, in OpenAI's format, with our additions."""
    service = service_of(request)
    if grant_of(request) is None:
        return token_needed()
    return JSONResponse(
        {"object": "list", "data": [_described(served) for served in service.served.values()]}
    )


def _described(served: Served) -> dict[str, object]:
    return {
        "id": served.name,
        "object": "model",
        "created": 0,
        "owned_by": "hmt",
        "hmt": {
            "system": served.model.system.name,
            "source_language": served.source,
            "target_language": served.target,
            "knobs": served.described_knobs,
        },
    }


async def metrics(request: Request) -> Response:
    """Prometheus metrics, for tokens that grant them."""
    grant = grant_of(request)
    if grant is None or not grant.allows("metrics"):
        return PlainTextResponse("A token that grants metrics is needed.\n", 403)
    return PlainTextResponse(service_of(request).measure(), media_type="text/plain; version=0.0.4")
