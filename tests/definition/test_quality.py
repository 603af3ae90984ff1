"""Quality against sacreBLEU, resampling against plain loops, and the shape of scores.json."""

import json
import random
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from hmt.errors import UserError
from hmt.evaluation.points import add_point, read_points
from hmt.metrics.bootstrap import draws, interval, mean_of, resample
from hmt.metrics.compare import compare, compare_curves
from hmt.metrics.instance import Instance
from hmt.metrics.quality import export_comet, quality
from hmt.metrics.scores import score
from hmt.streaming.record import Record

WORDS = ["the", "a", "man", "dog", "sits", "runs", "in", "park", "green", "house", ".", ","]


def corpus(wait: int, errors: float, count: int = 60) -> list[Instance]:
    """A wait-k system that gets a share of the words wrong, on sentences that do not change."""
    texts, mistakes = random.Random(1), random.Random(wait)
    instances = []
    for index in range(count):
        words = [texts.choice(WORDS) for _ in range(texts.randint(4, 14))]
        output = [mistakes.choice(WORDS) if mistakes.random() < errors else w for w in words]
        delays = [min(wait + i, len(words)) for i in range(len(words))]
        text = " ".join(words)
        instances.append(Instance(index, " ".join(output), delays, len(words), text.upper(), text))
    return instances


def record_of(instance: Instance) -> Record:
    """A record in which words are tokens."""
    source = [*(instance.source or "").split(), "</s>"]
    target = [*instance.prediction.split(), "</s>"]
    return Record(
        index=instance.index,
        source=instance.source or "",
        reference=instance.reference,
        prediction=instance.prediction,
        source_tokens=source,
        target_tokens=target,
        reads=[*instance.delays, len(source)],
        source_word_ends=list(range(len(source) - 1)),
        target_word_ends=list(range(len(target) - 1)),
        times=[0.1 * i for i in range(len(target))],
    )


def test_the_papers_bleu_is_the_same_on_raw_and_on_tokenised_text() -> None:
    raw = ["A man, a dog and 3.5 cats.", "He didn't say: no!"], ["A man, one Dog.", "He says: No!"]
    apart = ([re.sub(r"([,.:!])(?!\d)", r" \1", line) for line in side] for side in raw)
    predictions, references = apart
    found, _ = quality(*raw)
    again, _ = quality(predictions, references)
    assert found["bleu_tokenised_lc"].corpus() == again["bleu_tokenised_lc"].corpus() > 0


def test_tokenised_text_is_not_tokenised_again() -> None:
    """multi-bleu -lc counts `&apos;s` as one token; 13a would make several of it."""
    predictions = ["The man &apos;s dog runs .", "two cats &amp; a bird ."]
    references = ["the man &apos;s cat runs .", "two cats &amp; one bird ."]
    found, signatures = quality(predictions, references)
    assert "tok:none" in signatures["bleu_tokenised_lc"] and "tok:13a" in signatures["bleu"]
    plain = BLEU(tokenize="none", lowercase=True, force=True)
    score = plain.corpus_score(predictions, [references]).score
    assert found["bleu_tokenised_lc"].corpus() == score
    assert score < BLEU(lowercase=True, force=True).corpus_score(predictions, [references]).score
    raw = ["The man's dog runs.", "two cats & a bird."]
    assert "tok:13a" in quality(raw, raw)[1]["bleu_tokenised_lc"]


def test_scores_are_sacrebleus() -> None:
    predictions = [instance.prediction for instance in corpus(3, 0.3)]
    references = [instance.reference or "" for instance in corpus(3, 0.3)]
    found, signatures = quality(predictions, references)
    papers = BLEU(tokenize="none", lowercase=True, force=True)  # the words stand apart already
    metrics = {"bleu": BLEU(), "chrf": CHRF(), "bleu_tokenised_lc": papers}
    for name, metric in metrics.items():
        assert found[name].corpus() == metric.corpus_score(predictions, [references]).score
        assert signatures[name] == str(metric.get_signature())
    assert "tok:13a" in signatures["bleu"]


