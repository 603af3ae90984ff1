"""One model serves any number of threads: none of them changes what another one computes."""

import threading
from collections.abc import Callable

import pytest
from lively import lively, sentences, translations

from hmt.analysis.replay import Seen, replay
from hmt.systems import SYSTEMS
from hmt.systems.contract import System

THREADS, ROUNDS = 8, 3
SOURCES = sentences(6, seed=21)[1:]

Translated = list[tuple[list[int], list[int], list[float]]]
Explained = list[dict[tuple[int, int], Seen]]


@pytest.fixture(autouse=True)
def _short_translations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hmt.streaming.engine.LENGTH_EXTRA", 6)
    monkeypatch.setattr("hmt.streaming.engine.LENGTH_FACTOR", 1)


def translated(system: System) -> Translated:
    return [(s.target, s.reads, s.log_probs) for s in translations(system, SOURCES, slots=2)]


def explained(system: System, targets: list[list[int]]) -> Explained:
    knobs = system.knobs()
    return [
        replay(system, source, target, knobs, None)[1]
        for source, target in zip(SOURCES, targets, strict=True)
    ]


@pytest.mark.parametrize("name", SYSTEMS)
def test_eight_threads_translate_while_one_explains(name: str) -> None:
    """All results are equal, to the last bit, to those of a thread alone.

    Planted: a module that stands for `cross.output` while an explanation runs.
    """
    system = lively(name)
    expected = translated(system)
    targets = [target for target, _, _ in expected]
    explanation = explained(system, targets)
    failures: list[str] = []
    start = threading.Barrier(THREADS + 1)

    def compare(what: str, compute: Callable[[], object], alone: object) -> None:
        start.wait()
        for _ in range(ROUNDS):
            try:
                if compute() != alone:
                    failures.append(f"{what} differs")
            except Exception as error:  # whatever it is, it would not have happened alone
                failures.append(f"{what}: {error!r}")

    threads = [
        threading.Thread(target=compare, args=("translation", lambda: translated(system), expected))
        for _ in range(THREADS)
    ]
    explaining = ("explanation", lambda: explained(system, targets), explanation)
    threads.append(threading.Thread(target=compare, args=explaining))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
