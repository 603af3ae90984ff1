"""Figures of the sections, drawn from the data of the analyses: the store keeps no picture."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hmt.analysis.curves import Axes, Curve, CurvePoint
from hmt.analysis.figures import curve_figure, save_figure
from hmt.analysis.selection import Group
from hmt.paper.blocks import Picture
from hmt.paper.parts.shown import AXES
from hmt.paper.plan import Place

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def drawn(place: Place, name: str, figure: "Figure", caption: str) -> Picture:
    """A figure as the file NAME, as in main/curves.svg."""
    path = place.found / name
    path.parent.mkdir(parents=True, exist_ok=True)
    save_figure(figure, path)
    return Picture(path, caption)


def groups(values: Sequence[Mapping[str, Any]]) -> list[Group]:
    """Groups as an analysis has written them."""
    return [Group(**value) for value in values]


def curves(values: Sequence[Mapping[str, Any]], axes: Axes = AXES) -> "Figure":
    """Curves as an analysis has written them."""
    found = [
        Curve(each["label"], tuple(CurvePoint(**point) for point in each["points"]))
        for each in values
    ]
    return curve_figure(found, axes)