def test_resampled_scores_are_scores_of_the_drawn_sentences() -> None:
    instances = corpus(3, 0.3, count=7)
    predictions = [instance.prediction for instance in instances]
    references = [instance.reference or "" for instance in instances]
    statistics, _ = quality(predictions, references)
    lags = [float(len(instance.delays)) for instance in instances[:-1]] + [None]
    scores = resample({**statistics, "lag": mean_of(lags)}, resamples=20, seed=3)
    counts = np.concatenate(list(draws(7, 20, 3))).astype(int)
    assert (counts.sum(axis=1) == 7).all()
    for b, times in enumerate(counts):
        picked = [n for n in range(7) for _ in range(times[n])]
        hypotheses = [predictions[n] for n in picked]
        drawn = [[references[n] for n in picked]]
        assert scores["bleu"][b] == pytest.approx(BLEU().corpus_score(hypotheses, drawn).score)
        assert scores["chrf"][b] == pytest.approx(CHRF().corpus_score(hypotheses, drawn).score)
        kept = [lag for n in picked if (lag := lags[n]) is not None]
        assert scores["lag"][b] == pytest.approx(np.mean(kept))


def test_draws_do_not_depend_on_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = np.concatenate(list(draws(10, 50, 1)))
    monkeypatch.setattr("hmt.metrics.bootstrap.CELLS", 35)
    assert (np.concatenate(list(draws(10, 50, 1))) == whole).all()


def test_interval_covers_the_mean_of_known_noise() -> None:
    noise = np.random.default_rng(0).normal(5, 1, 400)
    found = interval(resample({"x": mean_of(list(noise))})["x"])
    assert found is not None
    # 1.96 / sqrt(400) on either side
    assert found == pytest.approx([noise.mean() - 0.098, noise.mean() + 0.098], abs=0.02)
    assert interval(np.array([np.nan])) is None


def test_point_has_the_promised_shape() -> None:
    instances = corpus(3, 0.3)
    point = score(
        [record_of(instance) for instance in instances], settings={"lower": 3}, resamples=50
    )
    assert json.loads(json.dumps(point, allow_nan=False)) == point
    assert point["sentences"] == 60
    assert set(point["quality"]) == {"bleu", "chrf", "bleu_tokenised_lc"}
    names = {"AL", "LAAL", "AP", "CW", "DAL", "ATD", "YAAL"}
    assert set(point["latency"]["token"]) == set(point["latency"]["word"]) == names
    assert point["latency"]["word"]["AL"] == point["latency"]["word"]["DAL"] == 3
    for part in ("token", "word"):
        for name, (low, high) in point["intervals"]["latency"][part].items():
            assert low <= point["latency"][part][name] <= high
    for name, (low, high) in point["intervals"]["quality"].items():
        assert low < point["quality"][name] < high
        assert point["signatures"][name] and point["conventions"]["quality"][name]
    assert "counted" in point["conventions"]["latency"]["token"]["end_tokens"]
    assert point["conventions"]["metrics"].keys() == {"symbols", *names}
    assert point == score(
        [record_of(instance) for instance in instances], settings={"lower": 3}, resamples=50
    )


def test_computation_aware_scores_need_a_rate_and_say_it() -> None:
    records = [record_of(instance) for instance in corpus(3, 0.3)]
    point = score(records, seconds_per_word=0.4, resamples=0)
    assert point["latency"]["word"]["AL_CA"] > point["latency"]["word"]["AL"]
    assert "0.4 seconds" in point["conventions"]["latency"]["word"]["computation_aware"]
    assert point["intervals"] is None


def test_point_of_a_log_has_no_tokens_and_without_references_no_quality() -> None:
    instances = [
        Instance(0, "a b", [1, 2], 2),
        Instance(1, "", [], 3),
        Instance(2, "c d", [2, 2], 2),
    ]
    point = score(instances, resamples=10)
    assert point["latency"]["token"] is None
    assert point["quality"] == {"bleu": None, "chrf": None, "bleu_tokenised_lc": None}
    assert point["skipped"] == {"word": {"sentences": 1, "YAAL": 2}}
    assert point["latency"]["word"]["AL"] == (1 + 2) / 2
    assert point["conventions"]["latency"]["word"]["target_length"]["AL"] == "written"
    full = score(instances[2:], resamples=10)
    assert full["latency"]["word"]["YAAL"] is None


