"""/openapi.json and /asyncapi.json against the schemas of their makers, and messages against them.

The schemas come with other people's packages (`make clients`):
    HMT_CLIENTS_VENV=.venv-clients pytest tests/protocol/test_api_documents.py
"""

import asyncio
import copy
import json
import os
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette", reason="the extra `serve` is not installed")
pytest.importorskip("msgspec", reason="the extra `serve` is not installed")

from live_server import Running, Talk, serving, small_model, talking
from websockets.asyncio.client import connect

from hmt.server.schemas import asyncapi, openapi

VENV = os.environ.get("HMT_CLIENTS_VENV", "")
VALIDATOR = Path(VENV).resolve() / "bin" / "openapi-spec-validator"  # brings jsonschema, too
SCHEMAS = Path(VENV).resolve() / "node_modules" / "@asyncapi" / "specs" / "schemas"
needs_clients = pytest.mark.skipif(
    not VENV or not VALIDATOR.exists(),
    reason="HMT_CLIENTS_VENV names no environment with openapi-spec-validator",
)
needs_asyncapi = pytest.mark.skipif(
    not VENV or not VALIDATOR.exists() or not SCHEMAS.exists(),
    reason="HMT_CLIENTS_VENV names no environment with the schemas of AsyncAPI",
)
GUIDE = (Path(__file__).resolve().parents[2] / "docs" / "serve.md").read_text()
Document = dict[str, Any]


