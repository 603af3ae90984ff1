"""Strict readers of SubRip and WebVTT, written from the rules of the formats."""

import html
import re
from dataclasses import dataclass

SRT_TIME = re.compile(r"(\d{2,}):([0-5]\d):([0-5]\d),(\d{3})")
VTT_TIME = re.compile(r"(\d{2,}):([0-5]\d):([0-5]\d)\.(\d{3})")


@dataclass(frozen=True)
class ReadCue:
    start_ms: int
    end_ms: int
    lines: list[str]


def read_srt(text: str) -> list[ReadCue]:
    """Blocks of a number, a line of times and text, each followed by one blank line."""
    assert not text or text.endswith("\n\n"), "the last cue is complete"
    cues = []
    for number, block in enumerate(text.split("\n\n")[:-1], 1):
        head, times, *lines = block.split("\n")
        assert head == str(number)
        assert not any(re.search(r"<[/a-zA-Z]|[{}]", line) for line in lines), "no markup"
        cues.append(_cue(times, SRT_TIME, [line.replace("\u2060", "") for line in lines]))
    return cues


def read_vtt(text: str) -> list[ReadCue]:
    """A signature, notes, and cues; a blank line ends each of them."""
    assert text.endswith("\n\n"), "the last block is complete"
    signature, *blocks = text.split("\n\n")[:-1]
    assert signature == "WEBVTT"
    cues = []
    for block in blocks:
        first, *lines = block.split("\n")
        if re.match(r"NOTE($|[ \t])", first):
            assert "-->" not in block
            continue
        assert not any("-->" in line for line in lines)
        for line in lines:
            assert not re.search(r"<|>|&(?!(amp|lt|gt);)", line), "text is escaped"
        cues.append(_cue(first, VTT_TIME, [html.unescape(line) for line in lines]))
    return cues


def _cue(times: str, pattern: re.Pattern[str], lines: list[str]) -> ReadCue:
    start, arrow, end = times.split(" ")
    assert arrow == "-->"
    assert lines and all(line.strip() == line != "" for line in lines)
    return ReadCue(_ms(start, pattern), _ms(end, pattern), lines)


def _ms(time: str, pattern: re.Pattern[str]) -> int:
    match = pattern.fullmatch(time)
    assert match, time
    hours, minutes, seconds, thousandths = map(int, match.groups())
    return ((hours * 60 + minutes) * 60 + seconds) * 1000 + thousandths
