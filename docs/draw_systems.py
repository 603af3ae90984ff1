"""Draws each system's path through the same sentence into docs/pictures/: python docs/draw_systems.py

The rules are those of the systems; the confidences, probabilities and positions that they decide by
are invented, and the same for all that use them, so that the pictures differ by the rules alone.
"""

import math
import textwrap
from pathlib import Path

SOURCE = ("Ich", "habe", "keine", "Zeit", "gehabt", ".")
TARGET = ("I", "had", "no", "time", ".")
I, J = len(TARGET), len(SOURCE)  # noqa: E741
# How sure a model is of each target token after reading 1..6 source tokens: "had" needs "gehabt".
SURE = (
    (0.92, 0.95, 0.96, 0.97, 0.98, 0.98),
    (0.15, 0.25, 0.20, 0.40, 0.93, 0.95),
    (0.05, 0.15, 0.60, 0.80, 0.94, 0.96),
    (0.05, 0.10, 0.30, 0.85, 0.95, 0.97),
    (0.02, 0.03, 0.05, 0.10, 0.30, 0.99),
)
WIDTH, HEIGHT, LEFT, TOP = 62, 34, 62, 34
STYLE = """
text{font:14px system-ui,sans-serif;fill:#1b1f24}.soft{fill:#59636e;font-size:11px}
.paper{fill:#fff}.grid{stroke:#d0d7de;fill:none}.seen{fill:#e8f0fb}.write{fill:#bcd9f7}.wait{fill:#fbdcd0}
.path{stroke:#0b5cad;stroke-width:3.5;fill:none}.other{stroke:#0b5cad;stroke-width:2;fill:none;stroke-dasharray:5 4}
.mark{fill:#d17d00}.bar{fill:#d17d00;opacity:.75}
@media (prefers-color-scheme:dark){text{fill:#e6edf3}.soft{fill:#9aa5b1}.paper{fill:#0d1117}.grid{stroke:#3d444d}
.seen{fill:#16263a}.write{fill:#1d4a78}.wait{fill:#5a2a1f}.path,.other{stroke:#7cc0ff}.mark,.bar{fill:#e8a33d}}
"""


def cell(i: int, j: int, kind: str, text: str = "") -> str:
    """A cell: target token i after source token j, both from 0."""
    x, y = LEFT + j * WIDTH, TOP + i * HEIGHT
    box = f'<rect class="{kind}" x="{x}" y="{y}" width="{WIDTH}" height="{HEIGHT}"/>'
    shown = f'<text class="soft" x="{x + 31}" y="{y + 21}" text-anchor="middle">{text}</text>'
    return box + (shown if text else "")


def stairs(reads: list[int], kind: str = "path") -> str:
    """The path: to the right the system reads, downwards it writes."""
    steps = [f"M{LEFT} {TOP}"]
    for i, read in enumerate(reads):
        steps.append(f"H{LEFT + read * WIDTH}V{TOP + (i + 1) * HEIGHT}")
    return f'<path class="{kind}" d="{"".join(steps)}"/>'


def seen(reads: list[int]) -> str:
    """What each token could see."""
    return "".join(cell(i, j, "seen") for i, read in enumerate(reads) for j in range(read))


def drawing(inside: str, note: str) -> str:
    """The sentence around it, as an SVG file that follows the reader's light or dark."""
    width, height = LEFT + J * WIDTH + 14, TOP + I * HEIGHT + 46
    words = "".join(
        f'<text x="{LEFT + j * WIDTH + 31}" y="24" text-anchor="middle">{word}</text>'
        for j, word in enumerate(SOURCE)
    ) + "".join(
        f'<text x="{LEFT - 8}" y="{TOP + i * HEIGHT + 22}" text-anchor="end">{word}</text>'
        for i, word in enumerate(TARGET)
    )
    below = "".join(
        f'<text class="soft" x="8" y="{height - 26 + 16 * n}">{line}</text>'
        for n, line in enumerate(textwrap.wrap(note, 68))
    )
    lines = "".join(f"M{LEFT + j * WIDTH} {TOP}v{I * HEIGHT}" for j in range(J + 1))
    lines += "".join(f"M{LEFT} {TOP + i * HEIGHT}h{J * WIDTH}" for i in range(I + 1))
    return (
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
            f'viewBox="0 0 {width} {height}" role="img"><title>{note}</title><style>{STYLE}</style>'
            f'<rect class="paper" width="{width}" height="{height}"/>{{}}<path class="grid" d="{lines}"/>'
            f"{words}{below}</svg>\n"
        )
        .replace("{}", inside.split("|")[0])
        .replace("</svg>", "".join(inside.split("|")[1:]) + "</svg>")
    )


