"""Existing translations: records or logs, of this toolkit or of any other."""

import dataclasses
import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from hmt.errors import UserError
from hmt.evaluation.evaluate import note_clock, setting_folder
from hmt.evaluation.logs import read_log
from hmt.evaluation.points import add_point, read_points
from hmt.evaluation.records import RECORDS, numbered_lines, read_records
from hmt.metrics.instance import Instance
from hmt.metrics.scores import STANDARD, Point, Scoring, score
from hmt.plain import json_object
from hmt.streaming.record import Record

FILES = (RECORDS, "instances.log")

Translations = list[Record] | list[Instance]


def read_translations(path: Path, *, unit: str | None = None, clip: bool = False) -> Translations:
    """The sentences of a file of records or a log, or of a directory that holds one."""
    if path.is_dir():
        path = _file_in(path)
    if not _holds_records(path):
        return read_log(path, unit=unit, clip=clip)
    if unit not in (None, "word"):
        raise UserError(f"{path} holds records, which count words; the unit cannot be {unit!r}.")
    records = read_records(path)
    if not clip:
        return records
    return [
        dataclasses.replace(r, reads=[min(read, len(r.source_tokens)) for read in r.reads])
        for r in records
    ]


def read_curve(path: Path) -> tuple[list[Translations], list[dict[str, Any]]]:
    """The translations of each point, and how each was scored if that is known.

    A directory of `hmt evaluate` (or its scores.json) is a curve; records or a log are one point.
    """
    if path.name == "scores.json":
        path = path.parent
    points = read_points(path / "scores.json") if path.is_dir() else []
    if not points:
        return [read_translations(path)], [{}]
    return [read_point(path, point) for point in points], [p.get("scoring") or {} for p in points]


def read_point(folder: Path, point: Point) -> Translations:
    """The translations behind a point of this folder's scores.json."""
    settings, scoring = point["settings"], point.get("scoring") or {}
    if "log" not in settings:
        return read_translations(setting_folder(folder, settings))
    place = folder / str(settings["log"])
    return read_translations(place, unit=scoring.get("unit"), clip=bool(scoring.get("clip")))


def score_log(
    log: Path,
    output: Path | None,
    scoring: Scoring = STANDARD,
    *,
    unit: str | None = None,
    clip: bool = False,
) -> tuple[Point, Translations]:
    """Score existing translations; with an output directory, add the point to its scores.json.

    Its setting is the path of the log relative to that directory: several logs make a curve.
    """
    if output is not None and (output / "evaluation.json").exists():
        raise UserError(
            f"{output} holds results of a model; name another directory for the scores of a log."
        )
    log = _file_in(log) if log.is_dir() else log
    sentences = read_translations(log, unit=unit, clip=clip)
    if scoring.seconds_per_word is not None and not _are_records(sentences):
        raise UserError(
            f"{log} is a log, in which times are already part of 'elapsed'; seconds per word can "
            "be chosen for records only."
        )
    place = log if output is None else Path(os.path.relpath(log, output))
    point = score(sentences, settings={"log": place.as_posix()}, **asdict(scoring))
    if _are_records(sentences):
        note_clock(point, log.parent)
    first = sentences[0]
    point["scoring"] |= {
        "unit": first.unit if isinstance(first, Instance) else "word",
        "clip": clip,
    }
    if clip:
        for convention in point["conventions"]["latency"].values():
            convention["clipped"] = "delays past the end of the source count as its length"
    if output is not None:
        output.mkdir(parents=True, exist_ok=True)
        add_point(output / "scores.json", point)
    return point, sentences


def _file_in(folder: Path) -> Path:
    for name in FILES:
        if (folder / name).is_file():
            return folder / name
    raise UserError(
        f"{folder} has no {' or '.join(FILES)}; name a file of records, a log, or a directory that "
        "holds one."
    )


def _holds_records(path: Path) -> bool:
    """Whether the first line is a record; anything else is left to the reader of logs."""
    for place, line in numbered_lines(path):
        try:
            return "source_tokens" in json_object(line)
        except UserError as error:
            raise UserError(f"{place}: {error}") from None
    return False


def _are_records(sentences: Sequence[Record | Instance]) -> bool:
    return all(isinstance(sentence, Record) for sentence in sentences)
