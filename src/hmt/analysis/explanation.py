"""Why a translation came out as it did: the data behind the page and the picture."""

import dataclasses
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from hmt.analysis.replay import Seen, replay
from hmt.errors import UserError
from hmt.metrics.latency import checked_reads
from hmt.models.model import Model
from hmt.plain import from_plain, json_object, shortened
from hmt.streaming.record import Record
from hmt.text.backends import MARK
from hmt.text.symbols import BOS, EOS, PAD, SPECIALS
from hmt.text.tokenizer import CONTINUES, Tokenizer

FORMAT = 1
END = "(end)"
SELECTED, REJECTED, SKIPPED = "selected", "rejected", "not considered"


@dataclass(frozen=True)
class Word:
    """A token that a state would have written, as a reader sees it, and its probability."""

    text: str
    probability: float


@dataclass(frozen=True)
class State:
    """One candidate moment of one target token."""

    moment: int  # source tokens read
    role: str  # "selected", "rejected" or "not considered"
    confidence: float | None  # that this state writes; None if the system has none
    words: list[Word] = field(default_factory=list)  # best first; empty if not known
    attention: list[float] = field(default_factory=list)  # (moment); empty if not known


@dataclass(frozen=True)
class Token:
    """One token of source or target; `word` is None for the end token."""

    text: str
    word: int | None


@dataclass(frozen=True)
class Written(Token):
    """A target token and all its states, from early to late."""

    reads: int = 0
    states: list[State] = field(default_factory=list)

    @property
    def selected(self) -> State:
        return next(state for state in self.states if state.role == SELECTED)

    @property
    def rejected(self) -> list[State]:
        return [state for state in self.states if state.role == REJECTED]


