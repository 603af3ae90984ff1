"""A conductor whose engine runs in a process of its own, as the event loop sees it."""

import asyncio
import contextlib
import logging
import os
import signal
import time
from collections.abc import Callable, Iterable
from itertools import count

from hmt.models.model import Model
from hmt.server.channels import Channel, Failed, Item, Opening, Output
from hmt.server.conductor import Conductor, Observer
from hmt.server.delays import Delays
from hmt.server.engine_process import (
    NOTHING,
    Close,
    Letter,
    Orders,
    Report,
    Skip,
    Unpacker,
    fork,
    packed,
)

logger = logging.getLogger("hmt.server")

LAST_SECONDS = 10.0  # for the process to end by itself


class FarChannel:
    """One text on its way to another process."""

    def __init__(
        self, number: int, send: Callable[[Letter], None], deliver: Callable[[list[Output]], None]
    ) -> None:
        self.number, self._send, self.deliver = number, send, deliver
        self._given = 0
        self.taken = 0  # items, as last reported

    def put(self, items: Iterable[Item]) -> None:
        """Queue items."""
        items = list(items)
        self._given += len(items)
        self._send((self.number, items))

    def skip(self) -> None:
        """Drop all queued items and the open sentence."""
        self._given += 1  # the item that drops the sentence
        self._send((self.number, Skip()))

    def close(self) -> None:
        """Close the channel; its open sentence is dropped."""
        self._send((self.number, Close()))

    @property
    def queued(self) -> int:
        """Number of queued items, nearly all of them words."""
        return self._given - self.taken


class FarConductor(asyncio.Protocol):
    """Letters to the process of an engine, and its reports."""

    def __init__(self, model: Model, observer: Observer, orders: Orders) -> None:
        self.usage = NOTHING
        self._observer, self._delays = observer, Delays()
        self._pid, self._socket = fork(model, orders)
        self._transport: asyncio.Transport | None = None
        self._unpacker = Unpacker()
        self._has_started = asyncio.Event()
        self._is_stopping = False
        self._numbers = count()
        self._channels: dict[int, FarChannel] = {}
        self._letters: list[Letter] = []

    async def start(self) -> None:
        """Wait until the process is warm."""
        loop = asyncio.get_running_loop()
        await loop.create_unix_connection(lambda: self, sock=self._socket)
        await self._has_started.wait()
        if not self.is_alive:
            raise RuntimeError("The process of the engine ended before it was warm.")

    async def stop(self) -> None:
        """End the process after its round."""
        self._is_stopping = True
        if self._transport is not None:
            self._transport.close()
        end = time.monotonic() + LAST_SECONDS
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(self._pid, os.WNOHANG) == (0, 0):
                if time.monotonic() > end:
                    os.kill(self._pid, signal.SIGKILL)
                await asyncio.sleep(0.01)

    @property
    def is_alive(self) -> bool:
        """Whether the process is running."""
        return self._transport is not None

    def open(self, opening: Opening, deliver: Callable[[list[Output]], None]) -> FarChannel:
        """A new channel; it takes a slot only while a sentence is open."""
        channel = FarChannel(next(self._numbers), self._send, deliver)
        self._channels[channel.number] = channel
        self._send((channel.number, opening))
        return channel

    def delay(self) -> float:
        """How long recent words waited, in seconds (p95)."""
        return self._delays.p95()

    # ---- letters

    def _send(self, letter: Letter) -> None:
        """Send a letter with all others of this turn of the event loop."""
        number, content = letter
        if number not in self._channels:
            return  # it was closed before
        if isinstance(content, Close):
            del self._channels[number]
        if not self._letters:
            asyncio.get_running_loop().call_soon(self._flush)
        self._letters.append(letter)

    def _flush(self) -> None:
        letters, self._letters = self._letters, []
        if self._transport is not None:
            self._transport.write(packed(letters))

    # ---- reports, as asyncio calls them

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The process can be written to."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """The process has reported something."""
        for report in self._unpacker.take(data):
            assert isinstance(report, Report)
            self._has_started.set()
            self._read(report)

    def connection_lost(self, exc: Exception | None) -> None:
        """The process has ended, and all sessions end with it, unless it was asked to stop."""
        self._transport = None
        self._has_started.set()
        if not self._is_stopping:
            logger.error("The process of the engine has ended.")
            for number in list(self._channels):
                self._deliver(number, [Failed("The engine has stopped.")])

    def _read(self, report: Report) -> None:
        now, self.usage = time.monotonic(), report.usage
        for seconds, streams in report.rounds:
            self._observer.round(seconds, streams)
        for delay in report.delays:
            self._observer.delay(delay)
            self._delays.add(now, delay)
        for _ in range(report.faults):
            self._observer.fault()
        for number, taken in report.taken:
            if number in self._channels:
                self._channels[number].taken = taken
        for number, outputs in report.outputs:
            self._deliver(number, outputs)

    def _deliver(self, number: int, outputs: list[Output]) -> None:
        channel = self._channels.get(number)
        if channel is None:  # closed meanwhile
            return
        try:
            channel.deliver(outputs)
        except Exception:
            logger.exception("A session could not handle its output.")


AnyChannel = Channel | FarChannel
AnyConductor = Conductor | FarConductor
