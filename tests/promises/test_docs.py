"""The documentation is complete: words, settings, results of the paper, pictures, what CI runs."""

import re
import shlex
import tomllib
from dataclasses import fields
from pathlib import Path

import pytest
from command_line import Call
from conftest import ROOT

DOCS = ROOT / "docs"
FIGURES, TABLES = range(1, 15), range(1, 11)  # of the HMT paper
SEVERAL = re.compile(r"(Figure|Table)s ((?:\d+, )*\d+) and (\d+)")


def rows(page: str) -> list[list[str]]:
    """The cells of every table of a page."""
    text = (DOCS / page).read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def words(page: str) -> set[str]:
    """What the first cells of a page's tables explain, in bold letters."""
    return {word for row in rows(page) for word in re.findall(r"\*\*(.+?)\*\*", row[0])}


def test_the_glossary_has_every_knob_and_every_metric() -> None:
    """Planted: a knob of a system without its line."""
    from hmt.metrics.latency import METRICS
    from hmt.systems import SYSTEMS

    known = words("glossary.md")
    knobs = {f.name for name in SYSTEMS for f in fields(SYSTEMS[name].Knobs)}
    assert len(knobs) >= 10 and knobs <= known, knobs - known
    assert set(METRICS) <= known, set(METRICS) - known
    assert {"moment", "state", "row", "confidence", "reads", "record", "recipe", "knob"} <= known


def test_the_reference_has_every_public_name_and_every_field_of_a_record() -> None:
    """Planted: a field of Record that is explained in a comment only."""
    import hmt

    text = (DOCS / "api.md").read_text(encoding="utf-8")
    assert not [name for name in hmt.__all__ if not re.search(rf"\bhmt\.{name}\b", text)]
    explained = {name for row in rows("api.md") for name in re.findall(r"`(\w+)`", row[0])}
    assert explained == {f.name for f in fields(hmt.Record)}


def shown_in_the_paper(cell: str) -> set[str]:
    """Figure 4; Tables 8, 9 and 10."""
    if found := SEVERAL.fullmatch(cell):
        numbers = [*found[2].split(", "), found[3]]
        return {f"{found[1]} {number}" for number in numbers}
    return {cell}


def test_the_map_names_every_figure_and_table_of_the_paper_once() -> None:
    """Planted: a line taken out; a figure given twice."""
    named = [name for row in rows("paper-map.md") for name in sorted(shown_in_the_paper(row[0]))]
    numbered = [name for name in named if re.fullmatch(r"(Figure|Table) \d+", name)]
    every = [f"Figure {n}" for n in FIGURES] + [f"Table {n}" for n in TABLES]
    assert sorted(numbered) == sorted(every)


def test_the_map_names_every_part_of_the_plan() -> None:
    from hmt.paper.parts import PARTS

    cells = {row[2].strip("`"): row for row in rows("paper-map.md") if len(row) == 4}
    cells.pop("part")
    assert list(cells) and set(cells) == {part.name for part in PARTS}
    for part in PARTS:
        claimed = re.match(r"(Figure|Table)s? \d+", part.theirs)
        assert claimed and cells[part.name][0].startswith(claimed[0]), part.name


def test_commands_and_files_of_the_map_exist(hmt: Call) -> None:
    text = (DOCS / "paper-map.md").read_text(encoding="utf-8")
    for path in re.findall(r"`((?:src|tests|recipes)/[^`]+)`", text):
        assert list(ROOT.glob(path)), path
    manuals: dict[tuple[str, ...], str] = {}
    for line in re.findall(r"`hmt ([a-z][^`]*)`", text):
        parts = shlex.split(line)
        command = tuple(parts[:2] if parts[0] == "analyse" else parts[:1])
        if command not in manuals:
            manuals[command] = hmt(*command, "--help").out
        for option in (part for part in parts if part.startswith("--")):
            assert option in manuals[command], line


@pytest.mark.parametrize("path", sorted(DOCS.rglob("*.svg")), ids=lambda path: path.name)
def test_every_drawing_is_made_for_light_and_for_dark(path: Path) -> None:
    """Planted: a figure drawn before the style was added, or exported by another program."""
    assert "prefers-color-scheme" in path.read_text(encoding="utf-8")


def test_the_forge_runs_what_we_run_on_every_version_we_support() -> None:
    """Planted: a version in pyproject.toml that nobody tests."""
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    assert re.search(r"run: bash \.ci/run$", workflow, re.MULTILINE)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    supported = [c.split()[-1] for c in project["classifiers"] if re.search(r":: 3\.\d", c)]
    (matrix,) = re.findall(r"python: \[(.*)\]", workflow)
    assert re.findall(r'"(.+?)"', matrix) == supported
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert all(version in readme for version in supported)
