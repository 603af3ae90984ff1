"""`instances.log`: SimulEval's JSON lines, written from records and read from any tool.

A delay is the number of source words that had been read when a unit of the prediction was written.
The unit is the word, or the character for text without spaces.
"""

import dataclasses
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hmt.errors import UserError
from hmt.evaluation.records import numbered_lines
from hmt.files import write_atomically
from hmt.metrics.instance import UNITS, Instance, count_units
from hmt.metrics.latency import checked_reads
from hmt.plain import from_plain, json_object, shortened


def log_line(instance: Instance) -> str:
    """One sentence with the keys, order and spelling of SimulEval 1.1.4, without its newline.

    `elapsed` is present only if it was measured: a zero would read as "written before the source".
    """
    prediction = instance.prediction
    if instance.unit == "word":
        prediction = " ".join(prediction.split())
    reference = instance.reference
    values: dict[str, Any] = {
        "index": instance.index,
        "prediction": prediction,
        "delays": instance.delays,
        "elapsed": instance.elapsed,
        "prediction_length": len(instance.delays),
        # SimulEval keeps the newline of the reference file
        "reference": None if reference is None else reference.rstrip("\n") + "\n",
        "source": " ".join((instance.source or "").split()),
        "source_length": instance.source_length,
    }
    if instance.elapsed is None:
        del values["elapsed"]
    return json.dumps(values)


def write_log(path: str | Path, instances: Iterable[Instance]) -> None:
    """Write `instances.log`."""
    write_atomically(Path(path), "".join(log_line(instance) + "\n" for instance in instances))


def write_simuleval_config(directory: str | Path) -> None:
    """Write the `config.yaml` without which `simuleval --score-only --output DIR` stops."""
    write_atomically(Path(directory) / "config.yaml", "source_type: text\ntarget_type: text\n")


def read_log(path: str | Path, *, unit: str | None = None, clip: bool = False) -> list[Instance]:
    """All sentences of a log; errors name the line.

    Without a unit, the first of UNITS that gives every line one delay per unit is taken. With
    `clip`, delays past the end of the source count as its length.
    """
    if unit is not None and unit not in UNITS:
        raise UserError(f"the unit is {unit!r}; it must be one of {', '.join(UNITS)}.")
    instances: list[tuple[str, Instance]] = []
    seen: dict[int, str] = {}
    for place, line in numbered_lines(path):
        try:
            instance = parse_instance(json_object(line), len(instances), clip=clip)
            if instance.index in seen:
                raise UserError(
                    f"index {instance.index} was already used in {seen[instance.index]}; give "
                    "every line its own."
                )
        except UserError as error:
            raise UserError(f"{place}: {error}") from None
        seen[instance.index] = place
        instances.append((place, instance))
    if not instances:
        raise UserError(f"{path} holds no sentence; give a log of at least one line.")
    without = [place for place, instance in instances if instance.reference is None]
    if 0 < len(without) < len(instances):
        raise UserError(f'{without[0]}: "reference" is missing here but present on other lines.')
    chosen = _unit(instances, [unit] if unit else UNITS)
    return [dataclasses.replace(instance, unit=chosen) for _, instance in instances]


@dataclass(frozen=True)
class LogLine:
    """The keys of a line that are read; those that other tools add are ignored."""

    prediction: str
    delays: list[float]  # some tools write 3.0
    index: int | None = None
    source: str | None = None
    source_length: float | None = None
    reference: str | None = None
    elapsed: list[float] | None = None


def parse_instance(values: dict[str, Any], position: int, *, clip: bool = False) -> Instance:
    """The sentence of one line of a log; `position` stands in for a missing index."""
    if isinstance(values.get("source"), list):
        raise UserError('"source" is a list, as in logs of speech; only text logs can be scored.')
    known = [field.name for field in dataclasses.fields(LogLine)]
    line = from_plain(LogLine, {key: values[key] for key in known if key in values})
    length = line.source_length
    if length is None:
        if line.source is None:
            raise UserError('"source_length" and "source" are both missing; one is needed.')
        length = len(line.source.split())
    (source_length,) = _whole([length], "source_length")
    delays = checked_reads(_whole(line.delays, "delays"), source_length, clip=clip)
    return Instance(
        index=position if line.index is None else line.index,
        prediction=line.prediction,
        delays=delays,
        source_length=source_length,
        source=line.source,
        reference=None if line.reference is None else line.reference.rstrip("\r\n"),
        elapsed=_elapsed(line.elapsed, delays),
    )


def _whole(values: Sequence[float], name: str) -> list[int]:
    """Delays as whole numbers of words."""
    if any(value != int(value) or value < 0 for value in values):
        shown = shortened(values[0] if name == "source_length" else values)
        raise UserError(
            f'"{name}" is {shown}; it must count source words in whole numbers '
            "(logs of speech, in milliseconds, cannot be scored)."
        )
    return [int(value) for value in values]


def _elapsed(values: Sequence[float] | None, delays: Sequence[int]) -> list[float] | None:
    """Computation-aware delays; absent, empty or all zero means that no clock ran."""
    if not values:
        return None
    if len(values) != len(delays):
        raise UserError(
            f'"elapsed" is {shortened(values)}; it must hold one number for each of the '
            f"{len(delays)} delays."
        )
    if not any(values):
        return None
    if early := [i for i, (e, d) in enumerate(zip(values, delays, strict=True)) if e < d]:
        raise UserError(
            f'"elapsed" number {early[0] + 1} is {values[early[0]]}, before its delay of '
            f'{delays[early[0]]} words; correct it or drop the key "elapsed".'
        )
    return list(values)


def _unit(instances: Sequence[tuple[str, Instance]], candidates: Sequence[str]) -> str:
    """The first unit in which every prediction is as long as its list of delays."""
    misfits = []
    for unit in candidates:
        for place, instance in instances:
            if count_units(instance.prediction, unit) != len(instance.delays):
                misfits.append((place, instance))
                break
        else:
            return unit
    place, instance = misfits[0]
    names = {"word": "words", "space": "words between plain spaces", "char": "characters"}
    counts = " or ".join(
        f"{count_units(instance.prediction, unit)} {names[unit]}" for unit in candidates
    )
    raise UserError(
        f"{place}: there are {len(instance.delays)} delays for a prediction of {counts}; "
        "there must be one delay for each."
    )
