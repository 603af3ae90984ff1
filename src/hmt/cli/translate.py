"""`hmt translate`: a pipe that translates words while they arrive."""

import json
import sys
from collections.abc import Iterator
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import typer

from hmt.cli import _knobs as knobs
from hmt.cli import _words as words
from hmt.cli._app import app
from hmt.cli._model import DEVICE, INT8, MODEL, TRUST, open_model

if TYPE_CHECKING:
    from hmt.models.model import Model
    from hmt.streaming.session import Session
    from hmt.systems.stream import Stream


class Format(StrEnum):
    """Form of the output."""

    text = "text"
    jsonl = "jsonl"


@app.command(cls=knobs.KnobCommand, epilog=knobs.HELP)
def translate(
    context: typer.Context,
    model: str | None = MODEL,
    style: Format = typer.Option(
        Format.text, "--format", help="text, or jsonl: one JSON event per write."
    ),
    cuts_sentences: bool = typer.Option(
        False, "--sentences", help="Split running text into sentences at punctuation."
    ),
    device: str = DEVICE,
    trust: bool = TRUST,
    int8: bool = INT8,
) -> None:
    """Translate words from standard input while they arrive.

    One sentence per line. A word counts as soon as whitespace follows it, and its translation is
    written the moment it is ready.

    \b
    Examples:
      echo "Guten Morgen ." | hmt translate
      hmt translate model --lower 3 < text.de
    """
    loaded = open_model(model, device, int8, trust)
    chosen = knobs.settings(knobs.given(context), loaded.system.Knobs, loaded.system.name)
    session = loaded.session(cuts_sentences, **chosen)
    events = Events(loaded)
    for word in words.arriving():
        is_end = word == words.LINE_END
        text = session.finish() if is_end else session.push(word)
        if style is Format.text:
            _put(text + "\n" if is_end else text)
            continue
        for event in events.after(session, text, is_end):
            _put(json.dumps(event, ensure_ascii=False) + "\n")


def _put(text: str) -> None:
    if text:
        sys.stdout.write(text)
        sys.stdout.flush()


class Events:
    """What a session writes: one event per token that shows text, one per end of a sentence.

    The texts of the write events of a sentence, joined, are the text of its end event.
    """

    def __init__(self, model: "Model") -> None:
        self.model = model
        self.stream: Stream | None = None
        self.sentence = self.given = 0
        self.text = ""

    def after(self, session: "Session", text: str, is_end: bool) -> list[dict[str, Any]]:
        """The events of one word, or of the end of a sentence, that released `text`."""
        self.given += not is_end
        self.text += text
        events = list(self._writes(session.stream)) if text else []
        # where a session cut a very long sentence in two, its text is one event
        if "".join(event["text"] for event in events) != text:
            nothing = {"confidence": None, "log_prob": None, "seconds": None}
            events = [{**self._event("write", text, self.given), **nothing}]
        if is_end:
            events.append(self._event("end", self.text, self.given))
            self.sentence, self.given, self.text = self.sentence + 1, 0, ""
        return events

    def _event(self, kind: str, text: str, source_words: int) -> dict[str, Any]:
        return {
            "event": kind,
            "sentence": self.sentence,
            "text": text,
            "source_words": source_words,
        }

    def _writes(self, stream: "Stream") -> "Iterator[dict[str, Any]]":
        from hmt.text.pieces import Detokenizer, word_ends

        if stream is not self.stream:
            self.stream, self.shown = stream, 0
            self.detokenizer = Detokenizer(self.model.target_tokenizer)
        ends = word_ends(self.model.source_tokenizer, stream.source)
        new = range(self.shown, len(stream.target))
        self.shown = len(stream.target)
        for i in new:
            if text := self.detokenizer.push(stream.target[i]):
                unread = sum(end >= stream.reads[i] for end in ends)
                yield {
                    **self._event("write", text, self.given - unread),
                    "confidence": stream.states[i].get(stream.reads[i]),
                    "log_prob": stream.log_probs[i],
                    "seconds": round(stream.written_at[i] - stream.arrived_at[0], 4),
                }
