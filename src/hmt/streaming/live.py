"""Running text, sentence after sentence: words are heard, events come out.

`Live` is the one cursor over what a stream newly wrote.  It owns no loop: whoever drives an engine
(a session alone, a server for hundreds) advances the stream that `Live` names and lets it collect.

A sentence ends by punctuation, by a pause or an end that the caller reports, by its length, or by
the model itself.  No word is dropped: what the model did not translate opens the next sentence.
"""

import math
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache

from hmt.streaming import events
from hmt.streaming.borders import Border, find_border
from hmt.streaming.engine import Engine
from hmt.streaming.events import Ended, Event, Written
from hmt.streaming.record import Record
from hmt.streaming.recording import Tokenizers, record_of
from hmt.systems.stream import Stream
from hmt.text.pieces import Detokenizer
from hmt.text.sentences import SentenceCutter, ends_sentence, has_punctuation, is_end_mark
from hmt.text.symbols import EOS
from hmt.text.tokenizer import Tokenizer

# A longer sentence is cut in two: this bounds the memory of a session, whatever is said to it.
MAX_SENTENCE_TOKENS = 1024
# A longer "word" is cut into several: no recogniser and no typist produces one.
MAX_WORD_CHARACTERS = 1000
# The model must give the end at least this probability, or its full stop is an abbreviation's.
LEAST_END = math.log(0.2)


@dataclass(frozen=True)
class Word:
    """A word that was heard."""

    text: str
    tokens: tuple[int, ...]
    spoken: float | None = None  # when, as the caller says
    continues: bool = False  # the rest of a word that was cut


@dataclass(frozen=True)
class End:
    """The sentence ends here."""

    reason: str


