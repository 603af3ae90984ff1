"""The Python interface at a prompt: what things look like, and what a mistake is answered with."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import hmt
from hmt.analysis.explanation import explain
from hmt.errors import UserError

SENTENCE = "Ich habe keine Zeit."


@pytest.fixture(scope="module")
def model() -> hmt.Model:
    return hmt.load()


@pytest.fixture(scope="module")
def record(model: hmt.Model) -> hmt.Record:
    return model.translate([SENTENCE], lower=2)[0]


def test_a_model_shows_what_it_is(model: hmt.Model) -> None:
    shown = repr(model)
    size = sum(weight.numel() for weight in model.system.parameters())
    assert shown.startswith(f"<Model: hmt, de-en, {size:,} parameters; lower=")


def test_a_record_fits_on_a_line(record: hmt.Record) -> None:
    assert str(record).startswith(f"0: {SENTENCE} -> {record.prediction} (4 words, first text")
    assert "lower=2" in str(record) and repr(record) == f"<Record {record}>"
    long = replace(record, source="Wort " * 100, prediction="word " * 100)
    assert len(repr(long)) < 300 and "\n" not in repr(long)


def test_a_session_closes_with_its_block(model: hmt.Model) -> None:
    with model.session(lower=2) as session:
        written = session.push(SENTENCE)
        assert repr(session).startswith("<Session: 1 sentence, 4 words; lower=2, ")
        session.push("Und")
    # the block freed the slot: nothing of the open sentence is left to finish
    assert session.finish() == ""
    assert session.records[0].prediction == written.strip()


def test_paths_may_be_text(model: hmt.Model, tmp_path: Path) -> None:
    (tmp_path / "a.de").write_text(SENTENCE + "\n")
    (tmp_path / "a.en").write_text("I have no time.\n")
    text = hmt.read_parallel(str(tmp_path / "a.de"), str(tmp_path / "a.en"))
    (point,) = hmt.evaluate(model, text, str(tmp_path / "curve"), [{"lower": 2}])
    assert point["sentences"] == 1 and (tmp_path / "curve" / "scores.json").exists()


MISTAKES: dict[str, Callable[[hmt.Model], object]] = {
    "no such device": lambda model: hmt.load(device="gpu"),
    "a device that is not here": lambda model: hmt.load(device="cuda:99"),
    "a path that is a number": lambda model: hmt.load(3),  # type: ignore[arg-type]
    "a path to nothing": lambda model: hmt.load("nowhere"),
    "an unknown knob": lambda model: model.session(lowr=3),
    "a knob of another type": lambda model: model.translate([SENTENCE], lower=1.5),
    "one text": lambda model: model.translate(SENTENCE),
    "no text": lambda model: model.translate(None),  # type: ignore[arg-type]
    "bytes": lambda model: model.translate([b"Ja."]),  # type: ignore[list-item]
    "a sentence that is None": lambda model: model.translate(["Ja.", None]),  # type: ignore[list-item]
    "a batch in words": lambda model: model.translate(["Ja."], batch="x"),  # type: ignore[arg-type]
    "a word that is a number": lambda model: model.session().push(3),  # type: ignore[arg-type]
    "a time in words": lambda model: model.session().push("Ja", spoken="x"),  # type: ignore[arg-type]
    "final words in words": lambda model: model.session().guess("Ja", committed="x"),  # type: ignore[arg-type]
    "keep in words": lambda model: model.session(keep="x"),  # type: ignore[arg-type]
    "a record before any word": lambda model: model.session().record,
    "a record that is a number": lambda model: hmt.Record.from_json(3),  # type: ignore[arg-type]
    "an explanation of a number": lambda model: explain(model, 3),  # type: ignore[arg-type]
    "files that are not there": lambda model: hmt.read_parallel("nowhere"),
    "no model and no text": lambda model: hmt.evaluate("x", "y", "z"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_gets_one_sentence(name: str, model: hmt.Model) -> None:
    with pytest.raises(UserError, match=r"\.$") as caught:
        MISTAKES[name](model)
    assert "\n" not in str(caught.value) and len(str(caught.value)) > 20
