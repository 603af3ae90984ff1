"""The benchmark runs, counts rows exactly, and ends in JSON."""

import json
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest
import torch
from lively import DIMS, lively, sentences
from typer.testing import CliRunner

from hmt.bench import corpus, sessions, stream, training, words
from hmt.bench.report import finish, is_met, line
from hmt.bench.setting import SIZES, ratios
from hmt.cli import app
from hmt.model.vocabulary import gold_log_prob
from hmt.models.model import load
from hmt.streaming.engine import Engine
from hmt.text.symbols import EOS
from hmt.training import batches

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"

SMALL = {
    "width": 16,
    "ffn": 16,
    "heads": 2,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "vocabulary": 40,
}


@pytest.fixture(autouse=True)
def benchmarks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(BENCHMARKS)


@pytest.fixture(autouse=True)
def small_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SIZES, "tiny", SMALL)


def test_rows_per_token_stay_within_the_states() -> None:
    for row in stream.measure("tiny", [30], repeats=1):
        if " words, hmt" in row["what"] and "rows_per_token" in row:
            states = int(row["what"].split("hmt ")[1].split(",")[1].split()[0])
            assert 1 <= row["rows_per_token"] <= states + 1


def test_packing_is_what_the_arithmetic_says() -> None:
    """3.6, 4.75 and 5.0 rows per token for the paper's settings at about 28 tokens."""
    rows = [r for r in training.measure("tiny", 1, others=False) if "rows_per_token" in r]
    assert [r["rows_per_token"] for r in rows] == pytest.approx([3.6, 4.75, 5.0], abs=0.15)


def test_one_live_word_is_measured_with_the_model_that_ships() -> None:
    """Each state once, and about one pass per token; many sessions share their passes."""
    one, many = words.measure([1, 3], repeats=1)
    assert one["value"] > 0 and one["at_most"] == words.TARGET_MS and "at_most" not in many
    assert one["rows_per_token"] <= load().knobs().states + 1
    assert one["passes_per_token"] < 1.5 and many["passes_per_token"] < one["passes_per_token"]


def test_corpus_and_sessions_measure() -> None:
    assert next(iter(corpus.measure("tiny", 16, 4, 1)))["value"] > 0
    delays, most = sessions.measure("tiny", [2], seconds=1.0)
    assert delays["value"] >= 0 and most["value"] in (0, 2)


def test_a_ratio_is_taken_side_by_side() -> None:
    median, least, greatest = ratios({"a": [1.0, 4.0], "b": [2.0, 2.0]}, "b")["a"]
    assert (median, least, greatest) == (1.25, 0.5, 2.0)


def test_the_last_line_is_json_and_compares(tmp_path: Path) -> None:
    run = ["bench", "stream", "--lengths", "5", "--repeats", "1", "--threads", "1"]
    first = CliRunner().invoke(app, run)
    assert first.exit_code == 0
    rows = json.loads(first.stdout.splitlines()[-1])["rows"]
    assert any(row["unit"] == "x" for row in rows)
    (tmp_path / "old").write_text(first.stdout)
    assert "before" in CliRunner().invoke(app, [*run, "--compare", str(tmp_path / "old")]).stdout


@pytest.mark.parametrize(
    "name",
    [path.stem for path in sorted(BENCHMARKS.glob("[a-z]*.py")) if path.stem != "conversion"],
)
def test_every_benchmark_has_help(name: str) -> None:
    script = [sys.executable, str(BENCHMARKS / f"{name}.py")]
    manual = subprocess.run([*script, "--help"], capture_output=True, text=True)
    assert manual.returncode == 0 and f"python benchmarks/{name}.py" in manual.stdout
    wrong = subprocess.run([*script, "--compare", __file__], capture_output=True, text=True)
    assert wrong.returncode and "last line must be JSON" in wrong.stderr
    assert "Traceback" not in wrong.stderr and wrong.stdout == ""


def test_a_benchmark_ends_in_json_and_compares(tmp_path: Path) -> None:
    run = [sys.executable, str(BENCHMARKS / "soak.py"), "--words", "20", "--threads", "1"]
    first = subprocess.run(run, capture_output=True, text=True, check=True).stdout
    assert json.loads(first.splitlines()[-1])["rows"][0]["unit"] == "MB"
    (tmp_path / "old").write_text(first)
    again = [*run, "--compare", str(tmp_path / "old")]
    assert "before" in subprocess.run(again, capture_output=True, text=True, check=True).stdout
    none = subprocess.run([*run, "--words", "-1"], capture_output=True, text=True)
    assert none.returncode == 2 and "Traceback" not in none.stderr


