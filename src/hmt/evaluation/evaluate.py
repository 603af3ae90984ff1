"""Translate a test set once per setting and keep what happened: records, logs and scores.

output/evaluation.json          which model and which text; a resumed sweep must have the same
output/scores.json              one point per setting
output/lower=3,.../records.jsonl, instances.log, config.yaml, measured.json
output/lower=3,.../records.partial.jsonl    of a point that was stopped; the next run goes on there
"""

import dataclasses
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from hmt.errors import UserError
from hmt.evaluation.logs import write_log, write_simuleval_config
from hmt.evaluation.points import add_point, read_points
from hmt.evaluation.records import numbered_lines, read_records, write_records
from hmt.files import replacing, write_atomically
from hmt.metrics.conventions import quality_conventions
from hmt.metrics.instance import instance_of
from hmt.metrics.scores import STANDARD, Point, Scoring, score
from hmt.models.model import Model
from hmt.models.weights import unshared
from hmt.streaming.record import Record
from hmt.text.lines import open_lines, scan

FORMAT = 1
Progress = Callable[[str, int, int], None]  # stage, done, total


@dataclass(frozen=True)
class ParallelText:
    """Parallel lines to be translated and compared with; `checksum` tells them from others."""

    sources: tuple[str, ...]
    references: tuple[str, ...] | None
    checksum: str


def read_parallel(source: Path, target: Path | None) -> ParallelText:
    """Read parallel files of one sentence per line, plain or gzip; no line is left out."""
    files = [scan(path) for path in (source, target) if path is not None]
    if len({file.lines for file in files}) > 1:
        first, second = files
        raise UserError(
            f"{first.path} has {first.lines} lines but {second.path} has {second.lines}; "
            "line n of one must be the translation of line n of the other."
        )
    sides = [tuple(_lines(file.path)) for file in files]
    checksum = " ".join(file.sha256 for file in files)
    return ParallelText(sides[0], sides[1] if target is not None else None, checksum)


def _lines(path: Path) -> Iterable[str]:
    with open_lines(path) as file:
        for line in file:
            yield line.decode("utf-8").rstrip("\r\n")


def evaluate(
    model: Model,
    test: ParallelText,
    output: Path,
    settings: Iterable[dict[str, Any]] = ({},),
    *,
    batch: int = 64,
    scoring: Scoring = STANDARD,
    progress: Progress = lambda stage, done, total: None,
) -> list[Point]:
    """Measure every setting, what is already done excepted; give the points in order."""
    knobs = list(dict.fromkeys(model.knobs(**chosen) for chosen in settings))
    claim(output, model, test)
    points = []
    for n, chosen in enumerate(knobs):
        folder = output / folder_name(asdict(chosen))
        report = partial(progress, f"{n + 1}/{len(knobs)}")
        records = _finished(folder / "records.jsonl", test)
        if records is None:
            _note_batch(folder, batch)
            records = _translate(model, test, asdict(chosen), batch, folder, report)
            _keep(folder, records)
        report(len(records), len(test.sources))
        points.append(_point(output, records, asdict(chosen), scoring))
    return points


def folder_name(settings: Mapping[str, Any]) -> str:
    """The folder of a setting inside the output directory."""
    return ",".join(f"{key}={value}" for key, value in settings.items()) or "default"


