"""The shape of the code: who may import whom, how long things may be, where names may stand."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "hmt"
FILES = sorted(PACKAGE.rglob("*.py"))
TREES = {path: ast.parse(path.read_text()) for path in FILES}

# A layer may import from itself and from the lines above its own, never from beside or below.
LAYERS: list[set[str]] = [
    {"errors", "limits", "toy"},
    {"files", "plain"},
    {"text", "fast"},
    {"model"},
    {"systems"},
    {"streaming"},
    {"models"},
    {"metrics"},
    {"training"},
    {"evaluation"},
    {"analysis", "bench"},
    {"paper"},
    {"server"},
    {"cli"},
    {"__main__"},
]
# Whoever imports checkpoints of a system's authors, or shows a system off, must name it.
NAMING = ("models/fairseq/", "cli/demo.py")
AROUND = ("tests", "examples", "benchmarks", "recipes")
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


def test_imports_point_one_way() -> None:
    wrong = []
    for path in FILES:
        own = layer_of(path)
        for name in imported(path):
            parts = name.split(".")
            # a public name such as hmt.load is no layer; the package itself only points to them
            other = parts[1] if len(parts) > 1 and parts[0] == "hmt" else ""
            if other in RANK and own in RANK and other != own and RANK[other] >= RANK[own]:
                wrong.append(f"{name_of(path)} ({own}) imports {name}")
    assert not wrong


def test_the_page_lists_every_layer_in_the_order_of_imports() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    table = page.partition("| package |")[2].partition("## ")[0]
    rows = re.findall(r"^\| (`.+?`) \|", table, re.MULTILINE)
    listed = [name for row in rows for name in re.findall(r"`(\w+)`", row)]
    assert {*listed, "__main__"} == set(RANK)
    ranks = [RANK[name] for row in rows for name in re.findall(r"`(\w+)`", row)[-1:]]
    assert ranks == sorted(ranks)


def test_the_contract_of_systems_and_streams_is_typed() -> None:
    """mypy is green wherever Any stands: systems and the engine get none of it."""
    heart = [path for path in FILES if layer_of(path) in {"systems", "streaming"}]
    assert len(heart) > 20
    assert not [
        name_of(path)
        for path in heart
        for node in ast.walk(TREES[path])
        if ast.unparse(node) in {"Any", "typing.Any"}
    ]


def test_sizes_hold() -> None:
    """At most 400 lines in a file and 60 in a function: is there a second idea in it?"""
    wrong = []
    for path in FILES:
        lines = len(path.read_text().splitlines())
        if lines > 400:
            wrong.append(f"{name_of(path)} has {lines} lines")
        for function in functions(TREES[path]):
            length = (function.end_lineno or 0) - function.lineno + 1
            if length > 60:
                wrong.append(f"{name_of(path)}:{function.lineno} {function.name}: {length} lines")
    assert not wrong


def arguments(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    """The names of a function's arguments, without `self`."""
    given = function.args
    names = [a.arg for a in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
    return names[names[:1] == ["self"] :]


def test_constructors_take_at_most_six_arguments() -> None:
    """What needs more needs a dataclass of its own."""
    wrong = [
        f"{name_of(path)} {node.name} takes {len(taken)}"
        for path, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        for function in node.body
        if isinstance(function, ast.FunctionDef) and function.name == "__init__"
        if len(taken := arguments(function)) > 6
    ]
    assert not wrong


def bases() -> dict[str, set[str]]:
    """The bases of every class of the package by name, those of other packages included."""
    return {
        node.name: {ast.unparse(base).split("[")[0].split(".")[-1] for base in node.bases}
        - {node.name}  # a library's class of the same name
        for tree in TREES.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    }


def test_inheritance_is_at_most_two_deep() -> None:
    """A system is a TokenSystem, which is a System: to read a class, read two others."""
    above = bases()

    def depth(name: str) -> int:
        return max((1 + depth(base) for base in above[name] & above.keys()), default=0)

    assert depth("WaitK") == 2
    assert not [name for name in above if depth(name) > 2]


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


def test_no_system_is_named_outside_systems() -> None:
    """Neither by its string nor by its module: a new system is one file and one line."""
    names = system_names()
    modules = {name.replace("-", "_") for name in names}
    assert names, "the systems have names"
    wrong = []
    for path in FILES:
        if layer_of(path) in {"systems", "bench"} or name_of(path).startswith(NAMING):
            continue
        for name in imported(path):
            parts = name.split(".")
            if parts[:2] == ["hmt", "systems"] and len(parts) > 2 and parts[2] in modules:
                wrong.append(f"{name_of(path)} imports {name}")
        for node in ast.walk(TREES[path]):
            if isinstance(node, ast.Compare):
                named = {c.value for c in ast.walk(node) if isinstance(c, ast.Constant)} & names
                if named:
                    wrong.append(f"{name_of(path)}:{node.lineno} compares with {named}")
    assert not wrong


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
    assert module_classes()
    wrong = []
    for path, node in module_classes():
        for function in functions(node):
            if function.name == "__init__":
                continue
            for inner in ast.walk(function):
                is_changed = isinstance(getattr(inner, "ctx", None), ast.Store | ast.Del)
                if is_changed and ast.unparse(inner).startswith("self."):
                    place = f"{name_of(path)}:{getattr(inner, 'lineno', 0)}"
                    wrong.append(f"{place} {node.name}.{function.name}: {ast.unparse(inner)}")
    assert not wrong


def test_no_machine_path_or_registry_host_in_code() -> None:
    """Hosts and folders are put together here from pieces, so that a search finds none of them."""
    hosts = (("py", "pi."), ("python", "hosted"), ("registry.", "npmjs"), ("files.", "python"))
    folders = (("wo", "rk"), ("t", "mp"), ("ro", "ot"), ("ho", "me"))
    names, places = (["".join(pieces) for pieces in parts] for parts in (hosts, folders))
    forbidden = "|".join([*map(re.escape, names), rf"(?<![\w.])/({'|'.join(places)})/\w"])
    examples = [f"https://{names[0]}org", f"'/{places[0]}/x'", f" /{places[1]}/x"]
    assert all(re.search(forbidden, example) for example in examples)
    assert not re.search(forbidden, f"a/{places[0]}/x")
    code = [*FILES, *(path for name in AROUND for path in (ROOT / name).rglob("*.py"))]
    assert not [str(path) for path in code if re.search(forbidden, path.read_text())]
