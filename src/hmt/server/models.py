"""A served model: its languages, its conductor, and the settings clients may choose."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from typing import Any, Literal, get_args, get_origin, get_type_hints

from hmt.errors import UserError
from hmt.models.model import Model
from hmt.server.far_conductor import AnyConductor
from hmt.server.messages import InvalidError, shortened
from hmt.server.replies import Knob

PROBED = 100  # whole numbers tried to find the range of a setting
NAMES = {
    "ar": "Arabic",
    "de": "German",
    "en": "English",
    "es": "Spanish",
    "fr": "French",
    "it": "Italian",
    "ja": "Japanese",
    "nl": "Dutch",
    "pl": "Polish",
    "pt": "Portuguese",
    "ru": "Russian",
    "tr": "Turkish",
    "uk": "Ukrainian",
    "vi": "Vietnamese",
    "zh": "Chinese",
}
MEANINGS = {
    "lower": "source tokens to read before the first word; higher is later and more reliable",
    "states": "moments at which a word may be written; higher waits longer when unsure",
    "threshold": "confidence that suffices to write; higher is later",
    "attention": "which earlier states a state sees",
    "policy": "write when confident, or always at the last moment",
    "k": "source tokens to stay behind",
}


@dataclass(frozen=True)
class Served:
    """A model under the name that clients use for it."""

    name: str
    model: Model
    source: str
    target: str
    conductor: AnyConductor
    limits_knobs: bool = True

    def knobs(self, chosen: Mapping[str, Knob]) -> Any:
        """Settings chosen by a client; errors name what is allowed."""
        system = self.model.system
        allowed = [field.name for field in fields(system.Knobs)]
        for name in chosen:
            if name not in allowed:
                raise InvalidError(
                    "unknown_knob",
                    f"`{shortened(name)}` is not a knob of {self.name}; it has "
                    f"{', '.join(allowed)}.",
                    f"session.hmt.knobs.{shortened(name)}",
                )
        try:
            knobs = self.model.knobs(**chosen)
        except UserError as error:
            raise InvalidError("invalid_knob", str(error), "session.hmt.knobs") from None
        threshold = getattr(knobs, "threshold", 0.5)
        if not 0 < threshold <= 1:
            raise InvalidError(
                "knob_limit",
                f"threshold = {threshold:g}: it must be above 0 and at most 1.",
                "session.hmt.knobs.threshold",
            )
        doubts = system.doubts(knobs) if self.limits_knobs else []
        if doubts:
            raise InvalidError("knob_limit", doubts[0], "session.hmt.knobs")
        return knobs

    def check_target(self, language: str) -> None:
        """Refuse a language that the model does not write."""
        if short_code(language) != short_code(self.target):
            raise InvalidError(
                "unsupported_language",
                f"{self.name} writes {self.target}, not {shortened(language)}.",
                "session.audio.output.language",
            )

    def plain_knobs(self, chosen: Mapping[str, Knob]) -> dict[str, Knob]:
        """All settings with their values."""
        values: dict[str, Knob] = asdict(self.model.knobs(**chosen))
        return values

    @cached_property
    def described_knobs(self) -> list[dict[str, Any]]:
        """Each setting with default, range or choices, meaning, and when a change applies."""
        default, kinds = self.plain_knobs({}), get_type_hints(self.model.system.Knobs)
        return [
            {
                "name": name,
                "default": value,
                "applies": "now" if name in self.model.system.MOVABLE else "next_sentence",
                **({"range": self._range(name, value)} if _is_number(value) else {}),
                **({"choices": choices} if (choices := _choices(kinds[name])) else {}),
                **({"meaning": MEANINGS[name]} if name in MEANINGS else {}),
            }
            for name, value in default.items()
        ]

    def _range(self, name: str, default: Knob) -> list[float]:
        if isinstance(default, float):
            return [0.0, 1.0]
        fitting = [value for value in range(PROBED + 1) if self._fits({name: value})]
        return [min(fitting), max(fitting)] if fitting else []

    def _fits(self, chosen: dict[str, Knob]) -> bool:
        try:
            self.knobs(chosen)
        except InvalidError:
            return False
        return True


def _choices(kind: Any) -> list[Knob]:
    """The values of a setting that has no range."""
    if kind is bool:
        return [False, True]
    return list(get_args(kind)) if get_origin(kind) is Literal else []


def _is_number(value: Knob) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def language_name(code: str) -> str:
    """The name of a language."""
    return NAMES.get(code, code)


def short_code(code: str) -> str:
    """`de` for `de-DE` and `de_DE`."""
    return code.replace("_", "-").split("-")[0].lower()
