"""Proof that nothing looks ahead: replace the unread source, and written output must not change.

A sentence is first translated unchanged. Then everything after some point is replaced, again and
again. Whatever was written or computed from the source up to that point must come out the same.
Models are audited in double precision, where rounding is never mistaken for a leak, nor a small
leak for rounding.
"""

import copy
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from hmt.errors import UserError
from hmt.evaluation.evaluate import Progress
from hmt.evaluation.simuleval import answers
from hmt.limits import MAX_SENTENCE_TOKENS
from hmt.models.model import Model
from hmt.streaming.record import Record
from hmt.text.symbols import UNK
from hmt.text.tokenizer import Tokenizer

TOLERANCE = 1e-6  # rounding in double precision is around 1e-14
SENTENCES, PROBES = 20, 15
KINDS = {
    "words": "other words",
    "unicode": "random characters",
    "nothing": "the end of the sentence",
    "longer": "a much longer rest",
    "pieces": "other pieces of words",
}
WHOLE, LIVE = "all of it available from the start", "words arriving one by one"
# Live, words far beyond the cut arrive long after the writes that are compared.
LIVE_WORDS = 3


@dataclass(frozen=True)
class Leak:
    """Output written before some point that changed with the source after it."""

    sentence: int  # from 1
    source: str
    read: str  # "4 words", "7 pieces"
    arrival: str  # how the source arrived
    replaced: str  # what replaced the rest
    what: str

    def __str__(self) -> str:
        source = self.source if len(self.source) <= 80 else self.source[:77] + "..."
        return (
            f'sentence {self.sentence} "{source}": with {self.read} read and the rest replaced by '
            f"{self.replaced} ({self.arrival}), {self.what}"
        )


@dataclass
class Report:
    """What was tried and what was found."""

    sentences: int = 0
    probes: int = 0
    compared: int = 0  # writes
    worst: float = 0.0  # difference of a confidence or log-probability
    leaks: list[Leak] = field(default_factory=list)

    @property
    def is_clean(self) -> bool:
        """Whether something was tried and nothing looked ahead."""
        return not self.leaks and self.probes > 0

    def lines(self, shown: int = 5) -> Iterator[str]:
        """The report as text, with the first leaks in full."""
        yield f"sentences         {self.sentences:,}"
        yield f"probes            {self.probes:,}"
        yield f"writes compared   {self.compared:,}"
        yield f"worst difference  {self.worst:.1e}  (allowed {TOLERANCE:.0e})"
        for leak in self.leaks[:shown]:
            yield f"leak: {leak}"
        if len(self.leaks) > shown:
            yield f"... and {len(self.leaks) - shown:,} more"
        if self.is_clean:
            yield "PASS: no output depends on source that had not been read."
        elif self.leaks:
            count = f"{len(self.leaks):,} of {self.probes:,}"
            yield f"FAIL: {count} probes changed output that had already been written."
        else:
            yield "FAIL: nothing was tried; give sentences that contain words."


class Futures:
    """Random continuations of a sentence."""

    def __init__(self, draw: random.Random, words: Sequence[str]) -> None:
        self.draw = draw
        self.words = list(dict.fromkeys(words)) or ["?"]

    def of(self, words: list[str], probes: int) -> Iterator[tuple[str, int, list[str]]]:
        """Kind, cut, and words that are changed from there on; every kind in turn."""
        kinds = [kind for kind in KINDS if kind != "pieces"]
        for n, cut in enumerate(points(self.draw, len(words), probes)):
            kind = kinds[n % len(kinds)]
            yield kind, cut, words[:cut] + self.after(kind, len(words) - cut)

    def after(self, kind: str, rest: int) -> list[str]:
        """Words in place of the last `rest` ones."""
        if kind == "nothing":
            return []
        count = 3 * rest + 20 if kind == "longer" else self.draw.randint(1, rest + 2)
        is_unicode = kind == "unicode"
        return [
            self._unicode() if is_unicode else self.draw.choice(self.words) for _ in range(count)
        ]

    def pieces(self, size: int, rest: int) -> list[int]:
        """Token ids in place of the last `rest` ones."""
        return [self.draw.randrange(UNK, size) for _ in range(self.draw.randint(0, rest + 4))]

    def _unicode(self) -> str:
        length, word = self.draw.randint(1, 6), ""
        while len(word) < length:
            character = chr(self.draw.choice((0x100, 0x3000, 0x20000)) + self.draw.randrange(0xD00))
            word += "" if character.isspace() else character
        return word


def points(draw: random.Random, count: int, probes: int) -> list[int]:
    """Places at which to cut `count` items; all of them are used before any is repeated."""
    places: list[int] = []
    while len(places) < probes:
        places += draw.sample(range(count), count)
    return places[:probes]


