"""Captions: cues as guides ask for them, every word once, files that others can read."""

import io
import random
import re
from itertools import pairwise
from pathlib import Path

import pytest
from caption_readers import read_srt, read_vtt
from hypothesis import given, settings
from hypothesis import strategies as st

from hmt.errors import UserError
from hmt.streaming.captions import Captions, Cue, cells, srt, vtt, vtt_header
from hmt.streaming.events import Ended, Event, Notice, Written
from hmt.streaming.whole_words import WordAssembler

ALPHABETS = ["abcdefghij", "äöüßéñ", "<&>-;:", "漢字仮名交文", "한국어글", "abc漢字<"]


def written(
    text: str, at: float, *, is_whole: bool = False, spoken: float | None = None, sentence: int = 0
) -> Written:
    return Written(sentence, at, text, 1, 1, 0.5, -0.1, is_whole, spoken)


def random_events(seed: int, sentences: int = 12) -> tuple[list[Event], list[str]]:
    """Words in one to three pieces, at any pace, and the words."""
    draw = random.Random(seed)
    events: list[Event] = []
    words: list[str] = []
    now, is_first = 0.0, True
    for n in range(sentences):
        for _ in range(draw.randint(0, 25)):
            size = 150 if draw.random() < 0.02 else draw.randint(1, 12)
            alphabet = draw.choice(ALPHABETS)
            word = "".join(draw.choice(alphabet) for _ in range(size))
            words.append(word)
            cuts = sorted(draw.sample(range(1, size), min(size - 1, draw.randint(0, 2))))
            ends_itself = draw.random() < 0.3
            for start, end in zip([0, *cuts], [*cuts, size], strict=True):
                now += draw.choice([0.0, 0.01, 0.2, 0.4, 4.0 * draw.random() ** 4])
                space = " " if start == 0 and not is_first else ""
                is_whole = ends_itself and end == size
                event = written(space + word[start:end], now, is_whole=is_whole, sentence=n)
                events.append(event)
                is_first = False
            if draw.random() < 0.1:
                events.append(written("", now, sentence=n))
        events.append(Ended(n, now, "", "", 0, "finish"))
        now += 10 * draw.random() ** 3
        is_first = draw.random() < 0.5
    return [*events, Notice(sentences, now, "conflict", "x")], words


def cues_of(events: list[Event], captions: Captions) -> list[Cue]:
    return [cue for event in events for cue in captions.take(event)] + captions.rest()


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([42, 37, 16]), st.integers(1, 2))
def test_cues_are_as_guides_ask(seed: int, width: int, height: int) -> None:
    """Planted bugs: a word split by a silence inside it; a cue that begins before the last one has
    ended; the last word lost; a line one cell too long."""
    events, words = random_events(seed)
    cues = cues_of(events, Captions(width, height))
    assert [cue.number for cue in cues] == list(range(1, len(cues) + 1))
    for cue in cues:
        assert 5000 <= 6 * (cue.end_ms - cue.start_ms) <= 42_000
        assert 1 <= len(cue.lines) <= height
        assert all(0 < cells(line) <= width for line in cue.lines)
    for one, other in pairwise(cues):
        assert other.start_ms - one.end_ms >= 80
    shown = [word for cue in cues for line in cue.lines for word in line.split(" ")]
    assert "".join(shown) == "".join(words)
    if all(cells(word) <= width for word in words):
        assert shown == words


