"""OpenAPI and AsyncAPI, generated from the types that decode and encode the messages."""

from functools import cache
from typing import Any, get_args

import msgspec
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from hmt import __version__
from hmt.server.libre import Asked
from hmt.server.messages import AnyClientEvent
from hmt.server.replies import AnyServerEvent

INFO = {"title": "hmt serve", "version": __version__}
JSON = "application/json"


def _schema(kind: type) -> dict[str, Any]:
    """Of types that msgspec does not know: the settings of a record are any JSON at all."""
    if kind is object:
        return {"description": "any JSON value"}
    raise NotImplementedError(kind)


@cache
def asyncapi() -> dict[str, Any]:
    """The WebSocket protocol."""
    clients, servers = get_args(AnyClientEvent), get_args(AnyServerEvent)
    _, components = msgspec.json.schema_components(
        [*clients, *servers],
        schema_hook=_schema,
        ref_template="#/components/schemas/{name}",
    )
    messages = {
        kind.__name__: {
            "name": kind.__struct_config__.tag,
            "payload": {"$ref": f"#/components/schemas/{kind.__name__}"},
        }
        for kind in (*clients, *servers)
    }

    def operation(action: str, kinds: tuple[type, ...]) -> dict[str, Any]:
        return {
            "action": action,
            "channel": {"$ref": "#/channels/translations"},
            "messages": [
                {"$ref": f"#/channels/translations/messages/{kind.__name__}"} for kind in kinds
            ],
        }

    return {
        "asyncapi": "3.0.0",
        "info": INFO,
        "channels": {
            "translations": {
                "address": "/v1/realtime/translations",
                "messages": {name: {"$ref": f"#/components/messages/{name}"} for name in messages},
            }
        },
        "operations": {
            "receive": operation("receive", clients),
            "send": operation("send", servers),
        },
        "components": {"messages": messages, "schemas": components},
    }


def _answer(kind: str = JSON, **schema: Any) -> dict[str, Any]:
    return {"200": {"description": "The answer.", "content": {kind: {"schema": schema}}}}


def _refusals() -> dict[str, Any]:
    error = {"type": "object", "properties": {"error": {"type": "string"}}}
    content = {JSON: {"schema": error}}
    return {
        code: {"description": what, "content": content}
        for code, what in (
            ("400", "Not as it should be; the message says what would be right."),
            ("403", "A token is needed."),
            ("404", "There is no such thing."),
            ("429", "Too many requests."),
            ("503", "Too busy."),
        )
    }


def _get(summary: str, kind: str = JSON, *names: str, **schema: Any) -> dict[str, Any]:
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in names
    ]
    responses = {**_answer(kind, **schema), **_refusals()}
    return {"get": {"summary": summary, "parameters": parameters, "responses": responses}}


@cache
def openapi() -> dict[str, Any]:
    """The HTTP endpoints."""
    _, components = msgspec.json.schema_components(
        [Asked], ref_template="#/components/schemas/{name}"
    )
    asked = {"schema": {"$ref": "#/components/schemas/Asked"}}
    body = {"required": True, "content": {JSON: asked, "application/x-www-form-urlencoded": asked}}
    responses = {**_answer(type="object"), **_refusals()}
    detected = {**_answer(type="array"), **_refusals()}
    room = "/v1/rooms/{room}"
    return {
        "openapi": "3.1.0",
        "info": INFO,
        "paths": {
            "/translate": {
                "post": {"summary": "Translate text.", "requestBody": body, "responses": responses}
            },
            "/detect": {
                "post": {"summary": "Name a language.", "requestBody": body, "responses": detected}
            },
            "/languages": _get("Languages and their targets.", type="array"),
            "/frontend/settings": _get("Settings of LibreTranslate's page.", type="object"),
            "/health": _get("Whether all is well.", type="object"),
            "/health/live": _get("The process answers.", "text/plain", type="string"),
            "/health/ready": _get("Ready for new clients.", "text/plain", type="string"),
            "/v1/models": _get("Models and their settings.", type="object"),
            f"{room}/events": _get("A room's events.", "text/event-stream", "room", type="string"),
            f"{room}/captions.{{kind}}": _get(
                "A room's captions.", "text/plain", "room", "kind", type="string"
            ),
        },
        "components": {"schemas": components},
    }


async def _openapi(request: Request) -> Response:
    return JSONResponse(openapi())


async def _asyncapi(request: Request) -> Response:
    return JSONResponse(asyncapi())


def routes() -> list[Route]:
    """Where the documents are; /spec is LibreTranslate's place for it."""
    return [
        Route("/openapi.json", _openapi),
        Route("/spec", _openapi),
        Route("/asyncapi.json", _asyncapi),
    ]
