"""A translation in progress, and the steps that it takes."""

from dataclasses import dataclass, field
from typing import Generic

from hmt.model.rows import Row
from hmt.systems.parameters import KnobsT, MemoryT


@dataclass(frozen=True)
class Read:
    """Wait until this many source tokens have been read, or the source has ended."""

    until: int


@dataclass(frozen=True)
class Write:
    """The row of this pass (counted within the stream) that writes the next token."""

    row: int


@dataclass(frozen=True)
class Plan:
    """Rows of one stream to compute in the next pass."""

    rows: list[Row]
    transformer_index: int = 0  # which of the system's Transformers computes them
    drops_unless_written: bool = False  # the rows are kept only if this pass ends in a write
    drops_earlier_rows: bool = False  # the stream's cached rows will never be looked at again


@dataclass
class Stream(Generic[KnobsT, MemoryT]):
    """One translation in progress: all that it needs, and all that its record reports."""

    slot: int
    knobs: KnobsT
    memory: MemoryT  # what its system remembers about it
    forced: list[int] | None = None  # target tokens to write instead of the model's own
    stops: frozenset[int] = frozenset()  # tokens after which it halts until it is released
    halted: bool = False
    is_running: bool = False  # one of many sentences: it cannot end before it has written anything
    source: list[int] = field(default_factory=list)  # arrived, not necessarily read
    arrived_at: list[float] = field(default_factory=list)  # seconds, per source token
    source_ended: bool = False  # the end token of the source has arrived
    read: int = 0
    waits_for: int = 0  # source tokens that must be read before the next pass
    target: list[int] = field(default_factory=list)
    reads: list[int] = field(default_factory=list)
    log_probs: list[float] = field(default_factory=list)
    written_at: list[float] = field(default_factory=list)
    states: list[dict[int, float]] = field(default_factory=list)  # per token: moment -> confidence
    target_ended: bool = False  # nothing more will be written
    rows: list[int] = field(default_factory=list)  # rows cached, per Transformer
    encoded: list[int] = field(default_factory=list)  # source tokens encoded, per Transformer

    @property
    def source_read(self) -> bool:
        """The source has been read to its end token: only now is its length known."""
        return self.source_ended and self.read == len(self.source)

    @property
    def next_token(self) -> int:
        """i, from 1, of the target token to be written next."""
        return len(self.target) + 1

    def note(self, token: int, moment: int, confidence: float) -> None:
        """Record that target token i was considered at a moment."""
        while len(self.states) < token:
            self.states.append({})
        self.states[token - 1][moment] = confidence
