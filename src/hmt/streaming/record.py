"""Records: what one translation did, as one JSON object per line."""

import json
from collections.abc import Callable, Iterator
from dataclasses import MISSING, asdict, dataclass, field, fields
from itertools import pairwise
from pathlib import Path
from typing import Any

from hmt.errors import UserError


@dataclass(frozen=True)
class Record:
    """One sentence. I target tokens, J source tokens, both with their end token, K states."""

    index: int
    source: str
    prediction: str
    source_tokens: list[str]  # (J)
    target_tokens: list[str]  # (I); lacks the end token if the translation was cut
    reads: list[int]  # (I) source tokens read when each target token was written
    source_word_ends: list[int]  # index of the last token of each word
    target_word_ends: list[int]
    # index of the token that made sure each word was complete; empty: the last token of the word
    target_word_outs: list[int] = field(default_factory=list)
    reference: str | None = None
    confidences: list[list[float]] = field(default_factory=list)  # (I, <=K)
    moments: list[list[int]] = field(default_factory=list)  # (I, <=K)
    log_probs: list[float] = field(default_factory=list)  # (I)
    times: list[float] = field(default_factory=list)  # (I) seconds since start on a steady clock
    arrivals: list[float] = field(default_factory=list)  # (J) same clock; empty: all at the start
    settings: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        """One readable line: the sentence, its translation, and what had been read by then."""
        words, first = len(self.source_word_ends), self.reads[0] if self.reads else 0
        settings = ", ".join(f"{name}={value}" for name, value in self.settings.items())
        return (
            f"{self.index}: {_brief(self.source)} -> {_brief(self.prediction)} "
            f"({words} word{'s' * (words != 1)}, first text after {first} of "
            f"{len(self.source_tokens)} tokens; {settings or 'no settings'})"
        )

    def to_json(self) -> str:
        """One line of JSON, without its newline."""
        return json.dumps(asdict(self), ensure_ascii=False, allow_nan=False)

    @classmethod
    def from_json(cls, line: str) -> "Record":
        """Read one line strictly: unknown, missing, mistyped and contradicting fields are told."""
        values = json_object(line)
        if unknown := sorted(values.keys() - FIELDS.keys()):
            raise UserError(f"unknown key {unknown[0]!r}; a record has {', '.join(FIELDS)}.")
        if missing := [name for name in REQUIRED if name not in values]:
            raise UserError(f"the key {missing[0]!r} is missing.")
        for name, value in values.items():
            fits, kind = FIELDS[name]
            if not fits(value):
                raise UserError(f"{name!r} is {shortened(value)}; it must be {kind}.")
        record = cls(**values)
        record.check()
        return record

    def check(self) -> None:
        """Raise UserError where fields contradict each other."""
        I, J = len(self.target_tokens), len(self.source_tokens)  # noqa: E741
        for name in ("reads", "confidences", "moments", "log_probs", "times"):
            count = len(getattr(self, name))
            if count != I and (count or name == "reads"):
                raise UserError(f"{name!r} has {count} values for {I} target tokens.")
        if self.arrivals and len(self.arrivals) != J:
            raise UserError(f"'arrivals' has {len(self.arrivals)} values for {J} source tokens.")
        for name, length in (("source_word_ends", J), ("target_word_ends", I)):
            ends = getattr(self, name)
            if any(a >= b for a, b in pairwise(ends)) or (
                ends and not 0 <= ends[0] <= ends[-1] < length
            ):
                raise UserError(f"{name!r} must rise and stay below the {length} tokens.")
        outs, ends = self.target_word_outs, self.target_word_ends
        if outs and not (
            len(outs) == len(ends)
            and all(end <= out <= I for end, out in zip(ends, outs, strict=True))
            and outs == sorted(outs)
        ):
            raise UserError(
                "'target_word_outs' must have one value for each word, not before its end, not "
                f"falling, and at most {I}."
            )
        words = len(self.prediction.split())
        if len(self.target_word_ends) != words:
            raise UserError(
                f"'target_word_ends' has {len(self.target_word_ends)} values for the {words} words "
                "of the prediction."
            )


def _brief(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."


def is_int(value: Any) -> bool:
    """Whether it is a whole number; JSON's true and false are not."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_number(value: Any) -> bool:
    """Whether it is a finite number."""
    return is_int(value) or (isinstance(value, float) and abs(value) < float("inf"))


def is_string(value: Any) -> bool:
    """Whether it is text."""
    return isinstance(value, str)


def is_list(fits: Callable[[Any], bool]) -> Callable[[Any], bool]:
    """A test for a list of values that all fit."""
    return lambda value: isinstance(value, list) and all(map(fits, value))


FIELDS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "index": (is_int, "a whole number"),
    "source": (is_string, "text"),
    "reference": (lambda value: value is None or is_string(value), "text or null"),
    "prediction": (is_string, "text"),
    "source_tokens": (is_list(is_string), "a list of texts"),
    "target_tokens": (is_list(is_string), "a list of texts"),
    "reads": (is_list(is_int), "a list of whole numbers"),
    "source_word_ends": (is_list(is_int), "a list of whole numbers"),
    "target_word_ends": (is_list(is_int), "a list of whole numbers"),
    "target_word_outs": (is_list(is_int), "a list of whole numbers"),
    "confidences": (is_list(is_list(is_number)), "a list of lists of numbers"),
    "moments": (is_list(is_list(is_int)), "a list of lists of whole numbers"),
    "log_probs": (is_list(is_number), "a list of numbers"),
    "times": (is_list(is_number), "a list of numbers (seconds)"),
    "arrivals": (is_list(is_number), "a list of numbers (seconds)"),
    "settings": (lambda value: isinstance(value, dict), "an object"),
}
REQUIRED = [f.name for f in fields(Record) if f.default is MISSING and f.default_factory is MISSING]


def shortened(value: Any) -> str:
    """A value as it may stand in a sentence."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else text[:57] + "..."


def json_object(line: str) -> dict[str, Any]:
    """The object that a line holds."""
    try:
        values = json.loads(line)
    except json.JSONDecodeError as error:
        raise UserError(f"this is not JSON: {error}.") from None
    if not isinstance(values, dict):
        raise UserError(f"this is {shortened(values)}, not a JSON object.")
    return values


def numbered_lines(path: str | Path) -> Iterator[tuple[str, str]]:
    """The lines of a JSON-lines file that hold anything, each after "file, line n"."""
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8 text: {error.reason}.") from None
    # Only newlines end a line: JSON text may hold U+2028, at which splitlines() would cut.
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            yield f"{path}, line {number}", line
