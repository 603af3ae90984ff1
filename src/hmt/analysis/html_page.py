"""The page of one sentence: a single HTML file that needs no network and no server."""

import base64
import hashlib
import re
from html import escape
from pathlib import Path

from hmt.analysis.explanation import REJECTED, SELECTED, Explanation, State, Token, Written
from hmt.analysis.waits import Event, events, waits

FOLDER = Path(__file__).parent / "page"
ROLES = {SELECTED: "selected", REJECTED: "rejected"}  # CSS classes; all others are "skipped"
HOW_TO_READ = (
    "Each row is a target token, each column a source token. A cell is a moment at which the token "
    "could have been written: the word the model would have written then, and its confidence. "
    "The thick line is the path taken: to the right the model reads, downwards it writes; what is "
    "hatched had not been read yet. Point at a cell, click it or walk with the arrow keys to see "
    "where the model looked."
)


def html_page(explanation: Explanation) -> str:
    """An explanation as one HTML document."""
    style = (FOLDER / "style.css").read_text(encoding="utf-8")
    script = (FOLDER / "script.js").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    # Nothing may be loaded, and only our script may run: the sentence can contain anything.
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    data = explanation.to_json().replace("<", "\\u003c").replace("\u2028", "\\u2028")
    data = data.replace("\u2029", "\\u2029").replace("&", "\\u0026")
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Why the model waited</title>
<style>
{style}</style>
</head>
<body>
<h1>Why the model waited</h1>
{_sentences(explanation)}
<main>
<h2>Word by word</h2>
<p class="soft">Each source word as it arrives; below it what the model wrote then
(<span class="written">blue</span>), and what it could have written but held back
(<span class="held">struck through</span>).</p>
{_timeline(explanation)}
<h2>What it waited for</h2>
{_waits(explanation)}
<h2>Every moment it considered</h2>
<p class="soft">{HOW_TO_READ}</p>
{_legend()}
<div class="both">
<div class="scroll">
{_table(explanation)}
</div>
<aside class="detail" id="detail" aria-live="polite" aria-label="The chosen moment">
<noscript>With JavaScript this shows the alternatives and the attention of each moment.</noscript>
</aside>
</div>
</main>
<script type="application/json" id="explanation">{data}</script>
<script>{script}</script>
</body>
</html>
"""


def _sentences(explanation: Explanation) -> str:
    settings = ", ".join(f"{name} {value}" for name, value in explanation.settings.items())
    lines = {
        "Source": explanation.source,
        "Translation": explanation.prediction,
        "Reference": explanation.reference,
        "Settings": settings,
    }
    rows = [
        f'<dt>{name}</dt><dd dir="auto">{escape(text)}</dd>' for name, text in lines.items() if text
    ]
    return f'<dl class="pair">{"".join(rows)}</dl>'


def _timeline(explanation: Explanation) -> str:
    """One column per source word, and one for the end of the sentence."""
    words: list[int | None] = [*range(len(explanation.source_words)), None]
    happened: dict[int | None, list[Event]] = {word: [] for word in words}
    for event in events(explanation):
        happened[explanation.source_tokens[max(event.moment, 1) - 1].word].append(event)
    items = []
    for word in words:
        name = "(end)" if word is None else explanation.source_words[word]
        rows = "".join(map(_event, happened[word]))
        rows = rows or '<span class="nothing" aria-label="nothing written">·</span>'
        items.append(f'<li><span class="word" dir="auto">{escape(name)}</span>{rows}</li>')
    return f'<ol class="timeline">{"".join(items)}</ol>'


def _event(event: Event) -> str:
    kind, what = ("written", "written") if event.is_written else ("held", "held back")
    return (
        f'<button type="button" class="{kind}" title="{what}" dir="auto" '
        f'data-shows="{event.token}.{event.state}">{escape(event.text)}</button> '
    )


def _waits(explanation: Explanation) -> str:
    found = waits(explanation)
    if not found:
        return "<p>It never waited: every token was written at the first moment open to it.</p>"
    items = []
    for wait in found:
        token = explanation.target_tokens[wait.token]
        place = f"{wait.token}.{token.states.index(token.selected)}"
        kind = "choice" if wait.is_choice else "schedule"
        items.append(
            f'<li><button type="button" class="{kind}" data-shows="{place}">'
            f"{_isolated(wait.sentence)}</button></li>"
        )
    return f'<ul class="waits">{"".join(items)}</ul>'


def _isolated(sentence: str) -> str:
    """A sentence whose quoted words keep their own direction of writing."""
    return re.sub("“(.*?)”", "“<bdi>\\1</bdi>”", escape(sentence))


def _legend() -> str:
    return """<ul class="legend soft">
