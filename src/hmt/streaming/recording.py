"""From a stream to its record: what one translation did, in words and tokens."""

from collections.abc import Mapping, Sequence
from itertools import accumulate

from hmt.plain import to_plain
from hmt.streaming.record import Record
from hmt.systems.stream import Stream
from hmt.text.language_pair import Tokenizers
from hmt.text.pieces import word_ends, word_outs
from hmt.text.symbols import EOS
from hmt.text.tokenizer import Tokenizer


def record_of(
    stream: Stream,
    tokenizers: Tokenizers,
    source: str,
    index: int = 0,
    own: int | None = None,
    word_starts: Sequence[int] | None = None,
) -> Record:
    """The record of a stream that was given `source`.

    `word_starts` are the first tokens of its words, if the stream was given other tokens for these
    words than the tokenizer makes.  If the model itself ended the sentence, its source is the
    first `own` tokens and an end token that was never pushed; this counts as having arrived with
    the token in its place, or with the last write.
    """
    start = stream.arrived_at[0] if stream.arrived_at else 0.0
    tokens = stream.source if own is None else [*stream.source[:own], EOS]
    J = len(tokens)
    arrived_at = [*stream.arrived_at, *stream.written_at[-1:]] if own else stream.arrived_at
    states = [_clipped(*state, J) for state in zip(stream.states, stream.reads, strict=False)]
    source_tokenizer, target_tokenizer = tokenizers
    return Record(
        index=index,
        source=source,
        prediction=target_tokenizer.decode(stream.target),
        source_tokens=[source_tokenizer.piece(t) for t in tokens],
        target_tokens=[target_tokenizer.piece(t) for t in stream.target],
        reads=[min(read, J) for read in stream.reads],
        source_word_ends=_word_ends(tokens, source_tokenizer, source, word_starts),
        target_word_ends=word_ends(target_tokenizer, stream.target),
        target_word_outs=word_outs(target_tokenizer, stream.target),
        confidences=[list(seen.values()) for seen in states],
        moments=[list(seen) for seen in states],
        log_probs=list(stream.log_probs),
        times=[t - start for t in stream.written_at],
        arrivals=[t - start for t in arrived_at[:J]],
        settings=to_plain(stream.knobs),
    )


def _clipped(seen: Mapping[int, float], read: int, most: int) -> dict[int, float]:
    """Confidence by moment; moments past the end count as the end, where the writing one wins."""
    found = {min(moment, most): seen[moment] for moment in sorted(seen)}
    return {**found, min(read, most): seen[read]} if read in seen else found


def _word_ends(
    tokens: Sequence[int], tokenizer: Tokenizer, source: str, starts: Sequence[int] | None
) -> list[int]:
    """Index of the last token of each source word; an end token belongs to none. -> (words,)"""
    arrived = len(tokens) - int(tokens[-1:] == [EOS])
    if starts is None:
        *starts, total = accumulate((len(tokenizer.encode(w)) for w in source.split()), initial=0)
        if total != arrived:
            # a last resort: an unknown piece may look like the end of a word
            return word_ends(tokenizer, tokens)
    return [end - 1 for end in (*starts[1:], arrived)] if starts else []
