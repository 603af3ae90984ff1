"""Write constraints.txt: the versions in this environment and in others that are named.

Transitive ones are included.
"""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

HEAD = """\
# The versions that every result and test of this repository was made with.  A plain install stays
# small and reproducible.  Written by `make lock`.
"""


def name_of(requirement: str) -> str:
    """The package of a requirement or a pin, spelt in one way."""
    found = re.match(r"[A-Za-z0-9_.-]+", requirement)
    return found[0].lower().replace("_", "-") if found else ""


def is_pin(line: str) -> bool:
    """Whether a line names a version; pip itself is what every environment brings."""
    return "==" in line and name_of(line) != "pip"


def installed(python: str, *options: str) -> list[str]:
    """The packages of an environment, as NAME==VERSION."""
    command = [python, "-m", "pip", "freeze", "--exclude-editable", *options]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()


def main() -> None:
    """Direct dependencies first, then what they need themselves."""
    project = tomllib.loads(Path("pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"].values()
    direct = {name_of(r) for group in (project["dependencies"], *extras) for r in group}
    listed = installed(sys.executable, "--all")  # setuptools included, which builds the wheel
    for python in sys.argv[1:]:
        listed += installed(python)
    # a local label such as +cpu names a build, not a version
    pins = sorted({re.sub(r"\+.*", "", line) for line in listed if is_pin(line)}, key=str.lower)
    first = [pin for pin in pins if name_of(pin) in direct]
    rest = [pin for pin in pins if name_of(pin) not in direct]
    text = "\n".join([HEAD.rstrip(), *first, "", "# What these need themselves.", *rest])
    Path("constraints.txt").write_text(text + "\n")


if __name__ == "__main__":
    main()
