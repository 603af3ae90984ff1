"""Curves as a table in Markdown or LaTeX, with notes on what the numbers mean."""

from collections.abc import Sequence

from hmt.analysis.curves import Axes, Curve, CurvePoint, Interval

SHOWN = ("CW", "AP", "AL", "LAAL", "DAL")
LATEX = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#",
    "%": r"\%", "_": r"\_", "^": r"\textasciicircum{}", "~": r"\textasciitilde{}",
}  # fmt: skip


def markdown_table(curves: Sequence[Curve], axes: Axes) -> str:
    """A table of all points, and a list of the conventions."""
    head, *rows = [[_markdown(cell) for cell in row] for row in _cells(curves, axes)]
    rules = ["---", "---", *["---:"] * (len(head) - 2)]
    lines = [f"| {' | '.join(row)} |" for row in (head, rules, *rows)]
    notes = [f"- {_markdown(note)}" for note in _notes(curves)]
    return "\n".join([*lines, "", *notes]) + "\n"


def latex_table(curves: Sequence[Curve], axes: Axes) -> str:
    """The same for a paper; it needs the package booktabs."""
    head, *rows = [[_latex(cell) for cell in row] for row in _cells(curves, axes)]
    starts = {0}
    for curve in curves:
        starts.add(max(starts) + len(curve.points))
    lines = []
    for n, row in enumerate(rows):
        if n and n in starts:
            lines.append(r"\midrule")
        lines.append(" & ".join(row) + r" \\")
    return "\n".join(
        [
            "% needs \\usepackage{booktabs}",
            *(f"% {note}" for note in _notes(curves)),
            rf"\begin{{tabular}}{{ll{'r' * (len(head) - 2)}}}",
            r"\toprule",
            " & ".join(head) + r" \\",
            r"\midrule",
            *lines,
            r"\bottomrule",
            r"\end{tabular}",
            "",
        ]
    )


def _cells(curves: Sequence[Curve], axes: Axes) -> list[list[str]]:
    """Head and rows as plain text: latency in one convention, then quality."""
    have = {name for curve in curves for point in curve.points for name in point.values}
    metrics = [m for m in (*SHOWN, axes.metric) if f"{axes.convention}.{m}" in have]
    metrics = [
        m
        for m in dict.fromkeys(metrics)
        # with the written length, the two are the same number
        if m != "LAAL" or axes.convention != "token" or axes.metric == "LAAL"
    ]
    head = ["system", "setting", *(f"{m} ({axes.convention})" for m in metrics), axes.quality_name]
    rows = []
    for curve in curves:
        for n, point in enumerate(curve.points):
            figures = [_latency(point, axes, metric) for metric in metrics]
            quality = _figure(point.quality, point.quality_interval)
            name = curve.label if n == 0 else ""
            rows.append([name, _setting(point, curve), *figures, quality])
    return [head, *rows]


def _latency(point: CurvePoint, axes: Axes, metric: str) -> str:
    value = point.values.get(f"{axes.convention}.{metric}")
    if value is None:
        return "–"
    return _figure(value, point.latency_interval if metric == axes.metric else None)


def _figure(value: float, interval: Interval | None) -> str:
    if interval is None:
        return f"{value:.2f}"
    return f"{value:.2f} [{interval[0]:.2f}, {interval[1]:.2f}]"


def _setting(point: CurvePoint, curve: Curve) -> str:
    """The settings in which the points of a curve differ; all, if there is one point."""
    names = [
        name
        for name, value in point.settings.items()
        if len(curve.points) == 1
        or any(other.settings.get(name) != value for other in curve.points)
    ]
    return ", ".join(f"{name}={point.settings[name]}" for name in names) or "default"


def _notes(curves: Sequence[Curve]) -> list[str]:
    """Each convention once, with its systems unless it applies to all that were measured."""
    measured = [curve.label for curve in curves if not curve.is_published]
    owners: dict[str, list[str]] = {}
    for curve in curves:
        for note in curve.notes:
            owners.setdefault(" ".join(note.split()), []).append(curve.label)
    return [
        note if labels == measured else f"{', '.join(labels)}: {note}"
        for note, labels in owners.items()
    ]


def _markdown(text: str) -> str:
    line = " ".join(text.split()).replace("\\", "\\\\").replace("|", "\\|")
    return line.replace("<", "&lt;").replace("*", "\\*")


def _latex(text: str) -> str:
    return "".join(LATEX.get(c, c) for c in " ".join(text.split())).replace("–", "--")
