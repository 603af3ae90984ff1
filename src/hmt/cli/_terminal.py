"""A live translation in a terminal: source words above the text shown after each was heard.

The brighter a word, the more confident the model was when writing it; the lag is below.
"""

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

if TYPE_CHECKING:
    from hmt.streaming.events import Event
    from hmt.streaming.session import Session
    from hmt.streaming.whole_words import WholeWord

WORDS_PER_SECOND = 2.5  # unhurried speech
DARKEST, BRIGHTEST = 100, 255


class Screen(Console):
    """A console that lets the command line handle a closed pipe; rich would exit with 1."""

    def on_broken_pipe(self) -> None:
        """Raise the error that is being handled."""
        raise


@dataclass
class Column:
    """A source word and the text that could be shown once it was heard."""

    heard: str
    written: str = ""
    confidence: float = 1.0
    begun: int | None = None  # words heard when its first word was begun


@dataclass
class Interlinear:
    """Words on their way through a session, with their translations below."""

    session: "Session"
    columns: list[Column] = field(default_factory=list)
    typed: str = ""  # a word that is not complete yet

    def __post_init__(self) -> None:
        from hmt.streaming.whole_words import WordAssembler

        self._assembler = WordAssembler()
        self._whole: list[WholeWord] = []  # words not shown yet
        self._heard_at: dict[Event, int] = {}  # words heard when each was begun
        self.session.listener = self._take

    def hear(self, word: str) -> None:
        """Push a word and show the text that became ready under it."""
        self.session.push(word)
        self.columns.append(self._column(word))

    def end(self) -> None:
        """Finish; the remaining text is shown under a full stop."""
        self.session.finish()
        if self._whole:
            self.columns.append(self._column(""))

    def _take(self, event: "Event") -> None:
        self._heard_at[event] = len(self.columns) + 1
        self._whole += self._assembler.take(event)

    def _column(self, heard: str) -> Column:
        words, self._whole = self._whole, []
        sure = [word.began.confidence for word in words if word.began.confidence is not None]
        begun = self._heard_at[words[0].began] if words else None
        text = " ".join(word.text for word in words)
        return Column(heard, text, sure[-1] if sure else 1.0, begun)

    def page(self, width: int) -> Group:
        """Rows of two lines, source over target, broken where the terminal ends."""
        if not self.columns and not self.typed:
            return Group()
        rows: list[tuple[Text, Text]] = [(Text(), Text())]
        for column in [*self.columns, *([Column(self.typed)] if self.typed else [])]:
            size = max(len(column.heard), len(column.written)) + 1
            if rows[-1][0].cell_len + size > width and rows[-1][0].cell_len:
                rows.append((Text(), Text()))
            heard, written = rows[-1]
            shade = DARKEST + round((BRIGHTEST - DARKEST) * column.confidence)
            heard.append(column.heard.ljust(size), "cyan")
            written.append(column.written.ljust(size), f"bold rgb({shade},{shade},{shade})")
        return Group(*(line for row in rows for line in row), Text(self.lag(), "dim"))

    def lag(self) -> str:
        """How many words were heard and written so far."""
        heard = sum(bool(column.heard) for column in self.columns)
        written = sum(len(column.written.split()) for column in self.columns)
        return f"heard {heard}, written {written}"


def play(session: "Session", words: Iterable[str], console: Console, is_fast: bool) -> None:
    """Push one sentence into a session, on a terminal at the pace of speech."""
    sentence = Interlinear(session)
    if not console.is_terminal:
        for word in words:
            sentence.hear(word)
        sentence.end()
        _print(sentence, console)
        return
    with Live(console=console, auto_refresh=False) as live:
        for word in words:
            sentence.hear(word)
            live.update(sentence.page(console.width), refresh=True)
            time.sleep(0.0 if is_fast else 1 / WORDS_PER_SECOND)
        sentence.end()
        live.update(sentence.page(console.width), refresh=True)


def _print(sentence: Interlinear, console: Console) -> None:
    """Plain lines: each text with the number of words heard when it was shown, and when begun."""
    heard = [column.heard for column in sentence.columns if column.heard]
    console.print(" ".join(heard), highlight=False, markup=False, soft_wrap=True)
    for n, column in enumerate(sentence.columns, 1):
        if column.written:
            after = min(n, len(heard))
            is_late = column.begun is not None and column.begun < after
            written = f" (begun after {column.begun})" if is_late else ""
            console.print(
                f"  after {after:2} of {len(heard)} words: {column.written}{written}",
                highlight=False,
                markup=False,
                soft_wrap=True,
            )


def listen(session: "Session", console: Console) -> None:
    """Translate what is typed, word by word, until the end of input."""
    import sys
    import termios
    import tty

    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    try:
        tty.setcbreak(descriptor)
        while _listen_once(session, console):
            pass
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


def _listen_once(session: "Session", console: Console) -> bool:
    """One typed sentence; False when there is no more to come."""
    import sys

    sentence = Interlinear(session)
    goes_on = True
    with Live(console=console, auto_refresh=False) as live:
        while True:
            key = sys.stdin.read(1)
            if key in ("", "\x04"):
                goes_on = False
            if key.isspace() or not goes_on:
                if sentence.typed:
                    word, sentence.typed = sentence.typed, ""
                    sentence.hear(word)
                if key != " ":
                    sentence.end()
            elif key in ("\x7f", "\b"):
                sentence.typed = sentence.typed[:-1]
            elif key.isprintable():
                sentence.typed += key
            live.update(sentence.page(console.width), refresh=True)
            if not goes_on or key in ("\n", "\r"):
                return goes_on
