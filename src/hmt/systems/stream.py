"""One translation in progress, and the steps that it takes."""

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Read:
    """Wait until this many source tokens have been read, or the source has ended."""

    until: int


@dataclass(frozen=True)
class Write:
    """The row of this pass (counted within the stream) that writes the next token."""

    row: int


@dataclass
class Plan:
    """Rows of one stream to compute in the next pass, as parallel lists."""

    targets: list[int]  # i, from 1
    moments: list[int]
    columns: list[int]
    copies: list[int] = field(default_factory=list)  # empty: all 1
    part: int = 0  # which of the system's Transformers computes them
    is_tentative: bool = False  # the rows are kept only if this pass ends in a write
    forgets: bool = False  # earlier rows of the stream will never be looked at again


@dataclass
class Stream:
    """One translation in progress: all that it needs, and all that its record will tell."""

    slot: int
    knobs: Any
    memory: Any = None  # what its system has to remember, typed by that system
    forced: list[int] | None = None  # target tokens to write instead of the model's own
    source: list[int] = field(default_factory=list)  # arrived, not necessarily read
    arrived_at: list[float] = field(default_factory=list)  # seconds, per source token
    is_finished: bool = False  # the source end token has arrived
    read: int = 0
    wants: int = 0  # tokens that must be read before the next pass
    target: list[int] = field(default_factory=list)
    reads: list[int] = field(default_factory=list)
    log_probs: list[float] = field(default_factory=list)
    written_at: list[float] = field(default_factory=list)
    states: list[dict[int, float]] = field(default_factory=list)  # per token: moment -> confidence
    has_ended: bool = False
    rows: list[int] = field(default_factory=list)  # rows cached, per part
    encoded: list[int] = field(default_factory=list)  # source tokens encoded, per part

    @property
    def is_complete(self) -> bool:
        """The source has been read to its end token: only now is its length known."""
        return self.is_finished and self.read == len(self.source)

    def note(self, token: int, moment: int, confidence: float) -> None:
        """Record that target token i was considered at a moment."""
        while len(self.states) < token:
            self.states.append({})
        self.states[token - 1][moment] = confidence