def test_a_row_says_whether_its_target_is_met() -> None:
    low = {"what": "a", "value": 3, "unit": "x", "at_most": 2.0}
    high = {"what": "b", "value": 3, "unit": "x", "at_least": 2.0}
    neither = {"what": "c", "value": 3, "unit": "x"}
    assert [is_met(row) for row in (low, high, neither)] == [False, True, None]
    assert "MISSED (target <= 2.0)" in line(low) and "met (target >= 2.0)" in line(high)
    rows = json.loads(finish([low, high, neither]))["rows"]
    assert [row.get("met") for row in rows] == [False, True, None]


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("shares", [True, False])
def test_ctranslate2_writes_what_our_engine_writes(norm: str, shares: bool, tmp_path: Path) -> None:
    """Positions from 0 instead of 2, or a causal encoder, were seen to fail here."""
    pytest.importorskip("ctranslate2", reason="needs pip install ctranslate2")
    from conversion import Translator, convert

    dims = {**asdict(DIMS), "norm": norm, "share_embeddings": shares}
    system = lively("full", seed=9, dims=dims, encoder="bidirectional").float()
    convert(system, tmp_path / "model")
    translator = Translator(tmp_path / "model", "float32", 1)
    sources = [source for source in sentences(12, seed=2, longest=20) if source]
    ours = [s.target for _, s in sorted(Engine(system, 4).translate(sources))]
    assert len({token for target in ours for token in target}) > 5, "a lively model"
    for source, target in zip(sources, ours, strict=True):
        assert translator.translate(source) == [token for token in target if token != EOS]


def test_flicker_counts_words_and_not_letters() -> None:
    from retranslation import settled, taken_back

    assert taken_back(["it", "rain"], ["it", "rains", "now"]) == 0
    assert taken_back(["it", "rain", "now"], ["it", "rains", "now"]) == 2
    assert taken_back(["a", "b", "c"], ["a"]) == 2
    assert settled([["a", "x"], ["a", "b"], ["y", "b"], ["a", "b", "c"]]) == [4, 4, 4]
    assert settled([["a", "x"], ["a", "b"], ["a", "b", "c"]]) == [1, 2, 3]


def test_without_ctranslate2_one_sentence_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from retranslation import main

    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    monkeypatch.setattr(sys, "argv", ["retranslation.py", "--size", "tiny", "--threads", "1"])
    with pytest.raises(SystemExit, match="pip install ctranslate2"):
        main()


def test_other_systems_stream_too() -> None:
    rows = list(stream.measure("tiny", [6], repeats=1, others=True))
    assert {name for name in stream.OTHERS if any(name in row["what"] for row in rows)} == {
        *stream.OTHERS
    }
    assert not any("at_most" in r and r["at_most"] for r in rows if "hmt" not in r["what"])


def test_batches_of_real_lengths_hold_little_padding(monkeypatch: pytest.MonkeyPatch) -> None:
    """Random batches are four fifths padding; their parts must bring that below two fifths.

    The target of 20 % is missed: few parts cannot hold lengths from 2 to 250 (docs/speed.md).
    """
    rows = list(training.padding(pairs=20_000))
    assert len(rows) == 3 and all(0 < row["value"] < 40 for row in rows)
    monkeypatch.setattr(batches, "MOST_MICRO_BATCHES", 1)
    assert all(row["value"] > 70 for row in training.padding(pairs=20_000))


@pytest.mark.slow  # each way in a process of its own
def test_a_training_step_needs_less_memory_than_the_naive_one() -> None:
    from memory import measure

    losses, step = measure("tiny", 256)
    assert losses["ours_mb"] < losses["naive_mb"] and step["ours_mb"] < step["naive_mb"]


def test_naive_log_probs_are_the_same_numbers() -> None:
    from memory import naive_log_prob

    torch.manual_seed(1)
    states, weight, gold = torch.randn(9, 8), torch.randn(30, 8), torch.randint(30, (9,))
    for ours, naive in zip(
        gold_log_prob(states, weight, gold),
        naive_log_prob(states, weight, gold),
        strict=True,
    ):
        torch.testing.assert_close(ours, naive)


def test_a_long_stream_is_soaked() -> None:
    from soak import measure, running_text

    rows = list(measure(60))
    assert [row["unit"] for row in rows] == ["MB", "x"] * 3
    text = list(running_text(load(), 200))
    assert 200 / 31 < sum(word.endswith(".") for word in text) < 200 / 4


def test_speech_is_soaked(tmp_path: Path) -> None:
    from soak import measure_speech

    text = tmp_path / "lines"
    text.write_text("Wir haben Zeit.\nDas ist gut, oder?\n" * 10, encoding="utf-8")
    assert [row["unit"] for row in measure_speech(text, 60)] == ["MB", "x"]
    with pytest.raises(SystemExit, match="has 70 words"):
        list(measure_speech(text, 71))


def test_preparation_is_measured() -> None:
    from prepare import measure

    whole, encoding, _ = measure(1000, 1)
    assert whole["value"] > 0 and encoding["cores_used"] > 0
