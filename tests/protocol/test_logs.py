"""Records and logs: what goes out comes back, odd content is read, wrong lines are named."""

import json
from pathlib import Path
from typing import Any

import pytest

from hmt.errors import UserError
from hmt.evaluation.logs import log_line, read_log, write_log
from hmt.evaluation.records import read_records, write_records
from hmt.metrics.instance import instance_of
from hmt.metrics.scores import score
from hmt.streaming.record import Record


def record(**changes: Any) -> Record:
    """Source pieces "ich ha@@ be zeit", target "i ha@@ ve time"."""
    values: dict[str, Any] = {
        "index": 0,
        "source": "ich habe zeit",
        "reference": "i have some time",
        "prediction": "i have time",
        "source_tokens": ["ich", "ha", "be", "zeit", "</s>"],
        "target_tokens": ["i", "ha", "ve", "time", "</s>"],
        "reads": [1, 2, 3, 4, 5],
        "source_word_ends": [0, 2, 3],
        "target_word_ends": [0, 2, 3],
        "confidences": [[0.5], [0.25, 0.75], [0.5], [0.5], [1.0]],
        "settings": {"lower": 1},
    }
    return Record(**{**values, **changes})


def line(**changes: Any) -> dict[str, Any]:
    """A line as SimulEval writes it; None takes a key away."""
    values: dict[str, Any] = {
        "index": 0,
        "prediction": "i have time",
        "delays": [1, 2, 3],
        "elapsed": [0, 0, 0],
        "prediction_length": 3,
        "reference": "i have some time\n",
        "source": "ich habe zeit",
        "source_length": 3,
    }
    return {key: value for key, value in {**values, **changes}.items() if value is not ...}


def written(folder: Path, *lines: Any) -> Path:
    path = folder / "instances.log"
    texts = [text if isinstance(text, str) else json.dumps(text) for text in lines]
    path.write_text("".join(text + "\n" for text in texts), encoding="utf-8")
    return path


