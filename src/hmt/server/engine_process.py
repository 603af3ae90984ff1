"""The process of an engine: a conductor without connections, so that Python's lock is its own.

In the process of the event loop a round waits for the lock whenever the loop has it: with 200
sessions the engine was busy for 97 % of the time, of which it computed for 87 %.

Two processes write letters to each other over a pair of sockets: lists of (number of a channel,
what happens to it) go to the engine, reports come back, one for each round.
"""

import gc
import logging
import os
import pickle
import select
import signal
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial

import torch

from hmt.models.model import Model
from hmt.server.channels import Channel, Item, Opening, Output
from hmt.server.conductor import Batch, Conductor, Observer, Usage

logger = logging.getLogger("hmt.server")

LENGTH = struct.Struct("!I")
CHUNK = 1 << 18


@dataclass(frozen=True)
class Skip:
    """Drop what is queued, and the open sentence."""


@dataclass(frozen=True)
class Close:
    """Close the channel."""


Letter = tuple[int, Opening | list[Item] | Skip | Close]


NOTHING = Usage(0, 0, 0)


@dataclass
class Report:
    """What happened in the engine since the last one."""

    outputs: list[tuple[int, list[Output]]] = field(default_factory=list)
    taken: list[tuple[int, int]] = field(default_factory=list)  # items of a channel, all in all
    rounds: list[tuple[float, int]] = field(default_factory=list)  # seconds, streams
    delays: list[float] = field(default_factory=list)
    faults: int = 0
    usage: Usage = NOTHING

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to report."""
        return not (self.outputs or self.taken or self.rounds or self.faults)


@dataclass(frozen=True)
class Orders:
    """How an engine runs."""

    gather_seconds: float = 0.0
    max_tokens: int = 256
    threads: int = 0  # to compute with; 0: as it is


def packed(message: object) -> bytes:
    """A message on its way to the other process."""
    body = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    return LENGTH.pack(len(body)) + body


class Unpacker:
    """Messages out of the bytes of the other process."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def take(self, data: bytes) -> Iterator[object]:
        """The messages that are complete with these bytes."""
        self._bytes += data
        start = 0
        while len(self._bytes) >= (body := start + LENGTH.size):
            end = body + LENGTH.unpack_from(self._bytes, start)[0]
            if len(self._bytes) < end:
                break
            yield pickle.loads(self._bytes[body:end])
            start = end
        del self._bytes[:start]


def fork(model: Model, orders: Orders) -> tuple[int, socket.socket]:
    """Start the process; return its id and the socket to write to it.

    It shares the weights with this one. No other thread may run here, and PyTorch must not have
    computed with several: locks that they hold would stay locked in the copy.
    """
    here, there = socket.socketpair()
    if pid := os.fork():
        there.close()
        return pid, here
    try:
        here.close()
        _run(model, there, orders)
    except BaseException:  # nothing of the other process's may be cleaned up here
        logger.exception("The engine has stopped.")
    os._exit(0)


def _run(model: Model, there: socket.socket, orders: Orders) -> None:
    # Signals to the whole group are for the other process; this one ends when that has ended.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    if orders.threads:
        torch.set_num_threads(orders.threads)
    post = Post(there)
    conductor = Conductor(
        model,
        post.deliver,
        observer=post,
        gather_seconds=orders.gather_seconds,
        max_tokens=orders.max_tokens,
        bell=post,
    )
    conductor.warm_up()
    gc.collect()
    gc.freeze()
    post.serve(conductor)


class GoneError(BaseException):
    """The other process has ended; not an Exception, as it is no failure of a round."""


class Post(Observer):
    """Delivers letters to a conductor between its rounds, and reports what comes out."""

    def __init__(self, there: socket.socket) -> None:
        self._socket, self._unpacker = there, Unpacker()
        self._report = Report()
        self._channels: dict[int, Channel] = {}
        self._given: dict[int, int] = {}  # items given to each channel
        self._waiting: dict[int, None] = {}  # channels that had items when last looked at
        self._conductor: Conductor | None = None

    def serve(self, conductor: Conductor) -> None:
        """Conduct until the other process ends."""
        self._conductor = conductor
        try:
            self._send()  # it waits for the first report
            conductor.run()
        except GoneError:
            pass

    # ---- the conductor's bell

    def wait(self, seconds: float) -> None:
        """Report what the last round did, then take the letters that have come."""
        self._look_into_inboxes()
        if not self._report.is_empty:
            self._send()
        if select.select([self._socket], (), (), seconds)[0]:
            data = self._socket.recv(CHUNK)
            if not data:
                raise GoneError
            for letters in self._unpacker.take(data):
                self._open(letters)  # type: ignore[arg-type]

    def ring(self) -> None:
        """Do nothing: `wait` notices by itself that something has arrived."""

    # ---- what comes in

    def _open(self, letters: list[Letter]) -> None:
        assert self._conductor is not None
        for number, content in letters:
            match content:
                case Opening():
                    deliver = partial(self._wrote, number)
                    self._channels[number] = self._conductor.open(content, deliver)
                    self._given[number] = 0
                case Close():
                    self._channels.pop(number).close()
                    del self._given[number]
                    self._waiting.pop(number, None)
                case Skip():
                    self._channels[number].skip()
                    self._given[number] += 1  # the item that drops the sentence
                    self._waiting[number] = None
                case _:
                    self._channels[number].put(content)
                    self._given[number] += len(content)
                    self._waiting[number] = None

    # ---- what goes out

    def deliver(self, batch: Batch) -> None:
        """What a round wrote."""
        for channel, outputs in batch:
            channel.deliver(outputs)

    def _wrote(self, number: int, outputs: list[Output]) -> None:
        self._report.outputs.append((number, outputs))

    def round(self, seconds: float, streams: int) -> None:
        """A round is over."""
        self._report.rounds.append((seconds, streams))

    def delay(self, seconds: float) -> None:
        """A word waited this long until its first round was over."""
        self._report.delays.append(seconds)

    def fault(self) -> None:
        """A round failed."""
        self._report.faults += 1

    def _look_into_inboxes(self) -> None:
        """Note how many items were taken out of the inboxes."""
        for number in list(self._waiting):
            left = self._channels[number].queued
            self._report.taken.append((number, self._given[number] - left))
            if not left:
                del self._waiting[number]

    def _send(self) -> None:
        assert self._conductor is not None
        report, self._report = self._report, Report()
        report.usage = self._conductor.usage
        try:
            self._socket.sendall(packed(report))
        except OSError as error:
            raise GoneError from error
