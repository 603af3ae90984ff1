"""`instances.log`: SimulEval's JSON lines, written from records and read from any tool.

A delay is the number of source words that had been read when a unit of the prediction was written.
The unit is the word, or the character for text without spaces.
"""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from hmt.errors import UserError
from hmt.metrics.instance import UNITS, Instance, count_units
from hmt.metrics.latency import (
    checked_reads,
)
from hmt.streaming.record import (
    is_int,
    is_list,
    is_number,
    is_string,
    json_object,
    numbered_lines,
    shortened,
)


def log_line(row: Instance) -> str:
    """A row with the keys, order and spelling of SimulEval 1.1.4, without its newline.

    `elapsed` is there only if it was measured: a zero would read as "written before the source".
    """
    prediction = row.prediction
    if row.unit == "word":
        prediction = " ".join(prediction.split())
    values: dict[str, Any] = {
        "index": row.index,
        "prediction": prediction,
        "delays": row.delays,
        "elapsed": row.elapsed,
        "prediction_length": len(row.delays),
        # SimulEval keeps the newline of the reference file
        "reference": None if row.reference is None else row.reference.rstrip("\n") + "\n",
        "source": " ".join((row.source or "").split()),
        "source_length": row.source_length,
    }
    if row.elapsed is None:
        del values["elapsed"]
    return json.dumps(values)


def write_log(path: str | Path, rows: Iterable[Instance]) -> None:
    """Write `instances.log`."""
    with Path(path).open("w", encoding="utf-8") as file:
        file.writelines(log_line(row) + "\n" for row in rows)


def write_simuleval_config(directory: str | Path) -> None:
    """Write the `config.yaml` without which `simuleval --score-only --output DIR` stops."""
    (Path(directory) / "config.yaml").write_text("source_type: text\ntarget_type: text\n")


def read_log(path: str | Path, *, unit: str | None = None, clip: bool = False) -> list[Instance]:
    """All sentences of a log; a wrong line is named by its number.

    Without a unit, it is the first of UNITS in which every line has one delay for each.
    With `clip`, delays past the end of the source count as its length.
    """
    if unit is not None and unit not in UNITS:
        raise UserError(f"the unit is {unit!r}; it must be one of {', '.join(UNITS)}.")
    rows: list[tuple[str, Instance]] = []
    seen: dict[int, str] = {}
    for place, line in numbered_lines(path):
        try:
            row = parse_row(json_object(line), len(rows), clip=clip)
            if row.index in seen:
                raise UserError(f"index {row.index} was already used in {seen[row.index]}.")
        except UserError as error:
            raise UserError(f"{place}: {error}") from None
        seen[row.index] = place
        rows.append((place, row))
    if not rows:
        raise UserError(f"{path} holds no sentence.")
    with_reference = sum(row.reference is not None for _, row in rows)
    if 0 < with_reference < len(rows):
        place = next(place for place, row in rows if row.reference is None)
        raise UserError(f"{place}: 'reference' is missing here but present on other lines.")
    chosen = _unit(rows, [unit] if unit else UNITS)
    return [Instance(**{**vars(row), "unit": chosen}) for _, row in rows]


def parse_row(values: dict[str, Any], position: int, *, clip: bool = False) -> Instance:
    """One line of a log as a row; `position` stands in for a missing index."""
    for name in ("prediction", "delays"):
        if name not in values:
            raise UserError(f"the key {name!r} is missing.")
    if not is_string(values["prediction"]):
        raise UserError(f"'prediction' is {shortened(values['prediction'])}; it must be text.")
    source, reference = values.get("source"), values.get("reference")
    if isinstance(source, list):
        raise UserError("'source' is a list, as in logs of speech; only text logs can be scored.")
    for name, value in (("source", source), ("reference", reference)):
        if value is not None and not is_string(value):
            raise UserError(f"{name!r} is {shortened(value)}; it must be text or null.")
    index = values.get("index", position)
    if not is_int(index):
        raise UserError(f"'index' is {shortened(index)}; it must be a whole number.")
    length = values.get("source_length")
    if length is None:
        if source is None:
            raise UserError("'source_length' and 'source' are both missing; one is needed.")
        length = len(source.split())
    delays = checked_reads(
        _whole(values["delays"], "delays"), _whole([length], "source_length")[0], clip=clip
    )
    return Instance(
        index=index,
        prediction=values["prediction"],
        delays=delays,
        source_length=int(length),
        source=source,
        reference=None if reference is None else reference.rstrip("\r\n"),
        elapsed=_elapsed(values.get("elapsed"), delays),
    )


def _whole(values: Any, name: str) -> list[int]:
    """Numbers of words, which some tools write as 3.0."""
    if not is_list(is_number)(values) or any(v != int(v) or v < 0 for v in values):
        shown = shortened(values[0] if name == "source_length" else values)
        raise UserError(
            f"{name!r} is {shown}; it must count source words in whole numbers "
            "(logs of speech, in milliseconds, cannot be scored)."
        )
    return [int(value) for value in values]


def _elapsed(values: Any, delays: Sequence[int]) -> list[float] | None:
    """Real computation-aware delays; absent, empty or all zero means that no clock ran."""
    if not values:
        return None
    if not is_list(is_number)(values) or len(values) != len(delays):
        raise UserError(
            f"'elapsed' is {shortened(values)}; it must hold one number for each of the "
            f"{len(delays)} delays."
        )
    if not any(values):
        return None
    if early := [i for i, (e, d) in enumerate(zip(values, delays, strict=True)) if e < d]:
        raise UserError(
            f"'elapsed' number {early[0] + 1} is {values[early[0]]}, before its delay of "
            f"{delays[early[0]]} words; correct it or drop the key 'elapsed'."
        )
    return [float(value) for value in values]


def _unit(rows: Sequence[tuple[str, Instance]], candidates: Sequence[str]) -> str:
    """The first unit in which every prediction is as long as its list of delays."""
    misfits = []
    for unit in candidates:
        for place, row in rows:
            if count_units(row.prediction, unit) != len(row.delays):
                misfits.append((place, row, unit))
                break
        else:
            return unit
    place, row, _ = misfits[0]
    names = {"word": "words", "space": "words between plain spaces", "char": "characters"}
    counts = " or ".join(
        f"{count_units(row.prediction, unit)} {names[unit]}" for unit in candidates
    )
    raise UserError(
        f"{place}: there are {len(row.delays)} delays for a prediction of {counts}; "
        "there must be one delay for each."
    )