def test_records_come_back(tmp_path: Path) -> None:
    records = [record(), record(index=1, reference=None, source="a\u2028b\u00a0c „ß“")]
    write_records(tmp_path / "records.jsonl", records)
    assert read_records(tmp_path / "records.jsonl") == records


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"colour": 1}, '"colour" is unknown; allowed are index, source'),
        ({"reads": ...}, '"reads" is missing'),
        ({"reads": [1, 2]}, "2 values for 5 target tokens"),
        ({"reads": "12345"}, "list of whole numbers"),
        ({"reads": [1, 2, 3, 4, True]}, "list of whole numbers"),
        ({"log_probs": [-1, -1, -1, -1, float("-inf")]}, "list of numbers, finite and below"),
        ({"confidences": [[0.5], [0.5], [0.5], [0.5], 0.5]}, "list of lists of numbers"),
        ({"reference": 3}, "text or null"),
        ({"settings": []}, "a table"),
        ({"times": [0.1]}, "1 values for 5 target tokens"),
        ({"arrivals": [0.1]}, "1 values for 5 source tokens"),
        ({"source_word_ends": [0, 2, 9]}, "below the 5 tokens"),
        ({"source_word_ends": [2, 0]}, "must rise"),
        ({"target_word_ends": [0, 2]}, "3 words"),
        ({"target_word_outs": [0, 2]}, "one value for each word"),
        ({"target_word_outs": [0, 1, 4]}, "not before its end"),
        ({"target_word_outs": [0, 3, 6]}, "at most 5"),
    ],
)
def test_wrong_records_are_named(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    values = {**json.loads(record().to_json()), **change}
    values = {key: value for key, value in values.items() if value is not ...}
    path = written(tmp_path, record().to_json(), "", values)
    with pytest.raises(UserError, match=f"line 3: .*{message}"):
        read_records(path)


def test_log_is_simulevals(tmp_path: Path) -> None:
    instance = instance_of(record())
    text = (
        '{"index": 0, "prediction": "i have time", "delays": [1, 2, 3], "prediction_length": 3, '
        '"reference": "i have some time\\n", "source": "ich habe zeit", "source_length": 3}'
    )
    assert log_line(instance) == text
    write_log(tmp_path / "instances.log", [instance])
    assert read_log(tmp_path / "instances.log") == [instance]


def test_a_word_is_out_when_it_is_sure() -> None:
    # "ve" might go on until "time" is written
    assert instance_of(record(target_word_outs=[1, 3, 4])).delays == [2, 3, 3]
    assert instance_of(record(target_word_outs=[1, 3, 5])).delays == [2, 3, 3], "cut: it ends"


def test_elapsed_is_written_only_if_measured(tmp_path: Path) -> None:
    timed = record(times=[0.2, 0.4, 0.4, 0.8, 1.0])
    assert instance_of(timed).elapsed is None, "no rate was given"
    instance = instance_of(timed, seconds_per_word=0.4)
    # "ha" and "ve" wait for 2 words; "ve" takes no time of its own
    assert instance.elapsed == pytest.approx([1.5, 2.5, 4.0])
    write_log(tmp_path / "instances.log", [instance])
    (again,) = read_log(tmp_path / "instances.log")
    assert again.elapsed == instance.elapsed
    assert score([again])["latency"]["word"]["AL_CA"] is not None


def test_a_log_of_simuleval_is_read(tmp_path: Path) -> None:
    (instance,) = read_log(written(tmp_path, line()))
    assert instance.elapsed is None, "zeros mean that no clock ran"
    assert (instance.reference, instance.reference_length, instance.unit) == (
        "i have some time",
        4,
        "word",
    )


def odd(**changes: Any) -> dict[str, Any]:
    return line(prediction_length=..., elapsed=..., **changes)


def test_odd_logs_are_read(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        odd(index=7, prediction="", delays=[]),
        odd(index=8, prediction="yes", delays=[1], source="ja", source_length=1),
        "",
        odd(index=9, prediction="10\u00a0000 euros", delays=[1, 1, 3.0]),
        odd(index=10, prediction="  i  have\ttime ", reference="i  have  time"),
        odd(index=11, source_length=...),
        odd(index=12, reference="\n"),
        odd(index=13, source="", source_length=0, prediction="", delays=[]),
    )
    instances = read_log(path)
    assert [instance.index for instance in instances] == [7, 8, 9, 10, 11, 12, 13]
    assert [instance.source_length for instance in instances] == [3, 1, 3, 3, 3, 3, 0]
    assert instances[3].reference_length == 3, "double spaces make no words"
    assert instances[5].reference_length is None
    point = score(instances, resamples=20)
    assert point["skipped"]["word"]["sentences"] == 2
    assert point["sentences"] == 7


def test_one_wide_space_splitting_is_recognised(tmp_path: Path) -> None:
    numbers = odd(prediction="10\u00a0000 euros", delays=[1, 3], reference="10\u00a0000 euros")
    (instance,) = read_log(written(tmp_path, numbers))
    assert (instance.unit, instance.reference_length) == ("space", 2)


def test_text_without_spaces_counts_characters(tmp_path: Path) -> None:
    chinese = odd(prediction="我有时间", delays=[1, 2, 2, 3], reference="我 有 时间\n")
    path = written(tmp_path, chinese, odd(index=1, prediction="我", delays=[1]))
    instances = read_log(path)
    assert [instance.unit for instance in instances] == ["char", "char"]
    assert instances[0].reference_length == 4
    assert read_log(written(tmp_path, odd(prediction="我", delays=[1])))[0].unit == "word"


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("{", "not JSON"),
        ("[1]", "not a JSON object"),
        (odd(delays=...), '"delays" is missing'),
        (odd(prediction=...), '"prediction" is missing'),
        (odd(prediction=None), '"prediction" is null; it must be text'),
        (odd(delays=[1, 2]), "2 delays for a prediction of 3 words"),
        (odd(delays=[1, 2, 4]), "past the end"),
        (odd(delays=[2, 1, 3]), "never decrease"),
        (odd(delays=[1, 2, 2.5]), "whole numbers"),
        (odd(delays=[1, 2, float("nan")]), "a list of numbers, finite"),
        (odd(delays="1 2 3"), "a list of numbers"),
        (odd(source_length="3"), '"source_length" is "3"'),
        (odd(source=["Samplerate: 16000"]), "speech"),
        (odd(source=..., source_length=...), "both missing"),
        (odd(reference=...), '"reference" is missing here'),
        (odd(index=0), "index 0 was already used"),
        (odd(index="b"), '"index" is "b"'),
        (line(elapsed=[1.0]), "one number for each of the 3 delays"),
        (line(elapsed=[0.5, 2.5, 3.5]), "before its delay"),
    ],
)
def test_wrong_logs_are_named(tmp_path: Path, wrong: Any, message: str) -> None:
    if isinstance(wrong, dict) and message.split()[0] not in ("index", '"index"'):
        wrong = {**wrong, "index": 1}
    with pytest.raises(UserError, match=f"line 2: .*{message}"):
        read_log(written(tmp_path, line(), wrong))


def test_delays_past_the_end_can_be_clipped(tmp_path: Path) -> None:
    (instance,) = read_log(written(tmp_path, odd(delays=[1, 2, 9])), clip=True)
    assert instance.delays == [1, 2, 3]


def test_no_file_and_no_sentence(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be read"):
        read_log(tmp_path / "nothing.log")
    with pytest.raises(UserError, match="holds no sentence"):
        read_log(written(tmp_path, ""))
    with pytest.raises(UserError, match="must be one of word"):
        read_log(written(tmp_path, line()), unit="page")


def test_wrong_reads_of_a_record_name_the_sentence() -> None:
    with pytest.raises(UserError, match=r"sentence 4: .*past the end"):
        instance_of(record(index=4, reads=[1, 2, 3, 4, 9]))
