"""Other people's clients against `hmt serve`, unmodified and in an environment of their own.

They pin other packages than the server, so `make clients` installs them beside it:
    HMT_CLIENTS_VENV=.venv-clients pytest tests/protocol/test_server_clients.py
"""

import hashlib
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette", reason="the extra `serve` is not installed")
pytest.importorskip("msgspec", reason="the extra `serve` is not installed")

from live_server import WORDS, Running, piped, serving, small_model

VENV = os.environ.get("HMT_CLIENTS_VENV", "")
pytestmark = pytest.mark.skipif(
    not VENV, reason="HMT_CLIENTS_VENV names no environment with other people's clients"
)
SECRET = "open sesame"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server that wants tokens, as one that is reached by strangers does."""
    tokens = tmp_path_factory.mktemp("clients") / "tokens"
    tokens.write_text(f"ana {hashlib.sha256(SECRET.encode()).hexdigest()} translate,speak:*\n")
    with serving(small_model(), token_file=tokens) as running:
        yield running


@pytest.fixture(scope="module")
def open_server() -> Iterator[Running]:
    with serving(small_model()) as running:
        yield running


def run(script: str, *arguments: str) -> Any:
    """What a script prints as JSON in the environment of the clients."""
    python = Path(VENV).resolve() / "bin" / "python"
    command = [str(python), "-c", script, *arguments]
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


# ---- OpenAI

OPENAI = """
import json, sys
from openai import OpenAI

url, secret, *words = sys.argv[1:]
client = OpenAI(base_url=url, api_key=secret)
models = [model.id for model in client.models.list()]
events = []
with client.realtime.translations.connect(model=models[0]) as connection:
    connection.session.update(session={"audio": {
        "input": {"transcription": {"model": "any"}}, "output": {"language": "yy"}}})
    connection.session.input_audio_buffer.append(audio="AAAA", event_id="sound")
    for word in words:
        connection.send({"type": "session.input_text.append", "text": word + " "})
    connection.session.close()
    for event in connection:
        events.append((type(event).__name__, event.to_dict()))
print(json.dumps([models, events]))
"""


def test_the_openai_client_runs_a_whole_session(server: Running) -> None:
    """Planted bug: a wish for a transcription that is not heard."""
    models, events = run(OPENAI, f"{server.http}/v1", SECRET, *WORDS)
    assert models == ["xx-yy"]
    kinds = [kind.removeprefix("RealtimeTranslation") for kind, _ in events]
    assert kinds[0] == "SessionCreatedEvent" and kinds[-1] == "SessionClosedEvent"
    assert "SessionUpdatedEvent" in kinds
    by_kind: dict[str, list[Any]] = {}
    for kind, (_, event) in zip(kinds, events, strict=True):
        by_kind.setdefault(kind, []).append(event)
    written = "".join(event["delta"] for event in by_kind["OutputTranscriptDeltaEvent"])
    assert written == piped(server.model, WORDS)
    heard = "".join(event["delta"] for event in by_kind["InputTranscriptDeltaEvent"])
    assert heard.split() == WORDS, "transcription was asked for"
    # its union knows no event of ours; those come as its first member, with their own `type`
    (refused,) = [e for e in by_kind["RealtimeErrorEvent"] if e["type"] == "error"]
    assert refused["error"]["code"] == "unsupported_input"
    assert refused["error"]["event_id"] == "sound"


OPENAI_ASYNC = """
import asyncio, json, sys
from openai import AsyncOpenAI

url, secret, *words = sys.argv[1:]

async def main():
    client = AsyncOpenAI(base_url=url, api_key=secret)
    made = await client.realtime.translations.client_secrets.create(
        session={"model": "xx-yy", "audio": {"output": {"language": "yy"}}},
        expires_after={"anchor": "created_at", "seconds": 60})
    text = ""
    guest = AsyncOpenAI(base_url=url, api_key=made.value)
    async with guest.realtime.translations.connect(model=made.session.model) as connection:
        await connection.send({"type": "session.input_text.append", "words": words})
        await connection.session.close()
        async for event in connection:
            if event.type == "session.output_transcript.delta":
                text += event.delta
    made = made.to_dict()
    print(json.dumps([made, text]))

asyncio.run(main())
"""


def test_the_openai_client_makes_secrets_for_browsers(server: Running) -> None:
    made, text = run(OPENAI_ASYNC, f"{server.http}/v1", SECRET, *WORDS)
    assert text == piped(server.model, WORDS)
    assert made["value"].startswith("ek_")
    assert made["session"]["type"] == "translation"
    assert made["session"]["id"].startswith("sess_")


OPENAI_REFUSED = """
import json, sys
import openai
from openai import OpenAI

url, secret = sys.argv[1:]
found = []
stranger = OpenAI(base_url=url, api_key="wrong", max_retries=0)
try:
    stranger.models.list()
except openai.APIStatusError as error:
    found.append([type(error).__name__, error.status_code, str(error)])
