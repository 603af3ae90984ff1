"""Running text, sentence after sentence: words are heard, events come out.

`Live` alone keeps track of what a stream has newly written.  It has no loop: the driver of the
engine (a single session, or a server with hundreds) advances the stream that `feed` returns and
then calls `collect`.

A sentence is ended by punctuation, by a pause or an end that the caller reports, by its length, or
by the model itself.  No word is dropped: what the model did not translate opens the next sentence.
"""

import math
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from hmt.limits import MAX_SENTENCE_TOKENS, MAX_WORD_CHARACTERS
from hmt.model.segmenter import Segmenter
from hmt.plain import to_plain
from hmt.streaming import events
from hmt.streaming.choice import end_marks
from hmt.streaming.engine import Engine
from hmt.streaming.events import Ended, Event, Notice, Written
from hmt.streaming.record import Record
from hmt.streaming.segmentation import Segmentation
from hmt.streaming.sentence import OpenSentence, Word
from hmt.systems.stream import Stream
from hmt.text.language_pair import Tokenizers
from hmt.text.symbols import UNK

# If the model gives the end a lower probability, its full stop belongs to an abbreviation.
LEAST_END = math.log(0.2)


@dataclass(frozen=True)
class SentenceRules:
    """How running text is divided into sentences."""

    by_line: bool = False  # only the caller ends a sentence; its text ends where the model ends it
    cuts: bool = True  # whether punctuation ends sentences
    max_tokens: int = MAX_SENTENCE_TOKENS
    segmenter: Segmenter | None = None  # finds the sentences of text without punctuation