def compare(base: Record, other: Record, kept: int, report: Report) -> str | None:
    """The first output written with at most `kept` source tokens read that differs, if any."""
    for n, (a, b) in enumerate(
        zip(base.source_tokens[:kept], other.source_tokens[:kept], strict=False), 1
    ):
        if a != b:
            return f'source piece {n} "{a}" became "{b}"'
    counts = [sum(read <= kept for read in record.reads) for record in (base, other)]
    for i in range(min(counts)):
        report.compared += 1
        if found := _write(base, other, i, report) or _states(base, other, i, kept, report):
            return found
    i = min(counts)
    if counts[0] > i:
        return f'write {i + 1} "{base.target_tokens[i]}" was no longer made'
    if counts[1] > i:
        return f'write {i + 1} "{other.target_tokens[i]}" was made too early'
    if i < min(len(base.reads), len(other.reads)):
        return _states(base, other, i, kept, report)
    return None


def _write(base: Record, other: Record, i: int, report: Report) -> str | None:
    token, changed = base.target_tokens[i], other.target_tokens[i]
    if token != changed:
        return f'write {i + 1} "{token}" became "{changed}"'
    if base.reads[i] != other.reads[i]:
        return (
            f'write {i + 1} "{token}" came after {other.reads[i]} source pieces, not '
            f"{base.reads[i]}"
        )
    a, b = base.log_probs[i], other.log_probs[i]
    if _is_apart(a, b, report):
        return f'the log-probability of write {i + 1} "{token}" became {b:.6f}, from {a:.6f}'
    return None


def _states(base: Record, other: Record, i: int, kept: int, report: Report) -> str | None:
    """Compare the confidences of token i at moments up to the cut, whether they wrote or not."""
    a, b = (
        {t: c for t, c in zip(r.moments[i], r.confidences[i], strict=True) if t <= kept}
        for r in (base, other)
    )
    name = f'write {i + 1} "{base.target_tokens[i]}"'
    if a.keys() != b.keys():
        return f"{name} was considered after {sorted(b)} source pieces, not {sorted(a)}"
    for t, confidence in a.items():
        if _is_apart(confidence, b[t], report):
            return (
                f"the confidence of {name} after {t} source pieces became {b[t]:.6f}, from "
                f"{confidence:.6f}"
            )
    return None


def _is_apart(a: float, b: float, report: Report) -> bool:
    difference = 0.0 if a == b else abs(a - b)
    # Not "greater than": NaN must count as a difference.
    if difference <= TOLERANCE:
        report.worst = max(report.worst, difference)
        return False
    report.worst = max(report.worst, difference if difference == difference else float("inf"))
    return True