def test_at_150_words_a_minute_a_reader_keeps_up() -> None:
    """Sentences one after another, without a break. Planted bug: the time to read a cue counted
    from its last word, so that it takes the time of the next one, which is then too fast."""
    draw = random.Random(1)
    captions, cues, now, firsts = Captions(), list[Cue](), 0.0, list[float]()
    for n in range(200):
        firsts.append(now + 0.4)
        for _ in range(draw.randint(3, 9)):
            now += 0.4
            word = " " + "x" * draw.randint(2, 7)
            cues += captions.take(written(word, now, is_whole=True, sentence=n))
        cues += captions.take(Ended(n, now, "", "", 0, "punctuation"))
    assert len(cues) == len(firsts)
    speeds = [1000 * sum(map(len, cue.lines)) / (cue.end_ms - cue.start_ms) for cue in cues]
    assert max(speeds) <= 17.5
    lags = [cue.start_ms - 1000 * first for cue, first in zip(cues, firsts, strict=True)]
    assert max(lags) <= 500


def test_words_that_are_written_in_bursts_can_be_read() -> None:
    """Two full cues at once, at 13 characters per second on average. Planted bug: a cue ends where
    the first word of the next one was written."""
    captions, cues = Captions(), list[Cue]()
    for n in range(20):
        now = 10.0 * n
        for _ in range(22):
            cues += captions.take(written(" xxxxx", now, is_whole=True, sentence=n))
            now += 0.02
        cues += captions.take(Ended(n, now, "", "", 0, "punctuation"))
    assert len(cues) == 40
    speeds = [1000 * sum(map(len, cue.lines)) / (cue.end_ms - cue.start_ms) for cue in cues]
    assert max(speeds) <= 1.5 * 17.5
    assert all(cue.start_ms <= 10_000 * (n // 2) + 4000 for n, cue in enumerate(cues))


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6))
def test_both_files_are_read_back(seed: int) -> None:
    """Planted bugs: times rounded to ",1000"; "&" escaped last; "-->" within text."""
    events, _ = random_events(seed, 4)
    cues = cues_of(events, Captions())
    expected = [(cue.start_ms, cue.end_ms, list(cue.lines)) for cue in cues]
    found = read_vtt(vtt_header("hmt --> lower=3\n\nx") + "".join(map(vtt, cues)))
    assert [(cue.start_ms, cue.end_ms, cue.lines) for cue in found] == expected
    arrowless = [(a, b, [re.sub("-{2,}>", "->", x) for x in lines]) for a, b, lines in expected]
    found = read_srt("".join(map(srt, cues)))
    assert [(cue.start_ms, cue.end_ms, cue.lines) for cue in found] == arrowless


def test_another_program_reads_them_too(tmp_path: Path) -> None:
    webvtt = pytest.importorskip("webvtt", reason="webvtt-py is not installed")
    events, _ = random_events(3)
    cues = cues_of(events, Captions())
    assert len(cues) > 20
    text = vtt_header("hmt lower=3") + "".join(map(vtt, cues))
    for read, cue in zip(webvtt.from_buffer(io.StringIO(text)), cues, strict=True):
        assert [read.start_in_seconds, read.end_in_seconds] == [
            cue.start_ms // 1000,
            cue.end_ms // 1000,
        ]
        escaped = vtt(cue).rstrip("\n").split("\n")[1:]
        assert read.raw_text.split("\n") == escaped
    path = tmp_path / "captions.srt"
    path.write_text("".join(map(srt, cues)), encoding="utf-8")
    for read, cue in zip(webvtt.from_srt(path), cues, strict=True):
        assert read.start.split(":")[-1] == f"{cue.start_ms % 60_000 / 1000:06.3f}"
        text = read.raw_text.replace("\u2060", "")
        assert "\n".join(cue.lines).replace("-->", "->") == text


@pytest.mark.parametrize(
    ("ms", "shown"),
    [
        (0, "00:00:00.000"),
        (59_999, "00:00:59.999"),
        (60_000, "00:01:00.000"),
        (3_599_999, "00:59:59.999"),
        (360_000_000 + 61_001, "100:01:01.001"),
    ],
)
def test_times(ms: int, shown: str) -> None:
    cue = Cue(1, ms, ms + 1000, ("a",))
    assert vtt(cue).startswith(shown + " --> ")
    assert srt(cue).startswith("1\n" + shown.replace(".", ",") + " --> ")


