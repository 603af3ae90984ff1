"""The audit passes on every system and finds planted leaks: each of three, and careless agents."""

import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from lively import SYMBOLS, lively
from model_directories import save
from typer.testing import CliRunner

import hmt
from hmt.cli import app
from hmt.errors import UserError
from hmt.evaluation.audit import Report, audit, audit_agent, compare, invented, points
from hmt.evaluation.simuleval import answers
from hmt.model import transformer
from hmt.model.rows import source_bias
from hmt.model.transformer import Transformer
from hmt.models.model import Model
from hmt.streaming import engine
from hmt.streaming.cache import Cache
from hmt.streaming.engine import Engine
from hmt.streaming.record import Record
from hmt.systems import SYSTEMS
from hmt.systems.stream import Stream
from hmt.text.symbols import EOS
from hmt.text.tokenizer import Tokenizer, train_bpe, word_tokenizer

ROOT = Path(__file__).resolve().parents[2]
VENV = os.environ.get("HMT_SIMULEVAL_VENV", "")
CONFIGS: dict[str, dict[str, Any]] = {
    "hmt": {"lower": 1, "states": 4},
    "adaptive": {"lags": [1, 2, 4]},
    "moe-wait-k": {"lags": [1, 3]},
}

KNOBS: dict[str, dict[str, Any]] = {"adaptive": {"rho_a": 0.8, "rho_b": 0.4}}


def sentences(count: int) -> list[str]:
    draw = random.Random(4)

    def word() -> str:
        return "".join(draw.choice("abc") for _ in range(draw.randint(1, 4)))

    return [" ".join(word() for _ in range(draw.randint(4, 7))) for _ in range(count)]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return train_bpe(sentences(50), SYMBOLS)


@pytest.fixture(autouse=True)
def _short_translations(monkeypatch: pytest.MonkeyPatch) -> None:
    """A random model rarely says the end: let it not talk for long."""
    monkeypatch.setattr("hmt.streaming.engine.LENGTH_EXTRA", 2)
    monkeypatch.setattr("hmt.streaming.engine.LENGTH_FACTOR", 1)


def model_of(name: str, tokenizer: Tokenizer) -> Model:
    system = lively(name, **CONFIGS.get(name, {}))
    with torch.no_grad():
        for transformer in system.transformers:
            # it goes on talking, so that there is much to compare
            transformer.output.weight[EOS] = 0
    return Model(system, (tokenizer, tokenizer))


def audited(name: str, tokenizer: Tokenizer, count: int = 2, **knobs: Any) -> Report:
    return audit(model_of(name, tokenizer), sentences(count), probes=5, **knobs)


@pytest.mark.parametrize("name", SYSTEMS)
def test_no_system_looks_ahead(name: str, tokenizer: Tokenizer) -> None:
    report = audited(name, tokenizer, **KNOBS.get(name, {}))
    assert report.is_clean, list(report.lines())
    assert report.sentences == 2 and report.probes >= 20
    assert report.worst < 1e-9
    # a full-sentence model says nothing before the end: only its two arrivals can be compared
    assert report.compared > (30 if name != "full" else 5)


@pytest.mark.parametrize("knobs", [{"attention": "max"}, {"attention": "selected"}])
def test_no_variant_looks_ahead(knobs: dict[str, Any], tokenizer: Tokenizer) -> None:
    assert audited("hmt", tokenizer, **knobs).is_clean


def plant_bidirectional(monkeypatch: pytest.MonkeyPatch) -> None:
    encode, bias = Transformer.encode, source_bias

    def all_seen(moment: torch.Tensor, length: int, dtype: torch.dtype) -> torch.Tensor:
        return torch.zeros_like(bias(moment, length, dtype))

    def encode_all(self: Transformer, *args: Any) -> torch.Tensor:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(transformer, "source_bias", all_seen)
            return encode(self, *args)

    monkeypatch.setattr(Transformer, "encode", encode_all)


