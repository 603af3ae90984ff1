"""What a client has chosen for its session."""

import re
from dataclasses import dataclass, field, replace
from typing import Any

from msgspec import UNSET

from hmt.server.messages import HmtChange, InvalidError, SessionChange, shortened
from hmt.server.replies import Knob

COMMIT = re.compile(r"client|agreement|hold:\d{1,2}")
CHOICES = {"granularity": ("piece", "word"), "sentences": ("auto", "manual")}


@dataclass(frozen=True)
class Preferences:
    """The settings of one session."""

    knobs: dict[str, Knob] = field(default_factory=dict)
    granularity: str = "piece"
    sentences: str = "auto"
    detail: bool = False
    echo: bool = False
    commit: str | None = None  # which words of a guess are final
    pause_ms: float = 15_000.0  # a sentence that nobody continues ends and frees its slot

    @property
    def cuts(self) -> bool:
        """Whether sentences end by themselves."""
        return self.sentences == "auto"

    def changed(self, session: SessionChange) -> "Preferences":
        """Apply a client's changes, in our format or OpenAI's; errors name what is allowed."""
        change, audio = session.hmt, session.audio
        heard = UNSET if audio is UNSET or audio.input is UNSET else audio.input.transcription
        asked = self if heard is UNSET else replace(self, echo=heard is not None)
        return asked if change is UNSET else asked._with(change)

    def _with(self, change: HmtChange) -> "Preferences":
        values: dict[str, Any] = {
            name: value
            for name in change.__struct_fields__
            if (value := getattr(change, name)) is not UNSET
        }
        for name, allowed in CHOICES.items():
            if values.get(name, allowed[0]) not in allowed:
                raise _invalid(name, " or ".join(allowed), values[name])
        if "commit" in values and not COMMIT.fullmatch(values["commit"]):
            raise _invalid("commit", "client, agreement or hold:2", values["commit"])
        values["knobs"] = {**self.knobs, **values.get("knobs", {})}
        return replace(self, **values)


def _invalid(name: str, allowed: str, given: str) -> InvalidError:
    message = f"{name} is {allowed}, not {shortened(given)}."
    return InvalidError("invalid_setting", message, f"session.hmt.{name}")
