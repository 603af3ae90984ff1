"""Preparing a corpus and opening it again: definition, properties, bad input."""

import dataclasses
import gzip
import json
import tempfile
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hmt.errors import UserError
from hmt.text import encoder as encoder_module
from hmt.text import prepare as prepare_module
from hmt.text.corpus import Corpus
from hmt.text.language_pair import open_tokenizers
from hmt.text.lines import Sample, scan
from hmt.text.prepare import Prepare, prepare
from hmt.text.symbols import EOS, UNK
from hmt.text.tokenizer import Tokenizer, word_tokenizer

SOURCE = "Ich habe Zeit.\nDas Haus ist groß, sehr groß.\nJa!\n"
TARGET = "I have time.\nThe house is big, very big.\nYes!\n"


@pytest.fixture
def made(tmp_path: Path) -> Callable[..., Prepare]:
    """Settings for texts given by name; writes the files."""

    def make(
        source: str | bytes = SOURCE,
        target: str | bytes = TARGET,
        valid: tuple[str, str] = ("Ja!\n", "Yes!\n"),
        **options: Any,
    ) -> Prepare:
        texts = {"de": source, "en": target, "valid.de": valid[0], "valid.en": valid[1]}
        for name, text in texts.items():
            (tmp_path / name).write_bytes(text.encode() if isinstance(text, str) else text)
        de, en, valid_de, valid_en = (tmp_path / name for name in texts)
        options = {"output": tmp_path / "out", "size": 100, **options}
        return Prepare(de, en, valid_de, valid_en, **options)

    return make


Made = Callable[..., Prepare]


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def ids(corpus: Corpus) -> list[tuple[list[int], list[int]]]:
    return [(corpus.source(n).tolist(), corpus.target(n).tolist()) for n in range(len(corpus))]


# Definition


def test_a_corpus_holds_the_ids_of_its_lines_with_end_tokens(made: Made) -> None:
    options = made()
    report = prepare(options)
    source, target = open_tokenizers(options.output)
    assert source is target
    corpus = Corpus.open(options.output, "train")
    expected = [
        ([*source.encode(s), EOS], [*target.encode(t), EOS])
        for s, t in zip(SOURCE.split("\n")[:3], TARGET.split("\n")[:3], strict=True)
    ]
    assert ids(corpus) == expected
    assert corpus.source_lengths.tolist() == [len(s) for s, _ in expected]
    assert corpus.target_lengths.tolist() == [len(t) for _, t in expected]
    assert corpus.source_lengths.dtype == np.int32
    assert source.decode(corpus.source(1)) == "Das Haus ist groß, sehr groß."
    train = report.splits["train"]
    assert (train.pairs, train.kept) == (3, 3)
    assert train.source_tokens == sum(len(s) for s, _ in expected)
    assert train.source_unknown == train.target_unknown == 0
    assert len(Corpus.open(options.output, "valid")) == 1


def test_pairs_are_dropped_for_the_first_reason_in_training_only(made: Made) -> None:
    source = "a\n\n \t\na b c d e f\na b c d\na b\n"
    target = "a\nx\nx\nx\nx\nx y\n"
    options = made(
        source, target, ("a b c d e f\n\n", "x\nx\n"), vocabulary="words", min_count=1,
        max_tokens=5, max_ratio=3.0,
    )  # fmt: skip
    report = prepare(options)
    train, valid = report.splits["train"], report.splits["valid"]
    assert (train.pairs, train.kept, train.empty, train.too_long, train.ratio) == (6, 2, 2, 1, 1)
    assert (valid.pairs, valid.kept, valid.empty, valid.too_long, valid.ratio) == (2, 1, 1, 0, 0)
    tokenizer, _ = open_tokenizers(options.output)
    kept = Corpus.open(options.output, "train")
    assert [tokenizer.decode(kept.source(n)) for n in range(2)] == ["a", "a b"]


def test_limits_count_tokens_without_the_end_token(made: Made) -> None:
    options = made("a b c\n", "x\n", vocabulary="words", min_count=1, max_tokens=3, max_ratio=3.0)
    assert prepare(options).splits["train"].kept == 1


