"""The tutorials do what they say: every command and every piece of Python runs, in order.

Trainings are cut to a few updates; everything else runs as a reader would run it.
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT

TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
BLOCK = re.compile(
    r"^```(sh|python|file (?P<name>\S+))\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)
# name -> what must be there when the tutorial is done
MADE = {
    "live": (),
    "train": ("data/data.json", "curves/hmt/scores.json", "curves/hmt/lower=2/records.jsonl"),
    "explain": ("why.html", "why.json", "second.html", "curve/lower=2/records.jsonl"),
}


def quick(text: str) -> str:
    """The same with little to learn from and little to learn."""
    text = re.sub(r"updates = \d+", "updates = 4", text)
    text = re.sub(r"(save_every|warmup) = \d+", r"\1 = 2", text)
    return re.sub(r'("train"|"valid"|"test"), \d+', r"\1, 60", text)


@pytest.fixture
def hmt_command(tmp_path: Path) -> Path:
    """A folder for PATH whose `hmt` is the one under test."""
    folder = tmp_path / "bin"
    folder.mkdir()
    script = folder / "hmt"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m hmt "$@"\n')
    script.chmod(0o755)
    return folder


def test_there_is_one_for_each_role() -> None:
    assert {path.stem for path in TUTORIALS} == MADE.keys()


@pytest.mark.slow
@pytest.mark.parametrize("page", TUTORIALS, ids=lambda path: path.stem)
def test_a_tutorial_runs(
    page: Path, tmp_path: Path, hmt_command: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(hmt_command), prepend=":")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    place = tmp_path / "here"
    place.mkdir()
    blocks = list(BLOCK.finditer(page.read_text(encoding="utf-8")))
    assert len(blocks) >= 5
    for block in blocks:
        kind, text = block[1], quick(block["text"])
        if kind.startswith("file"):
            (place / block["name"]).write_text(text, encoding="utf-8")
            continue
        command = ["bash", "-euo", "pipefail", "-c", text]
        if kind == "python":
            command = [sys.executable, "-c", text]
        done = subprocess.run(command, cwd=place, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{text}\n{done.stderr}"
        assert "Traceback" not in done.stderr
    missing = [name for name in MADE[page.stem] if not (place / name).exists()]
    assert not missing
    shutil.rmtree(place)


def test_the_pictures_of_the_systems_are_those_of_the_script(tmp_path: Path) -> None:
    """Planted: a picture edited by hand; a new system without one."""
    from hmt.systems import SYSTEMS

    script = ROOT / "docs" / "draw_systems.py"
    code = "import runpy, sys, pathlib; runpy.run_path(sys.argv[1])['write_all'](pathlib.Path('.'))"
    subprocess.run([sys.executable, "-c", code, str(script)], cwd=tmp_path, check=True)
    page = (ROOT / "docs" / "systems.md").read_text(encoding="utf-8")
    for name in SYSTEMS:
        picture = f"system-{name}.svg"
        kept = (ROOT / "docs" / "pictures" / picture).read_text(encoding="utf-8")
        assert (tmp_path / picture).read_text(encoding="utf-8") == kept
        assert f"](pictures/{picture})" in page