class ModelAudit:
    """Runs a model on sentences with a common beginning."""

    def __init__(self, model: Model, draw: random.Random, words: Sequence[str], **knobs: Any):
        system = copy.deepcopy(model.system).double()
        tokenizers = model.source_tokenizer, model.target_tokenizer
        self.model = Model(system, tokenizers, model.config)
        self.knobs = knobs
        self.draw = draw
        self.futures = Futures(draw, words)
        self.report = Report()

    def sentence(self, number: int, line: str, probes: int) -> None:
        """Probe one sentence, arriving word by word and arriving whole."""
        words = line.split()
        if not words:
            return
        if sum(self._lengths(words)) >= MAX_SENTENCE_TOKENS:
            raise UserError(f"Sentence {number} is too long to be translated at once: split it.")
        self.report.sentences += 1
        base = self.model.translate([line], batch=1, **self.knobs)[0]

        def check(other: Record, kept: int, read: str, arrival: str, replaced: str) -> None:
            self.report.probes += 1
            if what := compare(base, other, kept, self.report):
                self.report.leaks.append(Leak(number, line, read, arrival, replaced, what))

        all_words = f"{len(words)} words"
        check(self._live(words), len(base.source_tokens), all_words, LIVE, "nothing else")
        for kind, cut, changed, other in self._text_probes(words, probes):
            kept, read = sum(self._lengths(words[:cut])), f"{cut} words"
            check(other, kept, read, WHOLE, KINDS[kind])
            check(self._live(changed[: cut + LIVE_WORDS]), kept, read, LIVE, KINDS[kind])
        for cut, other in self._piece_probes(line, probes):
            check(other, cut, f"{cut} pieces", WHOLE, KINDS["pieces"])

    def _lengths(self, words: Sequence[str]) -> list[int]:
        return [len(self.model.source_tokenizer.encode(word)) for word in words]

    def _text_probes(
        self, words: list[str], probes: int
    ) -> Iterator[tuple[str, int, list[str], Record]]:
        """Kind, cut, changed words and their translation, all in one batch of streams."""
        found = []
        for kind, cut, changed in self.futures.of(words, probes):
            while sum(self._lengths(changed)) >= MAX_SENTENCE_TOKENS:
                changed.pop()
            if changed:
                found.append((kind, cut, changed))
        lines = [" ".join(changed) for _, _, changed in found]
        others = self.model.translate(lines, batch=len(lines), **self.knobs)
        for (kind, cut, changed), other in zip(found, others, strict=True):
            yield kind, cut, changed, other

    def _piece_probes(self, line: str, probes: int) -> Iterator[tuple[int, Record]]:
        """Cuts that need not lie between words, all in one batch of streams."""
        tokenizer = self.model.source_tokenizer
        ids = tokenizer.encode(line)
        cuts = points(self.draw, len(ids), max(1, probes // 4))
        changed = [
            (ids[:cut] + self.futures.pieces(tokenizer.size, len(ids) - cut))[
                : MAX_SENTENCE_TOKENS - 1
            ]
            for cut in cuts
        ]
        engine = self.model.engine(len(cuts))
        for n, stream in engine.translate(changed, self.model.knobs(**self.knobs)):
            yield cuts[n], self.model.record(stream, tokenizer.decode(changed[n]))

    def _live(self, words: Sequence[str]) -> Record:
        session = self.model.session(by_line=True, **self.knobs)
        for word in words:
            session.push(word)
        session.finish()
        return session.record


def audit(
    model: Model,
    sentences: Iterable[str] | None = None,
    *,
    probes: int = PROBES,
    seed: int = 1,
    progress: Progress = lambda task, done, total: None,
    **knobs: Any,
) -> Report:
    """Audit a model on sentences, or on invented ones made from its own vocabulary."""
    draw = random.Random(seed)
    lines = invented(model.source_tokenizer, draw) if sentences is None else list(sentences)
    run = ModelAudit(model, draw, [word for line in lines for word in line.split()], **knobs)
    for n, line in enumerate(lines, 1):
        run.sentence(n, line, probes)
        progress("audit", n, len(lines))
    return run.report


def invented(tokenizer: Tokenizer, draw: random.Random, count: int = SENTENCES) -> list[str]:
    """Sentences of 1 to 20 words, each word made of one or two random pieces."""

    def word() -> str:
        ids = [draw.randrange(UNK + 1, tokenizer.size) for _ in range(draw.randint(1, 2))]
        return "".join(tokenizer.decode(ids).split()) or "?"

    return [" ".join(word() for _ in range(draw.randint(1, 20))) for _ in range(count)]


def audit_agent(
    agent: Any,
    sentences: Iterable[str] | None = None,
    *,
    probes: int = PROBES,
    seed: int = 1,
    progress: Progress = lambda task, done, total: None,
) -> Report:
    """Audit an agent of SimulEval: its answers may depend only on the words given so far."""
    draw = random.Random(seed)
    lines = nonsense(draw) if sentences is None else list(sentences)
    futures = Futures(draw, [word for line in lines for word in line.split()])
    report = Report()
    for number, line in enumerate(lines, 1):
        words = line.split()
        report.sentences += bool(words)
        base = answers(agent, words) if words else []
        for kind, cut, changed in futures.of(words, probes) if words else ():
            if changed:
                # SimulEval marks the last word as such, so the answer to it may differ.
                kept = cut if len(changed) > cut else cut - 1
                report.probes += 1
                if what := _answers_differ(base[:kept], answers(agent, changed)[:kept], report):
                    leak = Leak(number, line, f"{kept} words", LIVE, KINDS[kind], what)
                    report.leaks.append(leak)
        report.probes += bool(words)
        if words and (what := _answers_differ(base, answers(agent, words), report)):
            read = f"{len(words)} words"
            report.leaks.append(Leak(number, line, read, LIVE, "nothing: it was run again", what))
        progress("audit", number, len(lines))
    return report


def _answers_differ(base: list[str], other: list[str], report: Report) -> str | None:
    for n, (a, b) in enumerate(zip(base, other, strict=False), 1):
        report.compared += 1
        if a != b:
            return f'the answer to word {n} became "{b}", from "{a}"'
    if len(base) != len(other):
        return f"there were {len(other)} answers, not {len(base)}"
    return None


def nonsense(draw: random.Random, count: int = SENTENCES) -> list[str]:
    """Sentences for an agent whose vocabulary is not known."""

    def word() -> str:
        return "".join(draw.choice("bdfgklmnprstw") + draw.choice("aeiou") for _ in range(3))

    words = [word()[: draw.randint(1, 6)] for _ in range(50)]
    return [
        " ".join(draw.choice(words) for _ in range(draw.randint(1, 15))) + " ."
        for _ in range(count)
    ]
