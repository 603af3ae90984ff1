"""Translate a test set once per setting and keep what happened: records, logs and scores.

output/evaluation.json          which model and which text; a resumed sweep must have the same
output/scores.json              one point per setting
output/lower=3,.../records.jsonl, instances.log, config.yaml
"""

import dataclasses
import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hmt.errors import UserError
from hmt.evaluation.logs import row_of, write_log, write_simuleval_config
from hmt.evaluation.records import read_records, write_records
from hmt.evaluation.scores import Point, add_point, read_points, score
from hmt.streaming.model import Model
from hmt.streaming.record import Record
from hmt.systems.directory import unshared, write_atomically
from hmt.text.files import open_lines, scan

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
    progress: Progress = lambda stage, done, total: None,
) -> list[Point]:
    """Measure every setting, those already done excepted; give their points in order."""
    knobs = list(dict.fromkeys(model.knobs(**chosen) for chosen in settings))
    _claim(output, model, test)
    points = []
    for n, chosen in enumerate(knobs):
        name = ",".join(f"{key}={value}" for key, value in asdict(chosen).items()) or "default"
        stage = f"{n + 1}/{len(knobs)}"
        records = _finished(output / name / "records.jsonl", test)
        if records is None:
            records = _translate(model, test, asdict(chosen), batch, stage, progress)
            _keep(output / name, records)
        progress(stage, len(records), len(test.sources))
        points.append(_point(output / "scores.json", records, asdict(chosen)))
    return points


def fingerprint(model: Model) -> str:
    """A checksum of a model's weights and configuration; two copies of a model have the same."""
    config = json.dumps(model.config.get("config"), sort_keys=True)
    digest = hashlib.sha256(config.encode())
    for name, tensor in sorted(unshared(model.system).items()):
        digest.update(name.encode())
        digest.update(tensor.detach().float().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()


def _claim(output: Path, model: Model, test: ParallelText) -> None:
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
    if earlier != claim:
        raise UserError(
            f"{output} holds something else or results of another model or other text, and was "
            "left as it is; name another output directory or remove it."
        )


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
    stage: str,
    progress: Progress,
) -> list[Record]:
    records: list[Record] = []
    for n, record in model.translate_each(test.sources, batch, **knobs):
        reference = test.references[n] if test.references is not None else None
        records.append(dataclasses.replace(record, reference=reference))
        progress(stage, len(records), len(test.sources))
    return sorted(records, key=lambda record: record.index)


def _keep(folder: Path, records: Sequence[Record]) -> None:
    """Write records last and in one step: where they stand, the point is done."""
    folder.mkdir(exist_ok=True)
    write_log(folder / "instances.log", map(row_of, records))
    write_simuleval_config(folder)
    draft = folder / "records.jsonl.part"
    write_records(draft, records)
    draft.replace(folder / "records.jsonl")


def _point(path: Path, records: Sequence[Record], settings: dict[str, Any]) -> Point:
    """Score a setting, unless scores.json has it."""
    plain = json.loads(json.dumps(settings))
    for point in read_points(path):
        if point["settings"] == plain and point.get("sentences") == len(records):
            return point
    point = score(records, settings=settings)
    add_point(path, point)
    return point
