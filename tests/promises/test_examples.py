"""The examples run as their first lines say, and do what they claim."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest
from conftest import ROOT

EXAMPLES = ROOT / "examples"


@pytest.fixture
def first_system() -> Iterator[ModuleType]:
    sys.path.insert(0, str(EXAMPLES))
    try:
        yield import_module("first_system")
    finally:
        sys.path.remove(str(EXAMPLES))
        sys.modules.pop("first_system", None)


def test_the_first_system_runs_as_a_script(tmp_path: Path) -> None:
    command = [sys.executable, str(EXAMPLES / "first_system.py"), "--updates", "5"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 3 and all("[" in line for line in lines)
    assert not list(tmp_path.iterdir())


def test_the_first_system_waits_until_it_is_sure(first_system: ModuleType, tmp_path: Path) -> None:
    """Planted: a threshold without effect; rows that see less than in training."""
    model = first_system.learn(tmp_path, updates=60)
    sentence = "al hult olda calin al nabu ."
    reads = {
        threshold: model.translate([sentence], threshold=threshold)[0].reads
        for threshold in (0.0, 0.3, 1.1)
    }
    length = len(sentence.split()) + 1
    assert reads[0.0] == [min(i, length) for i in range(1, len(reads[0.0]) + 1)]
    assert reads[1.1] == [length] * len(reads[1.1])
    assert reads[0.3] not in (reads[0.0], reads[1.1])


def test_the_notebook_runs(capsys: pytest.CaptureFixture[str]) -> None:
    """Its cells in order, in one namespace, as a notebook runs them."""
    pytest.importorskip("matplotlib", reason="the notebook draws")
    notebook = json.loads((EXAMPLES / "why_did_it_wait.ipynb").read_text(encoding="utf-8"))
    cells = ["".join(c["source"]) for c in notebook["cells"] if c["cell_type"] == "code"]
    assert len(cells) >= 5 and not any(c.get("outputs") for c in notebook["cells"])
    names: dict[str, object] = {}
    for cell in cells:
        exec(cell, names)
    shown = capsys.readouterr().out
    assert "Before writing" in shown and "gehabt." in shown and "(end)" in shown
    # one line per threshold, and with none to reach it writes no later than with one out of reach
    reads = [json.loads(line) for line in re.findall(r"^[\d.]+  (\[.+?\])", shown, re.MULTILINE)]
    assert len(reads) == 5 and sum(reads[0][:3]) <= sum(reads[-1][:3])
