"""A report as Markdown, with its pictures in a folder beside it."""

import shutil
from pathlib import Path

from hmt.files import write_atomically
from hmt.paper.blocks import Block, Picture, Table
from hmt.paper.report import Chapter, Report

KINDS = (".svg", ".png")


def write_markdown(report: Report, path: Path) -> None:
    """Write the page, and copy its pictures into a folder of the same name."""
    pictures = path.with_suffix("")
    for old in pictures.glob("*.*") if pictures.is_dir() else ():
        if old.suffix in KINDS:  # it may hold other files, such as the store
            old.unlink()
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, "\n\n".join(_page(report, pictures)) + "\n")


def _page(report: Report, pictures: Path) -> list[str]:
    overview = Table(
        ("part", "of the paper", "state", "agreement"),
        tuple((_link(c), c.part.theirs, c.state, c.agreement) for c in report.chapters),
    )
    lines = [f"# {report.title}", *report.introduction, _table(overview)]
    for chapter in report.chapters:
        lines += _chapter(chapter, pictures)
    if report.trained:
        rows = tuple((t.run, t.updates, t.seed, t.commit, t.cost) for t in report.trained)
        lines += ["## Trainings", _table(Table(("run", "updates", "seed", "commit", "time"), rows))]
    return [*lines, "## Not in the plan", "\n".join(f"- {text}" for text in report.not_planned)]


def _link(chapter: Chapter) -> str:
    """To the heading of a chapter, as GitHub names it."""
    kept = "".join(c for c in chapter.part.title.lower() if c.isalnum() or c in " -")
    return f"[{chapter.part.name}](#{kept.replace(' ', '-')})"


def _chapter(chapter: Chapter, pictures: Path) -> list[str]:
    part, section = chapter.part, chapter.section
    lines = [f"## {part.title}", f"Paper: {part.theirs}."]
    lines += [f"**{section.verdict}**"]
    lines += [_block(block, pictures, part.name) for block in section.blocks]
    if section.missing:
        lines.append(f"Missing: {', '.join(dict.fromkeys(section.missing))}.")
    commands = "\n".join(chapter.commands)
    lines.append(
        f"<details><summary><code>hmt paper {part.name}</code>: {chapter.provenance}</summary>\n\n"
        f"```\n{commands}\n```\n\n</details>"
    )
    return lines


def _block(block: Block, pictures: Path, part: str) -> str:
    if isinstance(block, Table):
        folded = f"<details><summary>{block.fold}</summary>\n\n{_table(block)}\n\n</details>"
        return folded if block.fold else _table(block)
    if isinstance(block, Picture):
        pictures.mkdir(parents=True, exist_ok=True)
        name = f"{part}-{block.path.name}"
        shutil.copyfile(block.path, pictures / name)
        return f"![{block.caption}]({pictures.name}/{name})\n\n*{block.caption}*"
    return block.text


def _table(table: Table) -> str:
    rows = [table.head, tuple("---" for _ in table.head), *table.rows]
    return "\n".join(
        f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in r)} |" for r in rows
    )
