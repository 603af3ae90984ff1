"""Translate a test set once per setting and keep what happened: records, logs and scores.

output/evaluation.json          which model and which text; a resumed sweep must have the same
output/scores.json              one point per setting
output/lower=3/records.jsonl, instances.log, config.yaml, measured.json
output/lower=3/records.partial.jsonl    of an interrupted point; the next run continues there
"""

import dataclasses
import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from hmt.errors import UserError
from hmt.evaluation.logs import write_log, write_simuleval_config
from hmt.evaluation.points import add_point, read_points
from hmt.evaluation.records import RECORDS, read_records, write_records
from hmt.fast.int8 import tensors_in
from hmt.files import append, locked, open_own, refuse_special, write_atomically
from hmt.metrics.conventions import quality_conventions
from hmt.metrics.instance import instance_of
from hmt.metrics.scores import STANDARD, Point, Scoring, score
from hmt.models.model import Model
from hmt.models.weights import unshared
from hmt.streaming.record import Record
from hmt.text.lines import open_lines, scan, unchanged

FORMAT = 1
BUSY = "{} is being filled by another evaluation (process {{process}}): wait for it, stop it, or \
name another output directory."
FOREIGN = (
    "{} holds other files, or results of another model or other text, and was left "
    "unchanged; name another output directory or remove it."
)
Progress = Callable[[str, int, int], None]  # task, done, total


@dataclass(frozen=True)
class ParallelText:
    """Parallel lines to translate and to compare with, identified by `checksum`."""

    sources: tuple[str, ...]
    references: tuple[str, ...] | None
    checksum: str


def read_parallel(source: str | Path, target: str | Path | None = None) -> ParallelText:
    """Read parallel files of one sentence per line, plain or gzip; no line is left out."""
    files = [scan(Path(path)) for path in (source, target) if path is not None]
    if len({file.lines for file in files}) > 1:
        first, second = files
        raise UserError(
            f"{first.path} has {first.lines} lines but {second.path} has {second.lines}; "
            "line n of one must be the translation of line n of the other."
        )
    with unchanged(files):
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
    output: str | Path,
    settings: Iterable[dict[str, Any]] = ({},),
    *,
    batch: int = 64,
    scoring: Scoring = STANDARD,
    progress: Progress = lambda task, done, total: None,
) -> list[Point]:
    """Measure every setting that is not measured yet; return the points in order."""
    if not (isinstance(model, Model) and isinstance(test, ParallelText)):
        raise UserError(
            "evaluate takes a model from hmt.load and a text from hmt.read_parallel, not "
            f"{type(model).__name__} and {type(test).__name__}."
        )
    output = Path(output)
    knobs = list(dict.fromkeys(model.knobs(**chosen) for chosen in settings))
    claim(output, model, test)
    points = []
    for n, chosen in enumerate(knobs):
        report = partial(progress, f"{n + 1}/{len(knobs)}")
        folder = setting_folder(output, asdict(chosen))
        with alone_in(folder):
            records = _measured(model, test, asdict(chosen), batch, folder, report)
            report(len(records), len(test.sources))
            points.append(_point(output, records, asdict(chosen), scoring))
    return points


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Lock the folder of one setting; other processes may measure other settings meanwhile."""
    if folder.is_symlink():
        raise UserError(f"{folder} is a symbolic link, which is not followed; remove it.")
    with locked(folder / "lock", BUSY.format(folder)):
        yield


def _measured(
    model: Model,
    test: ParallelText,
    knobs: dict[str, Any],
    batch: int,
    folder: Path,
    report: Callable[[int, int], None],
) -> Sequence[Record]:
    """Records of a setting: those of an earlier run, or new ones."""
    records = _finished(folder / RECORDS, test)
    if records is None:
        _note_batch(folder, batch)
        records = _translate(model, test, knobs, batch, folder, report)
        _keep(folder, records)
    return records


def setting_folder(output: Path, settings: Mapping[str, Any]) -> Path:
    """The folder of a setting inside the output directory of an evaluation."""
    return output / folder_name(settings, _usual(output))


def folder_name(settings: Mapping[str, Any], usual: Mapping[str, Any]) -> str:
    """The first setting, which is the one being swept, and those that differ from the defaults."""
    shown = [
        f"{key}={value}"
        for n, (key, value) in enumerate(settings.items())
        if n == 0 or usual.get(key, usual) != value
    ]
    return ",".join(shown) or "default"


def _usual(output: Path) -> dict[str, Any]:
    """The default settings of a directory's model; empty if they were not stored."""
    try:
        usual = json.loads((output / "evaluation.json").read_text(encoding="utf-8"))["knobs"]
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return {}
    return usual if isinstance(usual, dict) else {}