def plant_off_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows see one source token more than was read, if it has arrived."""
    init = Cache.__init__

    def one_more(self: Cache, *args: Any) -> None:
        init(self, *args)
        get = self.source.get
        monkeypatch.setattr(self.source, "get", lambda n, slots, length: get(n, slots, length + 1))

    def later(moment: torch.Tensor, length: int, dtype: torch.dtype) -> torch.Tensor:
        return source_bias(moment + 1, length + 1, dtype)

    monkeypatch.setattr(Cache, "__init__", one_more)
    monkeypatch.setattr(engine, "source_bias", later)


def plant_peeking_tokenizer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A word's last piece follows from whether the next word begins with an a."""
    encode = Tokenizer.encode_batch

    def peek(self: Tokenizer, lines: list[str]) -> list[list[int]]:
        found = []
        for line in lines:
            ids: list[int] = []
            words = line.split()
            for n, own in enumerate(encode(self, words)):
                next_word = words[n + 1] if n + 1 < len(words) else ""
                ids += [*own[:-1], 4] if next_word.startswith("a") else own
            found.append(ids)
        return found

    monkeypatch.setattr(Tokenizer, "encode_batch", peek)


PLANTS = [plant_bidirectional, plant_off_by_one, plant_peeking_tokenizer]


@pytest.mark.parametrize("plant", PLANTS)
@pytest.mark.parametrize("name", ["hmt", "wait-k", "gsimt"])
def test_planted_leaks_are_found(
    name: str,
    plant: Callable[[pytest.MonkeyPatch], None],
    tokenizer: Tokenizer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plant(monkeypatch)
    report = audited(name, tokenizer)
    assert not report.is_clean
    leak = str(report.leaks[0])
    assert leak.startswith('sentence 1 "') and " read and the rest replaced by " in leak
    if plant is plant_peeking_tokenizer:
        assert any("source piece" in leak.what for leak in report.leaks)
    else:
        assert any("write" in leak.what for leak in report.leaks)
        assert report.worst > 1e-6


def test_a_tiny_leak_is_found(tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    """The length of the whole source shows in the fifth digit of log-probabilities."""
    model = model_of("wait-k", tokenizer)
    advance, translate = Engine.advance, Engine.translate

    def leak(stream: Stream) -> None:
        shifted = [p + 1e-5 * len(stream.source) for p in stream.log_probs]
        stream.log_probs[:] = shifted

    def leaky_advance(self: Engine, streams: list[Stream]) -> None:
        advance(self, streams)
        for stream in streams:
            leak(stream)

    def leaky_translate(self: Engine, *args: Any) -> Iterator[tuple[int, Stream]]:
        for n, stream in translate(self, *args):
            leak(stream)
            yield n, stream

    monkeypatch.setattr(Engine, "advance", leaky_advance)
    monkeypatch.setattr(Engine, "translate", leaky_translate)
    report = audit(model, sentences(1), probes=4)
    assert not report.is_clean
    assert "log-probability of write 1" in str(report.leaks[0])


def record(**changes: Any) -> Record:
    values: dict[str, Any] = {
        "index": 0,
        "source": "u v w",
        "prediction": "a b c",
        "source_tokens": ["u", "v", "w", "</s>"],
        "target_tokens": ["a", "b", "c", "</s>"],
        "reads": [1, 2, 3, 4],
        "source_word_ends": [0, 1, 2],
        "target_word_ends": [0, 1, 2],
        "confidences": [[0.5], [0.25, 0.75], [0.5, 0.5], [1.0]],
        "moments": [[1], [1, 2], [2, 3], [4]],
        "log_probs": [-1.0, -2.0, -1.5, -0.1],
    }
    return Record(**{**values, **changes})


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({}, None),
        ({"log_probs": [-1.0, -2.0, -7.0, -9.0], "target_tokens": ["a", "b", "x", "y"]}, None),
        ({"reads": [1, 2, 4, 4]}, None),
        ({"log_probs": [-1.0, -2.1, -1.5, -0.1]}, 'log-probability of write 2 "b" became -2.1'),
        ({"target_tokens": ["a", "x", "c", "</s>"]}, 'write 2 "b" became "x"'),
        ({"reads": [2, 2, 3, 4]}, 'write 1 "a" came after 2 source pieces, not 1'),
        ({"reads": [1, 3, 3, 4]}, 'write 2 "b" was no longer made'),
        ({"reads": [1, 2, 2, 4]}, 'write 3 "c" was made too early'),
        ({"source_tokens": ["u", "x", "w", "</s>"]}, 'source piece 2 "v" became "x"'),
        ({"confidences": [[0.5], [0.3, 0.75], [0.5, 0.5], [1.0]]}, "confidence of write 2"),
        ({"confidences": [[0.5], [0.25, 0.75], [0.6, 0.5], [1.0]]}, "confidence of write 3"),
        ({"confidences": [[0.5], [0.25, 0.75], [0.5, 0.6], [1.0]]}, None),
        ({"moments": [[1], [1, 2], [1, 3], [4]]}, r"considered after \[1\] source pieces"),
        ({"log_probs": [float("nan"), -2.0, -1.5, -0.1]}, "became nan"),
    ],
)
def test_what_counts_as_changed_after_two_tokens(
    changes: dict[str, Any], found: str | None
) -> None:
    """What was passed over before the point counts; what came after it does not."""
    what = compare(record(), record(**changes), 2, Report())
    if found is None:
        assert what is None
    else:
        assert what is not None
        with pytest.raises(AssertionError, match=found):
            raise AssertionError(what)


