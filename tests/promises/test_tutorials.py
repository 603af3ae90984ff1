"""The tutorials do what they say: every command and every piece of Python runs, in order.

Trainings are cut to a few updates; everything else runs as a reader would run it, in one process,
because loading torch for each command would take most of the time.
"""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import call
from conftest import ROOT

TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
BLOCK = re.compile(
    r"^```(sh|python|file (?P<name>\S+))\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)
PIPE = re.compile(r'echo "(?P<given>[^"]*)" \| hmt (?P<rest>.*)')
FILE = re.compile(r"hmt (?P<rest>.*) < (?P<file>\S+)")
# name -> what must be there when the tutorial is done
MADE = {
    "live": ("heard.jsonl",),
    "train": ("data/data.json", "curves/hmt/scores.json", "curves/hmt/lower=2/records.jsonl"),
    "explain": ("why.html", "why.json", "second.html", "curve/lower=2/records.jsonl"),
}


def quick(text: str) -> str:
    """The same with little to learn from and little to learn."""
    text = re.sub(r"updates = \d+", "updates = 4", text)
    text = re.sub(r"(save_every|warmup) = \d+", r"\1 = 2", text)
    return re.sub(r'("train"|"valid"|"test"), \d+', r"\1, 60", text)


def understood(line: str) -> tuple[list[str], bytes]:
    """Arguments of hmt and its standard input, for the forms that tutorials use."""
    if found := PIPE.fullmatch(line):
        return shlex.split(found["rest"]), found["given"].encode() + b"\n"
    if found := FILE.fullmatch(line):
        return shlex.split(found["rest"]), Path(found["file"]).read_bytes()
    assert line.startswith("hmt "), line
    return shlex.split(line)[1:], b""


def test_there_is_one_for_each_role() -> None:
    assert {path.stem for path in TUTORIALS} == MADE.keys()


@pytest.mark.slow
@pytest.mark.parametrize("page", TUTORIALS, ids=lambda path: path.stem)
def test_a_tutorial_runs(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = list(BLOCK.finditer(page.read_text(encoding="utf-8")))
    assert len(blocks) >= 5
    for block in blocks:
        kind, text = block[1], quick(block["text"])
        if kind.startswith("file"):
            (tmp_path / block["name"]).write_text(text, encoding="utf-8")
        elif kind == "python":
            exec(text, {})
        else:
            for line in text.splitlines():
                if line.startswith("head "):
                    subprocess.run(shlex.split(line), check=True, capture_output=True)
                    continue
                arguments, given = understood(line)
                answer = call(arguments, capfd, monkeypatch, given)
                assert answer.code == 0, f"{line}\n{answer.err}"
    assert not [name for name in MADE[page.stem] if not (tmp_path / name).exists()]


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
