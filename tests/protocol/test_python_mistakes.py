"""Mistakes from Python are answered as on the command line: one sentence, a UserError."""

import threading
from pathlib import Path
from typing import Any

import pytest

import hmt
from hmt.errors import UserError
from hmt.models.model import Model
from hmt.plain import to_plain
from hmt.systems import build


@pytest.fixture(scope="module")
def model() -> Model:
    return hmt.load()


@pytest.mark.parametrize("given", [[3], ["Hallo.", None], [b"Hallo."], None, 3, "Hallo.", [["a"]]])
def test_only_texts_are_translated(model: Model, given: Any) -> None:
    with pytest.raises(UserError, match=r"not text: give a str|a list of sentences"):
        model.translate(given)


def test_any_iterable_of_texts_is_translated(model: Model) -> None:
    lines = ["Guten Morgen.", "Danke."]
    assert model.translate(iter(lines)) and len(model.translate(tuple(lines))) == 2  # type: ignore[arg-type]


@pytest.mark.parametrize("batch", [0, -1, 2.5, "64", None, 10**12, 10**400])
def test_a_batch_is_a_number_of_sentences(model: Model, batch: Any) -> None:
    with pytest.raises(UserError, match="give 1 to 10,000"):
        model.translate(["Hallo."], batch=batch)


@pytest.mark.parametrize("given", [None, b"Hallo", 3, ["Hallo"]])
def test_only_text_is_heard(model: Model, given: Any) -> None:
    session = model.session()
    for method in (session.push, session.guess):
        with pytest.raises(UserError, match=r"takes text, not \w+: give a str"):
            method(given)
    assert session.push("Guten Morgen.") + session.finish()


@pytest.mark.parametrize("spoken", ["now", float("nan"), float("inf"), 10**400, True])
def test_times_are_seconds(model: Model, spoken: Any) -> None:
    with pytest.raises(UserError, match="give seconds"):
        model.session().push("Hallo", spoken)


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("x" * 5000, "File name too long"),
        ("a\0b", "not a model directory"),
        (3, "takes a path, not int"),
        (b"model", "takes a path, not bytes"),
        ("hf:" + "x" * 5000, "not a name on the hub"),
    ],
)
def test_a_model_is_named_by_a_path(path: Any, reason: str) -> None:
    with pytest.raises(UserError, match=reason):
        hmt.load(path)


@pytest.mark.parametrize("device", ["cuda", "cuda:7", "tpu", "", "meta", "mps", 3.5, None])
def test_a_device_that_is_not_there(device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.device_count", lambda: 0)
    with pytest.raises(UserError, match="device"):
        hmt.load(device=device)


def test_nothing_before_the_first_token_unless_it_was_trained(model: Model, tmp_path: Path) -> None:
    for lower in (0, -3):
        with pytest.raises(UserError, match=r"trained with 1 to \d+; give 1 or more"):
            model.session(lower=lower)
        with pytest.raises(UserError, match="give 1 or more"):
            model.translate(["Hallo."], lower=lower)
    config = {**to_plain(model.system.config), "lower": [-1, 3]}
    early = build("hmt", config)
    assert to_plain(early.knobs(lower=-1))["lower"] == -1
    with pytest.raises(UserError, match="give -1 or more"):
        early.knobs(lower=-2)


def test_what_follows_a_closed_session_stands_apart(model: Model) -> None:
    """Planted bug: the next sentence is glued to what was written of the one that was dropped."""
    session = model.session(lower=1, states=1)
    first = session.push("Guten Morgen, ich habe gestern")
    session.guess("ein Wort zu viel")
    session.close()
    assert session.tentative == ""
    second = session.push("Danke.") + session.finish()
    assert first and second.startswith(" ") and not first.endswith(" ")


def test_one_session_in_two_threads_is_one_clear_error(model: Model) -> None:
    failures: list[BaseException] = []
    inside, go_on = threading.Event(), threading.Event()

    def wait(_: object) -> None:
        inside.set()
        go_on.wait(10)

    session = model.session(listener=wait, lower=1, states=1)
    thread = threading.Thread(target=lambda: session.push("Guten Morgen, mein Freund."))
    thread.start()
    assert inside.wait(10)
    for call in (lambda: session.push("Hallo"), session.finish, session.close):
        try:
            call()
        except UserError as error:
            failures.append(error)
    go_on.set()
    thread.join()
    assert len(failures) == 3 and all("another thread" in str(error) for error in failures)
