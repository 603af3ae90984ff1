"""Plant each bug in a copy of the code and expect the tests that it names to turn red.

python tests/planted/run.py            all of them
python tests/planted/run.py captions   those whose file names hold a word
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
COPIED = ("src", "tests", "recipes", "examples", "benchmarks", "pyproject.toml")
PREFIX = "kills: "
PASSED, FAILED = 0, 1  # the exit codes of pytest; others say that the tests did not run


@dataclass(frozen=True)
class Planted:
    """A bug as a patch, and the tests that must find it."""

    path: Path
    kills: tuple[str, ...]


def read(path: Path) -> Planted:
    """The first line of a patch names its tests."""
    first = path.read_text(encoding="utf-8").split("\n", 1)[0]
    if not first.startswith(PREFIX):
        raise SystemExit(f"{path.name}: the first line must be `{PREFIX}tests/...::test_name`.")
    return Planted(path, tuple(first.removeprefix(PREFIX).split()))


def copy(folder: Path) -> None:
    """What the tests need, without anything compiled."""
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info", "planted")
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=ignored)
        else:
            shutil.copy2(ROOT / name, folder / name)


def run_tests(folder: Path, tests: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run tests of a copy, with the copy's package."""
    own = {"PYTHONPATH": str(folder / "src"), "OMP_NUM_THREADS": "1"}
    # a patch may keep the size and the second of a file, which is all that bytecode is checked by
    own["PYTHONDONTWRITEBYTECODE"] = "1"
    own["HMT_SHARED"] = os.environ.get("HMT_SHARED", str(ROOT.parent / "shared"))
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
    return subprocess.run(
        command, cwd=folder, env={**os.environ, **own}, capture_output=True, text=True, check=False
    )


def complaint(bug: Planted) -> str | None:
    """Plant one bug; what is wrong if the tests do not find it."""
    with tempfile.TemporaryDirectory(prefix="planted-") as name:
        folder = Path(name)
        copy(folder)
        command = ["git", "apply", "--verbose", str(bug.path)]
        applied = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        if applied.returncode or "Skipped" in applied.stderr:
            return f"does not apply: {applied.stderr.strip()}"
        for test in bug.kills:
            done = run_tests(folder, [test])
            if done.returncode == PASSED:
                return f"{test} stays green"
            if done.returncode != FAILED:
                return f"{test} did not run:\n{done.stdout[-1000:]}{done.stderr[-1000:]}"
    return None


def main() -> int:
    """Run the chosen bugs; 1 if any is not found."""
    parser = argparse.ArgumentParser(description="Plant bugs and expect the tests to find them.")
    parser.add_argument("words", nargs="*", help="parts of the names of patches; default: all")
    words = parser.parse_args().words
    paths = sorted(HERE.glob("*.patch"))
    bugs = [read(p) for p in paths if not words or any(word in p.name for word in words)]
    if not bugs:
        raise SystemExit(f"There is no patch named so; there are: {[p.stem for p in paths]}.")
    named = sorted({test for bug in bugs for test in bug.kills})
    with tempfile.TemporaryDirectory(prefix="planted-") as name:
        copy(Path(name))
        healthy = run_tests(Path(name), named)
    if healthy.returncode != PASSED:
        raise SystemExit(f"The tests are not green without any bug:\n{healthy.stdout[-2000:]}")
    missed = 0
    for bug in bugs:
        wrong = complaint(bug)
        missed += wrong is not None
        print(f"{bug.path.stem}: {wrong or 'found'}", flush=True)
    print(f"{len(bugs) - missed} of {len(bugs)} planted bugs were found.")
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