def wait(k: int) -> list[int]:
    """Reads of wait-k."""
    return [min(k + i, J) for i in range(I)]


def decided(
    open_at: dict[int, range], is_enough: list[list[bool]]
) -> tuple[list[int], list[list[int]]]:
    """Reads of an adaptive rule, and per token the moments at which it looked and read on."""
    reads: list[int] = []
    passed: list[list[int]] = []
    for i in range(I):
        moments = [t for t in open_at[i] if t >= (reads[-1] if reads else 1)] or [max(open_at[i])]
        done = next((t for t in moments if is_enough[i][t - 1]), moments[-1])
        passed.append([t for t in moments if t < done])
        reads.append(max([done, *reads]))
    return reads, passed


def numbers(
    reads: list[int], passed: list[list[int]], values: tuple[tuple[float, ...], ...]
) -> str:
    """Cells in which the system wrote or waited, with the numbers that it decided by."""
    boxes = [cell(i, r - 1, "write", f"{values[i][r - 1]:.2f}") for i, r in enumerate(reads)]
    for i, moments in enumerate(passed):
        boxes += [cell(i, t - 1, "wait", f"{values[i][t - 1]:.2f}") for t in moments]
    return "".join(boxes)


def hmt() -> str:
    lower, states, threshold = 1, 4, 0.5
    moments = {i: range(min(lower + i, J), min(lower + i + states - 1, J) + 1) for i in range(I)}
    reads, passed = decided(moments, [[c >= threshold for c in row] for row in SURE])
    boxes = "".join(
        cell(i, t - 1, "seen", f"{SURE[i][t - 1]:.2f}") for i in moments for t in moments[i]
    )
    note = "L = 1, K = 4: the filled cells are states with their confidence; the first of 0.5 or more writes"
    return drawing(boxes + numbers(reads, passed, SURE) + "|" + stairs(reads), note)


def full() -> str:
    reads = [J] * I
    return drawing(seen(reads) + "|" + stairs(reads), "reads everything, then writes everything")


def wait_k() -> str:
    reads = wait(2)
    return drawing(
        seen(reads) + "|" + stairs(reads), "k = 2: always two tokens behind; “had” is a guess"
    )


def multipath() -> str:
    paths = "".join(stairs(wait(k), "path" if k == 3 else "other") for k in (1, 3, 5))
    return drawing(seen(wait(3)) + "|" + paths, "one model for every k: here k = 1, 3 and 5")


def adaptive() -> str:
    least, most, a, b = 1, 4, 0.8, 0.2

    def bar(lag: int) -> float:
        return a - (a - b) * (lag - least) / (most - least)

    moments = {i: range(min(i + least, J), min(i + most, J) + 1) for i in range(I)}
    enough = [[SURE[i][t - 1] >= bar(t - i) for t in range(1, J + 1)] for i in range(I)]
    reads, passed = decided(moments, enough)
    border = stairs(wait(least), "other") + stairs(wait(most), "other")
    note = "writes between wait-1 and wait-4 (dashed) once the best word is probable enough"
    return drawing(numbers(reads, passed, SURE) + "|" + border + stairs(reads), note)


def moe_wait_k() -> str:
    lags, k = (1, 2, 3), 3
    bars = ""
    for i in range(I):
        for n, lag in enumerate(lags):
            span = min(min(lag, k) + i, J) * WIDTH - 6
            bars += f'<rect class="bar" x="{LEFT + 2}" y="{TOP + i * HEIGHT + 5 + n * 9}" width="{span}" height="5" rx="2"/>'
    return drawing(
        seen(wait(k)) + "|" + bars + stairs(wait(k)),
        "k = 3: each attention head (bar) has a lag of its own; a gate weighs them",
    )