def fingerprint(model: Model) -> str:
    """A checksum of a model's weights and configuration; two copies of a model have the same."""
    config = json.dumps(model.config.config, sort_keys=True)
    digest = hashlib.sha256(config.encode())
    for name, entry in sorted(unshared(model.system).items()):
        digest.update(name.encode())
        for tensor in tensors_in(entry):
            digest.update(tensor.float().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()


def claim(output: Path, model: Model, test: ParallelText) -> None:
    """Claim the directory for this model and text, or refuse one that holds other results."""
    path = output / "evaluation.json"
    claim = {"format": FORMAT, "model": fingerprint(model), "text": test.checksum}
    knobs = json.loads(json.dumps(asdict(model.knobs())))
    if output.exists() and not output.is_dir():
        raise UserError(f"{output} is a file; name a directory for the results.")
    refuse_special(path)
    if _is_occupied(output) and not path.exists():
        raise UserError(FOREIGN.format(output))  # before anything is written, even a lock
    with locked(output / "lock", "", waits=True):
        try:
            earlier = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            earlier = None
        claimed = dict(earlier) if isinstance(earlier, dict) else {}
        claimed.pop("knobs", None)  # they only shorten the names of folders
        if not _is_occupied(output) or (claimed.keys() == claim.keys() and not _is_begun(output)):
            write_atomically(path, json.dumps({**claim, "knobs": knobs}, indent=1) + "\n")
        elif claimed != claim:
            raise UserError(FOREIGN.format(output))


def _is_occupied(output: Path) -> bool:
    """Whether a directory holds more than a lock."""
    return output.is_dir() and any(path.name != "lock" for path in output.iterdir())


def _is_begun(output: Path) -> bool:
    """Whether anything was measured; a run may have stopped at an overlong sentence."""
    return any(path.stat().st_size for path in output.glob("*/records*"))


def _finished(path: Path, test: ParallelText) -> Sequence[Record] | None:
    """Records of an earlier run of this setting, if complete."""
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
    """Records in order. Each is written to disk at once; those of an interrupted run are reused."""
    path = folder / "records.partial.jsonl"
    records = {record.index: record for record in _unbroken(path, test)}
    left = [n for n in range(len(test.sources)) if n not in records]
    write_records(path, records.values())
    handle = open_own(path, os.O_APPEND)
    try:
        for place, record in model.translate_each([test.sources[n] for n in left], batch, **knobs):
            n = left[place]
            reference = test.references[n] if test.references is not None else None
            records[n] = dataclasses.replace(record, index=n, reference=reference)
            append(handle, records[n].to_json(), path)
            report(len(records), len(test.sources))
    finally:
        os.close(handle)
    return [records[n] for n in sorted(records)]


def _unbroken(path: Path, test: ParallelText) -> Iterator[Record]:
    """Records of this text that an earlier run finished; damaged lines are skipped."""
    refuse_special(path)
    for line in path.read_bytes().split(b"\n") if path.exists() else ():
        try:
            record = Record.from_json(line.decode("utf-8"))
        except (UnicodeDecodeError, UserError):
            continue
        if 0 <= record.index < len(test.sources) and record.source == test.sources[record.index]:
            yield record


def _note_batch(folder: Path, batch: int) -> None:
    """Store how many sentences ran side by side, without which their clock times mean nothing."""
    most = max(batch, _batch(folder) or 1)
    write_atomically(folder / "measured.json", json.dumps({"batch": most}) + "\n")


def _batch(folder: Path) -> int | None:
    try:
        refuse_special(folder / "measured.json")
        found = json.loads((folder / "measured.json").read_text(encoding="utf-8"))["batch"]
    except (OSError, ValueError, TypeError, KeyError, UserError, RecursionError):
        return None
    return found if isinstance(found, int) else None


def _keep(folder: Path, records: Sequence[Record]) -> None:
    """Write records last and in one step: where they exist, the point is complete."""
    write_log(folder / "instances.log", map(instance_of, records))
    write_simuleval_config(folder)
    write_records(folder / RECORDS, records)
    (folder / "records.partial.jsonl").unlink()


def _point(
    output: Path, records: Sequence[Record], settings: dict[str, Any], scoring: Scoring
) -> Point:
    """Score a setting, unless scores.json has it with the same scoring and conventions."""
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
    note_clock(point, setting_folder(output, settings))
    add_point(path, point)
    return point


def note_clock(point: Point, folder: Path) -> None:
    """Add to the computation-aware latency how the records of this folder were timed."""
    word = point["conventions"]["latency"]["word"]
    if "computation_aware" in word:
        batch = _batch(folder)
        word["computation_aware"] += "; times taken " + (
            "one sentence at a time"
            if batch == 1
            else f"with {batch or 'an unknown number of'} sentences side by side"
        )
