"""The benchmark runs, counts rows exactly, and ends in JSON."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hmt.bench import corpus, sessions, stream, training
from hmt.bench.setting import SIZES, ratios
from hmt.cli.app import app

SMALL = {
    "width": 16,
    "ffn": 16,
    "heads": 2,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "vocabulary": 40,
}


@pytest.fixture(autouse=True)
def small_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SIZES, "tiny", SMALL)


def test_rows_per_token_stay_within_the_states() -> None:
    for row in stream.measure("tiny", [30], repeats=1):
        if "hmt" in row["what"] and "rows_per_token" in row:
            states = int(row["what"].split("hmt ")[1].split(",")[1].split()[0])
            assert 1 <= row["rows_per_token"] <= states + 1


def test_packing_is_what_the_arithmetic_says() -> None:
    """3.6, 4.75 and 5.0 rows per token for the paper's settings at about 28 tokens."""
    rows = [r for r in training.measure("tiny", 1, others=False) if "rows_per_token" in r]
    assert [r["rows_per_token"] for r in rows] == pytest.approx([3.6, 4.75, 5.0], abs=0.15)


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
