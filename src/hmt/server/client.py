"""A client of `hmt serve` in one file: words in, translation out, nothing lost on a bad network.

    async with Client("ws://localhost:8765/v1/realtime/translations") as client:
        await client.say("Guten Morgen, meine Damen und Herren.")
        await client.commit()
        async for event in client.events():
            ...

It needs nothing but `websockets`. A lost connection is resumed automatically: messages that the
server had not accepted are sent again, text that it wrote meanwhile arrives once. If the server is
gone, another one gets the words whose sentences had not ended.
"""

import asyncio
import contextlib
import json
import random
from collections import deque
from collections.abc import AsyncIterator
from typing import Any, Self
from urllib.parse import urlencode

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException

Event = dict[str, Any]

# Close codes after which reconnecting is useless.
FINAL = {1000, 4400, 4401, 4403, 4404, 4409, 4413, 4500}
LONGEST_WAIT = 15.0
ANSWER_SECONDS = 20.0  # for the first message of a server that accepted the connection


class RefusedError(Exception):
    """The server refused this client; the message says why."""


class Client:
    """One live translation."""

    def __init__(
        self,
        url: str,
        *,
        model: str | None = None,
        room: str | None = None,
        token: str | None = None,
        settings: Event | None = None,
        attempts: int = 10,
    ) -> None:
        self._url, self._query = url, {"model": model, "room": room}
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._settings, self._attempts = settings or {}, attempts
        self._socket: ClientConnection | None = None
        self._sending = asyncio.Lock()  # messages must arrive in order
        self._seq = self._sent = self._accepted = 0  # of the last message created, sent, accepted
        self._messages: deque[Event] = deque()  # not accepted, or with words in `_said`
        self._said: deque[tuple[int, str]] = deque()  # words whose sentences have not ended
        self._begun = 0  # the message of the last word whose sentence has ended
        self._is_closing = False
        self.session: Event = {}
        self.n = 0
        self.offset = 0
        self.sentence = 0
        self.shown = ""  # of the open sentence
        self.text = ""  # of everything
        self.close_code: int | None = None

    async def __aenter__(self) -> Self:
        await self._connect()
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._socket is not None:
            await self._socket.close()

    @property
    def is_accepted(self) -> bool:
        """Whether the server has accepted everything that was sent."""
        return self._accepted >= self._seq

    # ---- what one can do

    async def say(self, text: str) -> None:
        """Send words that are final and complete."""
        self._said.extend((self._seq + 1, word) for word in text.split())
        await self._keep("session.input_text.append", {}, text=text + " ")

    async def guess(self, text: str, utterance: int = 0, committed: int | None = None) -> None:
        """Send a recogniser's whole guess, of which the first `committed` words are final."""
        facts = {"text": text, "utterance": utterance, "committed": committed}
        await self._keep("session.input_text.hypothesis", facts)

    async def commit(self, reason: str = "pause") -> None:
        """End the sentence."""
        await self._keep("session.input_text.commit", {"reason": reason})

    async def set(self, **hmt: Any) -> None:
        """Change settings, as in `set(knobs={"lower": 5}, granularity="word")`."""
        self._settings = {**self._settings, **hmt}
        await self._send({"type": "session.update", "session": {"hmt": hmt}})

    async def close(self) -> None:
        """Finish the open sentence and close; `events` ends with `session.closed`."""
        self._is_closing = True
        await self._flush()

    async def events(self) -> AsyncIterator[Event]:
        """The server's events, across lost connections, until the session is over."""
        while True:
            try:
                assert self._socket is not None
                event = json.loads(await self._socket.recv())
            except ConnectionClosed as closed:
                self.close_code = closed.rcvd.code if closed.rcvd else 1006
                if self.close_code in FINAL:
                    return
                await self._connect()
                continue
            self._note(event)
            yield event

    # ---- the connection

    async def _connect(self) -> None:
        token = self.session.get("hmt", {}).get("resume_token")
        query = {name: value for name, value in self._query.items() if value}
        if token:
            query["resume"] = self.session["id"]  # lets a proxy find the server that knows it
        self._socket = None  # nothing is sent before the session is resumed
        url = f"{self._url}?{urlencode(query)}"
        reason = "does not answer"
        for attempt in range(self._attempts):
            try:
                socket = await connect(url, additional_headers=self._headers)
                try:
                    await self._begin(socket, token)
                    return
                except BaseException:
                    await socket.close()
                    raise
            except (OSError, WebSocketException) as error:
                if isinstance(error, InvalidStatus) and error.response.status_code < 500:
                    raise RefusedError(f"{self._url}: {error}.") from None
                reason = f"cannot be used: {error or 'no answer'}"
            wait = min(0.2 * 2**attempt, LONGEST_WAIT)
            await asyncio.sleep(wait * random.uniform(0.5, 1.0))
        raise ConnectionError(f"{self._url} {reason}.")

    async def _begin(self, socket: ClientConnection, token: str | None) -> None:
        if token:
            message = {"type": "session.resume", "hmt": self._resume(token)}
            await socket.send(json.dumps(message))
        async with asyncio.timeout(ANSWER_SECONDS):
            event = json.loads(await socket.recv())
        if "session" not in event:
            fault = event.get("error", {})
            kind = ConnectionError if "retry_after" in fault else RefusedError
            raise kind(fault.get("message", "The server refused."))
        self.session = event["session"]
        if token:
            self._sent = self._accepted = event["hmt"]["seq"] or 0
        self._socket = socket
        if self._settings:
            await self._send({"type": "session.update", "session": {"hmt": self._settings}})
        await self._flush()

    def _resume(self, token: str) -> Event:
        """What another server needs besides the messages that are sent again."""
        seq = self._said[0][0] if self._said else self._accepted + 1
        words = [word for number, word in self._said if number == seq == self._begun]
        return {
            "token": token,
            "after": self.n,
            "source_seq": seq if words else min(seq - 1, self._accepted),
            "open_sentence": words,
            "shown": self.shown,
            "sentence": self.sentence,
            "offset": self.offset,
            "knobs": self._settings.get("knobs"),
        }

    async def _keep(self, kind: str, facts: Event, **fields: Any) -> None:
        self._seq += 1
        self._messages.append({"type": kind, **fields, "hmt": {**facts, "seq": self._seq}})
        await self._flush()

    async def _flush(self) -> None:
        """Send what has not yet been sent over this connection."""
        async with self._sending:
            socket = self._socket
            for message in list(self._messages):
                if self._socket is not socket:
                    return  # the new connection sends what this one could not
                seq = _seq(message)
                if socket is not None and seq > self._sent:
                    self._sent = seq
                    await self._send(message)
            if self._is_closing:
                await self._send({"type": "session.close"})

    async def _send(self, message: Event) -> None:
        if self._socket is not None:
            with contextlib.suppress(ConnectionClosed):  # `events` connects again and repeats it
                await self._socket.send(json.dumps(message))

    # ---- what the server says

    def _note(self, event: Event) -> None:
        facts = event.get("hmt", {})
        self.n = facts.get("n", self.n)
        match event["type"]:
            case "session.input_text.accepted":
                self._accept(facts["seq"] or 0)
            case "session.output_transcript.delta":
                self.text += event["delta"]
                self.shown += event["delta"]
                self.offset, self.sentence = len(self.text), facts["sentence"]
            case "session.output_transcript.done":
                self.shown, self.sentence = "", facts["sentence"] + 1
                for _ in facts["source"].split():
                    if self._said:
                        self._begun = self._said.popleft()[0]
                self._accept(max(self._begun, facts.get("seq") or 0))

    def _accept(self, seq: int) -> None:
        """Forget messages that neither this server nor another one will need."""
        self._accepted = max(self._accepted, seq)
        needed = self._said[0][0] if self._said else self._accepted + 1
        while self._messages and _seq(self._messages[0]) < needed:
            self._messages.popleft()


def _seq(message: Event) -> int:
    return int(message["hmt"]["seq"])