def test_user_mistakes() -> None:
    with pytest.raises(UserError, match="no sentence"):
        score([])
    with pytest.raises(UserError, match="must be one of"):
        score(corpus(1, 0.1), tokenize="klingon")
    with pytest.raises(UserError, match="some have none"):
        score([Instance(0, "a", [1], 1, "a", "a"), Instance(1, "a", [1], 1, "a")])


def test_scores_file_is_updated_in_place(tmp_path: Path) -> None:
    path = tmp_path / "scores.json"
    assert read_points(path) == []
    for lower, value in ((1, 1.0), (2, 2.0), (1, 3.0)):
        add_point(path, {"settings": {"lower": lower, "states": (4, 6)}, "value": value})
    assert [point["value"] for point in read_points(path)] == [3.0, 2.0]
    assert sorted(file.name for file in tmp_path.iterdir()) == ["lock", "scores.json"]
    before = path.read_text()
    with pytest.raises(ValueError, match="Out of range"):
        add_point(path, {"settings": {}, "value": float("nan")})
    assert path.read_text() == before
    path.write_text('{"points": 3}')
    with pytest.raises(UserError, match="list 'points'"):
        read_points(path)
    path.write_text('{"points": [')
    with pytest.raises(UserError, match="cannot be read as JSON"):
        read_points(path)


def test_a_system_does_not_differ_from_itself() -> None:
    found = compare(corpus(3, 0.3), corpus(3, 0.3)[::-1], resamples=100)["scores"]
    assert all(test["p"] == 1 for test in found.values() if test["p"] is not None)
    assert found["quality.bleu"]["difference"] == 0


def test_a_better_and_slower_system_is_told() -> None:
    found = compare(corpus(1, 0.4), corpus(4, 0.1), resamples=200)["scores"]
    for name in ("quality.bleu", "latency.word.AL"):
        assert found[name]["p"] < 0.01 and found[name]["interval"][0] > 0
    near = compare(corpus(3, 0.3), corpus(5, 0.3), resamples=200)["scores"]["quality.bleu"]
    assert near["p"] > 0.05 and near["interval"][0] < 0 < near["interval"][1]


def test_curves_are_compared_where_both_run() -> None:
    worse = [corpus(k, 0.5 - 0.05 * k) for k in (1, 3, 5)]
    better = [corpus(k, 0.3 - 0.05 * k) for k in (2, 4, 6)]
    found = compare_curves(worse, better, resamples=100)
    points = [score(instances, resamples=0) for instances in better]
    low = points[0]["latency"]["word"]["AL"]
    assert found["range"][0] == low
    assert found["p"] < 0.05 and found["difference"] > 0
    placed = compare_curves(worse, better, at=low, resamples=100)
    assert placed["second"] == points[0]["quality"]["bleu"]
    with pytest.raises(UserError, match="they share"):
        compare_curves(worse, better, at=0.5)
    with pytest.raises(UserError, match="no latency in common"):
        compare_curves(worse[:1], better[2:])
    with pytest.raises(UserError, match="not every point has"):
        compare_curves(worse, better, latency="token.AL")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"index": 99}, "indices differ"),
        ({"source": "other"}, "another source"),
        ({"reference": "other"}, "another reference"),
    ],
)
def test_only_the_same_sentences_are_compared(change: dict[str, Any], message: str) -> None:
    instances = corpus(3, 0.3)
    changed = [*instances[:-1], Instance(**{**vars(instances[-1]), **change})]
    with pytest.raises(UserError, match=message):
        compare(instances, changed)


def test_comet_export(tmp_path: Path) -> None:
    instances = [Instance(0, "a\u2028b", [1, 1], 1, "x", "c\n"), Instance(1, "", [], 1, "y", "d")]
    command = export_comet(tmp_path, instances)
    assert (tmp_path / "comet.mt").read_text() == "a b\n\n"
    assert command.startswith("comet-score -s ") and "wmt22-comet-da" in command
    examples = [json.loads(line) for line in (tmp_path / "comet.jsonl").read_text().splitlines()]
    assert examples[0] == {"src": "x", "mt": "a b", "ref": "c"}
    with pytest.raises(UserError, match="no source or no reference"):
        export_comet(tmp_path, [Instance(0, "a", [1], 1, "x")])
