"""Whole words as SimulEval takes them, and our agent run by SimulEval itself.

SimulEval pins old packages, so it runs in an environment of its own, named by HMT_SIMULEVAL_VENV:
    python3 -m venv DIR && DIR/bin/pip install simuleval==1.1.4 torch tokenizers safetensors
    HMT_SIMULEVAL_VENV=DIR pytest tests/golden/test_simuleval_agent.py
"""

import csv
import json
import os
import random
import subprocess
from argparse import ArgumentParser
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lively import SYMBOLS, lively
from model_directories import save

from hmt.errors import UserError
from hmt.evaluation.evaluate import evaluate, read_parallel
from hmt.evaluation.logs import read_log
from hmt.evaluation.simuleval import Interpreter, add_knobs, knobs_of
from hmt.metrics.instance import instance_of
from hmt.models.model import Model, load
from hmt.streaming.record import Record
from hmt.text.pieces import WholeWords, word_ends, word_outs
from hmt.text.symbols import EOS
from hmt.text.tokenizer import Tokenizer, bpe_tokenizer_from_codes, train_bpe, word_tokenizer

VENV = os.environ.get("HMT_SIMULEVAL_VENV", "")
needs_simuleval = pytest.mark.skipif(
    not VENV, reason="HMT_SIMULEVAL_VENV names no environment with simuleval and torch"
)
ROOT = Path(__file__).resolve().parents[2]
WORDS = ["ja", "nein", "ab", "ba", "c", "bab", "ac", "cab", "bc", "a"]


def invented(count: int, seed: int = 1) -> list[str]:
    draw = random.Random(seed)

    def word() -> str:
        return "".join(draw.choice("abc") for _ in range(draw.randint(1, 5)))

    return [" ".join(word() for _ in range(draw.randint(1, 12))) for _ in range(count)]


def pieces() -> Tokenizer:
    """▁, a, b, c and six merges: words have several pieces, and a mark may stand alone."""
    return train_bpe(invented(50), SYMBOLS)


def suffixed() -> Tokenizer:
    """Pieces of subword-nmt: where a word ends stands in its last piece."""
    dictionary = ["a@@", "b@@", "c@@", "a", "b", "c", "ab@@", "ab", "ca", "bb"]
    return bpe_tokenizer_from_codes(
        ["#version: 0.2", "a b", "a b</w>", "c a</w>", "b b</w>"], dictionary
    )


TOKENIZERS: dict[str, Callable[[], Tokenizer]] = {
    "pieces": pieces,
    "suffixed": suffixed,
    "words": lambda: word_tokenizer(WORDS),
}


@pytest.mark.parametrize("kind", TOKENIZERS)
@settings(max_examples=100, deadline=None)
@given(ids=st.lists(st.integers(3, SYMBOLS - 1), max_size=12), is_cut=st.booleans())
def test_whole_words_are_the_words(kind: str, ids: list[int], is_cut: bool) -> None:
    tokenizer = TOKENIZERS[kind]()
    written = ids if is_cut else [*ids, EOS]
    words = WholeWords(tokenizer)
    sent = [word for id in written for word in words.push(id)]
    assert len(sent) == len(tokenizer.decode(ids).split()) or is_cut
    assert sent + words.rest() == tokenizer.decode(ids).split()
    outs, ends = word_outs(tokenizer, written), word_ends(tokenizer, written)
    assert len(outs) == len(ends) and outs == sorted(outs)
    assert all(end <= out <= len(written) for end, out in zip(ends, outs, strict=True))
    final = tokenizer.decode(ids).split()
    for out in outs:  # nothing later changes a word that is out
        count = sum(other <= out for other in outs)
        assert tokenizer.decode(written[: out + 1]).split()[:count] == final[:count]


def test_when_a_word_is_sure() -> None:
    start, a, b = (pieces().encode("c")[0], *(pieces().encode(f"c{x}")[1] for x in "ab"))
    assert word_outs(pieces(), [start, a, start, EOS]) == [2, 3]
    assert word_outs(pieces(), [start, a, b]) == [3], "still open"
    assert word_outs(suffixed(), [*suffixed().encode("cab abb"), EOS]) == [
        len(suffixed().encode("cab")) - 1,
        len(suffixed().encode("cab abb")) - 1,
    ], "the last piece says that the word ends"
    assert word_outs(word_tokenizer(WORDS), [4, 5, EOS]) == [0, 1]


def model_of(name: str, kind: str = "pieces", **config: Any) -> Model:
    tokenizer = TOKENIZERS[kind]()
    return Model(lively(name, **config), (tokenizer, tokenizer))


def interpreted(model: Model, source: str, **knobs: Any) -> tuple[str, list[int]]:
    """The translation and delays that SimulEval would see, from its loop."""
    interpreter = Interpreter(model, model.knobs(**knobs))
    words, delays = [], []
    given = source.split()
    for step in range(1, len(given) + 1) if given else [0]:
        new = interpreter.push(" ".join(given[step - 1 : step]), is_last=step == len(given)).split()
        words += new
        delays += [step] * len(new)
        if interpreter.has_ended:
            break
    assert interpreter.has_ended
    return " ".join(words), delays


