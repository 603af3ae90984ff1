"""The shape of the code: who may import whom, how long things may be, where names may stand."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "hmt"
FILES = sorted(PACKAGE.rglob("*.py"))
TREES = {path: ast.parse(path.read_text()) for path in FILES}

# A layer may import from itself and from the lines above its own, never from beside or below.
LAYERS: list[set[str]] = [
    {"errors", "toy"},
    {"text"},
    {"model"},
    {"systems"},
    {"streaming", "training"},
    {"evaluation"},
    {"analysis", "server"},
    {"convert", "demo"},
    {"cli"},
    {"__main__"},
]
RANK = {layer: rank for rank, layers in enumerate(LAYERS) for layer in layers}


def name_of(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


def layer_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported(path: Path) -> Iterator[str]:
    """Dotted names of all imports of a file, those inside functions included."""
    package = ["hmt", *path.relative_to(PACKAGE).parent.parts]
    for node in ast.walk(TREES[path]):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            start = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*start, *([node.module] if node.module else [])])
            yield from (f"{module}.{alias.name}" for alias in node.names)


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef))


def test_every_file_belongs_to_a_layer() -> None:
    homeless = {name_of(path) for path in FILES if layer_of(path) not in {*RANK, "__init__"}}
    assert not homeless, "name the layer of these files in LAYERS"


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_imports_point_one_way(path: Path) -> None:
    own = layer_of(path)
    for name in imported(path):
        parts = name.split(".")
        if parts[0] != "hmt" or own == "__init__":
            continue
        other = parts[1] if len(parts) > 1 else "__init__"
        # `hmt.load` and its like stand for the layer that the public name lives in
        if other not in RANK:
            continue
        assert other == own or RANK[other] < RANK[own], f"{name_of(path)} ({own}) imports {name}"


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_sizes_hold(path: Path) -> None:
    lines = len(path.read_text().splitlines())
    assert lines <= 400, f"{name_of(path)} has {lines} lines: is there a second idea in it?"
    for function in functions(TREES[path]):
        length = (function.end_lineno or 0) - function.lineno + 1
        assert length <= 60, f"{name_of(path)}:{function.lineno} {function.name} has {length} lines"


def test_no_file_is_a_drawer_for_anything() -> None:
    drawers = {"utils", "util", "helpers", "helper", "common", "base", "manager", "misc"}
    assert not [name_of(path) for path in FILES if drawers & set(re.split(r"[./_]", name_of(path)))]


def system_names() -> set[str]:
    """The names under which systems register, read from `name = "..."` in systems/."""
    assigned = (
        line
        for path, tree in TREES.items()
        if layer_of(path) == "systems"
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        for line in node.body
        if isinstance(line, ast.Assign | ast.AnnAssign) and isinstance(line.value, ast.Constant)
    )
    return {
        str(ast.literal_eval(line.value))
        for line in assigned
        if line.value
        and [ast.unparse(t) for t in getattr(line, "targets", [getattr(line, "target", None)])]
        == ["name"]
    }


@pytest.mark.parametrize("path", [p for p in FILES if layer_of(p) != "systems"], ids=name_of)
def test_no_system_is_named_outside_systems(path: Path) -> None:
    """Neither by its string nor by its module: a new system is one file and one line."""
    names = system_names()
    # importing a checkpoint of one system's authors must name it; the demo must choose one
    if layer_of(path) in {"convert", "demo", "toy"}:
        return
    for name in imported(path):
        parts = name.split(".")
        if parts[:2] == ["hmt", "systems"] and len(parts) > 2:
            assert parts[2] not in {n.replace("-", "_") for n in names}, f"{name_of(path)}: {name}"
    for node in ast.walk(TREES[path]):
        if isinstance(node, ast.Compare):
            named = {c.value for c in ast.walk(node) if isinstance(c, ast.Constant)} & names
            assert not named, f"{name_of(path)}:{node.lineno} compares with {named}"


def module_classes() -> list[tuple[Path, ast.ClassDef]]:
    """Classes that are nn.Modules, by following base names through the whole package."""
    classes = [
        (path, node)
        for path, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    ]
    known = {"Module"}
    while True:
        more = {
            node.name
            for _, node in classes
            if {ast.unparse(b).split("[")[0].split(".")[-1] for b in node.bases} & known
        }
        if more <= known:
            break
        known |= more
    return [(path, node) for path, node in classes if node.name in known]


def test_modules_remember_nothing() -> None:
    """An nn.Module assigns to self in __init__ only, so one model serves any number of sessions."""
    for path, node in module_classes():
        for function in functions(node):
            if function.name == "__init__":
                continue
            for inner in ast.walk(function):
                if isinstance(inner, ast.Attribute) and isinstance(inner.ctx, ast.Store | ast.Del):
                    owner = ast.unparse(inner.value)
                    assert owner.split(".")[0] != "self", (
                        f"{name_of(path)}:{inner.lineno} {node.name}.{function.name} "
                        f"assigns to {ast.unparse(inner)}"
                    )


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_no_machine_path_or_registry_host_in_code(path: Path) -> None:
    text = path.read_text()
    assert not re.search(r"(?<![\w.])/(work|tmp|root|home)/\w", text)
    assert not re.search(r"pypi\.|pythonhosted|registry\.npmjs", text)
