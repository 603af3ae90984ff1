"""Our numbers against SimulEval 1.1.4 and OmniSTEval 0.1.10, and the cases in which they go wrong.

Both pin old packages, so they run in an environment of their own, named by HMT_SIMULEVAL_VENV:
    python3 -m venv DIR && DIR/bin/pip install simuleval==1.1.4 omnisteval==0.1.10
    HMT_SIMULEVAL_VENV=DIR pytest tests/golden/test_other_scorers.py
"""

import csv
import json
import os
import random
import subprocess
from pathlib import Path
from typing import Any

import pytest

from hmt.errors import UserError
from hmt.evaluation.logs import read_log, write_log, write_simuleval_config
from hmt.metrics.instance import Instance
from hmt.metrics.latency import elapsed_words
from hmt.metrics.scores import score, word_latency

VENV = os.environ.get("HMT_SIMULEVAL_VENV", "")
pytestmark = pytest.mark.skipif(
    not VENV, reason="HMT_SIMULEVAL_VENV names no environment with simuleval and omnisteval"
)

# Runs inside that environment: every sentence of a log at full precision.
PER_SENTENCE = """
import json, sys
from simuleval.evaluator.instance import LogInstance, TextInputInstance
from simuleval.evaluator.scorers.latency_scorer import LATENCY_SCORERS_DICT
from omnisteval.data import Instance
from omnisteval import scoring

def text_instance(log):
    found = TextInputInstance(0, None, None)
    found.delays = log.delays
    return found

result = []
for line in open(sys.argv[1]):
    log, values = LogInstance(line), json.loads(line)
    one = {name: LATENCY_SCORERS_DICT[name]()({0: log}) for name in ("AL", "LAAL", "AP", "DAL")}
    one["ATD"] = LATENCY_SCORERS_DICT["ATD"]()({0: text_instance(log)})
    omni = {}
    instance = Instance(values["prediction"], values["reference"].strip(), index=0,
        source_length=values["source_length"], emission_cu=values["delays"],
        emission_ca=values.get("elapsed"))
    for name in ("AL", "LAAL", "AP", "DAL", "YAAL"):
        scorer = getattr(scoring, name + "Scorer")
        omni[name] = scorer()([instance])
        if "elapsed" in values:
            omni[name + "_CA"] = scorer(computation_aware=True)([instance])
    result.append([one, omni])
print(json.dumps(result))
"""


def run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    program, *arguments = map(str, command)
    path = Path(VENV) / "bin" / program
    return subprocess.run([path, *arguments], capture_output=True, text=True, check=False)


def rows(count: int, *, timed: bool) -> list[Instance]:
    """Sentences with all kinds of lengths and delays."""
    draw = random.Random(5)

    def text(length: int) -> str:
        return " ".join(draw.choice(["the", "a", "dog", "sits", "down"]) for _ in range(length))

    found = []
    for index in range(count):
        X, Y, R = (draw.randint(1, 25) for _ in range(3))
        delays = sorted(draw.randint(1, X) for _ in range(Y))
        work = [draw.random() for _ in range(Y)]
        elapsed = elapsed_words(delays, work, 0.4) if timed else None
        found.append(Instance(index, text(Y), delays, X, text(X), text(R), elapsed))
    return found


@pytest.mark.parametrize("timed", [False, True])
def test_every_sentence_agrees(tmp_path: Path, timed: bool) -> None:
    sentences = rows(500, timed=timed)
    path = tmp_path / "instances.log"
    write_log(path, sentences)
    answer = run("python", "-c", PER_SENTENCE, path)
    assert not answer.returncode, answer.stderr
    theirs = json.loads(answer.stdout.splitlines()[-1])
    compared = 0
    for ours, others in zip(word_latency(sentences), theirs, strict=True):
        assert ours is not None
        for other in others:
            for name, value in other.items():
                expected = float("nan") if ours[name] is None else ours[name]
                assert value == pytest.approx(expected, abs=1e-9, nan_ok=True), name
                compared += 1
    assert compared == 500 * (15 if timed else 10)


