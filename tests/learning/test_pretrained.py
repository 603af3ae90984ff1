"""The model that ships: small, sensible, and not to be upset by any text."""

import json
import random
from functools import cache
from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from hmt.cli._terminal import Interlinear, play
from hmt.models.model import PRETRAINED, Model, load
from hmt.streaming.engine import LENGTH_EXTRA, LENGTH_FACTOR
from hmt.streaming.events import Ended

MEGABYTE = 1 << 20


@cache
def model() -> Model:
    return load()


def live(text: str, **knobs: Any) -> str:
    session = model().session(**knobs)
    return "".join(session.push(word) for word in text.split()) + session.finish()


def test_it_is_small_and_says_where_it_comes_from() -> None:
    assert sum(file.stat().st_size for file in PRETRAINED.iterdir()) < 40 * MEGABYTE
    card = (PRETRAINED / "README.md").read_text(encoding="utf-8")
    assert "CC BY 2.0 FR" in card and "tatoeba.org" in card
    assert "European Parliament" in card


@pytest.mark.parametrize(
    ("german", "words"),
    [
        (
            "Ich habe gestern keine Zeit gehabt, weil ich arbeiten musste.",
            {"I", "time", "because", "work"},
        ),
        ("Wo ist der Bahnhof?", {"Where", "station"}),
        ("Ich weiß nicht, was ich tun soll.", {"I", "don't", "know", "what", "do"}),
        ("Er ist mein Freund.", {"my", "friend"}),
    ],
)
def test_everyday_sentences_are_translated_sensibly(german: str, words: set[str]) -> None:
    english = live(german)
    plain = english.rstrip(".?!").replace(",", "").replace("'s", " is")
    assert words <= set(plain.split()), english
    assert english[-1] in ".?!"


def test_waiting_for_more_source_is_a_dial() -> None:
    """A lower boundary of 1 starts at once; of 8, later."""
    text = "Meine Schwester hat den ganzen Abend mit ihren Freunden gespielt."
    early, late = (model().translate([text], lower=lower)[0].reads for lower in (1, 8))
    assert early[0] < late[0]


def test_running_text_is_cut_into_sentences() -> None:
    text = "Wo ist der Bahnhof? Er ist mein Freund. Ich weiß nicht, was ich tun soll."
    session = model().session()
    out = "".join(session.push(word) for word in text.split()) + session.finish()
    assert {"station", "friend", "know"} <= set(out.replace(".", "").replace("?", "").split()), out
    assert "? " in out and ". " in out


SPOKEN = """
guten morgen meine damen und herren
wir freuen uns dass sie heute gekommen sind
zuerst möchte ich ihnen ein paar zahlen zeigen
mein bruder wohnt seit zwei jahren in berlin
er arbeitet dort als lehrer
ich habe gestern keine zeit gehabt
wo ist der bahnhof
können sie mir bitte helfen
das wetter war am wochenende sehr schön
wir haben im garten gegessen
"""


def test_speech_without_punctuation_is_cut_into_sentences() -> None:
    """It found 144 of 297 borders of everyday speech by itself, and 259 with its segmenter."""
    lines = SPOKEN.split("\n")[1:-1]
    session = model().session()
    for word in " ".join(lines).split():
        session.push(word)
    session.finish()
    found = [event.source for event in session.events if isinstance(event, Ended)]
    assert " ".join(found) == " ".join(lines)
    assert len(set(found) & set(lines)) >= 7, found


ODD = [
    "",
    "\u200b",
    "。",
    "🙂🙂🙂",
    "a" * 300,
    "\x00\x01",
    "e\u0301" * 20,
    "<s> </s> <unk>",
    "▁▁▁",
    "1234567890" * 5,
    "Haus " * 60,
    "مرحبا بالعالم",
    "Ich  habe\u00a0Zeit",
    "-" * 40,
]


def random_text(seed: int) -> str:
    draw = random.Random(seed)
    ranges = [(32, 126), (0xA0, 0x2000), (0x3000, 0xD7FF), (0x1F300, 0x1F600)]
    return "".join(chr(draw.randrange(*draw.choice(ranges))) for _ in range(draw.randint(1, 30)))


@pytest.mark.parametrize("text", [*ODD, *map(random_text, range(30))])
def test_no_text_upsets_it(text: str) -> None:
    session = model().session(by_line=True)
    out = "".join(session.push(word) for word in text.split()) + session.finish()
    if text.split():
        assert (
            len(session.stream.target) <= LENGTH_FACTOR * len(session.stream.source) + LENGTH_EXTRA
        )
        assert out == session.record.prediction


def test_the_demo_tells_when_each_word_was_written(capsys: pytest.CaptureFixture[str]) -> None:
    console = Console(highlight=False, force_terminal=False, width=100)
    play(model().session(), ["Wo", "ist", "der", "Bahnhof", "?"], console, is_fast=True)
    told = capsys.readouterr().out
    assert "Wo ist der Bahnhof ?" in told and "of 5 words: " in told
    assert "(begun after " in told, "a word is begun before it is complete and shown"


def test_the_stage_shows_all_that_was_heard_and_written() -> None:
    sentence = Interlinear(model().session())
    for word in ["Er", "ist", "mein", "Freund."]:
        sentence.hear(word)
    sentence.end()
    sentence.typed = "unfer"
    console = Console(width=20, record=True, file=StringIO())
    console.print(sentence.page(20))
    shown = console.export_text()
    assert "Freund." in shown and "unfer" in shown and "friend" in shown
    assert max(map(len, shown.splitlines())) <= 20


LOGS = {
    "log-multipath.jsonl": 2600,
    "log-hmt.jsonl": 560,
    "log-more-multipath.jsonl": 2550,
    "log-more-hmt.jsonl": 520,
    "log-muon-multipath.jsonl": 850,
    "log-muon-hmt.jsonl": 300,
    "log-long-multipath.jsonl": 1950,
    "log-long-hmt.jsonl": 500,
    "log-on-multipath.jsonl": 700,
    "log-onward-multipath.jsonl": 4000,
    "log-onward-hmt.jsonl": 500,
    "log-wide-multipath.jsonl": 1750,
    "log-wide-hmt.jsonl": 250,
    "log-restored-multipath.jsonl": 1700,
    "log-restored-hmt.jsonl": 300,
    "log-again-multipath.jsonl": 1300,
    "log-again-hmt.jsonl": 300,
    "log-beside-hmt.jsonl": 300,
    "log-debates-hmt.jsonl": 360,
    "log-heard-multipath.jsonl": 2200,
    "log.jsonl": 600,
}


def test_the_logs_of_its_training_are_there() -> None:
    for name, steps in LOGS.items():
        rows = [json.loads(line) for line in (PRETRAINED / name).read_text().splitlines()]
        assert rows[-1]["step"] == steps
