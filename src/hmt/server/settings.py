"""Operator settings: limits, and who may connect."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from hmt.errors import UserError

LOOPBACK = ("127.0.0.1", "::1", "localhost")


@dataclass(frozen=True)
class Limits:
    """Limits for one client, and for all of them together."""

    places: int = 300  # live sessions at once
    delay_ms: int = 250  # p95 delay of words above which no new session is admitted
    sockets: int = 5000  # open connections; beyond this, the handshake itself is refused
    per_address: int = 20  # sessions
    listeners_per_address: int = 100
    listeners: int = 2000
    rooms: int = 200
    message_bytes: int = 16_384
    words_per_message: int = 200
    word_characters: int = 256
    queue_words: int = 2000
    words_per_second: int = 20
    burst_words: int = 400
    messages_per_second: int = 100
    burst_messages: int = 1000
    sentence_tokens: int = 256
    idle_seconds: int = 600
    session_seconds: int = 6 * 3600
    resume_seconds: int = 120
    pending_bytes: int = 65_536  # unsent text for a slow reader
    stall_seconds: int = 30
    room_seconds: int = 600  # lifetime of a room without a speaker
    body_bytes: int = 65_536
    translate_characters: int = 5000
    translate_per_minute: int = 60

    def changed(self, wishes: Iterable[str]) -> "Limits":
        """A copy with other values, each given as `rooms=500`."""
        names = sorted(self.__dataclass_fields__)
        values = {}
        for wish in wishes:
            name, _, value = wish.partition("=")
            if name not in names:
                raise UserError(f"{name[:60]} is not a limit; choose from {', '.join(names)}.")
            if not (value.isascii() and value.isdigit() and 0 < len(value) < 10 and int(value)):
                raise UserError(f"--limit {wish[:60]}: give a whole number from 1, as {name}=500.")
            values[name] = int(value)
        return replace(self, **values)

    def of_a_session(self) -> dict[str, int]:
        """The limits that a client must observe."""
        names = ("message_bytes", "words_per_message", "queue_words", "words_per_second")
        more = ("messages_per_second", "idle_seconds")
        return {name: getattr(self, name) for name in (*names, *more)}


@dataclass(frozen=True)
class Settings:
    """How one server runs."""

    host: str = "127.0.0.1"
    port: int = 8765
    limits: Limits = field(default_factory=Limits)
    name: str = "a1"  # of this process; part of every session's id
    token_file: Path | None = None
    is_open: bool = False  # serves other machines without tokens
    origins: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    frame_ancestors: str = "'none'"  # who may embed the captions view
    captions: Path | None = None  # folder for the captions of rooms
    logs_text: bool = False
    drain_seconds: float = 20.0
    gather_ms: float = 0.0
    engine: str = "thread"  # or "process"; "auto" until it is decided
    threads: int = 0  # for the engine to compute with; 0: as many as PyTorch uses
    heartbeat_seconds: float = 15.0

    def __post_init__(self) -> None:
        if self.host not in LOOPBACK and self.token_file is None and not self.is_open:
            raise UserError(
                f"Serving {self.host} lets other machines in: give --token-file, or --open to let "
                "everybody use this server."
            )
        if not 0 <= self.port <= 65_535:
            raise UserError(f"Port {self.port} does not exist; give 0 (any free one) to 65535.")

    @property
    def allowed_hosts(self) -> list[str]:
        """Accepted Host headers: DNS rebinding uses other names."""
        if self.hosts:
            return [*self.hosts, *LOOPBACK]
        return list(LOOPBACK) if self.host in LOOPBACK else ["*"]
