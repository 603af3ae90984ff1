"""`hmt translate`: running text, the JSON lines of recognisers, captions in files."""

import json
import os
import select
import signal
from pathlib import Path

import pytest
from caption_readers import read_srt, read_vtt
from command_line import Call, start

from hmt.cli import _words as words

TEXT = "al brano sevi un hult . oja al celta un fesk amar . un poet unheard"


def jsonl(*objects: object) -> str:
    return "".join(json.dumps(value) + "\n" for value in objects)


def events_of(out: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in out.splitlines()]


def test_running_text_has_one_sentence_per_line_and_the_events_say_the_same(hmt: Call) -> None:
    """Planted bug: a line begins with the space between two sentences."""
    plain = hmt("translate", "run", given=TEXT)
    events = events_of(hmt("translate", "run", "--format", "jsonl", given=TEXT).out)
    ends = [event for event in events if event["event"] == "end"]
    assert " ".join(str(end["source"]) for end in ends) == TEXT
    assert plain.out == "".join(f"{end['text']}\n" for end in ends if end["text"])
    assert len(ends) >= 3 and plain.err == ""
    keys = "event sentence seconds text source_words read_words confidence log_prob is_whole spoken"
    assert {tuple(event) for event in events if event["event"] == "write"} == {tuple(keys.split())}


def test_a_recogniser_sends_json_lines(hmt: Call) -> None:
    """Final words, guesses with a count, guesses that must agree, pauses."""
    given = jsonl(
        {"text": "al brano", "at": 1.0},
        {"text": "sevi un", "at": 2.0},
        {"pause": True},
        {"text": "oja al", "committed": 1},
        {"text": "oja celta un", "committed": 2},
        {"pause": True, "at": 5.0},
        {"text": "fesk poet", "tentative": True},
        {"text": "fesk amar", "tentative": True},
    )
    out = hmt("translate", "run", "--input", "jsonl", "--format", "jsonl", given=given + "\n").out
    events = events_of(out)
    ends = [event for event in events if event["event"] == "end"]
    heard = " ".join(str(end["source"]) for end in ends)
    assert heard == "al brano sevi un oja celta un fesk amar"
    spoken = {event["spoken"] for event in events if event["event"] == "write"}
    assert spoken & {1.0, 2.0}


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("al brano", "this is not JSON"),
        ("[1]", "not a JSON object"),
        ('{"text": 3}', '"text" is 3; it must be text'),
        ('{"words": "al"}', '"words" is unknown; allowed are text, at'),
        ('{"at": 1.5}', 'neither "text" nor "pause"'),
        ('{"text": "al", "at": "now"}', "it must be a number"),
        ('{"text": "al", "at": NaN}', "it must be a number"),
        ('{"text": "al", "committed": 2}', "2 words were committed of a guess that has 1"),
        ('{"text": "al", "committed": true}', "it must be a whole number"),
        ('{"text": "al", "tentative": 1}', "true or false"),
    ],
)
def test_a_bad_line_is_named(hmt: Call, line: str, reason: str) -> None:
    given = jsonl({"text": "al"}) + line + "\n"
    answer = hmt("translate", "run", "--input", "jsonl", given=given)
    assert answer.code == 2 and answer.err.count("\n") == 1
    assert "Line 2 of the input: " in answer.err
    assert reason in answer.err


def test_an_unknown_option_is_not_asked_for_a_value(hmt: Call) -> None:
    answer = hmt("translate", "run", "--bylines", given="")
    assert answer.code == 2 and "There is no option --bylines" in answer.err


def test_captions_of_a_recording(hmt: Call) -> None:
    """Times of the source and an offset; both formats hold all words of the plain text."""
    lines = [{"text": word, "at": 10.0 + n / 2} for n, word in enumerate(TEXT.split())]
    options = ["translate", "run", "--input", "jsonl"]
    plain = hmt(*options, given=jsonl(*lines)).out.split()
    times = ["--timing", "source", "--caption-offset", "90"]
    for style, read in (("srt", read_srt), ("vtt", read_vtt)):
        cues = read(hmt(*options, "--format", style, *times, given=jsonl(*lines)).out)
        assert [word for cue in cues for line in cue.lines for word in line.split()] == plain
        assert 100_000 <= cues[0].start_ms <= 104_000
        assert cues[-1].start_ms <= 100_000 + 500 * len(lines) + 7000


@pytest.mark.parametrize("style", ["srt", "vtt"])
def test_a_caption_file_is_valid_after_a_kill(world: Path, tmp_path: Path, style: str) -> None:
    """Planted bug: a cue written in two parts, or kept in a buffer."""
    path = tmp_path / f"captions.{style}"
    read = read_srt if style == "srt" else read_vtt
    command = ["translate", "run", "--format", style]
    with path.open("wb") as file, start(command, cwd=world, stdout=file, stderr=None) as process:
        assert process.stdin is not None
        try:
            for _ in range(600):
                process.stdin.write(TEXT.encode() + b" . ")
                process.stdin.flush()
                if path.stat().st_size > 1500:
                    break
                select.select([], [], [], 0.1)
        finally:
            process.send_signal(signal.SIGKILL)
    assert len(read(path.read_text(encoding="utf-8"))) >= 5


def test_lines_arrive_as_soon_as_they_are_complete(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted bug: a character cut between two reads is lost."""
    reading, writing = os.pipe()
    with os.fdopen(reading) as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        lines = words.lines_arriving()
        os.write(writing, "\ufeffeins\nzw\u00f6".encode()[:-1])
        assert next(lines) == "eins"
        os.write(writing, "\u00f6".encode()[-1:] + b"lf\r\n\nrest")
        assert next(lines) == "zw\u00f6lf\r"
        os.close(writing)
        assert list(lines) == ["", "rest"]