def simuleval(folder: Path, *options: str) -> dict[str, float] | str:
    """The scores of a log in a folder, or the last line of what went wrong."""
    write_simuleval_config(folder)
    answer = run("simuleval", "--score-only", "--output", folder, "--no-progress-bar", *options)
    if answer.returncode:
        return answer.stderr.strip().splitlines()[-1]
    # --score-only writes no scores.tsv: the table stands in the output, after its row number
    names, values = (line.split() for line in answer.stdout.strip().splitlines()[-2:])
    return dict(zip(names, map(float, values[1:]), strict=True))


def omnisteval(folder: Path, unit: str = "word") -> dict[str, float] | str:
    lines = [json.loads(line) for line in (folder / "instances.log").read_text().splitlines()]
    references = folder / "references.txt"
    references.write_text(
        "".join((line["reference"] or "").rstrip("\n") + "\n" for line in lines), encoding="utf-8"
    )
    log = folder / "instances.log"
    files = ["--hypothesis_file", f"{log}", "--ref_sentences_file", f"{references}"]
    answer = run("omnisteval", "shortform", *files, f"--{unit}_level", "--output_folder", folder)
    if answer.returncode:
        return answer.stderr.strip().splitlines()[-1]
    found = {}
    with (folder / "scores.tsv").open() as file:
        for name, value in list(csv.reader(file, delimiter="\t"))[1:]:
            if value not in ("YES", "NO"):
                found[name.replace(" (CU)", "").replace(" (CA)", "_CA")] = float(value)
    return found


def test_both_programs_score_our_log(tmp_path: Path) -> None:
    sentences = [*rows(60, timed=False), Instance(60, "", [], 4, "a b c d", "nothing was said .")]
    write_log(tmp_path / "instances.log", sentences)
    point = score(sentences, resamples=0)
    ours = point["latency"]["word"] | {
        "BLEU": point["quality"]["bleu"],
        "chrF": point["quality"]["chrf"],
    }
    for theirs, names in (
        (simuleval(tmp_path), "BLEU AL LAAL AP DAL"),
        (omnisteval(tmp_path), "BLEU chrF AL LAAL AP DAL YAAL"),
    ):
        assert isinstance(theirs, dict), theirs
        for name in names.split():
            assert theirs[name] == pytest.approx(ours[name], abs=6e-4), name
    assert "YAAL_CA" not in theirs, "without a clock there is no computation-aware score"


# wait-3 on six words: AL, LAAL, DAL, ATD and YAAL are 3, AP is 5/6
WAIT_3: dict[str, Any] = {
    "index": 0,
    "prediction": "a b c d e f",
    "delays": [3, 4, 5, 6, 6, 6],
    "prediction_length": 6,
    "reference": "a b c d e f\n",
    "source": "u v w x y z",
    "source_length": 6,
}
NO_BREAK = {"prediction": "10 000 c d e f", "reference": "10\u00a0000 c d e f\n"}
CHARACTERS = {"prediction": "abcdef", "reference": "ab cd ef\n"}
CA = "--computation-aware"

# what changes; options of SimulEval; SimulEval, OmniSTEval: wrong scores or words of a failure
DEFECTS: dict[str, tuple[dict[str, Any], list[str], Any, Any]] = {
    "ATD of a log": ({}, [], {"ATD": 0}, None),
    "zero clocks": ({"elapsed": [0] * 6}, [CA], {"AL": -2.5, "AL_CA": -2.5}, {"AL_CA": -2.5}),
    "no clocks": ({}, [CA], "StatisticsError", None),
    "double spaces": (
        {"reference": "a  b  c  d  e  f\n"},
        [],
        {"AL": 3.682},
        {"AL": 3.6818, "YAAL": 3.4545},
    ),
    "last space": ({"reference": "a b c d e f \n"}, [], {"AL": 3.214}, None),
    "non-breaking space": (NO_BREAK, [], {"AL": 2.7, "AP": 1.0}, {"AL": 2.7, "AP": 1.0}),
    "empty reference": ({"reference": "\n"}, [], {"AL": -4.5, "AP": 5}, {"AL": -4.5, "AP": 5}),
    "characters": (CHARACTERS, ["--eval-latency-unit", "char"], {"AL": 3.375}, {"AL": 3.375}),
    "index from 5": ({"index": 5}, [], "KeyError: 0", None),
    "no reference": ({"reference": None}, [], {"BLEU": 0}, "TypeError"),
    "no source length": ({"source_length": None}, [], "TypeError", "ValueError"),
}


