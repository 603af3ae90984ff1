"""From a stream to its record: what one translation did, in words and tokens."""

from dataclasses import asdict
from itertools import accumulate

from hmt.streaming.record import Record
from hmt.systems.stream import Stream
from hmt.text.pieces import word_ends, word_outs
from hmt.text.tokenizer import Tokenizer

Tokenizers = tuple[Tokenizer, Tokenizer]  # source, target


def record_of(stream: Stream, tokenizers: Tokenizers, source: str, index: int = 0) -> Record:
    """The record of a stream that was given `source`."""
    start = stream.arrived_at[0] if stream.arrived_at else 0.0
    states = stream.states[: len(stream.target)]
    source_tokenizer, target_tokenizer = tokenizers
    return Record(
        index=index,
        source=source,
        prediction=target_tokenizer.decode(stream.target),
        source_tokens=[source_tokenizer.piece(t) for t in stream.source],
        target_tokens=[target_tokenizer.piece(t) for t in stream.target],
        reads=list(stream.reads),
        source_word_ends=_source_word_ends(stream, source_tokenizer, source),
        target_word_ends=word_ends(target_tokenizer, stream.target),
        target_word_outs=word_outs(target_tokenizer, stream.target),
        confidences=[[seen[t] for t in sorted(seen)] for seen in states],
        moments=[sorted(seen) for seen in states],
        log_probs=list(stream.log_probs),
        times=[t - start for t in stream.written_at],
        arrivals=[t - start for t in stream.arrived_at],
        settings=asdict(stream.knobs),
    )


def _source_word_ends(stream: Stream, tokenizer: Tokenizer, source: str) -> list[int]:
    """Index of the last token of each source word; (words,)."""
    # Not from the pieces if it can be helped: an unknown piece may look like a word's end.
    ends = [end - 1 for end in accumulate(len(tokenizer.encode(w)) for w in source.split())]
    arrived = len(stream.source) - int(stream.source_ended)
    if (ends[-1] + 1 if ends else 0) == arrived:
        return ends
    return word_ends(tokenizer, stream.source)
