"""Curves as a figure that stays legible in one column of a paper."""

import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hmt.analysis.curves import Axes, Curve, Interval
from hmt.errors import UserError
from hmt.files import replacing

if TYPE_CHECKING:
    from matplotlib.axes import Axes as Panel
    from matplotlib.figure import Figure

logger = logging.getLogger(__name__)

FORMATS = (".pdf", ".png", ".svg")
COLUMN_INCHES = 3.3  # the width of a column in the usual two-column styles
POINTS = 7.5  # size of text: papers ask for 7 or more
# Okabe and Ito's colours, distinct for colour-blind readers; no yellow on a white ground.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000", "#7F7F7F")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "h", "*")
LINES = ("-", "--", "-.", ":")
# A one-column legend inside the panel has room for this many.
MOST_INSIDE = 4
LONGEST_HALF = 18
FONTS = ("DejaVu Sans", "Noto Sans CJK JP", "Noto Sans", "Noto Sans Arabic", "Arial Unicode MS")
# In dark mode: light lines on a dark ground, with the same hues.
IN_THE_DARK = "@media (prefers-color-scheme: dark){svg{filter:invert(.93) hue-rotate(180deg)}}"


@contextmanager
def drawing() -> Iterator[None]:
    """Settings for all figures; a missing matplotlib is a UserError."""
    # they report on font caches, missing glyphs, and every step of embedding fonts
    reports = {name: logging.getLogger(name) for name in ("matplotlib", "fontTools")}
    levels = {name: report.level for name, report in reports.items()}
    for report in reports.values():
        report.setLevel(logging.ERROR)
    try:
        import matplotlib
        from matplotlib import font_manager
    except ImportError:
        raise UserError(
            'Drawing needs matplotlib; install it with: pip install "hmt[plot]".'
        ) from None
    present = {font.name for font in font_manager.fontManager.ttflist}
    settings: dict[str, Any] = {
        "font.family": [name for name in FONTS if name in present] or ["sans-serif"],
        "font.size": POINTS,
        "axes.labelsize": POINTS,
        "xtick.labelsize": POINTS,
        "ytick.labelsize": POINTS,
        "legend.fontsize": POINTS,
        "axes.linewidth": 0.6,
        "text.parse_math": False,  # a dollar in a label is a dollar
        "pdf.fonttype": 42,  # fonts that publishers accept
        "svg.hashsalt": "hmt",  # the same figure is the same file
    }
    try:
        with matplotlib.rc_context(settings):  # type: ignore[arg-type]  # it lists all its keys
            yield
    finally:
        for name, report in reports.items():
            report.setLevel(levels[name])


def curve_figure(curves: Sequence[Curve], axes: Axes) -> "Figure":
    """Quality over latency, one line per curve, with a band where there are intervals."""
    with drawing():
        from matplotlib.figure import Figure

        is_inside = len(curves) <= MOST_INSIDE
        # two columns below the panel if the labels are short enough for half its width
        columns = 1 if any(len(curve.label) > LONGEST_HALF for curve in curves) else 2
        rows = 0 if is_inside else -(-len(curves) // columns)
        figure = Figure((COLUMN_INCHES, 2.4 + 0.16 * rows), layout="constrained")
        panel = figure.add_subplot()
        for n, curve in enumerate(curves):
            _draw(panel, curve, n)
        panel.set_xlabel(axes.latency_name)
        panel.set_ylabel(axes.quality_name)
        panel.grid(linewidth=0.3, color="0.85")
        panel.set_axisbelow(True)
        panel.spines[["top", "right"]].set_visible(False)
        handles = [line for line in panel.lines if line.get_gid() == "curve"]
        labels = [_visible(curve.label) for curve in curves]
        style: dict[str, Any] = {"frameon": False, "handlelength": 2.2, "labelspacing": 0.25}
        if is_inside:
            panel.legend(handles, labels, loc="best", borderpad=0.1, **style)
        else:
            figure.legend(handles, labels, loc="outside lower center", ncols=columns, **style)
        return figure


def save_figure(figure: "Figure", path: Path) -> None:
    """Write a figure in the format given by the file name."""
    dates: dict[str, dict[str, Any]] = {".pdf": {"CreationDate": None}, ".svg": {"Date": None}}
    kind = path.suffix.lower()
    with drawing(), replacing(path) as temporary, warnings.catch_warnings(record=True) as missing:
        warnings.simplefilter("always")
        figure.savefig(temporary, format=kind[1:], dpi=300, metadata=dates.get(kind, {}))
        if kind == ".svg":
            svg = temporary.read_text(encoding="utf-8")
            temporary.write_text(svg.replace("<defs>", f"<style>{IN_THE_DARK}</style><defs>", 1))
    if any("missing from font" in str(warning.message) for warning in missing):
        logger.warning("%s: no font on this machine has some of its characters.", path)


def check_format(path: Path, formats: Sequence[str] = FORMATS) -> None:
    """Refuse a file name whose ending is not a supported format."""
    if path.suffix.lower() not in formats:
        raise UserError(f"{path} must end in {' or '.join(formats)}, which determines the format.")


def _draw(panel: "Panel", curve: Curve, n: int) -> None:
    colour = "0.35" if curve.is_published else COLOURS[n % len(COLOURS)]
    x = [point.latency for point in curve.points]
    y = [point.quality for point in curve.points]
    marker, line = MARKERS[n % len(MARKERS)], LINES[(n // len(COLOURS)) % len(LINES)]
    (drawn,) = panel.plot(
        x,
        y,
        color=colour,
        marker=marker,
        markersize=3.6,
        markerfacecolor="white" if curve.is_published else colour,
        linewidth=1.1,
        linestyle=(0, (2, 1.5)) if curve.is_published else line,
        label=_visible(curve.label),
        zorder=2 if curve.is_published else 3,
    )
    drawn.set_gid("curve")
    bands = [point.quality_interval for point in curve.points]
    known = [b for b in bands if b is not None]
    if len(known) == len(bands) > 1:
        low, high = zip(*known, strict=True)
        panel.fill_between(x, low, high, color=colour, alpha=0.15, linewidth=0, zorder=1)
    # Latency has an interval too; a curve of one point has no band, so both are error bars.
    spans = [point.latency_interval for point in curve.points]
    panel.errorbar(
        x,
        y,
        xerr=_reach(x, spans),
        yerr=_reach(y, bands) if len(x) == 1 else None,
        fmt="none",
        ecolor=colour,
        elinewidth=0.6,
        alpha=0.6,
        zorder=1,
    )


def _reach(values: Sequence[float], intervals: Sequence[Interval | None]) -> list[list[float]]:
    """How far the intervals reach below and above the values. (N) -> (2, N)"""
    pairs = [(v, v) if ends is None else ends for v, ends in zip(values, intervals, strict=True)]
    below = [max(v - low, 0.0) for v, (low, _) in zip(values, pairs, strict=True)]
    above = [max(high - v, 0.0) for v, (_, high) in zip(values, pairs, strict=True)]
    return [below, above]


def _visible(label: str) -> str:
    """A label that the legend shows even if it starts with an underscore."""
    return f"\u200b{label}" if label.startswith("_") else label
