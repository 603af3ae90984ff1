"""Long-form evaluation: a test set given as talks of running text, scored after re-segmentation.

output/evaluation.json, scores.json        as in `hmt evaluate`
output/lower=3,text=written/               talks.jsonl, records.jsonl (one per sentence found),
                                           resegmented.jsonl, and the logs of other scorers
output/sentences[-unpunctuated]/           the same text, sentence by sentence
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from hmt.errors import UserError
from hmt.evaluation.evaluate import (
    ParallelText,
    Progress,
    alone_in,
    claim,
    evaluate,
    setting_folder,
)
from hmt.evaluation.longform_logs import write_logs, write_segments
from hmt.evaluation.points import add_point
from hmt.evaluation.records import RECORDS, numbered_lines, read_records, write_records
from hmt.evaluation.talks import Delivered, Script, borders, deliver, scripts
from hmt.files import write_atomically
from hmt.metrics.instance import instance_of
from hmt.metrics.longform import Segment, Talk, elapsed_of_talk, segments_of
from hmt.metrics.longform_scores import score_segments
from hmt.metrics.scores import STANDARD, Point, Scoring
from hmt.models.model import Model
from hmt.streaming.record import Record
from hmt.text.spoken import unpunctuated

AS_WRITTEN, UNPUNCTUATED = "written", "unpunctuated"


@dataclass(frozen=True)
class LongForm:
    """How a test set becomes running text."""

    sizes: tuple[int, ...]  # lines of each talk
    text: str = AS_WRITTEN  # or UNPUNCTUATED


def evaluate_longform(
    model: Model,
    test: ParallelText,
    output: Path,
    form: LongForm,
    settings: Iterable[dict[str, Any]] = ({},),
    *,
    batch: int = 64,
    scoring: Scoring = STANDARD,
    progress: Progress = lambda task, done, total: None,
) -> list[Point]:
    """Deliver all talks at every setting, except those already delivered; the points in order."""
    if test.references is None:
        raise UserError("Long-form evaluation assigns text to reference sentences; give --target.")
    knobs = list(dict.fromkeys(model.knobs(**chosen) for chosen in settings))
    is_spoken = form.text == UNPUNCTUATED
    texts = scripts(test.sources, test.references, form.sizes, spoken=is_spoken)
    sizes = hashlib.sha256(repr(form.sizes).encode()).hexdigest()[:16]
    claim(output, model, replace(test, checksum=f"{test.checksum} talks {sizes}"))
    points = []
    for n, chosen in enumerate(knobs, 1):
        plain = asdict(chosen)
        report = partial(progress, f"talks {n}/{len(knobs)}")
        folder = setting_folder(output, {**plain, "text": form.text})
        with alone_in(folder):
            delivered = _deliver_all(model, texts, plain, folder, report)
            point = _point(folder, texts, delivered, scoring)
        point["settings"] = {**plain, "text": form.text}
        point["sentence_by_sentence"] = {
            text: _sentences(model, test, output, plain, text, form, batch, scoring, progress)
            for text in dict.fromkeys((AS_WRITTEN, form.text))
        }
        add_point(output / "scores.json", point)
        points.append(point)
    return points


def _deliver_all(
    model: Model,
    texts: Sequence[Script],
    knobs: dict[str, Any],
    folder: Path,
    report: Callable[[int, int], None],
) -> list[Delivered]:
    """All talks in order. Each is stored as it ends; those of an earlier run are reused."""
    delivered = _kept(folder / "talks.jsonl", texts)
    records = _records_of(folder / RECORDS, delivered)
    total = sum(len(script.words) for script in texts)
    done = sum(len(one.seconds) for one in delivered)
    for script in texts[len(delivered) :]:

        def heard() -> None:
            nonlocal done
            done += 1
            report(done, total)

        one, new = deliver(model, script, knobs, heard)
        records += [replace(r, index=len(records) + n) for n, r in enumerate(new)]
        delivered.append(one)
        # records first: the talks determine how many of them count
        write_records(folder / RECORDS, records)
        lines = [talk.to_json() + "\n" for talk in delivered]
        write_atomically(folder / "talks.jsonl", "".join(lines))
    report(total, total)
    return delivered


def _kept(path: Path, texts: Sequence[Script]) -> list[Delivered]:
    try:
        delivered = (
            [Delivered.from_json(line) for _, line in numbered_lines(path)] if path.exists() else []
        )
    except UserError as error:
        raise UserError(
            f"{path}: {error} Remove its folder to translate the talks again."
        ) from None
    if [one.name for one in delivered] != [script.name for script in texts[: len(delivered)]]:
        raise UserError(f"{path} holds other talks; remove its folder to translate these.")
    return delivered


def _records_of(path: Path, delivered: Sequence[Delivered]) -> list[Record]:
    sentences = sum(len(one.sentences) for one in delivered)
    return list(read_records(path))[:sentences] if sentences else []


def _point(
    folder: Path, texts: Sequence[Script], delivered: Sequence[Delivered], scoring: Scoring
) -> Point:
    """Score talks that were delivered, and write the logs of other scorers."""
    rate = scoring.seconds_per_word
    talks = [
        Talk(
            script.lengths,
            script.references,
            one.written,
            one.delays,
            None if rate is None else elapsed_of_talk(one.delays, one.seconds, rate),
        )
        for script, one in zip(texts, delivered, strict=True)
    ]
    segments, health = segments_of(talks)
    write_logs(folder, texts, delivered, talks, rate or 1.0)
    write_segments(folder / "resegmented.jsonl", segments)
    point = score_segments(segments, scoring)
    point["longform"] = {**running_text(texts, delivered), "resegmentation": asdict(health)}
    return point


def running_text(texts: Sequence[Script], delivered: Sequence[Delivered]) -> dict[str, Any]:
    """What became of the source: nothing may be lost, and sentence borders should be found."""
    found = [sentence for one in delivered for sentence in one.sentences]
    words = sum(len(script.words) for script in texts)
    ends, true, right = 0, 0, 0
    for script, one in zip(texts, delivered, strict=True):
        own = set(borders([sentence.source_words for sentence in one.sentences]))
        given = set(borders(script.lengths))
        ends, true, right = ends + len(own), true + len(given), right + len(own & given)
    return {
        "talks": len(texts),
        "source_words": words,
        "translated_share": sum(s.source_words for s in found if s.written_words) / words,
        "sentences_found": len(found),
        "sentences_true": sum(len(script.sources) for script in texts),
        # ends within talks only: where a talk ends is given
        "borders": {"true": true, "found": ends, "right": right},
        "ended_by": dict(sorted(Counter(sentence.reason for sentence in found).items())),
        "written_words": sum(len(one.written) for one in delivered),
        "reference_words": sum(len(line.split()) for s in texts for line in s.references),
    }


def _sentences(
    model: Model,
    test: ParallelText,
    output: Path,
    knobs: dict[str, Any],
    text: str,
    form: LongForm,
    batch: int,
    scoring: Scoring,
    progress: Progress,
) -> dict[str, Any]:
    """Quality and long-form latency of the same text translated sentence by sentence."""
    folder = output / "sentences"
    if text == UNPUNCTUATED:
        folder = output / "sentences-unpunctuated"
        lines = tuple(map(unpunctuated, test.sources))
        test = ParallelText(lines, test.references, f"{test.checksum} unpunctuated")
    plain = replace(scoring, seconds_per_word=None)
    quick = partial(evaluate, batch=batch, scoring=plain, progress=progress)
    (found,) = quick(model, test, folder, [knobs])
    records = read_records(setting_folder(folder, found["settings"]))
    segments = _as_segments(records, form.sizes)
    point = score_segments(segments, replace(plain, resamples=0))
    return {"quality": found["quality"], "latency": point["latency"]}


def _as_segments(records: Sequence[Record], sizes: Sequence[int]) -> list[Segment]:
    """Sentences as segments of talks, each translated as if the speaker paused after it."""
    rows = [instance_of(record) for record in records]
    found: list[Segment] = []
    for size in sizes:
        talk = rows[len(found) : len(found) + size]
        left = sum(row.source_length for row in talk)
        for row in talk:
            words = row.prediction.split()
            reference = row.reference or ""
            found.append(Segment(reference, words, row.delays, row.source_length, left))
            left -= row.source_length
    return found
