"""Who may do what: tokens with scopes from a file, and short-lived ones for browsers.

A line of the file is `name sha256 scopes`, as in `ana 9f86d0... translate,speak:aula`; `hmt serve`
stores no secret, only its hash.
"""

import hashlib
import hmac
import re
import secrets
import time
from dataclasses import dataclass
from pathlib import Path

from hmt.errors import UserError
from hmt.files import read_text

SCOPE = re.compile(r"translate|metrics|(?:speak|listen):(?:\*|[\w.-]{1,64})")
SHORT_SECONDS = 600
MOST_SHORT = 10_000  # secrets for browsers at a time
LINK_SECONDS = 12 * 3600  # validity of a link to a room: a long day
LINK = re.compile(r"lk_([\w.-]{1,64})~(\d{1,12})~([0-9a-f]{32})", re.ASCII)


@dataclass(frozen=True)
class Grant:
    """What the bearer of a token may do."""

    name: str
    scopes: frozenset[str]

    def allows(self, scope: str) -> bool:
        """Whether a scope such as `speak:aula` is granted."""
        kind = scope.partition(":")[0]
        return scope in self.scopes or f"{kind}:*" in self.scopes


EVERYBODY = Grant("everybody", frozenset({"translate", "metrics", "speak:*", "listen:*"}))


class Tokens:
    """The grants of a file, which can be reloaded."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._grants: list[tuple[bytes, Grant]] = []
        self._short: dict[str, tuple[float, Grant]] = {}
        self.reload()

    @property
    def are_needed(self) -> bool:
        """Whether tokens are required."""
        return self._path is not None

    def reload(self) -> None:
        """Read the file; errors name the line."""
        if self._path is not None:
            self._grants = read(self._path)

    def find(self, secret: str | None) -> Grant | None:
        """What a secret grants; everything if no tokens are required."""
        if not self.are_needed:
            return EVERYBODY
        if not secret:
            return None
        digest = hashlib.sha256(secret.encode(errors="replace")).digest()
        found = None
        for known, grant in self._grants:  # compare with all, so that timing reveals nothing
            if hmac.compare_digest(known, digest):
                found = grant
        if found is None and secret in self._short:
            end, grant = self._short[secret]
            found = grant if time.monotonic() < end else None
        return found or self._invited(secret)

    def invite(self, grant: Grant, room: str) -> str | None:
        """A token that lets its holders listen in a room and do nothing else.

        It is signed with the hash of the speaker's token: it is valid on every host with the same
        file, survives a restart, and ends with the speaker's token.
        """
        key = next((key for key, known in self._grants if known == grant), None)
        if key is None:
            return None
        until = int(time.time()) + LINK_SECONDS
        return f"lk_{room}~{until}~{_signature(key, room, until)}"

    def _invited(self, secret: str) -> Grant | None:
        if (link := LINK.fullmatch(secret)) is None or int(link[2]) < time.time():
            return None
        room, until = link[1], int(link[2])
        for key, grant in self._grants:
            signature = _signature(key, room, until)
            if hmac.compare_digest(signature, link[3]) and grant.allows(f"speak:{room}"):
                return Grant(f"guest of {grant.name}", frozenset({f"listen:{room}"}))
        return None

    def shorten(self, grant: Grant, seconds: int = SHORT_SECONDS) -> tuple[str, int]:
        """A secret for a browser, and when it expires (seconds since 1970)."""
        now = time.monotonic()
        if len(self._short) >= MOST_SHORT:
            self._short = {key: kept for key, kept in self._short.items() if kept[0] > now}
        if len(self._short) >= MOST_SHORT:
            del self._short[next(iter(self._short))]
        secret = f"ek_{secrets.token_urlsafe(24)}"
        self._short[secret] = now + seconds, grant
        return secret, int(time.time()) + seconds


def _signature(key: bytes, room: str, until: int) -> str:
    return hmac.new(key, f"listen:{room}:{until}".encode(), "sha256").hexdigest()[:32]


def new_resume_token() -> str:
    """A 128-bit secret that lets one client resume one session."""
    return f"rt_{secrets.token_urlsafe(16)}"


def read(path: Path) -> list[tuple[bytes, Grant]]:
    """The grants of a token file."""
    grants = []
    for number, line in enumerate(read_text(path).splitlines(), 1):
        parts = line.partition("#")[0].split()
        if not parts:
            continue
        if len(parts) != 3 or not re.fullmatch("[0-9a-f]{64}", parts[1]):
            raise UserError(
                f"{path}, line {number}: write a name, the SHA-256 of the token in hexadecimal, "
                "and scopes, as in `ana 9f86... translate,speak:aula`."
            )
        scopes = frozenset(parts[2].split(","))
        for scope in scopes:
            if not SCOPE.fullmatch(scope):
                raise UserError(
                    f"{path}, line {number}: {scope!r} is not a scope; choose from translate, "
                    "metrics, speak:ROOM and listen:ROOM (* for every room)."
                )
        grants.append((bytes.fromhex(parts[1]), Grant(parts[0], scopes)))
    return grants
