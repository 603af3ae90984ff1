"""The endpoints of LibreTranslate, so that its clients work unchanged."""

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from hmt.server.access import address_of, grant_of, service_of
from hmt.server.channels import End, Failed, HeardWord, Mark, Opening, Output, Text
from hmt.server.deltas import Wording
from hmt.server.hearing import clean
from hmt.server.messages import InvalidError, decode_as, encode
from hmt.server.models import Served, language_name, short_code
from hmt.server.replies import Knob
from hmt.server.service import Service
from hmt.streaming import events

TIMEOUT_SECONDS = 120.0
TOGETHER = 8  # lines of one request that are translated side by side


class Asked(msgspec.Struct):
    """The body of /translate and /detect."""

    q: str | list[str] | None = None
    source: str = "auto"
    target: str | None = None
    format: str = "text"
    alternatives: int = 0
    api_key: str | None = None
    stream: bool = False
    lower: int | None = None
    threshold: float | None = None


class RefusedError(Exception):
    """A refused request, answered with `{"error": ...}`."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Lines:
    """One line of text on its way through the engine, with lower priority than live sessions."""

    def __init__(self, served: Served, knobs: object, line: str) -> None:
        self._done = asyncio.Event()
        self.queue: asyncio.Queue[Text | None] = asyncio.Queue()
        self.text = ""
        self.has_failed = False
        words = clean(line).split()
        self.channel = served.conductor.open(Opening(knobs, is_live=False), self._take)
        if not words:
            self._finish()
            return
        now = time.monotonic()
        self.channel.put([HeardWord(word, None, now) for word in words])
        self.channel.put([End(events.FINISH, "finish"), Mark("end")])

    async def wait(self) -> str:
        """Wait for the translation."""
        try:
            await asyncio.wait_for(self._done.wait(), TIMEOUT_SECONDS)
        except TimeoutError:
            raise RefusedError(503, "The server is too busy to translate this now.") from None
        finally:
            self.channel.close()
        if self.has_failed:
            raise RefusedError(500, "This text could not be translated.")
        return self.text

    def _take(self, outputs: list[Output]) -> None:
        for output in outputs:
            if isinstance(output, Text):
                self.text += "".join(event.text for event in output.events)
                self.queue.put_nowait(output)
            elif isinstance(output, Mark | Failed):
                self.has_failed = isinstance(output, Failed)
                self._finish()

    def _finish(self) -> None:
        self._done.set()
        self.queue.put_nowait(None)


async def _asked(request: Request) -> Asked:
    """The body, JSON or form, as old and new clients send it."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    try:
        if kind in ("application/x-www-form-urlencoded", "multipart/form-data"):
            form = await request.form()
            values: dict[str, Any] = {name: form.get(name) for name in form}
            if len(texts := form.getlist("q")) > 1:
                values["q"] = list(texts)
            return msgspec.convert(values, Asked, strict=False)
        return decode_as(Asked, await request.body() or b"{}")
    except msgspec.ValidationError as error:
        raise RefusedError(400, f"Invalid request: {error}.") from None
    except InvalidError as error:
        raise RefusedError(400, f"Invalid request: {error.message}") from None


def _served(service: Service, source: str, target: str | None) -> tuple[Served, bool]:
    """The model for a language pair, and whether the source was to be detected."""
    models = list(service.served.values())
    is_auto = source == "auto"
    if is_auto:
        sources = sorted({short_code(m.source) for m in models})
        if len(sources) > 1:
            known = ", ".join(sources)
            raise RefusedError(400, f"source cannot be detected here; it is one of {known}.")
        source = sources[0]
    code = short_code(target) if target else short_code(models[0].target)
    for model in models:
        if short_code(model.source) == short_code(source) and short_code(model.target) == code:
            return model, is_auto
    pairs = ", ".join(f"{m.source} to {m.target}" for m in models)
    raise RefusedError(400, f"{source[:20]} to {code[:20]} is not supported; available: {pairs}.")


def _check(request: Request, asked: Asked) -> list[str]:
    """The texts of a request, after all checks."""
    service = service_of(request)
    grant = grant_of(request, asked.api_key)
    if grant is None or not grant.allows("translate"):
        raise RefusedError(403, "A token that grants translate is needed, as api_key or bearer.")
    if not service.visits.allow(address_of(request)):
        raise RefusedError(429, "Too many requests; try again in a minute.")
    if asked.q is None:
        raise RefusedError(400, "Invalid request: missing q parameter.")
    texts = [asked.q] if isinstance(asked.q, str) else asked.q
    most = service.limits.translate_characters
    length = sum(map(len, texts)) + len(texts) - 1  # empty ones cost work, too
    if length > most:
        raise RefusedError(400, f"The text has {length} characters; at most {most} are allowed.")
    return texts


