"""Records: what one translation did, as one JSON object per line."""

import json
from dataclasses import asdict, dataclass, field
from itertools import pairwise

from hmt.errors import UserError
from hmt.plain import from_plain, json_object


@dataclass(frozen=True, repr=False)  # all fields of one sentence fill a screen; see __repr__
class Record:
    """One sentence. I target and J source tokens, both with their end token; K states."""

    index: int  # the position of the sentence in the text, from 0
    source: str  # as it was given
    prediction: str  # the translation as a reader saw it, and the only text that quality scores use
    source_tokens: list[str]  # (J)
    target_tokens: list[str]  # (I); lacks the end token if the translation was cut
    reads: list[int]  # (I) source tokens read when each target token was written
    source_word_ends: list[int]  # index of the last token of each word
    target_word_ends: list[int]
    # index of the token that showed each word to be complete; empty: the last token of the word
    target_word_outs: list[int] = field(default_factory=list)
    reference: str | None = None
    confidences: list[list[float]] = field(default_factory=list)  # (I, <=K)
    moments: list[list[int]] = field(default_factory=list)  # (I, <=K)
    log_probs: list[float] = field(default_factory=list)  # (I)
    times: list[float] = field(default_factory=list)  # (I) seconds since start on a steady clock
    arrivals: list[float] = field(default_factory=list)  # (J) same clock; empty: all at the start
    settings: dict[str, object] = field(default_factory=dict)

    def __str__(self) -> str:
        """One readable line: the sentence, its translation, and what had been read by then."""
        words, first = len(self.source_word_ends), self.reads[0] if self.reads else 0
        settings = ", ".join(f"{name}={value}" for name, value in self.settings.items())
        return (
            f"{self.index}: {_brief(self.source)} -> {_brief(self.prediction)} "
            f"({words} word{'s' * (words != 1)}, first text after {first} of "
            f"{len(self.source_tokens)} tokens; {settings or 'no settings'})"
        )

    def __repr__(self) -> str:
        return f"<Record {self}>"

    def to_json(self) -> str:
        """One line of JSON, without its newline."""
        return json.dumps(asdict(self), ensure_ascii=False, allow_nan=False)

    @classmethod
    def from_json(cls, line: str) -> "Record":
        """Read one line; unknown, missing, ill-typed and contradictory fields are refused."""
        if not isinstance(line, str):
            raise UserError(f"A record is one line of JSON, not a {type(line).__name__}.")
        record = from_plain(cls, json_object(line))
        record.check()
        return record

    def check(self) -> None:
        """Raise UserError where fields contradict each other."""
        I, J = len(self.target_tokens), len(self.source_tokens)  # noqa: E741
        for name in ("reads", "confidences", "moments", "log_probs", "times"):
            count = len(getattr(self, name))
            if count != I and (count or name == "reads"):
                raise UserError(f'"{name}" has {count} values for {I} target tokens.')
        if self.arrivals and len(self.arrivals) != J:
            raise UserError(f'"arrivals" has {len(self.arrivals)} values for {J} source tokens.')
        for name, length in (("source_word_ends", J), ("target_word_ends", I)):
            ends = getattr(self, name)
            if any(a >= b for a, b in pairwise(ends)) or (
                ends and not 0 <= ends[0] <= ends[-1] < length
            ):
                raise UserError(f'"{name}" must rise and stay below the {length} tokens.')
        outs, ends = self.target_word_outs, self.target_word_ends
        if outs and not (
            len(outs) == len(ends)
            and all(end <= out <= I for end, out in zip(ends, outs, strict=True))
            and outs == sorted(outs)
        ):
            raise UserError(
                '"target_word_outs" must have one value for each word, not before its end, not '
                f"falling, and at most {I}."
            )
        words = len(self.prediction.split())
        if len(self.target_word_ends) != words:
            raise UserError(
                f'"target_word_ends" has {len(self.target_word_ends)} values for the {words} words '
                "of the prediction."
            )


def _brief(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."