<li><span class="state selected">word ✓</span> written at this moment</li>
<li><span class="state rejected"><span class="cut">word</span> ✗</span> considered, not confident enough</li>
<li><span class="state skipped">word</span> not considered: too early or too late</li>
</ul>"""  # noqa: E501


def _table(explanation: Explanation) -> str:
    tokens = explanation.source_tokens
    rows = [_row(explanation, i, token) for i, token in enumerate(explanation.target_tokens)]
    return (
        "<table><caption hidden>Target tokens by source tokens</caption>"
        f"<thead>{_head(explanation, tokens)}</thead><tbody>{''.join(rows)}</tbody></table>"
    )


def _head(explanation: Explanation, tokens: list[Token]) -> str:
    """Source words, and below them their pieces if any word has several."""
    groups: list[list[int]] = []
    for j, token in enumerate(tokens):
        if j and token.word is not None and tokens[j - 1].word == token.word:
            groups[-1].append(j)
        else:
            groups.append([j])
    cells = []
    for group in groups:
        word = tokens[group[0]].word
        name = tokens[group[0]].text if word is None else explanation.source_words[word]
        places = " ".join(map(str, group))
        cells.append(
            f'<th scope="colgroup" colspan="{len(group)}" class="first" data-source="{places}"'
            f">{_cut(name)}</th>"
        )
    rows = [f'<tr><th scope="col">read →</th>{"".join(cells)}</tr>']
    if len(groups) < len(tokens):
        pieces = [
            f'<th scope="col" class="piece{_first(tokens, j)}" data-source="{j}">'
            f"{_cut(token.text)}</th>"
            for j, token in enumerate(tokens)
        ]
        rows.append(f"<tr><td></td>{''.join(pieces)}</tr>")
    return "".join(rows)


def _first(tokens: list[Token], j: int) -> str:
    starts = j == 0 or tokens[j].word is None or tokens[j].word != tokens[j - 1].word
    return " first" if starts else ""


def _row(explanation: Explanation, i: int, token: Written) -> str:
    tokens = explanation.target_tokens
    next_reads = tokens[i + 1].reads if i + 1 < len(tokens) else token.reads
    states = {state.moment: (n, state) for n, state in enumerate(token.states)}
    cells = []
    for j in range(len(explanation.source_tokens)):
        moment = j + 1
        kinds = _first(explanation.source_tokens, j)
        kinds += " unread" if moment > token.reads else ""
        kinds += " edge" if moment == token.reads else ""
        kinds += " step" if token.reads < moment <= next_reads else ""
        inner = _state(i, token, *states[moment]) if moment in states else ""
        cells.append(f'<td class="{kinds.strip()}">{inner}</td>' if kinds else f"<td>{inner}</td>")
    head = f'<th scope="row">{_cut(token.text)}</th>'
    return f"<tr>{head}{''.join(cells)}</tr>"


def _state(i: int, token: Written, n: int, state: State) -> str:
    role = ROLES.get(state.role, "skipped")
    text = state.words[0].text if state.words else "?"
    if state.role == SELECTED:
        text = token.text
    mark = {"selected": " ✓", "rejected": " ✗"}.get(role, "")
    confidence = ""
    if state.confidence is not None:
        confidence = (
            f'<small>{state.confidence:.2f}</small><span class="bar" aria-hidden="true">'
            f'<i style="--share:{state.confidence:.3f}"></i></span>'
        )
    label = f"{token.text}, after {state.moment} source tokens: {text}, {state.role}"
    return (
        f'<button type="button" class="state {role}" data-token="{i}" data-state="{n}" '
        f'data-moment="{state.moment}" aria-pressed="false" aria-label="{escape(label)}">'
        f"{_cut(text)}{mark}{confidence}</button>"
    )


def _cut(text: str) -> str:
    """Text of a cell: one line, truncated if very long, shown in full on hover."""
    title = f' title="{escape(text)}"' if len(text) > 12 else ""
    return f'<span class="cut" dir="auto"{title}>{escape(text)}</span>'