async def translate(request: Request) -> Response:
    """POST /translate."""
    try:
        asked = await _asked(request)
        texts = _check(request, asked)
        if asked.format != "text":
            raise RefusedError(400, f"{asked.format[:20]} format is not supported; give text.")
        served, is_auto = _served(service_of(request), asked.source, asked.target)
        chosen: dict[str, Knob] = {
            name: value
            for name in ("lower", "threshold")
            if (value := getattr(asked, name)) is not None
        }
        try:
            knobs = served.knobs(chosen)
        except InvalidError as error:
            raise RefusedError(400, error.message) from None
        if asked.stream:
            body = _streamed(served, knobs, "\n".join(texts))
            return StreamingResponse(body, media_type="application/x-ndjson")
        found = [await _translated(served, knobs, text) for text in texts]
        is_one = isinstance(asked.q, str)
        answer: dict[str, Any] = {"translatedText": found[0] if is_one else found}
        if is_auto:
            language = {"confidence": 0, "language": served.source}
            answer["detectedLanguage"] = language if is_one else [language] * len(found)
        if asked.alternatives:
            answer["alternatives"] = [] if is_one else [[] for _ in found]
        return JSONResponse(answer)
    except RefusedError as error:
        service_of(request).metrics.rejected.labels("translate").inc()
        return JSONResponse({"error": str(error)}, error.status)


async def _translated(served: Served, knobs: object, text: str) -> str:
    """Translate a text of several lines; blank lines stay."""
    lines = text.split("\n")
    found: list[str] = []
    for at in range(0, len(lines), TOGETHER):
        part = [Lines(served, knobs, line) for line in lines[at : at + TOGETHER]]
        found += await asyncio.gather(*(line.wait() for line in part))
    return "\n".join(found)


async def _streamed(served: Served, knobs: object, text: str) -> AsyncIterator[bytes]:
    """Events of the live protocol, one per line, as they are written."""
    wording = Wording(time.monotonic())
    for number, line in enumerate(text.split("\n")):
        running = Lines(served, knobs, line)
        try:
            while (part := await running.queue.get()) is not None:
                for delta in wording.text(part, by_word=False, has_detail=False):
                    delta.hmt.sentence = number
                    yield encode(delta) + b"\n"
        finally:
            running.channel.close()


async def languages(request: Request) -> Response:
    """GET /languages."""
    targets: dict[str, list[str]] = {}
    for served in service_of(request).served.values():
        targets.setdefault(served.source, []).append(served.target)
    for code in [code for found in targets.values() for code in found]:
        targets.setdefault(code, [])
    return JSONResponse(
        [
            {"code": code, "name": language_name(code), "targets": found}
            for code, found in targets.items()
        ]
    )


async def detect(request: Request) -> Response:
    """POST /detect: there is no detector, so the only language, with confidence 0."""
    try:
        asked = await _asked(request)
        _check(request, asked)
        served, _ = _served(service_of(request), "auto", None)
    except RefusedError as error:
        return JSONResponse({"error": str(error)}, error.status)
    return JSONResponse([{"confidence": 0, "language": served.source}])


async def settings(request: Request) -> Response:
    """GET /frontend/settings."""
    service = service_of(request)
    served = next(iter(service.served.values()))
    return JSONResponse(
        {
            "apiKeys": service.tokens.are_needed,
            "charLimit": service.limits.translate_characters,
            "filesTranslation": False,
            "frontendTimeout": 500,
            "keyRequired": service.tokens.are_needed,
            "language": {
                "source": {"code": served.source, "name": language_name(served.source)},
                "target": {"code": served.target, "name": language_name(served.target)},
            },
            "suggestions": False,
            "supportedFilesFormat": [],
        }
    )


def routes() -> list[Route]:
    """LibreTranslate's routes."""
    return [
        Route("/translate", translate, methods=["POST"]),
        Route("/languages", languages, methods=["GET", "POST"]),
        Route("/detect", detect, methods=["POST"]),
        Route("/frontend/settings", settings),
    ]
