"""From the output of rounds to client events: deltas, ends of sentences, whole words."""

from collections.abc import Sequence

from hmt.server.channels import FinishedSentence, Text, Wait
from hmt.server.replies import (
    Delta,
    DeltaFacts,
    Done,
    DoneFacts,
    Waiting,
    WaitingFacts,
    WordFacts,
    rounded,
)
from hmt.streaming.events import Written
from hmt.streaming.whole_words import WordGate


class Wording:
    """Turns the outputs of a channel into events of the protocol."""

    def __init__(
        self, started: float, sentence: int = 0, offset: int = 0, shown_words: int = 0
    ) -> None:
        self._started = started
        self._first = sentence  # session-wide number of the channel's sentence 0
        self.offset = offset  # characters of translation so far
        self.words = 0
        self.sentences = 0
        self._word = shown_words  # of the open sentence
        self._gate = WordGate()

    def elapsed_ms(self, now: float) -> int:
        """Milliseconds since the session began."""
        return max(0, round(1000 * (now - self._started)))

    def text(self, text: Text, by_word: bool, has_detail: bool) -> list[Delta]:
        """The delta of one round, if there is text to show."""
        events = self._gate.release(text.events) if by_word else [*self._gate.rest(), *text.events]
        return [self._delta(events, text, has_detail)] if events else []

    def sentence(self, sentence: FinishedSentence, has_detail: bool) -> list[Delta | Done]:
        """The end of a sentence, preceded by what was held back of it."""
        out: list[Delta | Done] = []
        ended = sentence.ended
        if held := self._gate.rest():
            now = self._started + ended.seconds
            text = Text(held, ended.source_words, None, None, now)
            out.append(self._delta(held, text, has_detail))
        self._word = 0
        self.sentences += 1
        facts = DoneFacts(
            n=0,
            sentence=self._first + ended.sentence,
            text=ended.text.strip(),
            source=ended.source,
            reason=sentence.label,
            seq=sentence.seq,
            record=sentence.record if has_detail else None,
        )
        return [*out, Done(hmt=facts)]

    def waiting(self, wait: Wait) -> Waiting:
        """Why nothing is written."""
        return Waiting(
            hmt=WaitingFacts(
                sentence=self._first + wait.sentence,
                token=wait.token,
                moment=wait.moment,
                confidence=rounded(wait.confidence) or 0.0,
                threshold=wait.threshold,
                latest=wait.latest,
            )
        )

    def _delta(self, events: Sequence[Written], text: Text, has_detail: bool) -> Delta:
        joined = "".join(event.text for event in events)
        words = self._words(events)
        facts = DeltaFacts(
            n=0,
            offset=self.offset,
            sentence=self._first + events[-1].sentence,
            source_words=events[-1].source_words,
            read_of=text.read_of,
            confidence=[rounded(event.confidence) for event in events],
            log_prob=[rounded(event.log_prob) or 0.0 for event in events],
            forced=any(event.confidence == 1.0 for event in events),
            words=words if has_detail else [],
            lag_ms=_span(text.needed, text.now),
            compute_ms=_span(text.given, text.now),
        )
        self.offset += len(joined)
        return Delta(delta=joined, elapsed_ms=self.elapsed_ms(text.now), hmt=facts)

    def _words(self, events: Sequence[Written]) -> list[WordFacts]:
        """The words of a delta; the first may complete a word of the previous delta."""
        words: list[WordFacts] = []
        for event in events:
            starts = self._word == 0 or event.text.startswith(" ")
            if starts:
                if words:
                    words[-1].complete = True
                self._word += 1
                self.words += 1
            is_forced = event.confidence == 1.0
            if starts or not words:
                words.append(
                    WordFacts(max(0, self._word - 1), "", event.source_words, False, is_forced)
                )
            words[-1].text += event.text.strip()
            words[-1].read, words[-1].complete = event.source_words, event.is_whole
            words[-1].forced |= is_forced
        return words


def _span(since: float | None, now: float) -> int | None:
    return None if since is None else max(0, round(1000 * (now - since)))
