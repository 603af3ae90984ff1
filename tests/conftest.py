"""What all tests share: one torch thread each, and the reference folder if there is one."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from command_line import Answer, Call

ROOT = Path(__file__).resolve().parents[1]
SERVER_SECONDS = 300.0  # the most that a test of the server may take


def pytest_configure() -> None:
    """One thread, read by torch when it is first imported: two workers share two cores.

    A shell that starts the tests in the background has them ignore Ctrl-C, and all they start too.
    """
    os.environ["OMP_NUM_THREADS"] = "1"
    # seconds are measured in benchmarks: a busy machine must not turn a property red
    settings.register_profile("hmt", deadline=None)
    settings.load_profile("hmt")
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def shared() -> Path:
    """Folder of reference data (golden numbers, corpora): $HMT_SHARED or ../shared."""
    folder = Path(os.environ.get("HMT_SHARED", ROOT.parent / "shared"))
    if not folder.is_dir():
        pytest.skip(f"no reference folder at {folder}; name one with HMT_SHARED")
    return folder


@pytest.fixture
def impatient() -> Iterator[None]:
    """Whoever waits for a pipe, or reads a device without end, is interrupted."""

    def give_up(number: int, frame: FrameType | None) -> None:
        raise AssertionError("it waits for ever")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with toy text, prepared data and a trained run, made by the commands themselves."""
    from command_line import build

    folder = tmp_path_factory.mktemp("world")
    build(folder)
    return folder


@pytest.fixture
def hmt(world: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> "Call":
    """Runs a command inside the world."""
    from command_line import call

    monkeypatch.chdir(world)

    def run(*arguments: str, given: str | bytes = "") -> "Answer":
        stdin = given if isinstance(given, bytes) else given.encode()
        return call(list(arguments), capfd, monkeypatch, stdin)

    return run


@pytest.fixture(autouse=True)
def deadline(request: pytest.FixtureRequest) -> Iterator[None]:
    """A server that never answers fails the test that waits for it, and no other."""
    if not request.path.name.startswith("test_server_") or not hasattr(signal, "SIGALRM"):
        yield
        return

    def give_up(number: int, frame: FrameType | None) -> None:
        raise TimeoutError(f"no end after {SERVER_SECONDS:.0f} s")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, SERVER_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