@dataclass(frozen=True)
class Explanation:
    """Everything shown about one sentence."""

    source: str
    prediction: str
    reference: str | None
    source_words: list[str]
    target_words: list[str]
    source_tokens: list[Token]  # (J), the end token included
    target_tokens: list[Written]  # (I)
    settings: dict[str, Any]
    attention: str  # which attention is shown; "" if it is not known
    format: int = FORMAT

    def check(self) -> None:
        """Refuse what does not fit together: states, words and moments of another sentence."""
        length = len(self.source_tokens)
        for token in self.target_tokens:
            if sum(state.role == SELECTED for state in token.states) != 1:
                raise UserError(f"{shortened(token.text)} needs one state that is {SELECTED}.")
            moments = [token.reads, *(state.moment for state in token.states)]
            if not 0 <= min(moments) <= max(moments) <= length or not length:
                raise UserError(
                    f"{shortened(token.text)} has a moment outside the range 0 to {length}."
                )
        sides = (self.source_tokens, self.source_words), (self.target_tokens, self.target_words)
        for tokens, words in sides:
            for each in tokens:
                if each.word is not None and not 0 <= each.word < len(words):
                    raise UserError(f"{shortened(each.text)} belongs to no word of the sentence.")
        try:
            json.dumps(self.settings, allow_nan=False)
        except ValueError:
            raise UserError('"settings" holds a number that is not finite.') from None

    def to_json(self) -> str:
        """One JSON object."""
        return json.dumps(dataclasses.asdict(self), ensure_ascii=False, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> "Explanation":
        """The inverse of `to_json`."""
        try:
            values = json_object(text)
            if values.get("format") != FORMAT:
                given = shortened(values.get("format"))
                raise UserError(f"it has format {given}, this version reads {FORMAT}.")
            explanation = from_plain(cls, values)
            explanation.check()
            return explanation
        except UserError as error:
            reason = str(error).rstrip(".")
            raise UserError(
                f"This is not an explanation ({reason}); write one with `hmt explain --data`."
            ) from None


def explain(model: Model, sentence: str, layer: int | None = None, **knobs: Any) -> Explanation:
    """Translate one sentence as if it arrived word by word, and explain what happened."""
    if not isinstance(sentence, str):
        raise UserError(f"The sentence is a {type(sentence).__name__}; give a str.")
    if not sentence.split():
        raise UserError("The sentence is empty; give some words to translate.")
    return explain_record(model.translate([sentence], **knobs)[0], model, layer)


def explain_record(
    record: Record, model: Model | None = None, layer: int | None = None
) -> Explanation:
    """Explain a translation made earlier.

    With the model that made it, each state also shows the words it would have written and where it
    looked; the record alone has reads and confidences. `layer` is a decoder layer, from 1; the
    attention shown is its own, or the mean over all layers.
    """
    try:
        checked_reads(record.reads, len(record.source_tokens))
    except UserError as error:
        raise UserError(f"Record {record.index}: {error}") from None
    seen: dict[tuple[int, int], Seen] = {}
    texts: dict[tuple[int, int], str] = {}
    attention = ""
    if model is not None:
        seen, texts = _done_again(model, record, layer)
        which = "all decoder layers" if layer is None else f"decoder layer {layer}"
        attention = f"mean over all heads of {which}"
    source_words = _words(record.source, record.source_tokens, record.source_word_ends)
    target_words = _words(record.prediction, record.target_tokens, record.target_word_ends)
    written = []
    target_tokens = _tokens(record.target_tokens, record.target_word_ends, target_words)
    for i, token in enumerate(target_tokens):
        states = _states(record, i, token.text, seen, texts)
        written.append(Written(token.text, token.word, record.reads[i], states))
    return Explanation(
        source=record.source,
        prediction=record.prediction,
        reference=record.reference,
        source_words=source_words,
        target_words=target_words,
        source_tokens=_tokens(record.source_tokens, record.source_word_ends, source_words),
        target_tokens=written,
        settings=record.settings,
        attention=attention,
    )


def _states(
    record: Record,
    i: int,
    text: str,
    seen: dict[tuple[int, int], Seen],
    texts: dict[tuple[int, int], str],
) -> list[State]:
    """The states of target token i (from 0), from early to late; one of them is selected."""
    read, before = record.reads[i], record.reads[i - 1] if i else 0
    known: dict[int, float | None] = {}
    # if there never was a choice, confidences of one mean nothing
    had_choice = any(len(own) != 1 or own[0] != 1.0 for own in record.confidences)
    if had_choice and record.moments:
        known.update(zip(record.moments[i], record.confidences[i], strict=False))
    known.setdefault(read, None)
    states = []
    for moment in sorted(known):
        role = SELECTED if moment == read else REJECTED if before <= moment < read else SKIPPED
        found = seen.get((i + 1, moment))
        words = [Word(texts[i, id], p) for id, p in found.best] if found else []
        if role == SELECTED and not words and record.log_probs:
            words = [Word(text, math.exp(record.log_probs[i]))]
        states.append(
            State(moment, role, known[moment], words, found.attention[:moment] if found else [])
        )
    return states


def _done_again(
    model: Model, record: Record, layer: int | None
) -> tuple[dict[tuple[int, int], Seen], dict[tuple[int, int], str]]:
    """Replay the record's translation: what its states saw, and how their tokens are displayed."""
    layers = len(model.system.transformers[0].decoder)
    if layer is not None and not 1 <= layer <= layers:
        raise UserError(f"There is no decoder layer {layer}; the model has layers 1 to {layers}.")
    source = model.source_tokenizer.encode(record.source)
    pieces = [*map(model.source_tokenizer.piece, source), SPECIALS[EOS]]
    ids = {model.target_tokenizer.piece(n): n for n in range(model.target_tokenizer.size)}
    is_own = pieces == record.source_tokens and all(t in ids for t in record.target_tokens)
    target = [ids[token] for token in record.target_tokens] if is_own else []
    knobs = model.knobs(**record.settings) if is_own else None
    stream, seen = replay(model.system, source, target, knobs, layer)
    if not is_own or stream.reads != record.reads:
        raise UserError(
            f"The record {record.index} was not made by this model; name the model directory that "
            "it was made with, or leave out the model to see only what the record holds."
        )
    texts = {
        (i - 1, id): _shown(model.target_tokenizer, target[i - 2] if i > 1 else None, id)
        for (i, _), state in seen.items()
        for id, _ in state.best
    }
    return seen, texts


def _shown(tokenizer: Tokenizer, before: int | None, id: int) -> str:
    """A token as displayed after another one: with dots where it continues a word."""
    if id == EOS:
        return END
    piece = tokenizer.pieces[id]
    starts = before in (None, BOS, PAD, EOS)
    if before is not None and not starts:
        starts = not (piece.joins_left and tokenizer.pieces[before].joins_right)
    return _dotted(piece.text or tokenizer.piece(id), starts)


def _dotted(text: str, starts: bool) -> str:
    return text if starts or not any(c.isalnum() for c in text) else f"…{text}"


def _tokens(symbols: Sequence[str], ends: Sequence[int], words: Sequence[str]) -> list[Token]:
    """Tokens of a record as a reader sees them, each with the index of its word."""
    tokens = []
    word = 0
    for n, symbol in enumerate(symbols):
        while word < len(ends) and ends[word] < n:
            word += 1
        if word == len(ends):  # the end token, or invisible marks after the last word
            tokens.append(Token(END if symbol == SPECIALS[EOS] else _text(symbol), None))
            continue
        starts = n == 0 or n - 1 in ends
        # a whole word is shown as it was given, even if the vocabulary does not know it
        text = words[word] if starts and n == ends[word] else _dotted(_text(symbol), starts)
        tokens.append(Token(text, word))
    return tokens


def _text(symbol: str) -> str:
    """A vocabulary entry without the marks of where words begin or continue."""
    return symbol.removeprefix(MARK).removesuffix(CONTINUES) or symbol


def _words(sentence: str, symbols: Sequence[str], ends: Sequence[int]) -> list[str]:
    """The words of a sentence, or of its tokens where these do not come from whole words."""
    words = sentence.split()
    if len(words) == len(ends):
        return words
    borders = [-1, *ends]
    return ["".join(_text(s) for s in symbols[a + 1 : b + 1]) for a, b in pairwise(borders)]
