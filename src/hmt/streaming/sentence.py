"""The open sentence of a live translation: the words given to its stream, the text written."""

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass

from hmt.model.segmenter import Heard
from hmt.streaming import events
from hmt.streaming.borders import Border, find_border
from hmt.streaming.engine import Engine
from hmt.streaming.record import Record
from hmt.streaming.recording import record_of
from hmt.streaming.segmentation import LEAST_BORDER, Segmentation, is_unsure
from hmt.systems.stream import Stream
from hmt.text.language_pair import Tokenizers
from hmt.text.pieces import Detokenizer
from hmt.text.sentences import SentenceCutter, ends_sentence, has_punctuation
from hmt.text.symbols import EOS

# Number of words after which the commas of a sentence no longer promise a full stop: some
# recognisers write only commas.  In news and debates, 3 to 5 of 100 sentences are longer.
PATIENCE = 40


@dataclass(frozen=True, slots=True)
class Word:
    """A word that was heard."""

    text: str
    tokens: tuple[int, ...]
    spoken: float | None = None  # when, if the caller reports it

    @property
    def says_something(self) -> bool:
        """Whether it is more than punctuation."""
        return any(character.isalnum() for character in self.text)


class OpenSentence:
    """A stream together with the words that it was given.

    In running text (not `by_line`) the model does not run for punctuation alone: marks wait for the
    first word, and a sentence of nothing but marks is not translated.  Where it `cuts`, punctuation
    ends the sentence, and so does a word that the segmentation takes for the first of the next one.
    If the segmentation is unsure, the word waits for one more word, rarely for two, or for the end
    that the caller reports.
    """

    def __init__(
        self,
        engine: Engine,
        stream: Stream,
        tokenizers: Tokenizers,
        *,
        by_line: bool,
        cuts: bool,
        segmentation: Segmentation | None = None,
    ) -> None:
        self.engine, self.stream, self.tokenizers = engine, stream, tokenizers
        self.by_line, self.cuts = by_line, cuts
        self._segmentation = segmentation
        self._waiting: list[tuple[Word, Heard]] = []  # words and the latest opinions on them
        self.words: list[Word] = []
        self.text = ""  # written so far
        self.end_reason = ""  # why its source ended, once it has
        self._says_something = by_line
        self._ends_with_word = False  # its last word ended it, not the caller or the next word
        self._tokens: list[tuple[int, ...]] = []  # of each word, as the stream was given them
        self._starts: list[int] = []  # tokens before each word
        self._held: list[int] = []  # tokens of marks that wait for the first word
        self._cutter = SentenceCutter()
        self._detokenizer = Detokenizer(tokenizers[1])
        self._shown = 0

    # ---- the source

    @property
    def length(self) -> int:
        """Source tokens so far."""
        return len(self.stream.source) + len(self._held)

    @property
    def waiting(self) -> list[Word]:
        """Words that may belong to this sentence or the next: not decided yet."""
        return [word for word, _ in self._waiting]

    def take(self, word: Word, max_tokens: int) -> list[Word]:
        """Give the stream a word, or let it wait; return the words that open the next sentence.

        There are some if the sentence ends before this word, or before one that was waiting.
        """
        coming = sum(len(one.tokens) for one in (*self.waiting, word))
        is_full = bool(self.words) and self.length + coming >= max_tokens
        opinions: list[Heard] = []
        if self.cuts and self._segmentation is not None and not is_full:
            opinions = self._segmentation.hear(word.text)
        if opinions:
            later = reversed(opinions[1 : len(self._waiting) + 1])
            self._waiting = [*zip(self.waiting, later, strict=True), (word, opinions[0])]
            return self._settle(is_due=has_punctuation(word.text))
        left = self.release()
        if is_full and not self.end_reason:
            self.end_source(events.LENGTH)
        if self.end_reason:
            return [*left, word]
        self._give(word, None)
        return []

    def release(self) -> list[Word]:
        """Decide on the words that wait; return those that open the next sentence."""
        return self._settle(is_due=True)

    def _settle(self, is_due: bool) -> list[Word]:
        """Give the stream the words that wait, except those that open the next sentence.

        Unless a decision `is_due`, the first word with an unsure border, and all after it, go on
        waiting.
        """
        while self._waiting and not self.end_reason:
            word, heard = self._waiting[0]
            if not self._promises_full_stop(len(self.words)):
                if not is_due and is_unsure(heard.border, len(self._waiting) - 1):
                    return []
                if heard.border >= LEAST_BORDER:
                    self.end_source(events.MODEL)
                    break
            del self._waiting[0]
            self._give(word, heard)
        left, self._waiting = self.waiting, []
        return left

    def _give(self, word: Word, heard: Heard | None) -> None:
        """Give the stream a word; the sentence may end with it."""
        tokens = word.tokens
        if self._segmentation is not None:
            tokens = self._segmentation.written(word.text, tokens, heard)
        self._starts.append(self.length)
        self.words.append(word)
        self._tokens.append(tokens)
        self._held += tokens
        self._says_something = self._says_something or word.says_something
        if self._says_something:
            self._push()
        if self.cuts and self._cutter.push(word.text):
            self._ends_with_word = True
            self.end_source(events.PUNCTUATION if ends_sentence(word.text) else events.LENGTH)

    def end_source(self, reason: str) -> None:
        """No more words; those that wait belong to the next sentence."""
        self.end_reason = reason
        if self._segmentation is not None and reason != events.LENGTH:
            self._held += self._segmentation.end_mark()
        self._push()
        self._finish()

    def rebuild(self, engine: Engine, stream: Stream) -> bool:
        """Replay everything in another engine; return whether it wrote the text already shown.

        Decoding is greedy and independent of other streams, so it did unless the engines differ.
        """
        old, self.engine, self.stream = self.stream, engine, stream
        stream.is_running, stream.stops = old.is_running, old.stops
        engine.push(stream, old.source[:-1] if old.source_ended else old.source)
        if old.source_ended:
            self._finish()
        engine.advance([stream])
        while stream.halted and len(stream.target) < self._shown:
            stream.halted = False
            engine.advance([stream])
        if len(stream.target) == self._shown:
            stream.halted = False  # it was released before
        return stream.target[: self._shown] == old.target[: self._shown]

    def _finish(self) -> None:
        self.engine.finish(self.stream)
        if not self._says_something:
            self.stream.read = len(self.stream.source)
            self.stream.target_ended = True

    def _push(self) -> None:
        self.engine.push(self.stream, self._held)
        self._held = []

    # ---- the target

    def new_text(self) -> Iterator[tuple[int, str, bool]]:
        """Tokens written since the last call: index, text to append, whether the word is whole."""
        while self._shown < len(self.stream.target):
            i, self._shown = self._shown, self._shown + 1
            if self.stream.target[i] != EOS:
                text = self._detokenizer.push(self.stream.target[i])
                self.text += text
                yield i, text, self._detokenizer.is_at_border

    def words_read(self, tokens: int) -> int:
        """Words that begin within the first `tokens` source tokens."""
        return bisect_left(self._starts, tokens)

    # ---- the end

    def border_at_full_stop(self, least_end: float) -> Border | None:
        """Where the sentence ended, if the full stop just written ends it.

        It does if the source has no punctuation and the model agrees that the text is complete, but
        not if a segmenter is listening, which knows better.
        """
        if self._segmentation is not None and self._segmentation.is_listening:
            return None
        read = self.words_read(self.stream.reads[-1])
        last = self.text.split()[-1] if self.text else ""
        if not ends_sentence(last) or self._promises_full_stop(read):
            return None
        border = self._find_border(read)
        return border if border.end_log_prob >= least_end else None

    def _promises_full_stop(self, read: int) -> bool:
        """Whether the words read have punctuation, so that more of it is to be expected."""
        return read <= PATIENCE and any(has_punctuation(w.text) for w in self.words[:read])

    def end(self) -> tuple[str, int]:
        """Why the sentence ended, and how many words belong to it, now that its text is over.

        Only words that the model has read count, so words that arrive early change nothing.
        """
        stream = self.stream
        read = self.words_read(stream.reads[-1] if stream.reads else 0)
        is_read = stream.source_read or (self._ends_with_word and read == len(self.words))
        if is_read or self.by_line:
            return self.end_reason, len(self.words)
        if stream.target[-1] != EOS:
            return events.LENGTH, max(self._least_words, read)
        return events.MODEL, self._find_border(read).words

    @property
    def _least_words(self) -> int:
        """Words up to the first that says something: marks alone are no sentence."""
        spoken = (n for n, word in enumerate(self.words, 1) if word.says_something)
        return next(spoken, len(self.words))

    def _find_border(self, read: int) -> Border:
        """How many of the first `read` words the text translates."""
        least = self._least_words
        tokens = self._tokens[: max(least, read)]
        target = [token for token in self.stream.target if token != EOS]
        return find_border(self.engine.system, self.stream.knobs, tokens, target, least)

    def record(self, index: int, words: int | None = None) -> Record:
        """What happened so far; with `words`, the sentence ended after that many words."""
        own = self.words[:words]
        tokens = None
        if len(own) < len(self.words):
            tokens = self._starts[len(own)]
        elif words is not None and not self.end_reason:
            tokens = self.length
        source = " ".join(word.text for word in own)
        starts = self._starts[: len(own)]
        return record_of(self.stream, self.tokenizers, source, index, tokens, starts)
