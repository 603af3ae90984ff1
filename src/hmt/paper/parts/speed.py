"""The table of speeds, measured here, beside the paper's, measured on a GPU."""

from hmt.analysis.bars import speed_figure
from hmt.analysis.published import published_table
from hmt.paper.blocks import Section, Table, Text
from hmt.paper.parts.drawn import drawn
from hmt.paper.parts.shown import read_data
from hmt.paper.plan import Part, Place, Step
from hmt.paper.steps import analyse


def steps(place: Place) -> list[Step]:
    """One run of all systems; nothing needs to be trained."""
    words = ("--size", place.size, "--repeats", "3", "--threads", "1")
    return [analyse(place, "speed", "speed", words, (), seconds=60.0)]


def section(place: Place) -> Section:
    """Their numbers and ours, and ours as multiples of full-sentence translation."""
    data = read_data(place.found / "speed" / "speed.json")
    ours = {row["system"]: row for row in data["rows"]} if data else {}
    theirs = {row[0]: row[1:] for row in published_table("speed")}
    rows = [_row(name, theirs[name], theirs["full"], ours) for name in theirs]
    head = (
        "system",
        *("paper: M parameters", "s/batch", "× full", "s/token", "× full"),
        *("ours: M parameters", "s/batch", "× full", "s/token", "× full"),
    )
    table = Table(head, tuple(rows))
    if not data:
        return Section((table,), "Not measured yet.", ["speed"])
    note = Text(
        f"Ours: size {data['size']}, {data['threads']} thread, random weights with random policies "
        "that keep pace with the source; one live stream of 25 words, one word at a time. Paper: "
        "Transformer-Base on one GPU."
    )
    faster = [n for n in theirs if n.startswith("hmt")]
    train = [ours[n]["seconds_per_batch"] / ours["full"]["seconds_per_batch"] for n in faster]
    infer = [ours[n]["seconds_per_token"] / ours["full"]["seconds_per_token"] for n in faster]
    slower = [
        n
        for n in ("mma", "gsimt")
        if ours[n]["seconds_per_batch"] < max(ours[x]["seconds_per_batch"] for x in faster)
    ]
    verdict = (
        f"A training step of HMT takes {min(train):.1f} to {max(train):.1f} times as long as one "
        f"of full-sentence translation (paper 2.6 to 5.1), and writing a token {min(infer):.1f} to "
        f"{max(infer):.1f} times as long (paper 1.5 to 2.1); "
        + (
            f"unlike in the paper, {' and '.join(slower)} {'train' if slower[1:] else 'trains'} "
            "faster than the slowest HMT."
            if slower
            else "as in the paper, MMA and GSiMT train more slowly than any HMT."
        )
    )
    caption = "Time of each system as a multiple of full"
    picture = drawn(place, "speed/speed.svg", speed_figure(data["rows"]), caption)
    return Section((picture, table, note), verdict)


def _row(
    name: str, theirs: list[float], full: list[float], ours: dict[str, dict[str, float]]
) -> tuple[str, ...]:
    millions, batch, token = theirs
    cells = [name, f"{millions:.1f}", f"{batch:.3f}", f"{batch / full[1]:.1f}"]
    cells += [f"{token:.4f}", f"{token / full[2]:.1f}"]
    if name not in ours:
        return (*cells, *["–"] * 5)
    row, base = ours[name], ours["full"]
    cells.append(f"{row['parameters'] / 1e6:.1f}")
    for key, digits in (("seconds_per_batch", 3), ("seconds_per_token", 4)):
        cells += [f"{row[key]:.{digits}f}", f"{row[key] / base[key]:.1f}"]
    return tuple(cells)


PARTS = (
    Part(
        "speed",
        "Speed of training and inference",
        "Table 1: HMT takes 2.6 to 5.1 times as long to train and 1.5 to 2.1 times as long to "
        "write as full-sentence translation, and is far faster than MMA and GSiMT",
        steps,
        section,
    ),
)
