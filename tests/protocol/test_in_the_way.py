"""What others put in the way: pipes for any input, links among results, text that grows."""

import os
from pathlib import Path

import pytest
from command_line import TEST, TEXT, VALID, WORDS, Call, contents

from hmt import files
from hmt.errors import UserError
from hmt.evaluation.evaluate import read_parallel
from hmt.models.fairseq.convert import make_tokenizers, read_dictionary
from hmt.server.transcripts import Files, Shelf
from hmt.text import lines, prepare
from hmt.text.lines import TextFile


def is_sentence(err: str) -> bool:
    return err.startswith("hmt: ") and err.endswith(".\n") and err.count("\n") == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ["train", "PIPE"],
        ["evaluate", "run", *TEST, "--output", "never", "--longform", "--talks", "PIPE"],
        ["score", "run", *TEST, "--alignment", "PIPE"],
        ["analyse", "policy", "run", *TEST, "--alignment", "PIPE", "--output", "never"],
        ["serve", "run", "--port", "0", "--token-file", "PIPE"],
        ["bench", "stream", "--compare", "PIPE"],
    ],
    ids=lambda arguments: f"{arguments[0]} {arguments[arguments.index('PIPE') - 1]}",
)
def test_no_input_is_waited_for(
    hmt: Call, world: Path, tmp_path: Path, arguments: list[str], impatient: None
) -> None:
    os.mkfifo(tmp_path / "pipe")
    answer = hmt(*(str(tmp_path / "pipe") if word == "PIPE" else word for word in arguments))
    assert answer.code == 2 and is_sentence(answer.err), answer.err
    assert "pipe or device" in answer.err or "not an output of a benchmark" in answer.err
    assert not (world / "never").exists()


def test_no_dictionary_and_no_codes_are_waited_for(tmp_path: Path, impatient: None) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UserError, match="pipe or device"):
        read_dictionary(tmp_path / "pipe")
    with pytest.raises(UserError, match="pipe or device"):
        make_tokenizers((["al"], ["brano"]), tmp_path / "pipe")


def test_a_token_file_that_is_no_text(hmt: Call, tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    path.write_bytes(b"ren\xe9 " + b"0" * 64 + b" translate\n")
    answer = hmt("serve", "run", "--port", "0", "--token-file", str(path))
    assert answer.code == 2 and is_sentence(answer.err) and "not UTF-8" in answer.err


@pytest.mark.parametrize("more", [b"sve\n", b"\xe2\x82", b""], ids=["line", "half", "touched"])
def test_text_that_changes_while_it_is_prepared(
    hmt: Call, world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: bytes
) -> None:
    """Planted: the checksum in data.json is of another text than the tokens are."""
    source = tmp_path / "source"
    source.write_bytes((world / "train.source").read_bytes())

    def scan(path: Path) -> TextFile:
        found = lines.scan(path)
        if path == source:
            with path.open("ab") as file:
                file.write(more)
            os.utime(path, ns=(0, 0))
        return found

    monkeypatch.setattr(prepare, "scan", scan)
    output = tmp_path / "data"
    arguments = ["prepare", "--source", str(source), *TEXT[2:], *VALID, *WORDS]
    answer = hmt(*arguments, "--output", str(output))
    assert answer.code == 2 and is_sentence(answer.err), answer.err
    assert f"{source} was changed while it was being read" in answer.err
    assert [*tmp_path.iterdir()] == [source]


def test_text_that_changes_while_it_is_evaluated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "source"
    source.write_text("al brano .\n")

    def scan(path: Path) -> TextFile:
        found = lines.scan(path)
        path.unlink()
        path.write_text("al brano .\nsve .\n")
        return found

    monkeypatch.setattr("hmt.evaluation.evaluate.scan", scan)
    with pytest.raises(UserError, match="was changed while it was being read"):
        read_parallel(source)


def test_a_planted_link_among_results_is_not_followed(hmt: Call, tmp_path: Path) -> None:
    curve, victim = tmp_path / "curve", tmp_path / "victim"
    arguments = ["evaluate", "run", *TEST, "--output", str(curve), "--resamples", "0"]
    assert hmt(*arguments, "--lower", "1").code == 0
    (folder,) = (p for p in curve.iterdir() if p.is_dir())
    victim.mkdir()
    (curve / folder.name.replace("1", "2", 1)).symlink_to(victim)
    answer = hmt(*arguments, "--lower", "2")
    assert answer.code == 2 and is_sentence(answer.err) and "symbolic link" in answer.err
    assert not any(victim.iterdir())


def test_two_long_evaluations_of_one_setting(hmt: Call, tmp_path: Path) -> None:
    """Planted: talks of one beside records of the other."""
    curve = tmp_path / "talks"
    arguments = ["evaluate", "run", *TEST, "--output", str(curve), "--longform", "--resamples", "0"]
    assert hmt(*arguments).code == 0
    (folder,) = (p.parent for p in curve.glob("*/talks.jsonl"))
    before = contents(curve)
    with files.locked(folder / "lock", "busy"):
        answer = hmt(*arguments)
    assert answer.code == 2 and is_sentence(answer.err)
    assert f"another evaluation (process {os.getpid()})" in answer.err
    assert contents(curve) == before


def test_logs_of_talks_are_not_written_through_links(hmt: Call, tmp_path: Path) -> None:
    curve, victim = tmp_path / "talks", tmp_path / "victim"
    arguments = ["evaluate", "run", *TEST, "--output", str(curve), "--longform", "--resamples", "0"]
    assert hmt(*arguments).code == 0
    for log in ("segmentation.yaml", "omnisteval.jsonl", "simulstream.jsonl"):
        (log_path,) = curve.rglob(log)
        log_path.unlink()
        log_path.symlink_to(victim)
    victim.write_text("mine")
    assert hmt(*arguments).code == 0
    assert victim.read_text() == "mine"


def test_an_output_that_is_a_file_is_refused_before_the_work(hmt: Call, world: Path) -> None:
    """Planted: an analysis of minutes that finds in the end that it cannot be written."""
    before = contents(world)
    answer = hmt("analyse", "speed", "--output", "recipe.toml", "--repeats", "1")
    assert answer.code == 2 and is_sentence(answer.err) and "is a file" in answer.err
    assert contents(world) == before


@pytest.mark.parametrize("kind", ["pipe", "link"])
def test_captions_of_a_room_neither_wait_nor_follow(
    tmp_path: Path, kind: str, impatient: None, caplog: pytest.LogCaptureFixture
) -> None:
    """A pipe that nobody reads would stop the server for everybody."""
    (tmp_path / "victim").write_text("mine")
    for name in ("aula.en.vtt", "aula.en.current.new"):
        if kind == "pipe":
            os.mkfifo(tmp_path / name)
        else:
            (tmp_path / name).symlink_to(tmp_path / "victim")
    captions = Files(Shelf(tmp_path), "aula.en")
    captions.append("vtt", "a cue\n", "WEBVTT\n")
    captions.show("now shown")
    assert (tmp_path / "victim").read_text() == "mine"
    assert caplog.text.count("cannot be written") == 1
