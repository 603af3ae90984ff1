"""The points of HMT published in its paper (paper-results.json), as curves to compare with."""

import json
from pathlib import Path
from typing import Any

from hmt.analysis.curves import Axes, Curve, CurvePoint
from hmt.errors import UserError

FILE = Path(__file__).with_name("paper-results.json")
METRICS = ("AL", "AP", "CW", "DAL")


def published(name: str, axes: Axes) -> Curve:
    """One of the paper's tables: only BLEU, and latency in tokens, are comparable."""
    content = _content()
    if name not in content["settings"]:
        raise UserError(
            f"The paper has no results named {name!r}; it has {', '.join(content['settings'])}."
        )
    if axes.convention != "token" or axes.metric not in METRICS:
        allowed = ", ".join(f"token.{metric}" for metric in METRICS)
        raise UserError(
            f"The paper has no latency {axes.latency}; to show its points draw one of {allowed}."
        )
    if axes.quality == "chrf":
        raise UserError("The paper has no chrF; to show its points draw bleu or bleu_tokenised_lc.")
    setting = content["settings"][name]
    points = [
        CurvePoint(
            row[axes.metric],
            row["BLEU"],
            settings={"lower": row["L"], "states": row["K"]},
            values={axes.quality: row["BLEU"]} | {f"token.{m}": row[m] for m in METRICS},
        )
        for row in setting["points"]
    ]
    where = f"{setting['task']}, {setting['model']}"
    notes = (f"{content['paper']}, {where}: {content['quality']}; latency in {content['latency']}",)
    return Curve(f"paper: {name}", tuple(points), notes, is_published=True)


def published_title() -> str:
    """The title of the paper."""
    return str(_content()["paper"])


def published_table(name: str) -> list[list[Any]]:
    """A table of the paper: rows of a label and its numbers."""
    table: list[list[Any]] = _content()["tables"][name]
    return table


def _content() -> dict[str, Any]:
    content: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    return content
