"""How measurements are told: a line of a table each, then all of them as one line of JSON."""

import json
import os
import platform
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from hmt.bench.setting import Row

KNOWN = {"what", "value", "unit", "spread", "at_most", "at_least", "met"}


def is_met(row: Row) -> bool | None:
    """Whether a row reaches what is wanted of it; None if nothing is."""
    if row.get("at_most") is not None:
        return bool(row["value"] <= row["at_most"])
    if row.get("at_least") is not None:
        return bool(row["value"] >= row["at_least"])
    return None


def line(row: Row, before: Mapping[str, Any] | None = None) -> str:
    """What was measured, its value and spread, whether that is enough, and the earlier value."""
    parts = [f"{row['what']:64} {row['value']:>8} {row['unit']:<14}"]
    if "spread" in row:
        parts.append("({} to {})".format(*row["spread"]))
    met = is_met(row)
    if met is not None:
        sense = "<=" if row.get("at_most") is not None else ">="
        wanted = row["at_most"] if sense == "<=" else row["at_least"]
        parts.append(f"{'met' if met else 'MISSED'} (wanted {sense} {wanted})")
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
