"""A gallery of case studies: sentences that show something, chosen from records."""

import base64
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

from hmt.analysis.explanation import Explanation
from hmt.analysis.figures import drawing
from hmt.analysis.picture import picture
from hmt.analysis.selection import selection_probability
from hmt.analysis.waits import waits
from hmt.errors import UserError
from hmt.streaming.record import Record

DPI = 80
LONGEST = 20  # source tokens that a picture shows legibly


@dataclass(frozen=True)
class Case:
    """A sentence and what it is an example of."""

    title: str
    record: Record


def choose(records: Sequence[Record]) -> list[Case]:
    """The longest wait, the most waits, the longest sentence, and an easy one; no sentence twice.

    The longest wait is usually for a verb or a name; many waits mean a different word order.
    """
    able = [r for r in records if r.confidences and 4 <= len(r.source_tokens) <= LONGEST]
    if not able:
        raise UserError(
            f"No record has confidences and 4 to {LONGEST} source tokens; give records of a "
            "system with confidences."
        )
    middle = sorted(len(r.source_tokens) for r in able)[len(able) // 2]
    wishes: list[tuple[str, Callable[[Record], tuple[float, ...]]]] = [
        ("The longest wait", lambda r: (max(refusals(r)), selection_probability(r))),
        ("The most waits", lambda r: (sum(n > 0 for n in refusals(r)), selection_probability(r))),
        ("A long sentence", lambda r: (len(r.source_tokens), selection_probability(r))),
        (
            "An easy sentence",
            lambda r: (
                -sum(refusals(r)),
                -abs(len(r.source_tokens) - middle),
                selection_probability(r),
            ),
        ),
    ]
    chosen: list[Case] = []
    for title, wish in wishes:
        left = [r for r in able if r.index not in {case.record.index for case in chosen}]
        if left:
            chosen.append(Case(title, max(left, key=wish)))
    return chosen


def refusals(record: Record) -> list[int]:
    """How many states were considered before each token and did not write. -> (I)"""
    before = [0, *record.reads]
    return [
        sum(before[i] <= moment < read for moment in record.moments[i])
        for i, read in enumerate(record.reads)
    ]


def png(explanation: Explanation) -> bytes:
    """The picture of one sentence."""
    content = io.BytesIO()
    with drawing():
        picture(explanation).savefig(content, format="png", dpi=DPI, metadata={"Software": None})
    return content.getvalue()


def gallery(cases: Sequence[tuple[str, Explanation]], heading: str) -> str:
    """One HTML page with a picture and explanations of each case; it needs no network."""
    parts = [_section(title, explanation) for title, explanation in cases]
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(heading)}</title>
<style>
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem;
  color: #1b1f24; background: #fff; }}
.scroll {{ overflow-x: auto; }}
img {{ max-width: none; }}
dt {{ color: #5b6570; }}
</style>
</head>
<body>
<h1>{escape(heading)}</h1>
{"".join(parts)}</body>
</html>
"""


def _section(title: str, explanation: Explanation) -> str:
    data = base64.b64encode(png(explanation)).decode()
    reasons = "".join(f"<li>{escape(wait.sentence)}</li>" for wait in waits(explanation))
    texts = {
        "Source": explanation.source,
        "Translation": explanation.prediction,
        "Reference": explanation.reference,
    }
    lines = "".join(f"<dt>{n}</dt><dd>{escape(t)}</dd>" for n, t in texts.items() if t)
    return f"""<h2>{escape(title)}</h2>
<dl>{lines}</dl>
<ul>{reasons or "<li>It never waited.</li>"}</ul>
<div class="scroll"><img alt="The states of every target token, and where each looked"
src="data:image/png;base64,{data}"></div>
"""
