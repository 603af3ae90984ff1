"""Logs of talks for other scorers: OmniSTEval's long form and SimulStream.

Both count time, and a text has none: one source word lasts one second.  OmniSTEval's delays are
milliseconds, so its latencies are thousandths of words; SimulStream's are seconds, that is words.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from hmt.evaluation.talks import Delivered, Script
from hmt.files import write_atomically
from hmt.metrics.longform import Segment, Talk


def write_logs(
    folder: Path,
    scripts: Sequence[Script],
    delivered: Sequence[Delivered],
    talks: Sequence[Talk],
    rate: float,
) -> None:
    """Write all files that the two programs need; `rate` is the length of a word in seconds."""
    _write(folder / "segmentation.yaml", (row for script in scripts for row in _segments(script)))
    _write(folder / "references.txt", (line for script in scripts for line in script.references))
    rows = (_omnisteval(n, *both) for n, both in enumerate(zip(delivered, talks, strict=True)))
    _write(folder / "omnisteval.jsonl", map(json.dumps, rows))
    _write(folder / "simulstream.jsonl", map(json.dumps, _simulstream(delivered, rate)))
    # how SimulStream joins tokens: ours are whole words
    _write(folder / "simulstream.yaml", ["detokenizer_type: simuleval", "latency_unit: word"])


def write_segments(path: Path, segments: Sequence[Segment]) -> None:
    """Write what each reference sentence was assigned, with OmniSTEval's keys, in source words."""
    rows = (
        {
            "index": n,
            "prediction": segment.prediction,
            "reference": segment.reference,
            "source_length": segment.source_length,
            "emission_cu": segment.delays,
            **({} if segment.elapsed is None else {"emission_ca": segment.elapsed}),
            "time_to_recording_end": segment.to_end,
        }
        for n, segment in enumerate(segments)
    )
    _write(path, (json.dumps(row, ensure_ascii=False) for row in rows))


def _write(path: Path, lines: Iterable[str]) -> None:
    write_atomically(path, "".join(line + "\n" for line in lines))


def _segments(script: Script) -> Iterator[str]:
    start = 0
    for length in script.lengths:
        yield f"- {{wav: {script.name}, offset: {start:.1f}, duration: {length:.1f}}}"
        start += length


def _omnisteval(index: int, one: Delivered, talk: Talk) -> dict[str, Any]:
    row: dict[str, Any] = {
        "index": index,
        "source": one.name,
        "source_length": 1000 * len(one.seconds),
        "prediction": " ".join(one.written),
        "prediction_length": len(one.written),
        "delays": [1000 * delay for delay in one.delays],
    }
    # without a clock there is no key: zeros would be scored
    if talk.elapsed is not None:
        row["elapsed"] = [1000 * time for time in talk.elapsed]
    return row


def _simulstream(delivered: Sequence[Delivered], rate: float) -> Iterator[dict[str, Any]]:
    """One line per source word, even where nothing was written."""
    for index, one in enumerate(delivered):
        yield {"id": index, "metadata": {"wav_name": f"{one.name}.wav"}}
        words: dict[int, list[str]] = {}
        for word, delay in zip(one.written, one.delays, strict=True):
            words.setdefault(delay, []).append(word)
        for given, seconds in enumerate(one.seconds, 1):
            yield {
                "id": index,
                "total_audio_processed": float(given),
                "computation_time": seconds / rate,
                "generated_tokens": words.get(given, []),
                "deleted_tokens": [],
            }
