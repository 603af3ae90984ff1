"""The application: its routes, and the headers of all responses."""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Mount, Route, WebSocketRoute
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hmt.server import client_secrets, health, libre, listening, realtime, schemas, sidecar
from hmt.server.patience import WholeBodies
from hmt.server.service import Service

PAGE = Path(__file__).parent / "page"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors "
)
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Permissions-Policy": "microphone=(self)",
    "Cross-Origin-Opener-Policy": "same-origin",
}


class SecurityHeaders:
    """Adds security headers to every response."""

    def __init__(self, app: ASGIApp, captions_ancestors: str) -> None:
        self._app, self._captions_ancestors = app, captions_ancestors

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        is_captions = scope["path"] == "/captions"
        ancestors = self._captions_ancestors if is_captions else "'none'"

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers["Content-Security-Policy"] = POLICY + ancestors
                for name, value in HEADERS.items():
                    headers[name] = value
            await send(message)

        await self._app(scope, receive, send_with_headers)


def _page(name: str) -> Route:
    async def show(request: Request) -> Response:
        path = PAGE / f"{name}.html"
        if not path.exists():
            return PlainTextResponse("This installation has no page; the API works.\n", 404)
        return FileResponse(path, headers={"Cache-Control": "no-cache"})

    return Route("/" if name == "index" else f"/{name}", show)


class PageFiles(StaticFiles):
    """Files of the page; browsers revalidate each time, so that old and new ones never mix."""

    def file_response(self, *args: Any, **options: Any) -> Response:
        """The file, or 304 if it has not changed."""
        response = super().file_response(*args, **options)
        response.headers["Cache-Control"] = "no-cache"
        return response


def routes() -> list[BaseRoute]:
    """All routes."""
    room = "/v1/rooms/{room}"
    return [
        WebSocketRoute("/v1/realtime/translations", realtime.realtime),
        Route(client_secrets.PATH, client_secrets.make, methods=["POST"]),
        Route("/v1/models", health.models),
        Route(f"{room}/events", listening.events),
        Route(f"{room}/captions.{{kind}}", listening.captions),
        WebSocketRoute(room, listening.socket),
        WebSocketRoute("/sidecar/alignatt", sidecar.sidecar),
        WebSocketRoute("/", sidecar.sidecar),  # WhisperLiveKit's default path
        *libre.routes(),
        *schemas.routes(),
        Route("/health", health.health),
        Route("/health/live", health.live),
        Route("/health/ready", health.ready),
        Route("/metrics", health.metrics),
        _page("index"),
        _page("captions"),
        Mount("/static", PageFiles(directory=PAGE, check_dir=False)),
    ]


def make_app(service: Service) -> Starlette:
    """The ASGI application of a service."""
    settings = service.settings

    @contextlib.asynccontextmanager
    async def life(app: Starlette) -> AsyncIterator[None]:
        await service.start()
        yield
        await service.stop()

    middleware = [
        Middleware(TrustedHostMiddleware, allowed_hosts=settings.allowed_hosts, www_redirect=False),
        Middleware(SecurityHeaders, captions_ancestors=settings.frame_ancestors),
    ]
    if settings.origins:
        middleware.append(
            Middleware(
                CORSMiddleware,
                allow_origins=settings.origins,
                allow_methods=["GET", "POST"],
                allow_headers=["Authorization", "Content-Type"],
            )
        )
    middleware.append(Middleware(WholeBodies))
    app = Starlette(
        routes=routes(),
        middleware=middleware,
        lifespan=life,
        max_body_size=service.limits.body_bytes,
    )
    app.state.service = service
    return app