def mma() -> str:
    heads = ((1, 2, 3, 4, 6), (1, 5, 5, 5, 6), (1, 3, 3, 4, 5))
    reads = [max(head[i] for head in heads) for i in range(I)]
    for i in range(1, I):
        reads[i] = max(reads[i], reads[i - 1])
    dots = "".join(
        f'<circle class="mark" cx="{LEFT + (head[i] - 1) * WIDTH + 16 + 15 * n}" cy="{TOP + i * HEIGHT + 17}" r="5"/>'
        for n, head in enumerate(heads)
        for i in range(I)
    )
    return drawing(
        seen(reads) + "|" + dots + stairs(reads),
        "each dot is a head's pointer; a token is written when the last head has stopped",
    )


def gma() -> str:
    delta, steps = 1, (0.0, 3.6, 0.2, 0.2, 0.9)
    boxes, places, reads = "", "", []
    position = 0.0
    for i, step in enumerate(steps):
        position = max(0.9, position + step) if i else 0.0
        at = max(position, 0.9)
        reads.append(max([min(math.ceil(position + delta), J), *reads]))
        for j in range(reads[-1]):
            weight = math.exp(-((j - position) ** 2) / (2 * (at / 2) ** 2))
            boxes += cell(i, j, "seen").replace(
                "/>", f' style="opacity:{0.25 + 0.75 * weight:.2f}"/>'
            )
        places += f'<circle class="mark" cx="{LEFT + (position + 0.5) * WIDTH:.1f}" cy="{TOP + i * HEIGHT + 17}" r="5"/>'
    return drawing(
        boxes + "|" + places + stairs(reads),
        "the dot is the predicted position; delta = 1 more token is read before writing",
    )


def gsimt() -> str:
    reads, passed = decided(
        {i: range(1, J + 1) for i in range(I)}, [[c >= 0.5 for c in row] for row in SURE]
    )
    every = "".join(cell(i, j, "seen", f"{SURE[i][j]:.2f}") for i in range(I) for j in range(J))
    return drawing(
        every + numbers(reads, passed, SURE) + "|" + stairs(reads),
        "every cell has a probability of writing; training sums over all paths",
    )


def itst() -> str:
    shares = (
        (0.7, 0.2, 0.1, 0.0, 0.0, 0.0),
        (0.05, 0.3, 0.0, 0.1, 0.55, 0.0),
        (0.0, 0.05, 0.7, 0.15, 0.1, 0.0),
        (0.0, 0.0, 0.15, 0.75, 0.1, 0.0),
        (0.0, 0.0, 0.0, 0.05, 0.15, 0.8),
    )
    enough = [
        [t == J or (t > 1 and sum(row[: t - 1]) >= 0.6) for t in range(1, J + 1)] for row in shares
    ]
    reads, _ = decided({i: range(1, J + 1) for i in range(I)}, enough)
    bars = "".join(
        f'<rect class="bar" x="{LEFT + j * WIDTH + 24}" y="{TOP + (i + 1) * HEIGHT - 3 - 28 * share:.1f}" width="14" height="{28 * share:.1f}"/>'
        for i, row in enumerate(shares)
        for j, share in enumerate(row)
        if share
    )
    return drawing(
        seen(reads) + "|" + bars + stairs(reads),
        "bars: information from each source token; written when 0.6 came from tokens before the newest",
    )


PICTURES = (hmt, full, wait_k, multipath, adaptive, moe_wait_k, mma, gma, gsimt, itst)


def write_all(folder: Path) -> None:
    """Write one file per system."""
    folder.mkdir(parents=True, exist_ok=True)
    for picture in PICTURES:
        name = picture.__name__.replace("_", "-")
        (folder / f"system-{name}.svg").write_text(picture(), encoding="utf-8")


if __name__ == "__main__":
    write_all(Path(__file__).parent / "pictures")