def test_59_9996_seconds_are_a_minute() -> None:
    captions = Captions()
    captions.take(written("word", 59.9996, is_whole=True))
    (cue,) = captions.rest()
    assert srt(cue).startswith("1\n00:01:00,000 --> 00:01:00,834\n")


def test_text_is_escaped() -> None:
    cue = Cue(1, 0, 1000, ("a <b> & c", "--> d &amp;"))
    assert vtt(cue).split("\n")[1:3] == ["a &lt;b&gt; &amp; c", "--&gt; d &amp;amp;"]
    assert srt(cue).split("\n")[2:4] == ["a <\u2060b> & c", "-> d &amp;"]


def test_no_player_takes_text_of_subrip_for_markup() -> None:
    cue = Cue(1, 0, 1000, (r"<i>x</i> 3 < 4 {\an8}", "{y}"))
    assert srt(cue).split("\n")[2:4] == [
        "<\u2060i>x<\u2060/i> 3 < 4 (\\an8)",
        "(y)",
    ]


def test_wide_characters_count_twice() -> None:
    captions = Captions(width=10)
    captions.take(written("漢字漢字漢字漢字", 0.0, is_whole=True))
    assert captions.rest()[0].lines == ("漢字漢字漢", "字漢字")
    assert cells("aé漢ｱ") == 5


def test_a_cue_ends_with_silence_sentence_or_room() -> None:
    captions = Captions()
    assert captions.take(written("one", 0.0, is_whole=True)) == []
    assert captions.take(written(" two", 1.0, is_whole=True)) == []
    (quiet,) = captions.take(written(" three", 3.0, is_whole=True))
    assert quiet.lines == ("one two",) and quiet.start_ms == 0
    (ended,) = captions.take(Ended(0, 3.1, "", "", 0, "pause"))
    assert ended.lines == ("three",) and ended.start_ms == 3000


def test_times_of_the_source() -> None:
    """Planted bugs: the clock of the machine mixed with that of the caller; a word that was spoken
    earlier than the one before it sets the clock back."""
    captions = Captions(timing="source", offset_ms=-500)
    captions.take(written("one", 0.1, is_whole=True, spoken=100.0))
    captions.take(written(" two", 0.2, is_whole=True))
    captions.take(written(" three", 0.3, is_whole=True, spoken=99.0))
    (cue,) = captions.rest()
    assert (cue.start_ms, cue.lines) == (99_500, ("one two three",))
    for n, spoken in enumerate((100.0, 50.0, 101.0)):
        assert captions.take(written(f" {n}", 0.4, is_whole=True, spoken=spoken)) == []
    early = Captions(offset_ms=-5000)
    early.take(written("one", 1.0, is_whole=True))
    assert early.rest()[0].start_ms == 0


def test_wrong_captions_are_refused() -> None:
    for wrong in ({"width": 9}, {"height": 5}, {"timing": "clock"}):
        with pytest.raises(UserError):
            Captions(**wrong)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6))
def test_whole_words_are_the_words_each_with_its_first_event(seed: int) -> None:
    """Planted bugs: an empty write begins a word; a word that ends itself glued to the next."""
    events, words = random_events(seed, 5)
    assembler = WordAssembler()
    found = [word for event in events for word in assembler.take(event)] + assembler.rest()
    assert [word.text for word in found] == words
    assert all(word.text.startswith(word.began.text.strip()) for word in found)
    assert all(word.began.text for word in found)


def test_no_word_reads_as_a_line_of_times() -> None:
    """Planted bug: one arrow is taken off, and of "--->" another one is left."""
    for word in ("-->", "--->", "---->", "-->-->", "a-->b"):
        cue = Cue(1, 0, 1000, (word,))
        assert srt(cue).count("-->") == vtt(cue).count("-->") == 1
        assert "-->" not in vtt_header(word)
