"""What README, recipes and Makefile promise is there."""

import json
import re
import shlex
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path
from typing import Any

import pytest
from command_line import Call
from conftest import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(\w*)\n(.*?)```", README, re.DOTALL)
COMMANDS = re.findall(r"^hmt .*$", README, re.MULTILINE)
RECIPES = sorted((ROOT / "recipes").rglob("*.toml"))
PATCHES = sorted((ROOT / "tests" / "planted").glob("*.patch"))


@pytest.mark.parametrize("line", COMMANDS)
def test_commands_of_the_readme_exist_with_their_options(line: str, hmt: Call) -> None:
    words = shlex.split(line, comments=True)[1:]
    command = words[:2] if words[0] in ("analyse", "convert") else words[:1]
    manual = hmt(*command, "--help")
    assert manual.code == 0, line
    for option in (word.split("=")[0] for word in words if word.startswith("--")):
        assert option in manual.out, f"{option} is not in the manual of {command}"


def test_settings_of_the_readme_exist() -> None:
    from hmt.training.recipe import Training

    settings = re.findall(r"--set training\.(\w+)=", README)
    assert settings and set(settings) <= set(Training.__dataclass_fields__)


def test_make_targets_of_the_readme_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^make (\w+)", README, re.MULTILINE))
    assert targets >= {"demo", "test"}
    assert all(re.search(rf"^{target}:", makefile, re.MULTILINE) for target in targets)
    assert "make test" in (ROOT / ".ci" / "run").read_text()


def test_the_file_tree_of_the_readme_is_the_folder() -> None:
    tree = next(text for _, text in BLOCKS if text.startswith("src/hmt/"))
    folder, told = Path(), set()
    for line in tree.splitlines():
        name = line.split()[0]
        path = folder / name if line.startswith(" ") else Path(name)
        assert (ROOT / path).exists(), f"the README names {path}"
        if not line.startswith(" "):
            folder = path
        told.add(path.as_posix())
    packages = {f"src/hmt/{p.parent.name}" for p in ROOT.glob("src/hmt/*/__init__.py")}
    assert packages <= told, "every package is in the README's tree"


def test_python_of_the_readme_runs(hmt: Call) -> None:
    """The example with a model of the toy language in the place of a real one."""
    (example,) = (text for language, text in BLOCKS if language == "python")
    names: dict[str, object] = {}
    exec(example.replace("path/to/model", "run"), names)


def test_links_of_the_readme_and_docs_lead_somewhere() -> None:
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        for link in re.findall(r"\]\(([^)#\s]+)", page.read_text(encoding="utf-8")):
            if "://" not in link:
                assert (page.parent / link).exists(), f"{page.name} links to {link}"


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: str(path.relative_to(ROOT)))
def test_recipes_parse_and_state_command_cost_and_score(path: Path) -> None:
    from hmt.plain import from_plain
    from hmt.systems import SYSTEMS
    from hmt.training.recipe import load_recipe

    sizes = {"source_vocabulary": 100, "target_vocabulary": 100}
    for stage in load_recipe(path).stages:
        system, config = SYSTEMS[stage.model.system], stage.model.config
        from_plain(system.Config, {**config, "dims": {**config.get("dims", {}), **sizes}}, "config")
        from_plain(system.Knobs, stage.model.knobs, "knobs")
    head = path.read_text(encoding="utf-8").partition("\noutput = ")[0]
    assert f"hmt train {path.relative_to(ROOT)}" in head, "a recipe states its command at its top"
    cost, reached = (
        re.findall(rf"^# {word}: (.+)$", head, re.MULTILINE) for word in ("Cost", "Reached")
    )
    assert len(cost) == len(reached) == 1, "cost and score are stated once each"
    if not cost[0].startswith(("not run ", "not measured ")):
        assert re.search(r"\d (processor )?(seconds|minutes|hours|days)\b", cost[0]), "how long"
        assert re.search(r"\(\d{4}-\d\d-\d\d, commit [0-9a-f]{7}", cost[0]), "date, commit"
    if not reached[0].startswith(("not run ", "not measured ")):
        assert re.match(r"sacreBLEU \d", reached[0]), "a score and its name"
        assert re.search(r"trained at commit [0-9a-f]{7}", reached[0]), "which code reached it"
        results = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
        for figure in re.findall(r"\d+\.\d+", reached[0].partition(" for ")[0]):
            found = re.search(rf"(?<![\d.]){re.escape(figure)}(?!\d)", results)
            assert found, f"{figure} does not stand in docs/results.md"


def test_versions_agree() -> None:
    from hmt import __version__

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["version"] == __version__
    assert f"## {__version__}" in (ROOT / "CHANGELOG.md").read_text()
    # the pinned torch keeps a plain install small and reproducible
    assert "torch==2.13.0" in (ROOT / "constraints.txt").read_text().splitlines()


@pytest.mark.parametrize("patch", PATCHES, ids=lambda path: path.stem)
def test_planted_bugs_fit_the_code(patch: Path) -> None:
    """`make planted` takes long; that each bug still applies and names real tests is seen here."""
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    command = ["git", "apply", "--check", str(patch)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for test in patch.read_text(encoding="utf-8").split("\n", 1)[0].split()[1:]:
        path, _, name = test.partition("::")
        assert f"def {name}(" in (ROOT / path).read_text(encoding="utf-8"), test


def test_every_page_is_in_the_navigation_of_the_site() -> None:
    """`make docs` refuses dead links; this needs none of its tools."""
    site = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    listed = re.findall(r"(\S+\.md)$", site, re.MULTILINE)
    docs = ROOT / "docs"
    assert len(listed) == len(set(listed)) and all((docs / page).exists() for page in listed)
    # pages that are not listed appear under "More"; those that a newcomer needs must be listed
    assert {"index.md", "install.md", "glossary.md", "systems.md"} <= set(listed)
    assert {f"tutorials/{path.name}" for path in docs.glob("tutorials/*.md")} <= set(listed)


def test_the_model_that_ships_names_no_place_of_its_making() -> None:
    """A path of a run is nobody's business but its owner's, and leads nowhere."""
    texts = [*(ROOT / "src/hmt/pretrained").glob("*.json*"), ROOT / "src/hmt/pretrained/README.md"]
    assert len(texts) >= 4
    for path in texts:
        text = "" if path.name == "tokenizer.json" else path.read_text(encoding="utf-8")
        found = re.search(r"(?<![\w.:/])[~.]{0,2}/(?!/)\w+/\w|[A-Z]:\\", text)
        assert found is None, f"{path.name} has {found}"
    config = json.loads((ROOT / "src/hmt/pretrained/config.json").read_text(encoding="utf-8"))
    assert not any("/" in value or "\\" in value for value in _strings(config))


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _strings(inner)


def test_every_dependency_is_pinned() -> None:
    """Those of dependencies, too, and what builds the package."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert all("==" in requirement for requirement in project["build-system"]["requires"])
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pins = {_package(line) for line in lines if re.fullmatch(r"[\w.-]+==[\w.!]+", line)}
    extras = project["project"]["optional-dependencies"]
    dependencies = project["project"]["dependencies"]
    waiting = [*dependencies, *extras["dev"], *extras["serve"], *extras["docs"]]
    seen: set[str] = set()
    while waiting:
        name = _package(waiting.pop())
        if name in seen or name == "hmt":
            continue
        seen.add(name)
        assert name in pins, f"{name} is not pinned: make lock"
        try:
            needs = requires(name) or []
        except PackageNotFoundError:
            continue  # an extra that is not installed here
        waiting += [need for need in needs if ";" not in need]
    assert len(seen) > 20


def _package(requirement: str) -> str:
    return re.split(r"[^\w.-]", requirement)[0].lower().replace("_", "-")
