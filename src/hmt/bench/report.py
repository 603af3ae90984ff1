"""How measurements are reported: one line of a table each, then all of them as a line of JSON."""

import json
import os
import platform
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from hmt.bench.setting import Row
from hmt.errors import UserError
from hmt.files import refuse_special
from hmt.plain import json_object

KNOWN = {"what", "value", "unit", "spread", "at_most", "at_least", "met"}


def show(rows: Iterable[Row], before: Mapping[str, Any], **about: Any) -> None:
    """Print each row as soon as it is measured, and all of them as JSON in the last line."""
    load_before = round(os.getloadavg()[0], 1)
    shown = []
    for row in rows:
        shown.append(row)
        _print(line(row, before))
    _print(finish(shown, **about, load_before=load_before))


def _print(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def is_met(row: Row) -> bool | None:
    """Whether a row reaches its target; None if it has none."""
    if row.get("at_most") is not None:
        return bool(row["value"] <= row["at_most"])
    if row.get("at_least") is not None:
        return bool(row["value"] >= row["at_least"])
    return None


def line(row: Row, before: Mapping[str, Any] | None = None) -> str:
    """What was measured, its value and spread, whether it meets its target, the earlier value."""
    parts = [f"{row['what']:64} {row['value']:>8} {row['unit']:<14}"]
    if "spread" in row:
        parts.append("({} to {})".format(*row["spread"]))
    met = is_met(row)
    if met is not None:
        sense = "<=" if row.get("at_most") is not None else ">="
        target = row["at_most"] if sense == "<=" else row["at_least"]
        parts.append(f"{'met' if met else 'MISSED'} (target {sense} {target})")
    parts += [
        f"{name.replace('_', ' ')} {value}"
        for name, value in row.items()
        if name not in KNOWN and value is not None
    ]
    if before and row["what"] in before:
        parts.append(f"before {before[row['what']]}")
    return "  ".join(parts)


def finish(rows: Sequence[Row], **about: Any) -> str:
    """Everything as JSON, with where it was measured and which targets were met."""
    where = {
        "torch": torch.__version__,
        "python": sys.version.split()[0],
        "machine": platform.machine(),
        "cores": os.cpu_count(),
    }
    judged = [row if (met := is_met(row)) is None else {**row, "met": met} for row in rows]
    return json.dumps({**about, **where, "rows": judged})


def earlier(path: Path | None) -> dict[str, Any]:
    """Values of an earlier output by what they measured; its JSON may follow a table."""
    if path is None:
        return {}
    try:
        refuse_special(path)
        last = path.read_text(encoding="utf-8").strip().splitlines()[-1]
        return {row["what"]: row["value"] for row in json_object(last)["rows"]}
    except (OSError, ValueError, KeyError, IndexError, TypeError, UserError):
        raise UserError(
            f"{path} is not an output of a benchmark: its last line must be JSON."
        ) from None
