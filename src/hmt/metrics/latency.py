"""Latency of one sentence, as pure functions of its delays.

X source length, Y written length, R reference length; delays are the Y amounts of source that had
been read when each unit was written. All are counted in one unit. Integers stay integers up to one
final division, so the result is the float nearest to the true fraction.
"""

from bisect import bisect_left
from collections.abc import Sequence

from hmt.errors import UserError

METRICS = ("AL", "LAAL", "AP", "CW", "DAL", "ATD", "YAAL")
# Consecutive wait counts reads, which computing time does not change.
COMPUTATION_AWARE = tuple(f"{name}_CA" for name in METRICS if name != "CW")


def mean_lag(delays: Sequence[float], source_length: float, target_length: float) -> float:
    """Mean of delay - (i-1)·X/Y' over the given delays; Y' is `target_length`."""
    count = len(delays)
    ideal = source_length * (count * (count - 1) // 2)
    return (target_length * sum(delays) - ideal) / (count * target_length)


def average_lagging(delays: Sequence[float], source_length: float, target_length: float) -> float:
    """AL (LAAL with the longer length): mean lag up to the first unit written at the source end."""
    through = next((i for i, d in enumerate(delays, 1) if d >= source_length), len(delays))
    return mean_lag(delays[:through], source_length, target_length)


def yaal(delays: Sequence[float], source_length: float, target_length: float) -> float | None:
    """YAAL: mean lag of the units written before the source ended; None if there are none."""
    before = next((i for i, d in enumerate(delays) if d >= source_length), len(delays))
    return mean_lag(delays[:before], source_length, target_length) if before else None


def average_proportion(
    delays: Sequence[float], source_length: float, target_length: float
) -> float:
    """AP: the share of the source that had been read, on average."""
    return sum(delays) / (source_length * target_length)


def consecutive_wait(delays: Sequence[float]) -> float:
    """CW: source units read at a time, averaged over the times when anything was read."""
    waits = sum(1 for before, now in zip([0, *delays], delays, strict=False) if now > before)
    return delays[-1] / waits if waits else 0.0


def differentiable_average_lagging(delays: Sequence[float], source_length: float) -> float:
    """DAL: mean of the running maximum of the lags, which equals its usual recursion."""
    Y = len(delays)
    total: float = 0
    highest: float | None = None
    for i, delay in enumerate(delays):
        lag = Y * delay - i * source_length  # Y times the lag stays whole
        highest = lag if highest is None else max(highest, lag)
        total += highest
    return total / (Y * Y)


def average_token_delay(delays: Sequence[int], starts: Sequence[float] | None = None) -> float:
    """ATD for text: every unit lasts one.

    `starts` (if computing takes time) replace the delays as the earliest moments of writing, while
    source partners still follow the delays.
    """
    total: float = 0
    end: float = 0
    chunk_start, read_before = 0, 0
    for t, delay in enumerate(delays):
        if t and delay != delays[t - 1]:
            chunk_start, read_before = t, delays[t - 1]
        partner = min(t + 1 - max(0, chunk_start - read_before), delay)
        end = max(delay if starts is None else starts[t], end) + 1
        total += end - partner
    return total / len(delays)


def checked_reads(reads: Sequence[int], source_length: int, *, clip: bool = False) -> list[int]:
    """The reads as a list of ints, checked never to decrease or exceed the source length.

    With `clip`, reads past the end count as the source length instead of being refused.
    """
    values = reads.tolist() if hasattr(reads, "tolist") else list(reads)
    for i, read in enumerate(values, 1):
        if isinstance(read, bool) or not isinstance(read, int) or read < 0:
            raise UserError(f"read {i} is {read!r}; reads are whole numbers of source units, >= 0.")
        if i > 1 and read < values[i - 2]:
            raise UserError(
                f"read {i} is {read} after {values[i - 2]}; reads must never decrease, because "
                "what was read stays read."
            )
    if values and values[-1] > source_length:
        if not clip:
            raise UserError(
                f"a read of {values[-1]} is past the end of a source of length {source_length}; "
                "correct the reads, or ask for clipping (--clip)."
            )
        values = [min(read, source_length) for read in values]
    return values


def latency(
    reads: Sequence[int],
    source_length: int,
    reference_length: int | None = None,
    *,
    elapsed: Sequence[float] | None = None,
    clip: bool = False,
) -> dict[str, float | None] | None:
    """All metrics of one sentence; None if nothing was written or there is no source.

    Without a reference length every metric uses the written length (papers). With one, AL and AP
    use it, LAAL and YAAL the longer of the two, DAL the written length (SimulEval, OmniSTEval).
    With `elapsed`, the computation-aware delays in the unit of the reads, *_CA keys are added.
    YAAL is None if all was written after the source had ended.
    """
    X, Y = source_length, len(reads)
    delays = checked_reads(reads, X, clip=clip)
    if not Y or X <= 0:
        return None
    reference = reference_length or Y
    result = {
        **_lags(delays, X, reference),
        "CW": consecutive_wait(delays),
        "ATD": average_token_delay(delays),
    }
    if elapsed is not None:
        if len(elapsed) != Y:
            raise UserError(f"there are {len(elapsed)} elapsed times for {Y} written units.")
        aware = _lags(elapsed, X, reference)
        aware["ATD"] = average_token_delay(delays, elapsed)
        result |= {f"{name}_CA": value for name, value in aware.items()}
    return {name: result[name] for name in (*METRICS, *COMPUTATION_AWARE) if name in result}


def _lags(delays: Sequence[float], X: int, reference: int) -> dict[str, float | None]:
    longer = max(len(delays), reference)
    return {
        "AL": average_lagging(delays, X, reference),
        "LAAL": average_lagging(delays, X, longer),
        "AP": average_proportion(delays, X, reference),
        "DAL": differentiable_average_lagging(delays, X),
        "YAAL": yaal(delays, X, longer),
    }


def words_read(reads: Sequence[int], source_word_ends: Sequence[int]) -> list[int]:
    """Source words that had arrived when each number of tokens had been read (I).

    Words arrive whole, so a word counts from its first piece on: what is written between two pieces
    of a word is written after that word arrived.
    """
    words = len(source_word_ends)
    return [
        min(bisect_left(source_word_ends, read - 1) + 1, words) if read else 0 for read in reads
    ]


def word_reads(
    reads: Sequence[int], source_word_ends: Sequence[int], target_word_outs: Sequence[int]
) -> list[int]:
    """Source words that had arrived when each target word was known to be complete (words).

    `target_word_outs` are the tokens that showed each word to be complete; a word that was still
    open when the translation ended was complete then.
    """
    came = words_read(reads, source_word_ends)
    return [came[min(out, len(came) - 1)] for out in target_word_outs]


def computing_seconds(
    times: Sequence[float], reads: Sequence[int], arrivals: Sequence[float] = ()
) -> list[float]:
    """Seconds of work before each written token, from a monotonic clock's `times` of writing (I).

    `arrivals` (J) are the times at which source tokens came on the same clock; time spent waiting
    for them is not work. Without them, the whole source was available from the start.
    """
    seconds = []
    before = 0.0
    for time, read in zip(times, reads, strict=True):
        came = arrivals[min(read, len(arrivals)) - 1] if arrivals and read else 0.0
        seconds.append(max(0.0, time - max(before, came)))
        before = time
    return seconds


def elapsed_words(
    delays: Sequence[float], seconds: Sequence[float], seconds_per_word: float
) -> list[float]:
    """When each token is out, in source words (I).

    A word comes every `seconds_per_word`; work on a token starts when its source has arrived and
    the previous token is out.
    """
    if not seconds_per_word > 0:
        raise UserError(f"seconds per word is {seconds_per_word}; it must be above zero.")
    elapsed: list[float] = []
    for delay, work in zip(delays, seconds, strict=True):
        start = max(delay, elapsed[-1]) if elapsed else delay
        elapsed.append(start + work / seconds_per_word)
    return elapsed
