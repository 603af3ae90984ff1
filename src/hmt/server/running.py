"""One process: uvicorn around the application, and a shutdown that loses nothing."""

import asyncio
import gc
import logging
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from types import FrameType

import torch
import uvicorn

from hmt.errors import UserError
from hmt.server.app import make_app
from hmt.server.patience import Doorkeeper
from hmt.server.service import Offer, Service
from hmt.server.settings import Settings
from hmt.server.tokens import Tokens
from hmt.server.wire import Http, WebSockets

logger = logging.getLogger("hmt.server")

PING_SECONDS = 20.0
# The engine's thread lets go of Python's lock in every product, and got it back after up to 5 ms
# while the event loop was busy: with 100 sessions p95 was 478 ms, and 288 ms with this.
SWITCH_SECONDS = 5e-4


class Server(uvicorn.Server):
    """Drains at the first signal and exits at once at the second."""

    def __init__(self, config: uvicorn.Config, service: Service) -> None:
        super().__init__(config)
        self._service = service
        self._draining: asyncio.Task[None] | None = None
        self._doorkeeper = Doorkeeper()

    async def startup(self, sockets: list[object] | None = None) -> None:  # type: ignore[override]
        """Start, and log the address."""
        await super().startup(sockets)  # type: ignore[arg-type]
        for server in self.servers:
            for socket in server.sockets:
                host, port = socket.getsockname()[:2]
                logger.info(
                    "Serving %s on http://%s:%d/", ", ".join(self._service.served), host, port
                )

    async def on_tick(self, counter: int) -> bool:
        """Called by uvicorn ten times a second."""
        if counter % 10 == 0:
            self._doorkeeper.look(self.server_state.connections)
        return await super().on_tick(counter)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Let open sentences finish first."""
        if self._draining is not None or not self.started:
            self.force_exit = True
            super().handle_exit(sig, frame)
            return
        logger.info("Shutting down after open sentences; signal again to exit at once.")
        self._captured_signals.append(sig)
        loop = asyncio.get_running_loop()
        self._draining = loop.create_task(self._drain())

    async def _drain(self) -> None:
        await self._service.drain()
        self.should_exit = True


def configured(service: Service) -> uvicorn.Config:
    """How uvicorn runs a service."""
    settings = service.settings
    return uvicorn.Config(
        make_app(service),
        host=settings.host,
        port=settings.port,
        http=Http,
        ws=WebSockets,
        ws_max_size=settings.limits.message_bytes,
        ws_ping_interval=PING_SECONDS,
        ws_ping_timeout=PING_SECONDS,
        ws_per_message_deflate=False,
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=5,
    )


def _is_ours(record: logging.LogRecord) -> bool:
    """Whether a log message is about the server: what strangers send must not fill its log."""
    return not record.getMessage().startswith(("Invalid HTTP request", "Invalid UTF-8"))


def _open_many_files() -> None:
    """Raise the limit of open files: each connection is one, and the usual limit is 1,024."""
    with suppress(ImportError, OSError, ValueError):  # Windows has no such limit
        import resource

        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):  # not on macOS and Windows
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _is_on_cpu(offer: Offer) -> bool:
    return offer.model.system.transformers[0].output.weight.device.type == "cpu"


def _decided(settings: Settings, offers: Sequence[Offer]) -> Settings:
    """Settings that say where the engines run: if possible, in processes of their own."""
    engine = settings.engine
    if engine not in ("auto", "process", "thread"):
        raise UserError(f"--engine {engine[:60]}: choose process, thread or auto.")
    # what a graphics card or macOS's libraries have begun does not survive a fork
    is_possible = sys.platform == "linux" and all(map(_is_on_cpu, offers))
    if engine == "process" and not is_possible:
        raise UserError("--engine process needs Linux and models on the CPU; leave it out.")
    if engine == "auto":
        engine = "process" if is_possible and cores() > 1 else "thread"
    return replace(settings, engine=engine)


def run(settings: Settings, offers: Sequence[Offer]) -> None:
    """Serve until a signal arrives."""
    names = [offer.name for offer in offers]
    if len(set(names)) < len(names):
        raise UserError(
            f"Models need different names, not {', '.join(names)}: give NAME=DIRECTORY."
        )
    if settings.captions is not None and not settings.captions.is_dir():
        raise UserError(f"{settings.captions} is not a folder; create it or name another.")
    settings, tokens = _decided(settings, offers), Tokens(settings.token_file)
    # What is loaded stays for good: going through it for garbage held everybody up for 130 ms.
    gc.collect()
    gc.freeze()
    if settings.engine == "thread" and settings.threads:
        torch.set_num_threads(settings.threads)
    service = Service(settings, offers, tokens)
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    logging.getLogger("uvicorn.error").addFilter(_is_ours)
    _open_many_files()
    sys.setswitchinterval(SWITCH_SECONDS)
    server = Server(configured(service), service)
    if hasattr(signal, "SIGHUP"):
        signal.signal(signal.SIGHUP, lambda *_: service.tokens.reload())
    with suppress(SystemExit):  # uvicorn could not bind, and has logged why
        server.run()
    if not server.started:
        raise UserError(
            f"{settings.host}:{settings.port} cannot be served; is the port in use? Try --port 0."
        )
