"""A few hostile forms of every file from a stranger; the long form is `make attack`."""

import os
from pathlib import Path

import attack_parsers as attack
import pytest

SEED = int(os.environ.get("HMT_TEST_SEED", "1"))


@pytest.mark.parametrize("name", attack.parsers())
def test_hostile_files_are_read_or_refused(name: str, tmp_path: Path) -> None:
    attack.attack(name, 40, SEED, tmp_path)
