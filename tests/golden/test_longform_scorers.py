"""Our long-form numbers against OmniSTEval 0.1.10 and SimulStream 1.0.0, run for real.

They run in an environment of their own (`make scorers`), named by HMT_SIMULEVAL_VENV:
    HMT_SIMULEVAL_VENV=.venv-scorers pytest tests/golden/test_longform_scorers.py
"""

import csv
import json
import os
import random
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hmt.evaluation.evaluate import read_parallel
from hmt.evaluation.longform import LongForm, evaluate_longform
from hmt.evaluation.longform_logs import write_logs
from hmt.evaluation.talks import Delivered, Script
from hmt.metrics.longform import LONG_METRICS, Segment, Talk, elapsed_of_talk, segments_of
from hmt.metrics.longform_scores import score_segments
from hmt.metrics.scores import STANDARD
from hmt.models.model import load

VENV = os.environ.get("HMT_SIMULEVAL_VENV", "")
pytestmark = pytest.mark.skipif(
    not VENV, reason="HMT_SIMULEVAL_VENV names no environment with omnisteval"
)
# marks that stand alone, capitals, characters that normalisation changes
PLAIN = ["the", "dog", "sits", "a", "cat", "cat's", "sleeps", "houses", "x", "Down,", "THE"]
WORDS = [*PLAIN, ".", "-", ";", "!", "Ünder", "ﬁne", "½"]


def run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    program, *arguments = map(str, command)
    path = Path(VENV) / "bin" / program
    return subprocess.run([path, *arguments], capture_output=True, text=True, check=False)


def omnisteval(folder: Path, *more: str | Path) -> tuple[dict[str, float], list[dict[str, Any]]]:
    """Its scores of the logs in a folder, and what each sentence got."""
    out = folder / "omnisteval"
    files = [
        *("--speech_segmentation", folder / "segmentation.yaml"),
        *("--ref_sentences_file", folder / "references.txt"),
        *(more or ("--hypothesis_file", folder / "omnisteval.jsonl")),
    ]
    answer = run("omnisteval", "longform", *files, "--word_level", "--output_folder", out)
    assert not answer.returncode, answer.stderr
    with (out / "scores.tsv").open() as file:
        scores = {name: float(value) for name, value in list(csv.reader(file, delimiter="\t"))[1:]}
    instances = (out / "instances.resegmented.jsonl").read_text().splitlines()
    return scores, [json.loads(line) for line in instances]


def simulstream(folder: Path) -> tuple[str | Path, ...]:
    return (
        *("--hypothesis_format", "simulstream", "--hypothesis_file", folder / "simulstream.jsonl"),
        *("--simulstream_config_file", folder / "simulstream.yaml"),
    )


def compare(
    theirs: tuple[dict[str, float], list[dict[str, Any]]],
    segments: list[Segment],
    point: dict[str, Any],
    *,
    timed: bool,
) -> None:
    """Every sentence has the same words at the same times, and every score is the same."""
    scores, instances = theirs
    assert len(instances) == len(segments)
    for other, ours in zip(instances, segments, strict=True):
        assert other["prediction"] == ours.prediction
        assert other.get("emission_cu", []) == [1000 * delay for delay in ours.delays]
        assert other["source_length"] == 1000 * ours.source_length
    assert scores["BLEU"] == pytest.approx(point["quality"]["bleu"], abs=6e-5)
    assert scores["chrF"] == pytest.approx(point["quality"]["chrf"], abs=6e-5)
    for ending, theirs_end in (("", " (CU)"), *([("_CA", " (CA)")] if timed else [])):
        for name in LONG_METRICS:
            unit = 1 if name == "LongAP" else 1000
            value = point["latency"]["word"][name + ending]
            expected = pytest.approx(unit * value, abs=6e-5)
            assert scores[name + theirs_end] == expected, name + ending


def random_talks(kind: str) -> tuple[list[Script], list[Delivered]]:
    """Talks whose translations are the reference with errors, or have nothing to do with it."""
    draw = random.Random(kind)
    texts, delivered = [], []
    for n in range(12):
        lengths = [draw.randint(1, 9) for _ in range(draw.randint(1, 9))]
        references = [" ".join(draw.choices(WORDS, k=draw.randint(1, 9))) for _ in lengths]
        sources = tuple(" ".join(["w"] * length) for length in lengths)
        said = " ".join(references).split()
        if kind == "near":
            said = [draw.choice(WORDS) if draw.random() < 0.3 else w for w in said]
            said = [w for w in said if draw.random() < 0.85]
        else:
            said = draw.choices(WORDS, k=draw.randint(0, 40))
        X = sum(lengths)
        delays = sorted(draw.randint(1, X) for _ in said)
        seconds = [round(draw.random(), 3) for _ in range(X)]
        texts.append(Script(f"talk-{n}", sources, tuple(references)))
        delivered.append(Delivered(f"talk-{n}", said, delays, seconds, []))
    return texts, delivered


@pytest.mark.parametrize("kind", ["near", "far"])
@pytest.mark.parametrize("rate", [None, 0.5])
def test_omnisteval_agrees_on_random_talks(tmp_path: Path, kind: str, rate: float | None) -> None:
    texts, delivered = random_talks(kind)
    talks = [
        Talk(
            *(script.lengths, script.references, one.written, one.delays),
            None if rate is None else elapsed_of_talk(one.delays, one.seconds, rate),
        )
        for script, one in zip(texts, delivered, strict=True)
    ]
    segments, _ = segments_of(talks)
    point = score_segments(segments, replace(STANDARD, resamples=0))
    write_logs(tmp_path, texts, delivered, talks, rate or 1.0)
    compare(omnisteval(tmp_path), segments, point, timed=rate is not None)


def test_both_logs_of_a_model_agree_with_its_scores(world: Path, tmp_path: Path) -> None:
    text = read_parallel(world / "test.source", world / "test.target")
    scoring = replace(STANDARD, resamples=0)
    (point,) = evaluate_longform(
        load(world / "run"), text, tmp_path / "out", LongForm((4, 2)), scoring=scoring
    )
    (folder,) = (tmp_path / "out").glob("*text=written")
    rows = [json.loads(line) for line in (folder / "resegmented.jsonl").read_text().splitlines()]
    segments = [
        Segment(
            *(row["reference"], row["prediction"].split(), row["emission_cu"]),
            *(row["source_length"], row["time_to_recording_end"]),
        )
        for row in rows
    ]
    compare(omnisteval(folder), segments, point, timed=False)
    if run("python", "-c", "import simulstream").returncode:
        pytest.skip("the environment has no simulstream: pip install --no-deps simulstream==1.0.0")
    compare(omnisteval(folder, *simulstream(folder)), segments, point, timed=False)