def test_every_place_is_tried_before_any_comes_again() -> None:
    found = points(random.Random(1), 5, 12)
    assert len(found) == 12
    assert sorted(found[:5]) == sorted(found[5:10]) == [0, 1, 2, 3, 4]


def test_sentences_are_invented_from_any_vocabulary(tokenizer: Tokenizer) -> None:
    for vocabulary in (tokenizer, word_tokenizer(list("abcdefghij"))):
        lines = invented(vocabulary, random.Random(1))
        assert len(lines) == 20 and all(line.split() for line in lines)
        assert len({word for line in lines for word in line.split()}) > 5


def test_nothing_tried_is_no_proof(tokenizer: Tokenizer) -> None:
    report = audit(model_of("wait-k", tokenizer), ["", "  "])
    assert not report.is_clean
    assert "nothing was tried" in list(report.lines())[-1]


def test_the_command_line(
    tmp_path: Path, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(tmp_path / "model", lively("wait-k"), tokenizer)
    (tmp_path / "source").write_text("ab c a\n\nb b\n")
    command = ["audit", str(tmp_path / "model"), "--k", "2", "--probes", "3"]
    command += ["--source", str(tmp_path / "source")]
    answer = CliRunner().invoke(app, command)
    assert answer.exit_code == 0, answer.output
    assert "sentences         2" in answer.stdout and "PASS" in answer.stdout
    plant_bidirectional(monkeypatch)
    answer = CliRunner().invoke(app, command)
    assert answer.exit_code == 1
    assert 'leak: sentence 1 "ab c a": with ' in answer.stdout and "FAIL" in answer.stdout
    with pytest.raises(UserError, match="one model; 2 were given"):
        CliRunner().invoke(app, ["audit", "a", "b"], catch_exceptions=False)


@dataclass
class Segment:
    """As SimulEval's."""

    index: int = 0
    content: str = ""
    finished: bool = False
    is_empty: bool = False


class Echo:
    """Answers each word with itself, a word late."""

    def reset(self) -> None:
        self.words: list[str] = []

    def pushpop(self, segment: Segment) -> Segment:
        if not segment.is_empty:
            self.words.append(segment.content)
        said = " ".join(self.words[-2:] if segment.finished else self.words[-2:-1])
        return Segment(content=said, finished=segment.finished, is_empty=not said)


class Rememberer(Echo):
    """Knows a sentence that it heard before by its first word, and says how it ended."""

    def __init__(self) -> None:
        self.heard: dict[str, str] = {}

    def pushpop(self, segment: Segment) -> Segment:
        said = super().pushpop(segment)
        first = self.words[0]
        if len(self.words) == 1 and first in self.heard:
            said = Segment(content=self.heard[first], finished=said.finished)
        if segment.finished:
            self.heard[first] = self.words[-1]
        return said


class Waiter(Echo):
    """Never ends."""

    def pushpop(self, segment: Segment) -> Segment:
        return Segment(is_empty=True)


@pytest.fixture
def segments(monkeypatch: pytest.MonkeyPatch) -> None:
    """SimulEval's segments without SimulEval."""
    module = ModuleType("simuleval.data.segments")
    vars(module).update(
        TextSegment=Segment, EmptySegment=lambda finished: Segment(finished=finished, is_empty=True)
    )
    for name in ("simuleval", "simuleval.data"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, "simuleval.data.segments", module)


@pytest.mark.usefixtures("segments")
def test_agents_are_audited_by_their_answers() -> None:
    assert answers(Echo(), ["a", "b", "c"]) == ["", "a", "b c</s>"]
    report = audit_agent(Echo(), probes=6)
    assert report.is_clean and report.sentences == 20 and report.probes > 100
    report = audit_agent(Rememberer(), probes=6)
    assert not report.is_clean
    assert 'the answer to word 1 became "' in str(report.leaks[0])
    with pytest.raises(UserError, match="did not end its translation"):
        audit_agent(Waiter())


AGENTS = '''
from simuleval.agents import TextToTextAgent
from simuleval.agents.actions import ReadAction, WriteAction

class Copy(TextToTextAgent):
    def policy(self):
        done = self.states.source_finished
        return WriteAction(self.states.source[-1], finished=done)

class Rememberer(Copy):
    """Says at once how the last sentence with this first word ended."""
    heard = {}
    def policy(self):
        words = self.states.source
        known = self.heard.get(words[0])
        if self.states.source_finished:
            self.heard[words[0]] = words[-1]
        if len(words) == 1 and known:
            return WriteAction(known, finished=self.states.source_finished)
        return super().policy()
'''


@pytest.mark.skipif(
    not VENV, reason="HMT_SIMULEVAL_VENV names no environment with simuleval, torch and typer"
)
def test_agents_of_simuleval_itself(tmp_path: Path, tokenizer: Tokenizer) -> None:
    (tmp_path / "agents.py").write_text(AGENTS)
    save(tmp_path / "model", lively("hmt"), tokenizer)
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{tmp_path}"}

    def run(*command: str) -> subprocess.CompletedProcess[str]:
        program = [str(Path(VENV) / "bin" / "python"), "-m", "hmt", "audit", "--probes", "3"]
        return subprocess.run(
            [*program, *command], env=environment, capture_output=True, text=True, check=False
        )

    answer = run("--agent-class", "agents.Copy")
    assert answer.returncode == 0 and "PASS" in answer.stdout, answer.stderr
    answer = run("--agent-class", "agents.Rememberer")
    assert answer.returncode == 1 and "the answer to word 1 became" in answer.stdout, answer.stderr
    (tmp_path / "source").write_text("\n".join(sentences(3)))
    ours = ["--agent-class", "hmt.evaluation.simuleval.HMTAgent"]
    answer = run(
        *ours, "--source", str(tmp_path / "source"), "--", "--model", str(tmp_path / "model")
    )
    assert answer.returncode == 0 and "sentences         3" in answer.stdout, answer.stderr
    answer = run("--agent-class", "agents.Nobody")
    assert answer.returncode == 2 and "no agent class agents.Nobody" in answer.stderr


def test_the_model_that_ships_reads_nothing_ahead() -> None:
    """As a user loads it, with all that loading does to it."""
    report = audit(hmt.load(), ["Ich habe keine Zeit.", "Wo ist der Bahnhof?"], probes=3)
    assert report.is_clean and report.compared > 10