def fingerprint(model: Model) -> str:
    """A checksum of a model's weights and configuration; two copies of a model have the same."""
    config = json.dumps(model.config.config, sort_keys=True)
    digest = hashlib.sha256(config.encode())
    for name, tensor in sorted(unshared(model.system).items()):
        digest.update(name.encode())
        digest.update(tensor.detach().float().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()


def claim(output: Path, model: Model, test: ParallelText) -> None:
    """Mark the directory as this model's on this text, or refuse one that is another's."""
    path = output / "evaluation.json"
    claim = {"format": FORMAT, "model": fingerprint(model), "text": test.checksum}
    if output.exists() and not output.is_dir():
        raise UserError(f"{output} is a file; name a directory for the results.")
    if not output.is_dir() or not any(output.iterdir()):
        output.mkdir(parents=True, exist_ok=True)
        write_atomically(path, (json.dumps(claim, indent=1) + "\n").encode())
        return
    try:
        earlier = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        earlier = None
    if isinstance(earlier, dict) and earlier.keys() == claim.keys() and not _is_begun(output):
        write_atomically(path, (json.dumps(claim, indent=1) + "\n").encode())
    elif earlier != claim:
        raise UserError(
            f"{output} holds something else or results of another model or other text, and was "
            "left as it is; name another output directory or remove it."
        )


def _is_begun(output: Path) -> bool:
    """Whether anything was measured: a run may have stopped at its first, too long sentence."""
    return any(path.stat().st_size for path in output.glob("*/records*"))


def _finished(path: Path, test: ParallelText) -> Sequence[Record] | None:
    """Records of an earlier run of this setting if they are all there."""
    if not path.exists():
        return None
    records = read_records(path)
    return records if len(records) == len(test.sources) else None


def _translate(
    model: Model,
    test: ParallelText,
    knobs: dict[str, Any],
    batch: int,
    folder: Path,
    report: Callable[[int, int], None],
) -> list[Record]:
    """Records in order. Each is on disk at once; those of a run that was stopped are kept."""
    path = folder / "records.partial.jsonl"
    records = {r.index: r for r in _unbroken(path) if r.source == test.sources[r.index]}
    left = [n for n in range(len(test.sources)) if n not in records]
    with replacing(path) as temporary:
        write_records(temporary, records.values())
    with path.open("a", encoding="utf-8") as file:
        for place, record in model.translate_each([test.sources[n] for n in left], batch, **knobs):
            n = left[place]
            reference = test.references[n] if test.references is not None else None
            records[n] = dataclasses.replace(record, index=n, reference=reference)
            file.write(records[n].to_json() + "\n")
            file.flush()
            report(len(records), len(test.sources))
    return [records[n] for n in sorted(records)]


def _unbroken(path: Path) -> Iterator[Record]:
    """Records up to the first line that a sudden end cut off."""
    if path.exists():
        for _, line in numbered_lines(path):
            try:
                yield Record.from_json(line)
            except UserError:
                return


def _note_batch(folder: Path, batch: int) -> None:
    """Keep how many sentences ran side by side, which is what their clock times mean."""
    folder.mkdir(exist_ok=True)
    most = max(batch, _batch(folder) or 1)
    write_atomically(folder / "measured.json", (json.dumps({"batch": most}) + "\n").encode())


def _batch(folder: Path) -> int | None:
    try:
        found = json.loads((folder / "measured.json").read_text(encoding="utf-8"))["batch"]
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return found if isinstance(found, int) else None


def _keep(folder: Path, records: Sequence[Record]) -> None:
    """Write records last and in one step: where they stand, the point is done."""
    write_log(folder / "instances.log", map(instance_of, records))
    write_simuleval_config(folder)
    with replacing(folder / "records.jsonl") as temporary:
        write_records(temporary, records)
    (folder / "records.partial.jsonl").unlink()


def _point(
    output: Path, records: Sequence[Record], settings: dict[str, Any], scoring: Scoring
) -> Point:
    """Score a setting, unless scores.json has it, scored in the same way by a like version."""
    path = output / "scores.json"
    plain, asked = json.loads(json.dumps([settings, asdict(scoring)]))
    for point in read_points(path):
        if (
            point["settings"] == plain
            and point.get("scoring") == asked
            and point.get("sentences") == len(records)
            and point["conventions"]["quality"] == quality_conventions(scoring.tokenize)
        ):
            return point
    point = score(records, settings=settings, **asdict(scoring))
    note_clock(point, output / folder_name(settings))
    add_point(path, point)
    return point


def note_clock(point: Point, folder: Path) -> None:
    """Say beside computation-aware latency how the records of this folder were timed."""
    word = point["conventions"]["latency"]["word"]
    if "computation_aware" in word:
        batch = _batch(folder)
        word["computation_aware"] += "; times taken " + (
            "one sentence at a time"
            if batch == 1
            else f"with {batch or 'an unknown number of'} sentences side by side"
        )
