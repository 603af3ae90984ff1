"""A report as one HTML file that needs no network: pictures are embedded."""

import base64
import re
from html import escape
from pathlib import Path

from hmt.files import write_atomically
from hmt.paper.blocks import Block, Picture, Table
from hmt.paper.report import Chapter, Report

KINDS = {".svg": "svg+xml", ".png": "png"}
STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --soft: #5b6570; --line: #d5dae0; --ground: #fff;
  --card: #fff; --accent: #0b5cad; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ed; --soft: #a0a9b3; --line: #3a424b;
  --ground: #15191e; --card: #f6f7f8; --accent: #7db8f0; } }
body { font: 16px/1.55 system-ui, sans-serif; color: var(--ink); background: var(--ground);
  max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
h2 { margin-top: 3rem; border-top: 1px solid var(--line); padding-top: 1.5rem; }
table { border-collapse: collapse; font-size: 0.9rem; }
th, td { text-align: left; padding: 0.2rem 0.7rem 0.2rem 0; border-bottom: 1px solid var(--line);
  vertical-align: top; font-variant-numeric: tabular-nums; }
.scroll { overflow-x: auto; margin: 1rem 0; }
.picture { background: var(--card); border-radius: 6px; padding: 0.5rem; display: inline-block; }
.picture img { display: block; max-width: none; }
.drawn { background: none; padding: 0; } /* these follow the reader's colours themselves */
.drawn img { width: 34rem; max-width: calc(100vw - 4rem); border-radius: 6px; }
figure { margin: 0; }
figcaption { color: var(--soft); font-size: 0.9rem; }
.verdict { border-left: 4px solid var(--accent); padding: 0.3rem 0 0.3rem 0.8rem; }
.soft, summary { color: var(--soft); }
pre { overflow-x: auto; font-size: 0.8rem; }
a { color: var(--accent); }
"""


def write_page(report: Report, path: Path) -> None:
    """Write the page."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, page(report))


def page(report: Report) -> str:
    """All of a report as one HTML document."""
    introduction = "".join(f"<p>{_inline(text)}</p>" for text in report.introduction)
    overview = "".join(
        f'<tr><td><a href="#{c.part.name}">{escape(c.part.name)}</a></td>'
        f"<td>{escape(c.part.theirs)}</td><td>{c.state}</td>"
        f"<td>{escape(c.agreement)}</td></tr>"
        for c in report.chapters
    )
    rows = tuple((t.run, t.updates, t.seed, t.commit, t.cost) for t in report.trained)
    trained = _block(Table(("run", "updates", "seed", "commit", "time"), rows))
    rest = "".join(f"<li>{_inline(text)}</li>" for text in report.not_planned)
    policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(report.title)}</title>
<style>{STYLE}</style>
</head>
<body>
<h1>{escape(report.title)}</h1>
{introduction}
<div class="scroll"><table>
<tr><th>part</th><th>of the paper</th><th>state</th><th>agreement</th></tr>{overview}</table></div>
{"".join(map(_chapter, report.chapters))}
<h2>Trainings</h2>
{trained if rows else "<p>None yet.</p>"}
<h2>Not in the plan</h2>
<ul>{rest}</ul>
</body>
</html>
"""


def _chapter(chapter: Chapter) -> str:
    part, section = chapter.part, chapter.section
    missing = ", ".join(dict.fromkeys(section.missing))
    return f"""<section id="{part.name}">
<h2>{escape(part.title)}</h2>
<p class="soft">Paper: {escape(part.theirs)}.</p>
<p class="verdict">{escape(section.verdict)}</p>
{"".join(map(_block, section.blocks))}
{f"<p>Missing: {escape(missing)}.</p>" if missing else ""}
<details><summary>hmt paper {part.name}: {escape(chapter.provenance)}</summary>
<pre>{escape(chr(10).join(chapter.commands))}</pre></details>
</section>
"""


def _block(block: Block) -> str:
    if isinstance(block, Picture):
        data = base64.b64encode(block.path.read_bytes()).decode()
        source = f"data:image/{KINDS[block.path.suffix]};base64,{data}"
        kind = "picture drawn" if block.path.suffix == ".svg" else "picture"
        image = f'<img alt="{escape(block.caption)}" src="{source}">'
        shown = f'<div class="scroll"><div class="{kind}">{image}</div></div>'
        return f"<figure>{shown}<figcaption>{escape(block.caption)}</figcaption></figure>"
    if isinstance(block, Table):
        head = "".join(f"<th>{escape(cell)}</th>" for cell in block.head)
        body = "".join(
            f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in block.rows
        )
        table = f'<div class="scroll"><table><tr>{head}</tr>{body}</table></div>'
        if not block.fold:
            return table
        return f"<details><summary>{escape(block.fold)}</summary>{table}</details>"
    return f"<p>{_inline(block.text)}</p>"


def _inline(text: str) -> str:
    """Escaped text in which `code` and **bold** are shown as such."""
    text = re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))
    return re.sub(r"\*\*([^*]+)\*\*", r"<strong>\1</strong>", text)
