"""Curves of several systems side by side, and whether they differ on the same sentences."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hmt.analysis.curves import Axes
from hmt.errors import UserError
from hmt.evaluation.translations import Translations, read_curve
from hmt.metrics.compare import compare_curves


@dataclass(frozen=True)
class Named:
    """One system: its label, and the directories whose points make its curve.

    Several directories are several models, as with systems that are trained once per latency.
    """

    label: str
    directories: tuple[Path, ...]

    @classmethod
    def of(cls, text: str) -> "Named":
        """From the command line: LABEL=DIR or LABEL=DIR,DIR."""
        label, equals, folders = text.partition("=")
        if not label or not equals or not all(folders.split(",")):
            raise UserError(
                f"{text!r} does not name a curve; write LABEL=DIR, or LABEL=DIR,DIR for a curve of "
                "several models."
            )
        return cls(label, tuple(map(Path, folders.split(","))))

    def translations(self) -> list[Translations]:
        """The translations of every point."""
        return [each for folder in self.directories for each in read_curve(folder)[0]]


def difference(one: Named, other: Named, axes: Axes, resamples: int) -> dict[str, Any]:
    """Quality of `other` minus that of `one` over the latencies that both reach, with a test."""
    found: dict[str, Any] = {"first": one.label, "second": other.label}
    try:
        tested = compare_curves(
            one.translations(),
            other.translations(),
            quality=axes.quality,
            latency=axes.latency,
            resamples=resamples,
        )
    except UserError as error:  # curves that do not meet are a finding, not a mistake
        return {**found, "why_not": str(error)}
    return {**found, **{f"mean_{k}": tested.pop(k) for k in ("first", "second")}, **tested}


def in_words(found: dict[str, Any]) -> str:
    """One sentence on a difference."""
    if "why_not" in found:
        return f"{found['second']} and {found['first']} cannot be compared: {found['why_not']}"
    low, high = found["interval"]
    reach = "{:.1f} to {:.1f}".format(*found["range"])
    tested = f"{found['difference']:+.2f} [{low:+.2f}, {high:+.2f}], p = {found['p']:.3f}"
    side = "above" if found["difference"] > 0 else "below"
    claim = f"is {side}" if found["p"] < 0.05 else "cannot be distinguished from"
    return f"{found['second']} {claim} {found['first']} over {found['latency']} {reach} ({tested})."


def differences(
    curves: Sequence[Named], pairs: Sequence[tuple[int, int]], axes: Axes, resamples: int
) -> list[dict[str, Any]]:
    """The difference of each pair of curves, given by their indices."""
    return [difference(curves[a], curves[b], axes, resamples) for a, b in pairs]