@pytest.mark.parametrize("kind", TOKENIZERS)
@pytest.mark.parametrize("name", ["hmt", "wait-k", "full", "mma"])
def test_the_agent_sees_what_the_records_say(
    name: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted: a source word counted when complete; the last word out with its last piece."""
    monkeypatch.setattr("hmt.streaming.engine.LENGTH_FACTOR", 1)
    monkeypatch.setattr("hmt.streaming.engine.LENGTH_EXTRA", 3)
    model = model_of(name, kind)
    sources = ["", "axb xx ab c x", *invented(7)]
    delays = set()
    for record in model.translate(sources):
        row = instance_of(record)
        assert interpreted(model, sources[record.index]) == (row.prediction, row.delays)
        delays |= set(row.delays)
    assert len(delays) > 1 or name == "full"


def test_knobs_of_the_command_line() -> None:
    model = model_of("hmt")
    parser = ArgumentParser()
    add_knobs(parser)

    def chosen(*options: str) -> Any:
        return knobs_of(model, parser.parse_args(options))

    assert chosen() == model.knobs()
    found = chosen("--lower", "5", "--threshold", "1", "--attention", "max")
    assert (found.lower, found.threshold, found.attention) == (5, 1.0, "max")
    with pytest.raises(UserError, match=r"no option --delta .*its knobs are: --lower"):
        chosen("--delta", "1")
    with pytest.raises(UserError, match=r'"knobs.lower" is 2.5; it must be a whole number'):
        chosen("--lower", "2.5")
    with pytest.raises(UserError, match="a token has 1 to 100 states"):
        chosen("--states", "0")


def simuleval(*options: str | Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    agent = ["--agent-class", "hmt.evaluation.simuleval.HMTAgent", "--no-progress-bar"]
    return subprocess.run(
        [Path(VENV) / "bin" / "simuleval", *agent, *map(str, options)],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
        timeout=300,
    )


def saved(folder: Path, model: Model) -> Path:
    return save(folder, model.system.float(), model.source_tokenizer)


@needs_simuleval
@pytest.mark.parametrize(
    ("name", "kind", "knobs"),
    [
        ("hmt", "pieces", {"lower": 2, "states": 4}),
        ("wait-k", "words", {"k": 3}),
        ("wait-k", "suffixed", {"k": 2}),
        ("gma", "pieces", {"delta": 1.0}),
        ("full", "pieces", {}),
    ],
)
def test_simuleval_itself_agrees(
    tmp_path: Path, name: str, kind: str, knobs: dict[str, Any]
) -> None:
    """Translations, every delay, and the printed scores."""
    source, target, output = tmp_path / "source", tmp_path / "target", tmp_path / "simuleval"
    sources = invented(40)
    source.write_text("".join(line + "\n" for line in sources))
    target.write_text("".join(line + "\n" for line in invented(40, seed=2)))
    folder = saved(tmp_path / "model", model_of(name, kind))
    options = [str(x) for key, value in knobs.items() for x in (f"--{key}", value)]
    files: list[str | Path] = ["--source", source, "--target", target, "--output", output]
    answer = simuleval("--model", folder, *files, *options)
    assert not answer.returncode, answer.stderr
    point = evaluate(load(folder), read_parallel(source, target), tmp_path / "ours", [knobs])[0]
    (log,) = (tmp_path / "ours").glob("*/instances.log")
    ours = [json.loads(line) for line in log.read_text().splitlines()]
    theirs = [json.loads(line) for line in (output / "instances.log").read_text().splitlines()]
    for one, other in zip(ours, theirs, strict=True):
        del other["elapsed"]  # zeros, see docs/metrics.md
        assert one == other
    assert len({delay for one in ours for delay in one["delays"]}) > 3
    with (output / "scores.tsv").open() as file:
        (scores,) = csv.DictReader(file, delimiter="\t")
    assert float(scores["BLEU"]) == pytest.approx(point["quality"]["bleu"], abs=6e-4)
    for metric in ("AL", "LAAL", "AP", "DAL"):
        assert float(scores[metric]) == pytest.approx(point["latency"]["word"][metric], abs=6e-4), (
            metric
        )
    assert read_log(output / "instances.log") == read_log(log)


@needs_simuleval
def test_simuleval_ends_whatever_is_said(tmp_path: Path) -> None:
    """Empty lines, odd spaces, scripts never seen: a translation each, and no hanging."""
    source = tmp_path / "source"
    source.write_text("a b c\n\n  \n日本 語\u00a0x  \t ab\n\u200b a\n" + "a" * 300 + "\n")
    folder = saved(tmp_path / "model", model_of("hmt"))
    answer = simuleval(
        "--model", folder, "--source", source, "--target", source, "--output", tmp_path / "out"
    )
    written = (tmp_path / "out" / "instances.log").read_text()
    lines = [json.loads(line) for line in written.splitlines()]
    assert len(lines) == 6, answer.stderr
    records: list[Record] = load(folder).translate(source.read_text().split("\n")[:-1])
    assert [line["prediction"] for line in lines] == [record.prediction for record in records]
