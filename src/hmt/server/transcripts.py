"""Everything written in one language of a room: text, cues and records, as growing files."""

import asyncio
import logging
import os
import re
import stat
import time
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from hmt.server.channels import FinishedSentence
from hmt.server.messages import encode
from hmt.streaming.captions import SILENCE_MS, Captions, Cue, srt, vtt, vtt_header
from hmt.streaming.events import Written
from hmt.streaming.whole_words import WordGate

logger = logging.getLogger("hmt.server")

MOST_ENTRIES = 20_000  # of each kind: six hours of speech
MOST_RECORDS = 2000
SNAPSHOT_SENTENCES = 2
POLL_SECONDS = 0.25
LAST_BYTES = 4096  # of a file, in which its last cue is
SRT_HEAD = re.compile(r"(?m)^(\d{1,9})\n[\d:,]+ --> (\d{2,9}):(\d\d):(\d\d),(\d{3})$")
MEDIA = {
    "vtt": "text/vtt",
    "srt": "application/x-subrip",
    "txt": "text/plain",
    "jsonl": "application/x-ndjson",
}


class Transcript:
    """What was written, in every downloadable format."""

    def __init__(self, room: str, language: str, shelf: "Shelf | None") -> None:
        self.language = language
        self.sentence = 0
        self.open_text = ""
        self._files = None if shelf is None else Files(shelf, f"{room}.{language}")
        # a file that another process began goes on: its cues stay in order
        before, before_ms = (0, 0) if self._files is None else self._files.last_cue()
        self._started = time.monotonic() - before_ms / 1000
        self._written_ms = 0
        self._gate = WordGate()
        self._captions = Captions(cues_before=before)
        self._note = f"{room} {language}"
        self._parts: dict[str, list[str]] = {kind: [] for kind in MEDIA}
        self._parts["vtt"].append(vtt_header(self._note))
        self._texts: list[str] = []

    def elapsed_ms(self) -> int:
        """Milliseconds since this language was added to the room."""
        return round(1000 * (time.monotonic() - self._started))

    @property
    def place(self) -> tuple[int, int]:
        """The open sentence, and how many characters of it are shown."""
        return self.sentence, len(self.open_text.lstrip())

    def begin_again(self, sentence: int) -> None:
        """Forget the open sentence; an empty transcript continues with the given number."""
        if not self._texts:
            self.sentence = sentence
        self.open_text, self._gate = "", WordGate()

    def write(self, events: list[Written]) -> tuple[str, list[Cue]]:
        """The new whole words, and the cues that they complete."""
        return self._show(self._gate.release(events))

    def end(self, sentence: FinishedSentence) -> tuple[str, list[Cue]]:
        """End a sentence; return what was held back of it, and the last cues."""
        rest, cues = self._show(self._gate.rest())
        last = self._captions.take(sentence.ended)
        self._keep(last)
        text = sentence.ended.text.strip()
        self._texts = [*self._texts, text][-SNAPSHOT_SENTENCES:]
        self._add("txt", text + "\n")
        if sentence.record is not None:
            self._add("jsonl", encode(asdict(sentence.record)).decode() + "\n")
        self.open_text = ""
        self.sentence += 1
        return rest, cues + last

    def after_silence(self) -> list[Cue]:
        """The open cue, if nothing was written for a while."""
        if not self._written_ms or self.elapsed_ms() - self._written_ms <= SILENCE_MS:
            return []
        return self.flush()

    def flush(self) -> list[Cue]:
        """The open cue."""
        self._written_ms = 0
        cues = self._captions.rest()
        self._keep(cues)
        return cues

    def last_sentences(self) -> list[str]:
        """The last sentences before the open one."""
        return list(self._texts)

    async def read(
        self, kind: str, follows: bool, is_over: Callable[[], bool]
    ) -> AsyncIterator[str]:
        """Everything so far; with `follows` also what comes, until the room closes."""
        parts, at = self._parts[kind], 0
        while True:
            is_last = not follows or is_over()  # before the last part is taken, not after
            new = parts[at:]
            at += len(new)
            if new:
                yield "".join(new)
            if is_last:
                return
            await asyncio.sleep(POLL_SECONDS)

    def _show(self, events: list[Written]) -> tuple[str, list[Cue]]:
        now = self.elapsed_ms()
        cues: list[Cue] = []
        for event in events:
            cues += self._captions.take(replace(event, seconds=now / 1000))
        self._keep(cues)
        text = "".join(event.text for event in events)
        self.open_text += text
        if events:
            self._written_ms = max(1, now)
            if self._files is not None:
                self._files.show(f"{' '.join(self._texts[-1:])}\n{self.open_text.strip()}\n")
        return text, cues

    def _keep(self, cues: list[Cue]) -> None:
        for cue in cues:
            self._add("vtt", vtt(cue))
            self._add("srt", srt(cue))

    def _add(self, kind: str, text: str) -> None:
        parts = self._parts[kind]
        if len(parts) < (MOST_RECORDS if kind == "jsonl" else MOST_ENTRIES):
            parts.append(text)
        if self._files is not None:
            self._files.append(kind, text, vtt_header(self._note) if kind == "vtt" else "")


@dataclass
class Shelf:
    """The folder for the captions of all rooms, and the number of failed writes."""

    folder: Path
    failures: int = 0


class Files:
    """A transcript on disk; each cue in one write, so that a reader never sees half of one."""

    def __init__(self, shelf: Shelf, stem: str) -> None:
        self._shelf, self._folder, self._stem = shelf, shelf.folder, stem
        self._has_failed = False

    def append(self, kind: str, text: str, header: str) -> None:
        """Add a cue or a line; a new file begins with its header."""
        path = self._folder / f"{self._stem}.{kind}"
        try:
            is_new = not path.exists()
            _write(path, os.O_APPEND, (header if is_new else "") + text)
        except OSError as error:
            self._complain(path, error)

    def last_cue(self) -> tuple[int, int]:
        """The number of the last cue on disk, and the time of the file now, in milliseconds."""
        path = self._folder / f"{self._stem}.srt"
        with suppress(OSError):
            handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            with os.fdopen(handle, "rb") as file:
                status = os.fstat(handle)
                if stat.S_ISREG(status.st_mode):
                    file.seek(max(0, status.st_size - LAST_BYTES))
                    cues = SRT_HEAD.findall(file.read().decode(errors="replace"))
                    age = max(0.0, time.time() - status.st_mtime)
                    if cues:
                        number, hours, minutes, seconds, thousandths = map(int, cues[-1])
                        end = ((60 * hours + minutes) * 60 + seconds) * 1000 + thousandths
                        return number, end + round(1000 * age)
        return 0, 0

    def show(self, text: str) -> None:
        """Replace the file of the lines currently shown."""
        path = self._folder / f"{self._stem}.current.txt"
        draft = path.with_suffix(".new")
        try:
            _write(draft, os.O_TRUNC, text)
            draft.replace(path)
        except OSError as error:
            self._complain(path, error)

    def _complain(self, path: Path, error: OSError) -> None:
        """Log once: a full disk must neither stop the translation nor fill the log."""
        self._shelf.failures += 1
        if not self._has_failed:
            self._has_failed = True
            logger.error("%s cannot be written: %s.", path, error.strerror)


def _write(path: Path, flags: int, text: str) -> None:
    """Write at once; never through a symbolic link, never blocking on a pipe without a reader."""
    flags |= os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
    handle = os.open(path, flags, 0o644)
    try:
        os.write(handle, text.encode())
    finally:
        os.close(handle)
