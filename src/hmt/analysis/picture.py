"""The picture of one sentence: its states and its path above, where each state looked below."""

import textwrap
from typing import TYPE_CHECKING, Any

from hmt.analysis.explanation import REJECTED, SELECTED, Explanation, State, Written
from hmt.analysis.figures import drawing
from hmt.analysis.waits import waits

if TYPE_CHECKING:
    from matplotlib.axes import Axes as Panel
    from matplotlib.figure import Figure

# inches
CELL, ROW, LOOK, LINE, HEAD, MARGIN, SIDE = 0.85, 0.42, 0.2, 0.22, 0.75, 0.3, 1.9
CHARACTERS = 13  # of text per inch
BLUE, RED, GREY, INK = "#0b5cad", "#a3320b", "#6b7580", "#1b1f24"
FILLS = {SELECTED: "#dcebfa", REJECTED: "#fbe9e1"}
INKS = {SELECTED: BLUE, REJECTED: RED}
MARKS = {SELECTED: " ✓", REJECTED: " ✗"}
LONGEST = 11  # characters that fit into a cell


def picture(explanation: Explanation) -> "Figure":
    """Grid of states with the path, then sentences, then attention with a row per state."""
    tokens = explanation.target_tokens
    looking = [(t, s) for t in tokens for s in t.states if s.attention]
    width = max(SIDE + CELL * len(explanation.source_tokens) + MARGIN, 5.0)
    broad = int((width - 2 * MARGIN) * CHARACTERS)
    above = _wrapped([explanation.source, f"→ {explanation.prediction}"], broad)
    below = _wrapped([wait.sentence for wait in waits(explanation)], broad)
    tops = [MARGIN]  # of the text above, the grid, the text below, the attention
    tops.append(tops[-1] + LINE * len(above) + HEAD)
    tops.append(tops[-1] + ROW * len(tokens) + MARGIN)
    tops.append(tops[-1] + LINE * len(below) + (HEAD if looking else 0))
    total = tops[-1] + LOOK * len(looking) + MARGIN
    with drawing():
        from matplotlib.figure import Figure

        figure = Figure((width, total))
        for lines, top in ((above, tops[0]), (below, tops[2])):
            for n, line in enumerate(lines):
                y = 1 - (top + LINE * n) / total
                figure.text(MARGIN / width, y, line, va="top", fontsize=9)

        def panel(top: float, height: float) -> "Panel":
            across = CELL * len(explanation.source_tokens) / width
            return figure.add_axes(
                (SIDE / width, 1 - (top + height) / total, across, height / total)
            )

        _grid(panel(tops[1], ROW * max(len(tokens), 1)), explanation)
        if looking:
            _attention(panel(tops[3], LOOK * len(looking)), explanation, looking)
        return figure


def _wrapped(texts: list[str], broad: int) -> list[str]:
    return [line for text in texts for line in textwrap.wrap(text, broad)]


def _grid(panel: "Panel", explanation: Explanation) -> None:
    I, J = len(explanation.target_tokens), len(explanation.source_tokens)  # noqa: E741
    _frame(panel, explanation, I)
    panel.set_title(
        "→ reads      ↓ writes      word, and confidence that it is time to write it",
        fontsize=8,
        color=GREY,
        pad=26,
        loc="left",
    )
    for i, token in enumerate(explanation.target_tokens):
        panel.text(-0.1, i + 0.5, _cut(token.text, 18), ha="right", va="center", fontsize=9)
        if token.reads < J:
            _box(panel, token.reads, i, J - token.reads, "#f0f2f4")
        for state in token.states:
            _cell(panel, i, token, state)
    x, y = [0], [0]
    for i, token in enumerate(explanation.target_tokens):
        x += [token.reads, token.reads]
        y += [i, i + 1]
    panel.plot(x, y, color=INK, linewidth=2, clip_on=False, gid="path", solid_joinstyle="miter")


def _cell(panel: "Panel", i: int, token: Written, state: State) -> None:
    if state.role in FILLS:
        _box(panel, state.moment - 1, i, 1, FILLS[state.role])
    ink = INKS.get(state.role, GREY)
    text = state.words[0].text if state.words else "?"
    text = token.text if state.role == SELECTED else text
    style: dict[str, Any] = {"ha": "center", "va": "center", "color": ink}
    panel.text(
        state.moment - 0.5,
        i + 0.36,
        _cut(text, LONGEST) + MARKS.get(state.role, ""),
        fontsize=8,
        fontweight="bold" if state.role == SELECTED else "normal",
        fontstyle="normal" if state.role in FILLS else "italic",
        **style,
    )
    if state.confidence is not None:
        panel.text(state.moment - 0.5, i + 0.76, f"{state.confidence:.2f}", fontsize=7, **style)


def _attention(
    panel: "Panel", explanation: Explanation, looking: list[tuple[Written, State]]
) -> None:
    _frame(panel, explanation, len(looking))
    title = f"where each state looked: cross-attention, {explanation.attention}"
    panel.set_title(title, fontsize=8, color=GREY, pad=26, loc="left")
    before = None
    for row, (token, state) in enumerate(looking):
        ink = INKS.get(state.role, GREY)
        text = state.words[0].text if state.words else token.text
        text = token.text if state.role == SELECTED else text
        label = f"{_cut(text, 16)}{MARKS.get(state.role, '')}  after {state.moment}"
        panel.text(-0.1, row + 0.5, label, ha="right", va="center", fontsize=7, color=ink)
        if before is not None and token is not before:
            panel.plot(
                [-2, len(explanation.source_tokens)],
                [row, row],
                color=INK,
                linewidth=0.6,
                clip_on=False,
            )
        before = token
        for j, weight in enumerate(state.attention):
            _box(panel, j, row, 1, (0.90, 0.62, 0.0, min(weight, 1.0)))
            if weight >= 0.005:
                panel.text(
                    j + 0.5, row + 0.5, f"{weight:.2f}", ha="center", va="center", fontsize=7
                )


def _frame(panel: "Panel", explanation: Explanation, rows: int) -> None:
    """A panel with a column per source token and these rows, counted from the top."""
    J = len(explanation.source_tokens)
    panel.set_xlim(0, J)
    panel.set_ylim(max(rows, 1), 0)
    panel.set_xticks([j + 0.5 for j in range(J)])
    names = [_cut(token.text, LONGEST + 2) for token in explanation.source_tokens]
    panel.set_xticklabels(names, fontsize=9, fontweight="bold")
    panel.xaxis.tick_top()
    panel.tick_params(length=0)
    panel.set_yticks([])
    panel.spines[:].set_visible(False)
    for j in range(J + 1):
        panel.axvline(j, color="0.9", linewidth=0.5, zorder=0)


def _box(panel: "Panel", x: float, y: float, width: float, colour: Any) -> None:
    from matplotlib.patches import Rectangle

    panel.add_patch(Rectangle((x, y), width, 1, facecolor=colour, edgecolor="none", zorder=0.5))


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else text[: longest - 1] + "…"