@pytest.mark.parametrize("name", DEFECTS)
def test_cases_in_which_they_go_wrong(tmp_path: Path, name: str) -> None:
    change, options, *wrong = DEFECTS[name]
    (tmp_path / "instances.log").write_text(json.dumps({**WAIT_3, **change}) + "\n")
    unit = "char" if name == "characters" else "word"
    found = simuleval(tmp_path, *options), omnisteval(tmp_path, unit)
    for theirs, expected in zip(found, wrong, strict=True):
        if isinstance(expected, str):
            assert expected in str(theirs)
        elif expected is not None:
            assert isinstance(theirs, dict), theirs
            assert {key: theirs[key] for key in expected} == expected
    point = score(read_log(tmp_path / "instances.log"), resamples=0)
    ours = point["latency"]["word"]
    assert {ours[metric] for metric in ("AL", "LAAL", "DAL", "ATD", "YAAL")} == {3}
    assert ours["AP"] == 5 / 6
    assert point["quality"]["bleu"] is None or name != "no reference"


# Both take these without a word; we name the line.
NONSENSE = {
    "read past the end": ({"delays": [3, 4, 5, 6, 7, 9]}, {"DAL": 3.167}, {"DAL": 3.1667}),
    "falling reads": ({"delays": [3, 4, 2, 6, 6, 6]}, {"AL": 2.25}, {"AL": 2.25}),
    "too few delays": ({"delays": [3, 4, 5]}, {"AP": 0.333}, {"AP": 0.3333}),
}


@pytest.mark.parametrize("name", NONSENSE)
def test_nonsense_that_they_score(tmp_path: Path, name: str) -> None:
    change, *wrong = NONSENSE[name]
    (tmp_path / "instances.log").write_text(json.dumps({**WAIT_3, **change}) + "\n")
    for theirs, expected in zip((simuleval(tmp_path), omnisteval(tmp_path)), wrong, strict=True):
        assert isinstance(theirs, dict) and expected.items() <= theirs.items()
    with pytest.raises(UserError, match="line 1"):
        read_log(tmp_path / "instances.log")


def test_corpora_on_which_they_go_wrong(tmp_path: Path) -> None:
    log = tmp_path / "instances.log"

    def write(*changes: dict[str, Any]) -> None:
        log.write_text("".join(json.dumps({**WAIT_3, **change}) + "\n" for change in changes))

    write({}, {"delays": [6] * 6})
    theirs = simuleval(tmp_path)
    assert isinstance(theirs, dict) and theirs["AL"] == 6, "the first of two equal indices is lost"
    with pytest.raises(UserError, match="index 0 was already used"):
        read_log(log)

    write({"prediction": "", "delays": []})
    assert "StatisticsError" in str(simuleval(tmp_path))
    assert score(read_log(log), resamples=0)["skipped"]["word"]["sentences"] == 1

    write({"source": "", "source_length": 0, "prediction": "a", "delays": [0]})
    assert "ZeroDivisionError" in str(simuleval(tmp_path))
    assert score(read_log(log), resamples=0)["skipped"]["word"]["sentences"] == 1

    # YAAL keeps silent about sentences that it leaves out: a system that waits for the end of
    # every second sentence looks as fast as one that never does
    write({}, {"index": 1, "delays": [6] * 6})
    theirs = omnisteval(tmp_path)
    point = score(read_log(log), resamples=0)
    assert isinstance(theirs, dict) and theirs["YAAL"] == point["latency"]["word"]["YAAL"] == 3
    assert point["skipped"]["word"]["YAAL"] == 1
