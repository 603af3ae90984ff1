"""Every test of the contract was seen to fail: a planted bug names it."""

import ast
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
PREFIX = "kills: "
WITHOUT_A_BUG = {
    # skipped where SimulEval is not installed; where it is, the bug
    # audit-compares-the-answer-to-the-last-word turns it red
    "tests/contract/test_audit.py::test_agents_of_simuleval_itself",
}


def functions_of(path: Path) -> set[str]:
    """The tests of a file, as pytest names them."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    defined = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
    place = path.relative_to(TESTS.parent).as_posix()
    return {f"{place}::{node.name}" for node in defined if node.name.startswith("test_")}


def named_by_bugs() -> set[str]:
    """The tests that the first lines of the patches name."""
    patches = sorted((TESTS / "planted").glob("*.patch"))
    assert len(patches) > 100
    first = [path.read_text(encoding="utf-8").partition("\n")[0] for path in patches]
    assert all(line.startswith(PREFIX) for line in first)
    return {test for line in first for test in line.removeprefix(PREFIX).split()}


def test_every_contract_test_has_a_bug_that_it_finds() -> None:
    contract = {t for path in (TESTS / "contract").glob("test_*.py") for t in functions_of(path)}
    assert len(contract) > 100
    lacking = contract - named_by_bugs()
    assert lacking == WITHOUT_A_BUG, "plant a bug that the test finds: tests/planted/README.md"


def test_bugs_name_tests_that_exist() -> None:
    existing = {test for path in TESTS.rglob("test_*.py") for test in functions_of(path)}
    assert named_by_bugs() <= existing