def run(script: str, given: object) -> list[list[str]]:
    """What a script in the environment of the clients finds wrong with each document."""
    python = Path(VENV).resolve() / "bin" / "python"
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    done = subprocess.run(
        [str(python), "-c", script],
        input=json.dumps(given),
        capture_output=True,
        text=True,
        timeout=300,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    found: list[list[str]] = json.loads(done.stdout)
    return found


# AsyncAPI describes messages in draft 7 of JSON Schema, and is itself described in it.
SEVEN = """
import json, sys
from jsonschema import Draft7Validator

print(json.dumps([
    [f"{e.json_path}: {e.message[:300]}" for e in Draft7Validator(schema).iter_errors(document)]
    for schema, document in json.load(sys.stdin)
]))
"""
OPENAPI = """
import json, sys
from openapi_spec_validator import OpenAPIV31SpecValidator

print(json.dumps([
    [error.message[:300] for error in OpenAPIV31SpecValidator(document).iter_errors()]
    for document in json.load(sys.stdin)
]))
"""


def spoilt(document: Document, spoil: Callable[[Document], object]) -> Document:
    """A copy with a mistake in it, which the schema must find."""
    wrong = copy.deepcopy(document)
    spoil(wrong)
    return wrong


@needs_asyncapi
def test_the_asyncapi_document_is_valid() -> None:
    document = asyncapi()
    schema = json.loads((SCHEMAS / f"{document['asyncapi']}.json").read_text())
    mistakes = [
        spoilt(document, lambda d: d["operations"]["send"].update(action="shout")),
        spoilt(document, lambda d: d["channels"]["rooms"].update(adress="/v1/rooms")),
        spoilt(document, lambda d: d["components"]["schemas"]["Append"].update(type="objekt")),
        spoilt(document, lambda d: d["info"].pop("version")),
    ]
    found, *wrong = run(SEVEN, [[schema, each] for each in (document, *mistakes)])
    assert found == []
    assert all(wrong), "the schema finds mistakes"


@needs_clients
def test_the_openapi_document_is_valid() -> None:
    document = openapi()
    room = "/v1/rooms/{room}/events"
    mistakes = [
        spoilt(document, lambda d: d["paths"][room]["get"].update(parameters=[])),
        spoilt(document, lambda d: d["paths"]["/health"]["get"].update(responses=[])),
        spoilt(document, lambda d: d["components"]["schemas"]["Asked"].update(type="objekt")),
        spoilt(document, lambda d: d["info"].pop("version")),
    ]
    found, *wrong = run(OPENAPI, [document, *mistakes])
    assert found == []
    assert all(wrong), "the schema finds mistakes"


def references(part: object) -> Iterator[str]:
    if isinstance(part, dict):
        for key, value in part.items():
            yield from [value] if key == "$ref" else references(value)
    elif isinstance(part, list):
        for value in part:
            yield from references(value)


@pytest.mark.parametrize("document", [asyncapi(), openapi()], ids=["asyncapi", "openapi"])
def test_every_reference_leads_somewhere(document: Document) -> None:
    """Which no schema checks."""
    named = set(references(document))
    assert len(named) > 1
    for reference in named:
        part: Any = document
        for name in reference.removeprefix("#/").split("/"):
            part = part[name]


# ---- what goes over the wire


async def everything_said(server: Running) -> list[Document]:
    """Events of a session that takes nearly every way there is."""
    async with talking(server) as talk:
        token = talk.events[0]["session"]["hmt"]["resume_token"]
        await talk.send("session.update", session={"hmt": {"detail": True, "echo": True}})
        await talk.until("session.updated")
        await talk.append("Nolu ka besi tarum pelo ", seq=1, at_ms=[0, 300])
        await talk.send("session.input_text.commit", hmt={"seq": 2})
        await talk.until("session.output_transcript.done")
        guess = {"text": "Lim ka besi", "utterance": 1, "committed": 2, "seq": 3}
        await talk.send("session.input_text.hypothesis", hmt=guess)
        guess |= {"text": "Besi ka", "seq": 4}
        await talk.send("session.input_text.hypothesis", hmt=guess)
        await talk.until("session.notice")
        await talk.send("session.nothing", event_id="mine")
        await talk.until("error")
        await talk.until("session.heartbeat")
        async with talking(server, "resume=1") as again:
            await again.send("session.resume", hmt={"token": token, "after": 1})
            await again.finish()
        return talk.events + again.events


async def everything_read(server: Running) -> list[Document]:
    """Events of a room, from the first word to the end of its speaker."""
    url = server.url.replace("realtime/translations", "rooms/aula?kind=words,cues,source&wait=1")
    async with connect(url) as websocket:
        reader = Talk(websocket)
        async with talking(server, "room=aula") as talk:
            guess = {"text": "Nolu ka besi", "utterance": 1, "committed": 1}
            await talk.send("session.input_text.hypothesis", hmt=guess)
            await talk.append("Nolu ka besi. ")
            await talk.finish()
        while (event := await reader.next())["event"] != "state" or event["data"]["tracks"] == []:
            pass
        while (await reader.next())["event"] != "state":
            pass
    return reader.events


def against(document: Document, named: str, events: list[Document]) -> list[tuple[Document, Any]]:
    """Each event with the schema that the document has for it."""
    messages, components = document["components"]["messages"], document["components"]
    names = {message["name"]: message["payload"] for message in messages.values()}
    return [({**names[event[named]], "components": components}, event) for event in events]


@needs_clients
def test_every_message_is_as_documented() -> None:
    """Planted bugs: a field of another type, an event of a room that the document does not name."""
    with serving(small_model(), heartbeat_seconds=1) as server:
        said = asyncio.run(everything_said(server))
        read = asyncio.run(everything_read(server))
    document = asyncapi()
    blocks = re.findall(r"```json (client|server)\n(.*?)```", GUIDE, re.S)
    shown = [json.loads(line) for _, block in blocks for line in block.splitlines()]
    sent = {message["name"] for message in document["components"]["messages"].values()}
    assert {event["type"] for event in said + shown} | {e["event"] for e in read} >= sent - {
        "session.input_audio_buffer.append"
    }
    broken = [{**said[0], "session": None}, {**read[0], "id": "1"}]
    pairs = against(document, "type", [*said, *shown, broken[0]])
    pairs += against(document, "event", [*read, broken[1]])
    found = run(SEVEN, [list(pair) for pair in pairs])
    wrong = [(event, errors) for (_, event), errors in zip(pairs, found, strict=True) if errors]
    assert [event for event, _ in wrong] == broken, wrong