class Live:
    """The text of one speaker on its way through an engine."""

    def __init__(
        self,
        engine: Engine,
        tokenizers: Tokenizers,
        knobs: object,
        *,
        by_line: bool = False,
        max_tokens: int = MAX_SENTENCE_TOKENS,
    ) -> None:
        self.engine, self.tokenizers, self.knobs = engine, tokenizers, knobs
        self.by_line = by_line  # a sentence is what the caller ends, and ends where the model does
        self.cuts = not by_line  # sentences end by punctuation and where the model finds a border
        self.max_tokens = max_tokens
        self.stream: Stream | None = None
        self.record: Record | None = None  # of the sentence that ended last
        self.sentence = 0  # from 0, the open one
        self.words: list[Word] = []  # of the open sentence
        self._heard: deque[Word | End] = deque()
        self._cutter = SentenceCutter()
        self._words_before = 0  # in earlier sentences
        self._starts_line = True
        self._goes_on = False  # a stream that halted was released
        self._border: Border | None = None  # of a sentence that the model ended
        self._began_at: float | None = None
        self._stops = _end_marks(tokenizers[1])

    # ---- what is heard

    def hear(self, word: str, spoken: float | None = None) -> None:
        """A word has arrived."""
        if self._began_at is None:
            self._began_at = self.engine.clock()
        for start in range(0, len(word), MAX_WORD_CHARACTERS):
            part = word[start : start + MAX_WORD_CHARACTERS]
            tokens = tuple(self.tokenizers[0].encode(part))
            for at in range(0, len(tokens), self.max_tokens - 1):
                chunk = tokens[at : at + self.max_tokens - 1]
                self._heard.append(Word(part if at == 0 else "", chunk, spoken, start + at > 0))

    def end(self, reason: str) -> None:
        """The sentence has ended."""
        self._heard.append(End(reason))

    @property
    def is_idle(self) -> bool:
        """Whether nothing was heard that has not been worked on."""
        return not self._heard

    @property
    def waiting_words(self) -> int:
        """Words that were heard and not given to the model yet."""
        return sum(isinstance(item, Word) for item in self._heard)

    def set(self, knobs: object, changed: Iterable[str]) -> dict[str, str]:
        """Other settings: what may change within a sentence does, the rest waits for the next."""
        movable = self.engine.system.MOVABLE if self.stream is not None else set(changed)
        self.knobs = knobs
        if self.stream is not None:
            now = {name: getattr(knobs, name) for name in changed if name in movable}
            self.stream.knobs = replace(self.stream.knobs, **now)
        return {name: "now" if name in movable else "next_sentence" for name in changed}

    # ---- the loop's two calls

    def feed(self) -> Stream | None:
        """Give the model what was heard; the stream to advance, None if there is nothing to do."""
        is_fed, self._goes_on = self._goes_on, False
        while self._heard and not (self.stream is not None and self.stream.source_ended):
            item = self._heard.popleft()
            if isinstance(item, End):
                is_fed |= self._end_source(item.reason)
            elif self._has_room(item):
                self._give(item)
                is_fed = True
            else:
                self._heard.extendleft((item, End(events.LENGTH)))
        return self.stream if is_fed else None

    def collect(self) -> list[Event]:
        """What the stream wrote since last time, and its end if it has come."""
        stream = self.stream
        if stream is None:
            return []
        found: list[Event] = list(self._new_text(stream))
        if stream.halted:
            stream.halted = False
            self._goes_on = not self._is_end_of_sentence(stream)
            if not self._goes_on:
                found.append(self._close(events.MODEL))
        elif stream.target_ended and (stream.source_ended or not self.by_line):
            found.append(self._close(self._reason if stream.source_ended else events.MODEL))
        return found

    def drop(self) -> None:
        """Forget the open sentence and all that was heard since; what was written stays."""
        self._heard.clear()
        self._cutter.reset()
        if self.stream is not None:
            self.engine.close(self.stream)
            self._words_before += len(self.words)
            self.stream, self.words = None, []
            self.sentence += 1

    def rebuild(self, engine: Engine) -> bool:
        """Go on in another engine; whether the open sentence came out as before.

        Decoding is greedy and independent of the other streams, so that a sentence whose memory was
        lost is read again: what was shown of it is written again and not shown twice.
        """
        self.engine, old = engine, self.stream
        if old is None:
            return True
        self.stream = None
        stream = self.stream = engine.open(old.knobs)
        stream.is_running, stream.stops = old.is_running, old.stops
        for word in self.words:
            engine.push(stream, word.tokens)
        if old.source_ended:
            engine.finish(stream)
        engine.advance([stream])
        while stream.halted and len(stream.target) < self._shown:
            stream.halted = False
            engine.advance([stream])
        stream.halted &= len(stream.target) > self._shown
        self._goes_on = True
        return stream.target[: self._shown] == old.target[: self._shown]

    # ---- the source

    def _give(self, word: Word) -> None:
        if not word.tokens:
            return
        if self.stream is None:
            self._open()
        assert self.stream is not None
        self.engine.push(self.stream, word.tokens)
        self.words.append(word)
        if self.cuts and self._cutter.push(word.text):
            self._heard.appendleft(End(events.PUNCTUATION))

    def _open(self) -> None:
        self.stream = self.engine.open(self.knobs)
        self.stream.is_running = not self.by_line
        if self.cuts:
            self.stream.stops = self._stops
        self._detokenizer = Detokenizer(self.tokenizers[1])
        self._shown = 0
        self._text = ""

    def _has_room(self, word: Word) -> bool:
        arrived = 0 if self.stream is None else len(self.stream.source)
        return arrived + len(word.tokens) < self.max_tokens

    def _end_source(self, reason: str) -> bool:
        """Whether there was a sentence to end."""
        self._cutter.reset()
        if self.stream is None:
            self._starts_line |= reason == events.FINISH
            return False
        self._reason = reason
        self.engine.finish(self.stream)
        return True

    # ---- the target

    def _new_text(self, stream: Stream) -> list[Written]:
        found = []
        for i in range(self._shown, len(stream.target)):
            text = self._detokenizer.push(stream.target[i])
            if not text:
                continue
            is_first = not self._text
            if is_first and not self._starts_line:
                text = " " + text  # a sentence that follows another on its line
            self._text += text
            self._starts_line = False
            read = self._entries_read(stream.reads[i])
            words = sum(not word.continues for word in self.words[:read])
            found.append(
                Written(
                    sentence=self.sentence,
                    seconds=self._seconds(stream.written_at[i]),
                    text=text,
                    source_words=words,
                    read_words=self._words_before + words,
                    confidence=stream.states[i].get(stream.reads[i]),
                    log_prob=stream.log_probs[i],
                    is_first=is_first,
                    is_whole=self._detokenizer.is_at_border,
                    spoken=self.words[read - 1].spoken if read else None,
                )
            )
        self._shown = len(stream.target)
        return found

    def _entries_read(self, tokens: int) -> int:
        """Entries of the sentence of which at least one of the first tokens is a part."""
        arrived = 0
        for n, word in enumerate(self.words):
            if arrived >= tokens:
                return n
            arrived += len(word.tokens)
        return len(self.words)

    def _seconds(self, time: float) -> float:
        return time - (self._began_at or 0.0)

    # ---- the end of a sentence

    def _is_end_of_sentence(self, stream: Stream) -> bool:
        """Whether the full stop just written ends a sentence of a source without punctuation."""
        last = self._text.split()[-1] if self._text else ""
        if not ends_sentence(last) or any(has_punctuation(word.text) for word in self.words):
            return False
        border = self._find_border(stream, self._entries_read(stream.reads[-1]))
        self._border = border if border.end_log_prob >= LEAST_END else None
        return self._border is not None

    def _find_border(self, stream: Stream, read: int) -> Border:
        """How many of the first `read` words the text translates."""
        tokens = [word.tokens for word in self.words[:read]]
        target = [token for token in stream.target if token != EOS]
        return find_border(self.engine.system, stream.knobs, tokens, target)

    def _translated_words(self, stream: Stream) -> int:
        """Words of the open sentence that its text translates: all, unless the model ended early.

        Only what the model had read decides, so that words which came early change nothing.
        """
        border, self._border = self._border, None
        if border is not None:
            return border.words
        read = self._entries_read(stream.reads[-1] if stream.reads else 0)
        if not stream.target or (stream.source_ended and read == len(self.words)):
            return len(self.words)
        return self._find_border(stream, max(read, 1)).words

    def _close(self, reason: str) -> Ended:
        """End the open sentence; words that it does not translate open the next one."""
        stream = self.stream
        assert stream is not None
        kept = len(self.words) if self.by_line else self._translated_words(stream)
        left, self.words = self.words[kept:], self.words[:kept]
        source = " ".join(word.text for word in self.words if word.text)
        own = sum(len(word.tokens) for word in self.words) if left else None
        self.record = record_of(stream, self.tokenizers, source, self.sentence, own)
        words = sum(not word.continues for word in self.words)
        ended = Ended(
            self.sentence, self._seconds(self.engine.clock()), self._text, source, words, reason
        )
        self.engine.close(stream)
        self._words_before += words
        self.stream, self.words = None, []
        self.sentence += 1
        self._starts_line = reason == events.FINISH and not left
        if left and reason != events.MODEL:
            self._heard.appendleft(End(reason))
        self._heard.extendleft(reversed(left))
        self._cutter.reset()
        return ended


@lru_cache(maxsize=16)
def _end_marks(tokenizer: Tokenizer) -> frozenset[int]:
    """Pieces that are nothing but marks that end sentences; found once, not for every session."""
    return frozenset(id for id, piece in enumerate(tokenizer.pieces) if is_end_mark(piece.text))
