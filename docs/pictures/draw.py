"""Draws what the model that ships does, light and dark: python docs/pictures/draw.py

The demo in a terminal (docs/demo.svg), one sentence's decisions (explain.svg), and the case of
docs/analysis.md. Run it again whenever another model ships. Needs matplotlib.
"""

from collections.abc import Iterable
from html import escape
from pathlib import Path

import hmt
from hmt.analysis.explanation import explain
from hmt.analysis.figures import save_figure
from hmt.analysis.picture import picture
from hmt.cli._terminal import Column, Interlinear
from hmt.cli.demo import GERMAN

HERE = Path(__file__).parent
DOCS = HERE.parent
EXPLAINED = "Hast du gestern das Spiel gesehen?"
CASE = "Ich habe gestern mit meinem Bruder Fußball gespielt."
CELL, LINE, MARGIN, BAR = 9.7, 21, 16, 34  # pixels; the widest of the fonts is 0.602 em
WIDTH_CELLS = 84
STYLE = """
text{font:16px ui-monospace,Menlo,Consolas,"DejaVu Sans Mono",monospace}
.ground{fill:#f6f8fa;stroke:#d0d7de}.heard{fill:#0b6a8f}.written{fill:#1b1f24;font-weight:bold}.soft{fill:#59636e}
@media (prefers-color-scheme:dark){.ground{fill:#161b22;stroke:#3d444d}.heard{fill:#6cc0dd}.written{fill:#fff}.soft{fill:#9aa5b1}}
"""


def heard(session: hmt.Session, sentence: str) -> list[Column]:
    """Each word with what was shown once it had been heard."""
    spoken = Interlinear(session)
    for word in sentence.split():
        spoken.hear(word)
    spoken.end()
    return spoken.columns


def rows(columns: Iterable[Column]) -> list[list[tuple[int, Column]]]:
    """Columns with their places, in as many rows as the width needs."""
    made: list[list[tuple[int, Column]]] = [[]]
    place = 0
    for column in columns:
        size = max(len(column.heard), len(column.written)) + 1
        if made[-1] and place + size > WIDTH_CELLS:
            made.append([])
            place = 0
        made[-1].append((place, column))
        place += size
    return made


def text(kind: str, cells: int, y: float, words: str, opacity: float = 1.0) -> str:
    """One run of text; where it begins does not depend on the font."""
    faint = f' opacity="{opacity:.2f}"' if opacity < 1 else ""
    return f'<text class="{kind}" x="{MARGIN + cells * CELL:.1f}" y="{y}"{faint}>{escape(words)}</text>'


def demo(session: hmt.Session) -> str:
    """The samples of `hmt demo`: German, and below each word the English that was shown after it."""
    parts, y = [text("soft", 0, BAR - 6, "$ hmt demo")], BAR
    for sentence in GERMAN:
        for row in rows(heard(session, sentence)):
            for place, column in row:
                parts.append(text("heard", place, y + LINE, column.heard))
                # as in the terminal, where the same confidences are shades of grey
                ink = 0.4 + 0.6 * column.confidence
                parts.append(text("written", place, y + 2 * LINE, column.written, ink))
            y += 2 * LINE + 4
        y += LINE // 2
    width, height = 2 * MARGIN + WIDTH_CELLS * CELL, y + LINE // 2
    ground = (
        f'<rect class="ground" x=".5" y=".5" width="{width - 1:.0f}" height="{height - 1}" rx="8"/>'
    )
    view = f'viewBox="0 0 {width:.0f} {height}" width="{width:.0f}" height="{height}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {view}><style>{STYLE}</style>\n{ground}\n' + (
        "\n".join(part for part in parts if "></text>" not in part) + "\n</svg>\n"
    )


def main() -> None:
    """All of them."""
    model = hmt.load()
    (DOCS / "demo.svg").write_text(demo(model.session()), encoding="utf-8")
    save_figure(picture(explain(model, EXPLAINED, lower=2)), HERE / "explain.svg")
    save_figure(picture(explain(model, CASE)), DOCS / "analysis" / "case.svg")


if __name__ == "__main__":
    main()
