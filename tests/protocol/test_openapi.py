"""/openapi.json against the server: schemathesis asks what the document allows and what it forbids.

It brings packages of its own and is installed beside the clients of others (`make clients`):
    HMT_CLIENTS_VENV=.venv-clients pytest tests/protocol/test_openapi.py
"""

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("starlette", reason="the extra `serve` is not installed")
pytest.importorskip("msgspec", reason="the extra `serve` is not installed")

from live_server import Running, serving, small_model

VENV = os.environ.get("HMT_CLIENTS_VENV", "")
pytestmark = pytest.mark.skipif(
    not VENV, reason="HMT_CLIENTS_VENV names no environment with schemathesis"
)


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    """It may be asked as often as one likes."""
    with serving(small_model(), translate_per_minute=10**6) as running:
        yield running


@pytest.mark.slow
def test_every_answer_is_as_documented(server: Running, tmp_path: Path) -> None:
    """Seen to find bodies, methods and kinds of content that the document did not name."""
    command = [str(Path(VENV).resolve() / "bin" / "schemathesis"), "run"]
    command += [f"{server.http}/openapi.json", "--max-examples", "20", "--seed", "1"]
    command += ["--phases", "examples,coverage,fuzzing", "--request-timeout", "90"]
    # which languages there are is not in the schema: a good request may name others
    command += ["--exclude-checks", "positive_data_acceptance"]
    # a stream without end, which a request cannot wait for; test_server_rooms.py reads it
    command += ["--exclude-path", "/v1/rooms/{room}/events"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    tested = re.search(r"Tested: (\d+)", done.stdout)
    assert tested and int(tested[1]) > 10