RUNNING_TEXT = SentenceRules()


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
        rules: SentenceRules = RUNNING_TEXT,
    ) -> None:
        self.engine, self.tokenizers, self.knobs = engine, tokenizers, knobs
        self.rules = rules  # from the next sentence on
        self.sentence: OpenSentence | None = None
        self.number = 0  # of the open sentence or the next one, from 0
        self.record: Record | None = None  # of the sentence that ended last
        self.words_heard = 0
        self._heard: deque[Word | End] = deque()
        self._notices: list[Notice] = []
        self._words_before = 0  # in earlier sentences
        self._most_read = 0  # words; those read too far are read again in the next sentence
        self.starts_line = True  # no space before the next sentence
        self._goes_on = False  # a stream that halted was released
        self._began_at: float | None = None

    # ---- what is heard

    def hear(self, word: str, spoken: float | None = None) -> None:
        """A word has arrived."""
        if self._began_at is None:
            self._began_at = self.engine.clock()
        if len(word) > MAX_WORD_CHARACTERS:
            word = word[:MAX_WORD_CHARACTERS]  # the rest is not even kept
            message = f"A word is too long: its first {MAX_WORD_CHARACTERS} characters are read."
            self._notices.append(Notice(self.number, self.seconds, "long_word", message))
        tokens = self.tokenizers[0].encode(word)[: self.rules.max_tokens - 1]
        # a word without tokens is unknown, not lost
        self._heard.append(Word(word, tuple(tokens) or (UNK,), spoken))
        self.words_heard += 1

    def end(self, reason: str) -> None:
        """The sentence has ended."""
        self._heard.append(End(reason))

    @property
    def is_idle(self) -> bool:
        """Whether everything heard has been given to the model, except words that wait."""
        return not self._heard

    @property
    def waiting_words(self) -> int:
        """Words heard but not yet given to the model."""
        waiting = 0 if self.sentence is None else len(self.sentence.waiting)
        return waiting + sum(isinstance(item, Word) for item in self._heard)

    @property
    def seconds(self) -> float:
        """Time since the first word."""
        return 0.0 if self._began_at is None else self.engine.clock() - self._began_at

    def set(self, knobs: object, changed: Iterable[str]) -> dict[str, str]:
        """Change settings: movable ones at once, the others from the next sentence on."""
        changed = set(changed)
        self.knobs = knobs
        if self.sentence is None:
            return dict.fromkeys(changed, "now")
        movable = self.engine.system.MOVABLE & changed
        stream = self.sentence.stream
        moved = {name: getattr(knobs, name) for name in movable}
        stream.knobs = self.engine.system.knobs(**{**to_plain(stream.knobs), **moved})
        return {name: "now" if name in movable else "next_sentence" for name in changed}

    # ---- the loop's two calls

    def feed(self) -> Stream | None:
        """Give the model what was heard; return the stream to advance, or None."""
        goes_on, self._goes_on = self._goes_on, False
        while self._heard and not (self.sentence is not None and self.sentence.end_reason):
            item = self._heard.popleft()
            if isinstance(item, Word):
                left = (self.sentence or self._open()).take(item, self.rules.max_tokens)
                self._heard.extendleft(reversed(left))
                goes_on = True
            elif self.sentence is not None:
                self._end(self.sentence, item)
                goes_on = True
            else:
                self.starts_line |= item.reason == events.FINISH
        return self.sentence.stream if goes_on and self.sentence is not None else None

    def collect(self) -> list[Event]:
        """Events for what the stream wrote since the last call, and for the end of its sentence."""
        sentence = self.sentence
        found: list[Event] = list(self._notices)
        self._notices = []
        if sentence is None:
            return found
        found += [self._written(sentence, *new) for new in sentence.new_text()]
        stream = sentence.stream
        if stream.halted:
            stream.halted = False
            border = sentence.border_at_full_stop(LEAST_END)
            if border is not None:
                found.append(self._close(sentence, events.MODEL, border.words))
            self._goes_on = border is None
        elif stream.target_ended and (stream.source_ended or not self.rules.by_line):
            found.append(self._close(sentence, *sentence.end()))
        return found

    def drop(self) -> None:
        """Discard the open sentence and everything heard since; text already written stays."""
        self._heard.clear()
        self._goes_on = False
        if self.sentence is not None:
            self._leave(self.sentence, len(self.sentence.words))

    def rebuild(self, engine: Engine) -> bool:
        """Continue in another engine; return whether the open sentence came out as before.

        What was shown of it is not shown again.
        """
        self.engine, sentence, self.sentence = engine, self.sentence, None
        if sentence is None:
            return True
        stream = engine.open(sentence.stream.knobs)  # where this fails, no sentence is open
        self.sentence, self._goes_on = sentence, True
        return sentence.rebuild(engine, stream)

    # ---- within

    def _end(self, sentence: OpenSentence, end: End) -> None:
        left = sentence.release()
        if sentence.end_reason:  # it has ended before a word that waited, or with it
            self._heard.extendleft([end, *reversed(left)])
        else:
            sentence.end_source(end.reason)

    def _open(self) -> OpenSentence:
        stream = self.engine.open(self.knobs)
        stream.is_running = not self.rules.by_line
        cuts = self.rules.cuts and not self.rules.by_line
        if cuts:
            stream.stops = end_marks(self.tokenizers[1])
        segmentation = None
        if self.rules.segmenter is not None:
            segmentation = Segmentation(self.rules.segmenter, self.tokenizers[0])
        self.sentence = OpenSentence(
            self.engine,
            stream,
            self.tokenizers,
            by_line=self.rules.by_line,
            cuts=cuts,
            segmentation=segmentation,
        )
        return self.sentence

    def _written(self, sentence: OpenSentence, i: int, text: str, is_whole: bool) -> Written:
        stream = sentence.stream
        words = sentence.words_read(stream.reads[i])
        is_first = sentence.text == text  # of its sentence; `new_text` adds the next one later
        if text and is_first and not self.starts_line:
            text = " " + text  # a sentence that follows another on its line
        self.starts_line = self.starts_line and not text
        self._most_read = max(self._most_read, self._words_before + words)
        return Written(
            sentence=self.number,
            seconds=stream.written_at[i] - (self._began_at or 0.0),
            text=text,
            source_words=words,
            read_words=self._most_read,
            confidence=stream.states[i].get(stream.reads[i]),
            log_prob=stream.log_probs[i],
            is_whole=is_whole,
            spoken=sentence.words[words - 1].spoken if words else None,
        )

    def _close(self, sentence: OpenSentence, reason: str, count: int) -> Ended:
        """End the open sentence; words beyond the first `count` open the next one."""
        words, left = sentence.words[:count], [*sentence.words[count:], *sentence.waiting]
        self.record = sentence.record(self.number, count)
        source = " ".join(word.text for word in words)
        ended = Ended(self.number, self.seconds, sentence.text, source, count, reason)
        if sentence.end_reason in (events.FINISH, events.PAUSE) and sentence.end_reason != reason:
            self._heard.appendleft(End(sentence.end_reason))  # the caller's end is still to come
        self._heard.extendleft(reversed(left))
        self.starts_line |= reason == events.FINISH
        self._leave(sentence, count)
        return ended

    def _leave(self, sentence: OpenSentence, words: int) -> None:
        self.engine.close(sentence.stream)
        self._words_before += words
        self.sentence = None
        self.number += 1
