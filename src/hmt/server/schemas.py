"""OpenAPI and AsyncAPI, generated from the types that decode and encode the messages."""

from collections.abc import Iterable
from functools import cache
from typing import Any, get_args

import msgspec
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from hmt import __version__
from hmt.server import client_secrets
from hmt.server.client_secrets import SecretAsked
from hmt.server.libre import Asked
from hmt.server.messages import AnyClientEvent
from hmt.server.replies import AnyServerEvent
from hmt.server.room_events import EVENTS

INFO = {"title": "hmt serve", "version": __version__}
JSON = "application/json"
TEXTS = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}


def _anything(kind: type) -> dict[str, Any]:
    """The schema of `object`, as in the settings of a record: any value."""
    if kind is not object:
        raise NotImplementedError
    return {"description": "Any value."}


def _ref(*path: str) -> dict[str, str]:
    return {"$ref": "/".join(("#", *path))}


def _channel(address: str, messages: Iterable[str], **more: Any) -> dict[str, Any]:
    return {
        "address": address,
        "messages": {name: _ref("components", "messages", name) for name in messages},
        **more,
    }


def _operation(action: str, channel: str, messages: Iterable[str]) -> dict[str, Any]:
    return {
        "action": action,
        "channel": _ref("channels", channel),
        "messages": [_ref("channels", channel, "messages", name) for name in messages],
    }


def _room_message(event: str, kind: type) -> dict[str, Any]:
    """A room's event as it goes over a WebSocket."""
    properties = {
        "id": {"type": "integer"},
        "event": {"enum": [event]},
        "data": _ref("components", "schemas", kind.__name__),
    }
    payload = {"type": "object", "required": list(properties), "properties": properties}
    return {"name": event, "payload": payload}


@cache
def asyncapi() -> dict[str, Any]:
    """The WebSocket protocols: a session, and a room for those who read along."""
    clients, servers = get_args(AnyClientEvent), get_args(AnyServerEvent)
    rooms = {kind.__name__: (event, kind) for event, kind in EVENTS.items()}
    _, components = msgspec.json.schema_components(
        [*clients, *servers, *EVENTS.values()],
        schema_hook=_anything,
        ref_template="#/components/schemas/{name}",
    )
    messages = {
        kind.__name__: {
            "name": kind.__struct_config__.tag,
            "payload": _ref("components", "schemas", kind.__name__),
        }
        for kind in (*clients, *servers)
    }
    received, sent = ([kind.__name__ for kind in kinds] for kinds in (clients, servers))
    parameters = {"room": {"description": "The name of a room."}}
    return {
        "asyncapi": "3.0.0",
        "info": INFO,
        "defaultContentType": JSON,
        "channels": {
            "translations": _channel("/v1/realtime/translations", messages),
            "rooms": _channel("/v1/rooms/{room}", rooms, parameters=parameters),
        },
        "operations": {
            "receive": _operation("receive", "translations", received),
            "send": _operation("send", "translations", sent),
            "tell": _operation("send", "rooms", rooms),
        },
        "components": {
            "messages": {
                **messages,
                **{name: _room_message(*known) for name, known in rooms.items()},
            },
            "schemas": components,
        },
    }


def _answer(kind: str = JSON, **schema: Any) -> dict[str, Any]:
    return {"200": {"description": "The answer.", "content": {kind: {"schema": schema}}}}


def _refusals() -> dict[str, Any]:
    # a sentence, or OpenAI's object at its endpoints
    error = {"type": "object", "properties": {"error": {"type": ["string", "object"]}}}
    content = {JSON: {"schema": error}}
    return {
        code: {"description": what, "content": content}
        for code, what in (
            ("400", "Invalid; the message says what is allowed."),
            ("401", "A token is needed."),
            ("403", "This token does not grant it."),
            ("404", "Not found."),
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


def _body(name: str, fields: Iterable[str] = ()) -> dict[str, Any]:
    """A body as JSON; if `fields` are named, also as a form, in which everything is text."""
    content: dict[str, Any] = {JSON: {"schema": {"$ref": f"#/components/schemas/{name}"}}}
    if fields:
        texts = {field: TEXTS if field == "q" else {"type": "string"} for field in fields}
        form = {"type": "object", "required": ["q"], "properties": texts}
        content["application/x-www-form-urlencoded"] = {"schema": form}
    return {"required": bool(fields), "content": content}


def _post(summary: str, body: dict[str, Any], **schema: Any) -> dict[str, Any]:
    responses = {**_answer(**schema), **_refusals()}
    return {"post": {"summary": summary, "requestBody": body, "responses": responses}}


@cache
def openapi() -> dict[str, Any]:
    """The HTTP endpoints."""
    _, components = msgspec.json.schema_components(
        [Asked, SecretAsked], ref_template="#/components/schemas/{name}"
    )
    components["Asked"]["required"] = ["q"]
    components["Asked"]["properties"]["q"] = TEXTS
    body = _body("Asked", components["Asked"]["properties"])
    secret = _post("Make a secret for a browser.", _body("SecretAsked"), type="object")
    translate = _post("Translate text.", body, type="object")
    streamed = {"application/x-ndjson": {"schema": {"type": "string"}}}  # with "stream": true
    translate["post"]["responses"]["200"]["content"].update(streamed)
    languages = _get("Languages and their targets.", type="array")
    room = "/v1/rooms/{room}"
    return {
        "openapi": "3.1.0",
        "info": INFO,
        "paths": {
            "/translate": translate,
            "/detect": _post("Name a language.", body, type="array"),
            "/languages": {**languages, "post": languages["get"]},
            "/frontend/settings": _get("Settings of LibreTranslate's page.", type="object"),
            "/health": _get("Whether all is well.", type="object"),
            "/health/live": _get("The process answers.", "text/plain", type="string"),
            "/health/ready": _get("Ready for new clients.", "text/plain", type="string"),
            "/v1/models": _get("Models and their settings.", type="object"),
            client_secrets.PATH: secret,
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
    """Routes of the documents; /spec is LibreTranslate's."""
    return [
        Route("/openapi.json", _openapi),
        Route("/spec", _openapi),
        Route("/asyncapi.json", _asyncapi),
    ]
