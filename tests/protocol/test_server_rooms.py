"""Rooms, captions, LibreTranslate's endpoints, the sidecar, tokens: as their clients use them."""

import asyncio
import hashlib
import html
import json
import os
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette", reason="the extra `serve` is not installed")
pytest.importorskip("msgspec", reason="the extra `serve` is not installed")
pytest.importorskip("httpx")

import httpx
from caption_readers import read_srt, read_vtt
from live_server import Running, Talk, piped, server_sent_events, serving, small_model, talking
from websockets.asyncio.client import connect

from hmt.models.model import Model
from hmt.server.tokens import EVERYBODY, Tokens
from hmt.server.transcripts import Files, Shelf, Transcript
from hmt.streaming.events import Written


@pytest.fixture(scope="module")
def model() -> Model:
    return small_model()


@pytest.fixture(scope="module")
def server(model: Model, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with serving(model, captions=tmp_path_factory.mktemp("captions")) as running:
        yield running


SECONDS = 90  # machines of continuous integration are slow


def get(url: str, **options: Any) -> httpx.Response:
    return httpx.get(url, timeout=SECONDS, **options)


def post(url: str, **options: Any) -> httpx.Response:
    return httpx.post(url, timeout=SECONDS, **options)


SPEECH = "Nolu ka, besi tarum! Ka besi nolu. Lim pelo ka. "


async def listen(server: Running, room: str, after: str = "", count: int = 3) -> list[Any]:
    """Events of a room up to so many sentences, as (id, name, data)."""
    found: list[Any] = []
    headers = {"Last-Event-ID": after} if after else {}
    url = f"{server.http}/v1/rooms/{room}/events?kind=words,cues,source"
    async with (
        httpx.AsyncClient(timeout=SECONDS) as client,
        client.stream("GET", url, headers=headers) as response,
    ):
        assert response.headers["content-type"].startswith("text/event-stream")
        async for event in server_sent_events(response):
            found.append(event)
            count -= event[1] == "sentence"
            if count <= 0:
                return found
    return found


def text_of(events: list[Any], track: str = "yy") -> str:
    deltas = [data for _, name, data in events if name == "delta" and data["track"] == track]
    return "".join(data["delta"] for data in deltas)


def test_one_translation_for_all_who_listen(server: Running) -> None:
    """Everybody reads whole words of the same text; who comes back misses and repeats nothing.

    Planted bugs: pieces instead of words; the last event repeated after Last-Event-ID.
    """

    async def run() -> tuple[list[list[Any]], str]:
        async with talking(server, "room=aula") as talk:
            readers = [asyncio.create_task(listen(server, "aula")) for _ in range(3)]
            while server.service.rooms.listeners < 3:
                await asyncio.sleep(0.02)
            await talk.append(SPEECH)
            found = [await reader for reader in readers]
            middle = found[0][len(found[0]) // 2][0]
            rest = await listen(server, "aula", str(middle), count=1)
            expected = [event for event in found[0] if event[0] > middle]
            assert rest[: len(expected)] == expected[: len(rest)]
            return found, await talk.finish()

    found, text = asyncio.run(run())
    assert found[0][0][1] == "snapshot"
    assert found[0] == found[1] == found[2]
    assert text.startswith(text_of(found[0])) and text_of(found[0])
    assert all(
        data["delta"].startswith(" ")
        for _, name, data in found[0][1:]
        if name == "delta" and data["track"] == "yy" and data["sentence"] > 0
    )
    assert text_of(found[0], "source") == SPEECH


def test_captions_are_files_that_grow(server: Running) -> None:
    async def run() -> str:
        async with talking(server, "room=hall") as talk:
            await talk.append(SPEECH)
            return str(await talk.finish())

    text = asyncio.run(run())
    base = f"{server.http}/v1/rooms/hall/captions"
    webvtt = pytest.importorskip("webvtt")
    vtt = get(f"{base}.vtt")
    assert vtt.headers["content-type"].startswith("text/vtt")
    cues = list(webvtt.from_string(vtt.text))
    shown = html.unescape("".join(cue.text for cue in cues))
    assert "".join(shown.split()) == "".join(text.split())  # a long word takes several lines
    srt = get(f"{base}.srt").text
    assert srt.startswith("1\n00:00:0")
    assert get(f"{base}.txt").text.split() == text.split()
    records = [json.loads(line) for line in get(f"{base}.jsonl").text.splitlines()]
    assert " ".join(record["source"] for record in records).split() == SPEECH.split()
    folder = server.service.settings.captions
    assert folder is not None
    assert (folder / "hall.yy.vtt").read_text() == vtt.text
    assert get(f"{base}.exe").status_code == 404
    assert get(f"{server.http}/v1/rooms/nowhere/captions.vtt?track=zz").status_code == 404


def test_captions_of_a_room_that_begins_again_go_on(tmp_path: Path) -> None:
    """After a restart, or a room's ten minutes without a speaker. Planted bug: both its files
    begin a second time at cue 1 and at 0 seconds, which players refuse or sort in between."""
    for text in (" Nolu", " Besi"):
        script = Transcript("aula", "yy", Shelf(tmp_path))
        script.write([Written(0, 0.0, text, 1, 1, None, 0.0, is_whole=True)])
        script.flush()
        os.utime(tmp_path / "aula.yy.srt", (time.time() - 60,) * 2)
    cues = read_srt((tmp_path / "aula.yy.srt").read_text())
    assert cues == read_vtt((tmp_path / "aula.yy.vtt").read_text())
    assert len(cues) == 2 and 60_000 <= cues[1].start_ms - cues[0].end_ms < 90_000


@pytest.mark.parametrize("found", [b"", b"\xff\x00", b"9\n00:00:01,000 --> soon\n", None])
def test_captions_behind_a_file_of_others_begin_at_nothing(tmp_path: Path, found: Any) -> None:
    """Planted bugs: a pipe is waited for; what is no cue is read as one."""
    if found is None:
        os.mkfifo(tmp_path / "aula.yy.srt")
    else:
        (tmp_path / "aula.yy.srt").write_bytes(found)
    assert Files(Shelf(tmp_path), "aula.yy").last_cue() == (0, 0)


def test_captions_that_cannot_be_written_stop_nobody(model: Model, tmp_path: Path) -> None:
    """A disk that is full or gone. Planted bug: the session ends with it."""
    folder = tmp_path / "captions"
    folder.mkdir()

    async def run(server: Running) -> str:
        async with talking(server, "room=hall") as talk:
            folder.rmdir()
            await talk.append(SPEECH)
            return str(await talk.finish())

    with serving(model, captions=folder) as server:
        assert asyncio.run(run(server)) == piped(model, SPEECH.split())
        found = get(f"{server.http}/metrics").text
        assert get(f"{server.http}/v1/rooms/hall/captions.txt").text.strip()
    (line,) = [line for line in found.splitlines() if line.startswith("hmt_caption_failures ")]
    assert float(line.split()[1]) > 0


def test_a_room_has_one_speaker_per_language(server: Running) -> None:
    async def run() -> int:
        async with talking(server, "room=lab"), connect(f"{server.url}?room=lab") as second:
            return await Talk(second).code()

    assert asyncio.run(run()) == 4403


def test_libretranslate_clients_are_answered(server: Running) -> None:
    """JSON, forms, lists, blank lines. Planted bug: lines run together."""
    url = f"{server.http}/translate"
    lines = ["Nolu ka, besi.", "", "Ka besi nolu tarum."]
    one, _, three = (piped(server.model, line.split()) for line in lines)
    asked = {"q": "\n".join(lines), "source": "xx", "target": "yy-YY", "format": "text"}
    assert post(url, json=asked).json() == {"translatedText": f"{one}\n\n{three}"}
    answer = post(url, data={**asked, "source": "auto", "alternatives": "2"})
    assert answer.json() == {
        "translatedText": f"{one}\n\n{three}",
        "detectedLanguage": {"confidence": 0, "language": "xx"},
        "alternatives": [],
    }
    many = post(url, json={**asked, "q": [lines[0], lines[2]]}).json()
    assert many["translatedText"] == [one, three]
    streamed = post(url, json={**asked, "q": lines[0], "stream": True})
    deltas = [json.loads(line) for line in streamed.text.splitlines()]
    assert "".join(event["delta"] for event in deltas) == one
    for wrong, status in (
        ({"q": "a", "source": "xx", "target": "zz"}, 400),
        ({"source": "xx", "target": "yy"}, 400),
        ({**asked, "format": "html"}, 400),
        ({**asked, "q": "a" * 6000}, 400),
        ({**asked, "lower": 99}, 400),
        ([1], 400),
    ):
        answer = post(url, json=wrong)
        assert answer.status_code == status
        assert set(answer.json()) == {"error"}
    languages = get(f"{server.http}/languages").json()
    assert {"code": "xx", "name": "xx", "targets": ["yy"]} in languages
    assert post(f"{server.http}/detect", data={"q": "x"}).json()[0]["language"] == "xx"
    assert get(f"{server.http}/frontend/settings").json()["charLimit"] == 5000
    assert post(url, content=b"x" * 100_000).status_code == 413


def test_a_recogniser_s_sidecar(server: Running) -> None:
    """WhisperLiveKit's protocol: all words each time, text that only grows."""
    words = ["Nolu", "ka,", "besi", "tarum", "pelo."]

    async def run() -> list[dict[str, Any]]:
        url = server.url.replace("v1/realtime/translations", "sidecar/alignatt")
        async with connect(url) as websocket:
            init = {"type": "init", "protocol_version": 1, "source_lang": "xx", "target_lang": "qq"}
            await websocket.send(json.dumps(init))
            refused = json.loads(await websocket.recv())
            assert refused["code"] == "unsupported_direction"
            assert refused["supported"] == ["xx-yy"]
        answers = []
        async with connect(url) as websocket:
            await websocket.send(json.dumps({**init, "target_lang": "yy"}))
            assert json.loads(await websocket.recv())["type"] == "init_ok"
            for utterance in range(2):
                for n in range(1, len(words) + 1):
                    update = {
                        "type": "update",
                        "seq": 10 * utterance + n,
                        "utterance_id": utterance,
                        "words": [[word, 1.0, None] for word in words[:n]],
                        "tail": {"words": [["vielleicht", None, None]]},
                        "is_final": n == len(words),
                    }
                    await websocket.send(json.dumps(update))
                    answers.append(json.loads(await websocket.recv()))
        return answers

    answers = asyncio.run(run())
    expected = piped(server.model, words)
    for utterance in range(2):
        own = [answer for answer in answers if answer["utterance_id"] == utterance]
        texts = [answer["committed_text"] for answer in own]
        assert texts[-1] == expected
        assert all(b.startswith(a) for a, b in pairwise(texts))
        assert [answer["final"] for answer in own] == [False] * (len(words) - 1) + [True]


def test_documents_describe_every_event(server: Running) -> None:
    document = get(f"{server.http}/asyncapi.json").json()
    names = {message["name"] for message in document["components"]["messages"].values()}
    assert {"session.input_text.append", "session.output_transcript.delta", "error"} <= names
    assert "/translate" in get(f"{server.http}/spec").json()["paths"]
    assert get(f"{server.http}/openapi.json").json()["openapi"].startswith("3.1")


def test_health_models_metrics_and_headers(server: Running) -> None:
    assert get(f"{server.http}/health").json() == {"status": "ok"}
    assert get(f"{server.http}/health/live").status_code == 200
    assert get(f"{server.http}/health/ready").text == "ready\n"
    data = get(f"{server.http}/v1/models").json()["data"]
    knobs = {knob["name"]: knob for knob in data[0]["hmt"]["knobs"]}
    assert knobs["states"]["range"] == [1, 3]
    assert knobs["threshold"]["applies"] == "now"
    assert knobs["attention"]["choices"] == ["multiple", "max", "selected"]
    assert knobs["policy"]["choices"] == ["confidence", "last"]
    assert all(("range" in knob) != ("choices" in knob) for knob in knobs.values())
    metrics = get(f"{server.http}/metrics").text
    for name in ("hmt_sessions", "hmt_round_seconds_bucket", "hmt_words_total", "hmt_slots"):
        assert name in metrics
    answer = get(f"{server.http}/health")
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert answer.headers["x-content-type-options"] == "nosniff"
    rebound = get(f"{server.http}/health", headers={"Host": "evil.example"})
    assert rebound.status_code == 400


def test_tokens_open_what_their_scopes_say(model: Model, tmp_path: Path) -> None:
    """Planted bug: the room of a scope is not compared."""
    secrets = {"ana": "translate", "ben": "speak:aula", "eve": "listen:aula"}
    lines = [
        f"{name} {hashlib.sha256(name.encode()).hexdigest()} {scope}"
        for name, scope in secrets.items()
    ]
    file = tmp_path / "tokens"
    file.write_text("\n".join(lines))

    async def code(server: Running, query: str, name: str | None) -> int:
        headers = {} if name is None else {"Authorization": f"Bearer {name}"}
        async with connect(f"{server.url}?{query}", additional_headers=headers) as websocket:
            talk = Talk(websocket)
            first = await talk.next()
            if first["type"] == "session.created":
                return 1000
            return await talk.code()

    with serving(model, token_file=file) as server:
        assert asyncio.run(code(server, "", None)) == 4401
        assert asyncio.run(code(server, "", "eve")) == 4403
        assert asyncio.run(code(server, "", "ana")) == 1000
        assert asyncio.run(code(server, "room=aula", "ben")) == 1000
        assert asyncio.run(code(server, "room=other", "ben")) == 4403
        assert post(f"{server.http}/translate", json={"q": "a"}).status_code == 403
        assert get(f"{server.http}/metrics").status_code == 403
        events = f"{server.http}/v1/rooms/other/events?token=eve"
        assert get(events).status_code == 403
        bearer = {"Authorization": "Bearer ana"}
        made = post(f"{server.url.replace('ws:', 'http:')}/client_secrets", headers=bearer)
        assert asyncio.run(code(server, "", made.json()["value"])) == 1000


def test_a_guest_listens_in_one_room_while_the_speaker_may_speak(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    ana, ben = (
        f"{n} {hashlib.sha256(n.encode()).hexdigest()} speak:aula\n" for n in ("ana", "ben")
    )
    file.write_text(ana + ben)
    tokens, elsewhere = Tokens(file), Tokens(file)
    speaker = tokens.find("ana")
    assert speaker is not None
    link = tokens.invite(speaker, "aula")
    assert link is not None
    for host in (tokens, elsewhere):
        guest = host.find(link)
        assert guest is not None and guest.scopes == {"listen:aula"}
    start, until, signature = link.split("~")
    for forged in (
        f"lk_other~{until}~{signature}",
        f"{start}~{int(until) + 1}~{signature}",
        f"{start}~{until}~{'0' * 32}",
        str(tokens.invite(speaker, "other")),  # where the speaker may not speak
    ):
        assert tokens.find(forged) is None, forged
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hmt.server.tokens.time.time", lambda: int(until) + 1.0)
        assert tokens.find(link) is None
    file.write_text(ben)
    tokens.reload()
    assert tokens.find(link) is None
    assert Tokens().invite(EVERYBODY, "aula") is None, "nothing is needed where all may come in"


def test_a_link_with_a_token_lets_listen_and_nothing_else(model: Model, tmp_path: Path) -> None:
    """Planted bugs: a token of the address opens a session; links of one room open another."""
    file = tmp_path / "tokens"
    scopes = {"ben": "speak:aula,speak:other", "link": "listen:aula"}
    lines = (f"{n} {hashlib.sha256(n.encode()).hexdigest()} {s}" for n, s in scopes.items())
    file.write_text("\n".join(lines))

    async def run(server: Running) -> None:
        speaker = {"Authorization": "Bearer ben"}
        rooms = server.url.replace("realtime/translations", "rooms")
        async with talking(server, "room=aula", additional_headers=speaker) as talk:
            async with connect(f"{rooms}/aula?token=link&kind=source") as reader:
                snapshot = json.loads(await reader.recv())
                assert snapshot["event"] == "snapshot"
                await talk.append("Nolu ka. ")
                heard = json.loads(await reader.recv())
                assert heard["data"]["delta"] == "Nolu ka. "
            await talk.finish()
        captions = f"{server.http}/v1/rooms/aula/captions.txt"
        assert (await asyncio.to_thread(get, f"{captions}?token=link")).text.strip()
        for wrong in ("", "?token=", "?token=wrong", "?token=ana"):
            assert (await asyncio.to_thread(get, captions + wrong)).status_code == 403
        other = talking(server, "room=other", additional_headers=speaker)
        async with other, connect(f"{rooms}/other?token=link") as reader:
            assert await Talk(reader).code() == 4403
        async with connect(f"{server.url}?room=aula&token=link") as thief:
            assert await Talk(thief).code() == 4401

    with serving(model, token_file=file) as server:
        asyncio.run(run(server))


def test_the_last_cue_reaches_who_follows_captions() -> None:
    """Planted bug: what is written while the part before it is on its way, and the room closes."""

    async def run() -> list[str]:
        script = Transcript("aula", "yy", None)
        script._add("txt", "first\n")
        parts = []
        async for part in script.read("txt", True, lambda: len(script._parts["txt"]) > 1):
            parts.append(part)
            if len(parts) == 1:
                script._add("txt", "last\n")
        return parts

    assert asyncio.run(run()) == ["first\n", "last\n"]
