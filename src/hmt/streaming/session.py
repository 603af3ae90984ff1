"""Text in, text out, append-only: one live translation on top of the engine."""

from typing import Any

from hmt.errors import UserError
from hmt.streaming.engine import Engine
from hmt.streaming.record import Record
from hmt.streaming.recording import Tokenizers, record_of
from hmt.systems.stream import Stream
from hmt.text.pieces import Detokenizer
from hmt.text.sentences import SentenceCutter

# A longer sentence is cut in two: this bounds the memory of a session, whatever is said to it.
MAX_SENTENCE_TOKENS = 1024


class Session:
    """Words in, newly written text out; what was given out is never taken back.

    A session translates sentence after sentence: `finish` ends one, the next `push` starts another.
    """

    def __init__(
        self,
        engine: Engine,
        tokenizers: Tokenizers,
        knobs: Any,
        cutter: SentenceCutter | None = None,
    ) -> None:
        self._engine = engine
        self._tokenizers = tokenizers
        self._knobs = knobs
        self._cutter = cutter
        self._words: list[str] = []
        self._stream: Stream | None = None
        self._last: tuple[Stream, list[str]] | None = None
        self._continues = False  # the text goes on from a sentence that was cut off

    def push(self, text: str) -> str:
        """Take one word, or several; give back the text that can be written now, often "" ."""
        out = ""
        for word in text.split():
            out += self._push_word(word)
            if self._cutter is not None and self._cutter.push(word) and self._stream is not None:
                out += self._end()
                self._continues = True
        return out

    def finish(self) -> str:
        """End the sentence; give back the rest of its translation."""
        out = self._end() if self._stream is not None else ""
        self._continues = False
        if self._cutter is not None:
            self._cutter.reset()
        return out

    @property
    def stream(self) -> Stream:
        """The sentence in progress, or the last one that ended."""
        if self._stream is not None:
            return self._stream
        if self._last is None:
            raise UserError("The session has not been given any words yet.")
        return self._last[0]

    @property
    def record(self) -> Record:
        """What happened in the current (or last) sentence so far."""
        words = self._words if self._stream is not None or self._last is None else self._last[1]
        return record_of(self.stream, self._tokenizers, " ".join(words))

    def close(self) -> None:
        """Give the engine's slot back; a sentence in progress is dropped."""
        if self._stream is not None:
            self._engine.close(self._stream)
            self._stream = None

    def _push_word(self, word: str) -> str:
        tokens = self._tokenizers[0].encode(word)
        if not tokens:
            return ""
        # A single "word" can be absurdly long too: it goes in by parts.
        out = ""
        while tokens:
            if self._stream is None:
                self._begin()
            assert self._stream is not None
            room = MAX_SENTENCE_TOKENS - len(self._stream.source)
            self._engine.push(self._stream, tokens[:room])
            tokens = tokens[room:]
            if not tokens:
                self._words.append(word)
            out += self._advance()
            if len(self._stream.source) >= MAX_SENTENCE_TOKENS:
                out += self._end()
                self._continues = True
        return out

    def _begin(self) -> None:
        self._stream = self._engine.open(self._knobs)
        self._words = []
        self._detokenizer = Detokenizer(self._tokenizers[1])
        self._shown = 0
        self._is_silent = True

    def _advance(self) -> str:
        assert self._stream is not None
        self._engine.advance([self._stream])
        new = self._stream.target[self._shown :]
        self._shown += len(new)
        text = "".join(self._detokenizer.push(token) for token in new)
        if text and self._is_silent:
            self._is_silent = False
            return " " + text if self._continues else text
        return text

    def _end(self) -> str:
        assert self._stream is not None
        self._engine.finish(self._stream)
        out = self._advance()
        self._engine.close(self._stream)
        self._last, self._stream = (self._stream, self._words), None
        return out