for client, model in ((stranger, "xx-yy"), (OpenAI(base_url=url, api_key=secret), "gpt")):
    with client.realtime.translations.connect(model=model) as connection:
        try:
            for event in connection:
                found.append(event.error.message)
        except Exception as error:
            found.append(type(error).__name__)
print(json.dumps(found))
"""


def test_the_openai_client_learns_why_it_is_refused(server: Running) -> None:
    listed, *rest = run(OPENAI_REFUSED, f"{server.http}/v1", SECRET)
    assert listed[:2] == ["AuthenticationError", 401]
    assert "token" in listed[2]
    assert any("token is needed" in message for message in rest)
    assert any("no such model" in message for message in rest)


# ---- LibreTranslate

LIBRE = """
import json, sys
from urllib.error import HTTPError
from libretranslatepy import LibreTranslateAPI

url, secret, text = sys.argv[1:]
api = LibreTranslateAPI(url, api_key=secret)
languages = api.languages()
found = [api.translate(text, "xx", "yy"), api.detect(text), languages]
try:
    LibreTranslateAPI(url).translate(text, "xx", "yy")
except HTTPError as error:
    found.append([error.code, json.loads(error.read())])
print(json.dumps(found))
"""


def test_the_libretranslate_client_translates(server: Running) -> None:
    lines = ["Nolu ka, besi tarum!", "", "Lim pelo-besi: tarum ka, nolu."]
    text, detected, languages, refused = run(LIBRE, server.http, SECRET, "\n".join(lines))
    assert text.split("\n") == [piped(server.model, line.split()) for line in lines]
    assert detected == [{"confidence": 0, "language": "xx"}]
    assert {"code": "xx", "name": "xx", "targets": ["yy"]} in languages
    assert refused[0] == 403 and "api_key" in refused[1]["error"]


# ---- WhisperLiveKit

# Its package imports torch and a recogniser; the sidecar's client needs neither.  A package that
# names only where the files are lets the module, as it was published, be imported by itself.
WHISPERLIVEKIT = """
import importlib.util, json, sys, time, types

package = types.ModuleType("whisperlivekit")
package.__path__ = importlib.util.find_spec("whisperlivekit").submodule_search_locations
sys.modules["whisperlivekit"] = package
from whisperlivekit.timed_objects import ASRToken, HypothesisTail
from whisperlivekit.translation_alignatt import AlignAttRemoteEngine

url, target, latency, cut, *words = sys.argv[1:]
engine = AlignAttRemoteEngine(url=url, source_language="xx", preset=None, latency=latency)
client = engine.new_session(target)
finals, partials = [], []
for k, word in enumerate(words):
    client.insert_tokens([ASRToken(start=k / 2, end=k / 2 + 0.4, text=" " + word)])
    if client.wants_hypothesis_tail:
        client.insert_tokens([HypothesisTail(start=None, end=k / 2 + 0.6, text="per haps")])
    if k == int(cut):
        client._ws.socket.close()  # as a network does
        client.process()
        time.sleep(1.2)  # it waits a second before it tries again
    segment, buffer = client.process()
    finals += [segment.text] if segment else []
    partials.append(buffer.text)
while client._pending_finals and client._ws:
    segment, _ = client.process()
    finals += [segment.text] if segment else []
print(json.dumps([finals, partials, client._down_warned]))
"""


def utterances(words: list[str]) -> list[list[str]]:
    """As its client cuts them: behind every word that has a mark which ends sentences."""
    found: list[list[str]] = [[]]
    for word in words:
        found[-1].append(word)
        if set(word) & set(".!?"):
            found.append([])
    return [words for words in found if words]


@pytest.mark.parametrize("latency", ["balanced", "quality", "low"])
@pytest.mark.parametrize("cut", [-1, 6], ids=["whole", "cut"])
def test_whisperlivekit_translates_what_it_hears(
    open_server: Running, latency: str, cut: int
) -> None:
    path = "" if latency == "balanced" else "/sidecar/alignatt"  # it looks at / by default
    url = f"{open_server.url.rsplit('/v1', 1)[0]}{path}"
    finals, partials, is_down = run(WHISPERLIVEKIT, url, "yy", latency, str(cut), *WORDS)
    assert not is_down
    settings: dict[str, dict[str, Any]] = {
        "balanced": {},
        "quality": {"lower": 6},
        "low": {"lower": 1},
    }
    knobs = settings[latency]
    if not open_server.service.served["xx-yy"]._fits(knobs):  # the model has no such setting
        knobs = {}
    assert finals == [piped(open_server.model, words, **knobs) for words in utterances(WORDS)]
    assert any(partials), "text is shown before an utterance ends"


def test_whisperlivekit_learns_which_directions_there_are(open_server: Running) -> None:
    url = f"{open_server.url.rsplit('/v1', 1)[0]}/sidecar/alignatt"
    finals, partials, is_down = run(WHISPERLIVEKIT, url, "zz", "balanced", "-1", *WORDS[:2])
    assert is_down and not finals and not any(partials)