def test_separate_vocabularies_with_a_frequency_cut(made: Made) -> None:
    options = made("a a a b b\n", "a a a a a\n", ("b\n", "a\n"), vocabulary="words", min_count=3)
    report = prepare(options)
    source, target = open_tokenizers(options.output)
    assert source is not target
    assert (report.source_size, report.target_size) == (5, 5)
    assert report.splits["train"].source_unknown == 2
    assert Corpus.open(options.output, "valid").source(0).tolist() == [UNK, EOS]


def test_separate_bpe_learns_each_side_alone(made: Made) -> None:
    options = made("aaa bbb\n", "ccc ddd\n", ("a\n", "c\n"), vocabulary="bpe")
    prepare(options)
    source, target = open_tokenizers(options.output)
    assert UNK in source.encode("c") and UNK in target.encode("a")
    assert UNK not in source.encode("a") and UNK not in target.encode("c")


def test_given_tokenizers_are_used_and_copied(made: Made, tmp_path: Path) -> None:
    prepare(made(output=tmp_path / "first"))
    file = tmp_path / "first" / "tokenizer.json"
    options = made(
        "Ja Zeit\n", "Yes time\n", vocabulary="given", source_tokenizer=file, target_tokenizer=file
    )
    prepare(options)
    source, target = open_tokenizers(options.output)
    assert source is target
    assert source.to_json() == Tokenizer.load(file).to_json()


def test_lines_end_at_newlines_only(made: Made) -> None:
    source = "\ufeffa\u2028b\x0bc\x85d\r\nlast"
    options = made(source, "x\r\ny\n", vocabulary="words", min_count=1)
    report = prepare(options)
    assert report.splits["train"].pairs == 2
    tokenizer, _ = open_tokenizers(options.output)
    corpus = Corpus.open(options.output, "train")
    assert tokenizer.decode(corpus.source(0)) == "a b c d"
    assert tokenizer.decode(corpus.source(1)) == "last"


def test_compressed_text_gives_the_same_corpus(made: Made, tmp_path: Path) -> None:
    plain = made()
    prepare(plain)
    (tmp_path / "de.gz").write_bytes(gzip.compress(SOURCE.encode()))
    zipped = dataclasses.replace(plain, source=tmp_path / "de.gz", output=tmp_path / "zipped")
    prepare(zipped)
    first, second = contents(tmp_path / "out"), contents(tmp_path / "zipped")
    assert {n: first[n] for n in first if n != "data.json"} == {
        n: second[n] for n in second if n != "data.json"
    }


def test_a_test_split_is_kept_whole(made: Made, tmp_path: Path) -> None:
    options = made(max_tokens=20)
    (tmp_path / "t").write_text("Ja " * 50 + "\nJa\n")
    options = dataclasses.replace(options, test_source=tmp_path / "t", test_target=tmp_path / "t")
    assert prepare(options).splits["test"].kept == 2
    assert len(Corpus.open(options.output, "test")) == 2


def test_large_vocabularies_take_four_bytes(made: Made, tmp_path: Path) -> None:
    file = tmp_path / "big.json"
    word_tokenizer([f"w{n}" for n in range(70_000)]).save(file)
    options = made(
        "w69999 w0\n", "w65536\n", ("w1\n", "w2\n"), vocabulary="given",
        source_tokenizer=file, target_tokenizer=file,
    )  # fmt: skip
    prepare(options)
    assert json.loads((options.output / "data.json").read_text())["dtype"] == "uint32"
    assert Corpus.open(options.output, "train").source(0).tolist() == [70_003, 4, EOS]


def test_data_json_tells_how_it_was_made(made: Made) -> None:
    options = made(lowercase=True)
    report = prepare(options)
    data = json.loads((options.output / "data.json").read_text())
    assert data["settings"]["lowercase"] is True
    assert data["report"] == dataclasses.asdict(report)
    assert data["inputs"]["train.source"]["lines"] == 3
    assert set(data["versions"]) == {"python", "hmt", "tokenizers", "numpy"}


def test_progress_reaches_the_end_of_every_task(made: Made) -> None:
    last: dict[str, tuple[int, int]] = {}
    prepare(made(), lambda stage, done, total: last.update({stage: (done, total)}))
    assert last == {"check": (4, 4), "vocabulary": (6, 6), "train": (3, 3), "valid": (1, 1)}


# Properties


