"""Bars with their intervals: the scores of groups of states or of sentences."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hmt.analysis.figures import COLOURS, COLUMN_INCHES, drawing
from hmt.analysis.selection import Group

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def bar_figure(series: Mapping[str, Sequence[Group]], across: str, up: str) -> "Figure":
    """One bar per group, side by side where there are several series; a legend if they differ."""
    with drawing():
        from matplotlib.figure import Figure

        figure = Figure((COLUMN_INCHES, 2.2), layout="constrained")
        panel = figure.add_subplot()
        width = 0.85 / len(series)
        for n, (label, groups) in enumerate(series.items()):
            shown = [(x, g) for x, g in enumerate(groups) if g.value is not None]
            places = [x + (n - (len(series) - 1) / 2) * width for x, _ in shown]
            heights = [g.value or 0.0 for _, g in shown]
            panel.bar(places, heights, width * 0.95, color=COLOURS[n % len(COLOURS)], label=label)
            reach = [
                (h - low, high - h)
                for h, (_, g) in zip(heights, shown, strict=True)
                for low, high in (g.interval or (h, h),)
            ]
            ends = [[max(pair[side], 0.0) for pair in reach] for side in (0, 1)]
            panel.errorbar(places, heights, yerr=ends, fmt="none", ecolor="0.2", elinewidth=0.8)
        longest = max(series.values(), key=len)
        panel.set_xticks(range(len(longest)), [_name(group) for group in longest])
        panel.set_xlabel(across)
        panel.set_ylabel(up)
        panel.grid(axis="y", linewidth=0.3, color="0.85")
        panel.set_axisbelow(True)
        panel.spines[["top", "right"]].set_visible(False)
        if len(series) > 1:
            figure.legend(loc="outside lower center", ncols=2, frameon=False)
        return figure


def accuracy_figure(groups: Sequence[Group]) -> "Figure":
    """Correct states by their confidence."""
    return bar_figure({"": groups}, "confidence of a state", "correct tokens (%)")


def selection_figure(groups: Sequence[Group]) -> "Figure":
    """BLEU by the probability of what was selected."""
    return bar_figure({"": groups}, "probability of the selection per token", "sacreBLEU")


def places_figure(series: Mapping[str, Sequence[Group]]) -> "Figure":
    """Correct states of some models by their place among those of a token."""
    return bar_figure(series, "state, from the earliest", "correct tokens (%)")


def speed_figure(rows: Sequence[Mapping[str, Any]]) -> "Figure":
    """A system's time per training batch and per live token, as multiples of the first row's."""
    with drawing():
        from matplotlib.figure import Figure

        figure = Figure((COLUMN_INCHES, 0.8 + 0.28 * len(rows)), layout="constrained")
        panel = figure.add_subplot()
        names = ("seconds_per_batch", "seconds_per_token")
        for n, (name, label) in enumerate(zip(names, ("training", "live token"), strict=True)):
            times = [row[name] / rows[0][name] for row in rows]
            places = [-place + (0.2 - 0.4 * n) for place in range(len(rows))]
            panel.barh(places, times, 0.38, color=COLOURS[n], label=label)
            for place, value in zip(places, times, strict=True):
                panel.text(value, place, f" {value:.1f}", va="center")
        panel.set_yticks([-place for place in range(len(rows))], [row["system"] for row in rows])
        panel.set_xlabel(f"time as a multiple of {rows[0]['system']}")
        panel.margins(x=0.12)
        panel.spines[["top", "right"]].set_visible(False)
        figure.legend(loc="outside lower center", ncols=2, frameon=False)
        return figure


def _name(group: Group) -> str:
    """The middle of a narrow band, the ends of a wide one, or the number of a place."""
    if group.low == group.high:
        return f"{group.low:g}"
    if group.high - group.low <= 0.1 + 1e-9 and group.low * 10 == round(group.low * 10):
        return f"{group.low:.1f}–"
    return f"{group.low:.2f}–\n{group.high:.2f}"
