"""Gold alignments: files are read strictly, and a word counts when its source had been read."""

import json
from pathlib import Path

import pytest
from lively import SYMBOLS, lively
from model_directories import save
from typer.testing import CliRunner

from hmt.cli import app
from hmt.errors import UserError
from hmt.metrics.alignment import Alignment, PolicyQuality, read_alignments, read_shares
from hmt.models.model import Model
from hmt.text.tokenizer import word_tokenizer

SOURCES, TARGETS = ["u v w", "x", "u v"], ["a b c d", "e", ""]


def written(folder: Path, text: str) -> Path:
    path = folder / "gold"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("text", ["1-1 3-2 2p2 1p4\n1-1\n\n", "0-0 2-1 1p1 0p3\n0-0\n\n"])
def test_both_bases_are_recognised(tmp_path: Path, text: str) -> None:
    first, second, third = read_alignments(written(tmp_path, text), SOURCES, TARGETS)
    assert first == Alignment(frozenset({(0, 0), (2, 1)}), frozenset({(1, 1), (0, 3)}))
    assert second.sure == {(0, 0)}
    assert not third.sure and not third.possible


def test_a_base_can_be_told(tmp_path: Path) -> None:
    path = written(tmp_path, "1-1\n\n\n")
    assert read_alignments(path, SOURCES, TARGETS)[0].sure == {(0, 0)}
    assert read_alignments(path, SOURCES, TARGETS, base=0)[0].sure == {(1, 1)}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1-1\n", "has 1 lines but there are 3 pairs"),
        ("1-1\n1-1 x-2\n\n", "line 2: 'x-2' is not a link"),
        ("1-1\n1:1\n\n", "line 2: '1:1' is not a link"),
        ("1-1\n2p1\n\n", "line 2: the link 2p1 names source word 2, but the source has 1 words"),
        ("1-1\n1-1\n1-1\n", "line 3: .* target word 1, but the target has 0 words"),
        ("0-0 1-4\n\n\n", "line 1: .* target word 4, .* counted from 0"),
    ],
)
def test_wrong_files_are_named(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        read_alignments(written(tmp_path, text), SOURCES, TARGETS)
    with pytest.raises(UserError, match="cannot be read"):
        read_alignments(tmp_path / "none", SOURCES, TARGETS)


def test_what_had_been_read_when_a_word_began() -> None:
    """By hand; source words of 1, 2, 1 tokens, target words of 2, 1, 1 tokens and the end."""
    links = Alignment(frozenset({(0, 0), (1, 1), (2, 2), (0, 2)}), frozenset({(1, 0)}))
    reads = [1, 3, 3, 3, 5]
    shares = read_shares(links, reads, [1, 2, 1], [2, 1, 1])
    # word 0 began with 1 token read, which is source word 0; word 1 with 3: words 0 and 1;
    # word 2 needs word 2, the later of its two links
    assert shares["sure"] == {"words": 3, "read": 2, "share": 2 / 3}
    # with the possible link word 0 needs source word 1; that its second piece had it is too late
    assert shares["possible"] == {"words": 3, "read": 1, "share": 1 / 3}
    half = read_shares(links, [1, 2, 2, 3, 5], [1, 2, 1], [2, 1, 1])
    assert half["sure"]["read"] == 1, "half a source word is not read"
    none = read_shares(Alignment(frozenset(), frozenset()), reads, [1, 2, 1], [2, 1, 1])
    assert none["sure"] == {"words": 0, "read": 0, "share": None}


def model_directory(folder: Path) -> Path:
    return save(folder, lively("wait-k"), word_tokenizer(list("uvwxabcdef")))


def test_score_gives_shares(tmp_path: Path) -> None:
    """Wait-2 over words: y_i is written after i+1 words, so links that reach further are missed."""
    for name, line in (("source", "u v w x\n"), ("target", "a b c d\n"), ("gold", "1-1 3-2 4-3\n")):
        (tmp_path / name).write_text(line + line)
    (tmp_path / "gold").write_text("1-1 3-2 4-3\n4-1 4p4\n")
    arguments = ["score", str(model_directory(tmp_path / "model")), "--k", "2"]
    for name in ("source", "target"):
        arguments += [f"--{name}", str(tmp_path / name)]
    answer = CliRunner().invoke(app, [*arguments, "--alignment", str(tmp_path / "gold")])
    assert not answer.exit_code, answer.output
    *pairs, summary = (json.loads(x) for x in answer.stdout.splitlines() if x[0] == "{")
    first, second = (pair["alignment"] for pair in pairs)
    assert first["sure"] == {"words": 3, "read": 3, "share": 1.0}
    assert second["sure"] == {"words": 1, "read": 0, "share": 0.0}
    assert second["possible"] == {"words": 2, "read": 1, "share": 0.5}
    assert "75.00% (3 of 4) by sure links, 80.00% (4 of 5) by sure and possible" in answer.stderr
    assert "AL 2.000 tokens" in answer.stderr
    assert summary == {
        "kind": "summary",
        "pairs": 2,
        "alignment": {
            "sure": {"words": 4, "read": 3, "share": 0.75},
            "possible": {"words": 5, "read": 4, "share": 0.8},
        },
        "AL": 2.0,
    }
    plain = CliRunner().invoke(app, arguments)
    assert "alignment" not in plain.stdout and "summary" not in plain.stdout


def test_the_gold_alignments_of_rwth(shared: Path) -> None:
    """Both files say the same; a full-sentence policy has read everything, wait-1 much less."""
    folder = shared / "data" / "rwth-deen-align"
    sources, targets = ((folder / f"test.{side}").read_text().splitlines() for side in ("de", "en"))
    one = read_alignments(folder / "test.talp", sources, targets)
    assert one == read_alignments(folder / "test.talp0", sources, targets)
    assert sum(len(found.sure) for found in one) == 9_613
    model = Model(lively("full"), (tokenizer := word_tokenizer(list("abcdefghij")), tokenizer))
    assert tokenizer.size == SYMBOLS
    full, wait = (PolicyQuality(model.tokenizers, sources, targets, one) for _ in range(2))
    for n, (source, target) in enumerate(zip(sources, targets, strict=True)):
        x, y = len(source.split()) + 1, len(target.split()) + 1
        assert full.add(n, [x] * y)["possible"]["share"] in (1.0, None)
        wait.add(n, [min(i, x) for i in range(1, y + 1)])
    assert "100.00%" in str(full)
    assert 50 < float(str(wait).split("read: ")[1].split("%")[0]) < 80