line = st.text(st.characters(exclude_characters="\n\ufeff", exclude_categories=["Cs"]), max_size=12)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(pairs=st.lists(st.tuples(line, line), max_size=12), block=st.integers(1, 5))
def test_any_text_is_kept_in_order(
    pairs: list[tuple[str, str]], block: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("any")
    pairs = [*pairs, ("a", "b")]
    for n, name in enumerate(("de", "en")):
        (folder / name).write_bytes("".join(pair[n] + "\n" for pair in pairs).encode())
    de, en = folder / "de", folder / "en"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(prepare_module, "BLOCK_PAIRS", block)
        report = prepare(Prepare(de, en, de, en, folder / "out", size=400))
    tokenizer, _ = open_tokenizers(folder / "out")
    assert ids(Corpus.open(folder / "out", "valid")) == [
        ([*tokenizer.encode(s), EOS], [*tokenizer.encode(t), EOS])
        for s, t in pairs
        if s.split() and t.split()
    ]
    assert report.splits["valid"].pairs == len(pairs)


def test_several_processes_write_the_same_bytes_as_one(
    made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = "".join(f"Satz {n} hat {n * 7} Wörter\n" for n in range(100))
    options = made(source, source, workers=1, output=tmp_path / "one")
    monkeypatch.setattr(prepare_module, "BLOCK_PAIRS", 7)
    monkeypatch.setattr(prepare_module, "PARALLEL_PAIRS", 50)
    prepare(options)
    started: list[int] = []
    pool = ProcessPoolExecutor

    def counted(workers: int, *rest: Any) -> Any:
        started.append(workers)
        return pool(workers, *rest)

    monkeypatch.setattr(encoder_module, "ProcessPoolExecutor", counted)
    prepare(dataclasses.replace(options, workers=2, output=tmp_path / "two"))
    assert started == [2]
    assert contents(tmp_path / "one") == contents(tmp_path / "two")


@given(st.integers(1, 40), st.integers(1, 40))
def test_a_sample_is_even_and_of_the_asked_size(total: int, wanted: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "text"
        path.write_text("".join(f"{n}\n" for n in range(total)))
        sample = Sample((scan(path),), wanted, lambda done, total: None)
        chosen = [int(text) for text in sample]
        assert len(chosen) == sample.lines == min(wanted, total)
        assert chosen == [int(text) for text in sample]
        gaps = np.diff([-1, *chosen, total])
        assert gaps.max() <= -(-total // len(chosen))


def test_the_vocabulary_is_learned_from_a_sample_when_asked(made: Made) -> None:
    options = made(SOURCE * 50, TARGET * 50, vocabulary_lines=40)
    assert prepare(options).vocabulary_lines == 40


def test_preparing_again_finds_the_work_done(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    options = made()
    report = prepare(options)
    before = contents(options.output)
    monkeypatch.setattr(prepare_module, "_make", None)
    assert prepare(options) == report
    assert contents(options.output) == before


# Bad input


def fails(options: Prepare, match: str) -> None:
    """One clear sentence, and nothing left behind or changed."""
    folder = options.output.parent
    before = sorted(folder.rglob("*"))
    with pytest.raises(UserError, match=match) as caught:
        prepare(options)
    assert "\n" not in str(caught.value)
    assert sorted(folder.rglob("*")) == before


def test_files_of_different_length_are_named(made: Made) -> None:
    fails(made(TARGET + "more\n"), r"de has 4 lines but .*en has 3")


def test_broken_text_is_named_with_its_line(made: Made) -> None:
    fails(made(b"gut\nsch\xf6n\ngut\n"), r"de, line 2: not UTF-8 text \(byte 0xf6\)")
    fails(made(b"gut\ngut\n\xc3"), r"de, line 3: not UTF-8")
    long = "ä" * 400_000 + "\n"
    fails(made(long.encode() * 3 + b"\xff\nb\n"), r"de, line 4: not UTF-8")


def test_missing_empty_and_damaged_files_are_named(made: Made, tmp_path: Path) -> None:
    fails(dataclasses.replace(made(), source=tmp_path / "none"), r"no text file .*none")
    fails(dataclasses.replace(made(), source=tmp_path), "is a directory, not a file")
    fails(made(""), r"de is empty")
    fails(made(gzip.compress(SOURCE.encode() * 1000)[:-30]), r"de, line \d+: cannot be read")
    fails(made(b"\x1f\x8bnonsense"), r"de, line 1: cannot be read")


def test_a_corpus_of_which_nothing_is_left_is_an_error(made: Made) -> None:
    fails(made("\n \n", "\n\n"), r"de and .*en: .* no words")
    fails(made("\n \n", "a\nb\n", vocabulary="bpe"), r"de: .* no words")
    fails(made("a\nb\n", "\n\n", vocabulary="words", min_count=1), r"en: .* no word")
    fails(made("a\n\n", "\nb\n"), "of 2, 2 are empty")
    fails(made(max_tokens=1), "3 too long")


def test_what_was_there_is_never_lost(made: Made, tmp_path: Path) -> None:
    options = made()
    prepare(options)
    before = contents(options.output)
    fails(dataclasses.replace(options, size=50), "already holds something else")
    fails(made(SOURCE.replace("Ja", "Jo")), "already holds something else")
    assert contents(options.output) == before
    (options.output / "train.source.tokens").write_bytes(b"")
    fails(made(), "damaged")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("precious")
    fails(made(output=tmp_path / "mine"), "already holds something else")
    fails(made(output=tmp_path / "mine" / "thesis.tex"), "already holds something else")
    fails(made(output=tmp_path / "mine" / "thesis.tex" / "out"), "cannot be made")
    assert (tmp_path / "mine" / "thesis.tex").read_text() == "precious"


def test_an_empty_directory_may_be_filled(made: Made, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    prepare(made())
    assert len(Corpus.open(tmp_path / "out", "train")) == 3


def test_an_interrupted_run_leaves_nothing(made: Made, tmp_path: Path) -> None:
    options = made()
    before = sorted(tmp_path.rglob("*"))

    def stop(stage: str, done: int, total: int) -> None:
        if stage == "valid":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        prepare(options, stop)
    assert sorted(tmp_path.rglob("*")) == before


def test_what_appears_during_the_run_is_not_lost(made: Made) -> None:
    options = made()

    def meddle(stage: str, done: int, total: int) -> None:
        if stage == "check":  # the directory must be found free first
            return
        options.output.mkdir(exist_ok=True)
        (options.output / "thesis.tex").write_text("precious")

    with pytest.raises(UserError, match="not an empty directory"):
        prepare(options, meddle)
    assert contents(options.output) == {"thesis.tex": b"precious"}


def test_contradicting_settings_are_named(made: Made, tmp_path: Path) -> None:
    fails(made(vocabulary="unigram"), '"unigram" is not known; give one of joint-bpe')
    fails(made(vocabulary="given"), "give the source and the target")
    fails(made(source_tokenizer=tmp_path / "de"), "give the source and the target")
    file = tmp_path / "de"
    given_both = {"vocabulary": "given", "source_tokenizer": file, "target_tokenizer": file}
    fails(made(**given_both), "cannot be used as a tokenizer file")
    fails(made(**given_both, lowercase=True), "leave these options out")
    fails(made(**{**given_both, "target_tokenizer": tmp_path / "no"}), "no tokenizer file")
    fails(made(test_source=tmp_path / "de"), "one side of the test split")
    fails(made(max_tokens=0), "max_tokens is 0")


def test_damaged_directories_are_named(made: Made, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="not a prepared directory"):
        Corpus.open(tmp_path, "train")
    with pytest.raises(UserError, match="holds neither"):
        open_tokenizers(tmp_path)
    options = made()
    prepare(options)
    with pytest.raises(UserError, match='no split "test"; it has train, valid'):
        Corpus.open(options.output, "test")
    with pytest.raises(IndexError):
        Corpus.open(options.output, "train").source(3)
    with pytest.raises(IndexError):
        Corpus.open(options.output, "train").source(-1)
    tokens = options.output / "train.source.tokens"
    tokens.write_bytes(tokens.read_bytes()[:-2])
    with pytest.raises(UserError, match=r"train\.source\.tokens holds"):
        Corpus.open(options.output, "train")
    tokens.unlink()
    with pytest.raises(UserError, match="cannot be opened"):
        Corpus.open(options.output, "train")
    (options.output / "data.json").write_text('{"format": 99}')
    with pytest.raises(UserError, match="format 99"):
        Corpus.open(options.output, "train")
    (options.output / "data.json").write_text("{")
    with pytest.raises(UserError, match="cannot be read"):
        Corpus.open(options.output, "train")
