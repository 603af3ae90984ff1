"""What confidence knows: accuracy and BLEU by group against slow definitions."""

import itertools
import math
import random
from pathlib import Path

import pytest
import torch
from lively import lively_hmt
from naive_hmt import naive_pass
from sacrebleu.metrics.bleu import BLEU

from hmt.analysis.bars import speed_figure
from hmt.analysis.cases import choose, refusals
from hmt.analysis.curves import Axes, Curve, CurvePoint, by_setting, read_curve
from hmt.analysis.rivals import Named, difference, in_words
from hmt.analysis.selection import (
    accuracy_by_confidence,
    accuracy_by_place,
    bleu_by_selection,
    selection_probability,
)
from hmt.analysis.state_loss import differing
from hmt.bench.policies import with_random_policy
from hmt.bench.setting import SIZES, random_system
from hmt.bench.table import speed_table
from hmt.errors import UserError
from hmt.evaluation.points import add_point
from hmt.evaluation.records import write_records
from hmt.metrics.scores import score
from hmt.model.vocabulary import best_token
from hmt.streaming.engine import Engine
from hmt.streaming.record import Record
from hmt.systems.batch import make_batch
from hmt.text.symbols import EOS, FIRST_WRITABLE

AXES = Axes.named("bleu", "token.AL")


def forced(draw: random.Random, tokens: int) -> dict[str, list[list[float]]]:
    """A pair as `hmt score` prints it; a state is correct about as often as it is confident."""
    pair: dict[str, list[list[float]]] = {"moments": [], "confidence": [], "correct": []}
    for i in range(tokens):
        states = draw.randint(1, 4)
        own = [draw.random() for _ in range(states - 1)] + [1.0]
        pair["moments"].append([i + 1 + k for k in range(states)])
        pair["confidence"].append(own)
        pair["correct"].append([int(draw.random() < c) for c in own])
    return pair


def test_accuracy_by_confidence_is_counted_state_by_state() -> None:
    """Planted bug: the last state, which has to write, counted in the top band."""
    draw = random.Random(1)
    pairs = [forced(draw, draw.randint(1, 9)) for _ in range(50)]
    found = accuracy_by_confidence(pairs, groups=5, resamples=20)
    for n, group in enumerate(found):
        low, high = n / 5, (n + 1) / 5
        states = [
            correct
            for pair in pairs
            for own, corrects in zip(pair["confidence"], pair["correct"], strict=True)
            for c, correct in zip(own[:-1], corrects[:-1], strict=True)
            if low <= c < high
        ]
        assert (group.low, group.high, group.count) == (low, high, len(states))
        assert group.value == pytest.approx(100 * sum(states) / len(states))
        assert group.value is not None and group.interval
        assert group.interval[0] <= group.value <= group.interval[1]
    assert found[0].value < found[-1].value  # type: ignore[operator]


def test_accuracy_by_place_counts_every_state() -> None:
    pair = {"moments": [[1, 2], [2]], "confidence": [[0.2, 1.0], [1.0]], "correct": [[0, 1], [1]]}
    found = accuracy_by_place([pair, pair], resamples=0)
    assert [(g.low, g.count, g.value) for g in found] == [(1, 4, 50.0), (2, 2, 100.0)]
    empty = accuracy_by_confidence([pair], groups=4, resamples=0)
    assert [g.value for g in empty] == [0.0, None, None, None]


def test_systems_without_confidences_are_refused() -> None:
    with pytest.raises(UserError, match="no confidence"):
        accuracy_by_confidence([{"reads": [1]}])
    with pytest.raises(UserError, match="no forced pair"):
        accuracy_by_confidence([])


def test_forced_states_are_correct_where_the_naive_model_is() -> None:
    """Planted bug: the best token of the row before."""
    system = lively_hmt(3, 1, 4)
    draw = random.Random(3)
    source = [draw.randrange(FIRST_WRITABLE, 16) for _ in range(7)] + [EOS]
    knobs = system.knobs()
    blank = naive_pass(system, source, [FIRST_WRITABLE] * 5 + [EOS], knobs)
    # a target that some states agree with
    target = []
    for i in range(5):
        target.append(best_of(blank.log_prob[i, draw.randrange(len(blank.moments[i]))]))
    target.append(EOS)
    naive = naive_pass(system, source, target, knobs)
    (shown,) = system.inspect(make_batch([source], [target]), knobs)
    seen = set()
    for i, token in enumerate(target):
        for moment, correct in zip(shown["moments"][i], shown["correct"][i], strict=True):
            k = naive.moments[i].index(int(moment))
            assert correct == (best_of(naive.log_prob[i, k]) == token)
            seen.add(correct)
    assert seen == {0, 1}


def best_of(log_prob: torch.Tensor) -> int:
    return int(log_prob[FIRST_WRITABLE:].argmax()) + FIRST_WRITABLE


def test_best_token_is_the_argmax_of_what_can_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hmt.model.vocabulary.CHUNK_CELLS", 30)
    torch.manual_seed(1)
    states, weight = torch.randn(11, 6), torch.randn(9, 6)
    logits = states @ weight.T
    logits[:, :FIRST_WRITABLE] = -math.inf
    assert best_token(states, weight).tolist() == logits.argmax(1).tolist()


def translation(index: int, reads: list[int], confidences: list[list[float]], **more) -> Record:
    """Four candidate moments per token, from its place on."""
    moments = [[i + 1 + k for k in range(len(own))] for i, own in enumerate(confidences)]
    words = ["w"] * (len(reads) - 1)
    return Record(
        index=index,
        source="x " * 8,
        prediction=more.pop("prediction", " ".join(words)),
        source_tokens=["x"] * 8,
        target_tokens=[*words, "</s>"],
        reads=reads,
        source_word_ends=list(range(8)),
        target_word_ends=list(range(len(words))),
        moments=moments,
        confidences=confidences,
        **more,
    )


def test_probabilities_of_all_selections_sum_to_one() -> None:
    """Planted bug: the states before the last write counted as refused."""
    draw = random.Random(2)
    confidences = [[*(draw.random() for _ in range(3)), 1.0] for _ in range(3)]
    total = 0.0
    for reads in itertools.product(*([i + 1 + k for k in range(4)] for i in range(3))):
        if list(reads) == sorted(reads):
            total += selection_probability(translation(0, list(reads), confidences)) ** 3
    assert total == pytest.approx(1.0)


def test_bleu_by_selection_is_the_bleu_of_equal_parts() -> None:
    draw = random.Random(4)
    records = []
    for n in range(22):
        own = [[draw.random(), draw.random(), draw.random(), 1.0] for _ in range(4)]
        text = " ".join(draw.choice("abcd") for _ in range(3))
        reference = " ".join(draw.choice("abcd") for _ in range(3))
        records.append(translation(n, [2, 3, 4, 4], own, prediction=text, reference=reference))
    found = bleu_by_selection(records, groups=4, resamples=0)
    assert [group.count for group in found] == [6, 5, 5, 6]
    ordered = sorted(records, key=selection_probability)
    start = 0
    for group in found:
        some = ordered[start : start + group.count]
        start += group.count
        scorer = BLEU(force=True)
        texts = [r.prediction for r in some], [[r.reference or "" for r in some]]
        assert group.value == pytest.approx(scorer.corpus_score(*texts).score)
        assert group.low == selection_probability(some[0])
    with pytest.raises(UserError, match="no reference"):
        bleu_by_selection([translation(0, [1], [[1.0]])] * 4)


def test_cases_show_what_their_titles_say() -> None:
    easy, long_wait = [[0.9, 0.9, 0.9, 1.0]] * 4, [[0.1, 0.1, 0.1, 1.0]] * 4
    records = [
        translation(0, [1, 2, 3, 4], easy),
        translation(1, [4, 4, 4, 4], long_wait),
        translation(2, [2, 3, 4, 5], [[0.1, 0.9, 0.9, 1.0]] * 4),
        translation(3, [1, 2, 3, 4], [[0.6, 0.9, 0.9, 1.0]] * 4),
    ]
    assert refusals(records[1]) == [3, 0, 0, 0]
    assert refusals(records[2]) == [1, 1, 1, 1]
    chosen = {case.title: case.record.index for case in choose(records)}
    assert chosen["The longest wait"] == 1 and chosen["The most waits"] == 2
    assert len(set(chosen.values())) == 4
    with pytest.raises(UserError, match="4 to 20 source tokens"):
        choose([])


def test_a_sentence_that_only_one_model_gets_right() -> None:
    own = [[1.0]] * 3
    right, wrong = "a b", "a c"
    one = [translation(n, [1, 2, 3], own, prediction=right, reference=right) for n in range(3)]
    other = [
        translation(n, [1, 2, 3], own, prediction=text, reference=right)
        for n, text in enumerate((right, wrong, wrong))
    ]
    assert differing(one, other) == 1
    assert differing(one, one) == 0


# ---- curves of several directories


def evaluated(folder: Path, lower: int, errors: int) -> Path:
    """A point in which some of ten sentences are wrong."""
    records = []
    for n in range(10):
        text = "these words are all wrong" if n < errors else "five words that stand here"
        reads = [min(lower + i, 8) for i in range(6)]
        records.append(
            translation(
                n, reads, [[1.0]] * 6, prediction=text, reference="five words that stand here"
            )
        )
    place = folder / f"lower={lower}"
    place.mkdir(parents=True)
    write_records(place / "records.jsonl", records)
    add_point(folder / "scores.json", score(records, settings={"lower": lower}, resamples=5))
    return folder


def test_a_curve_of_several_models_is_compared_where_it_meets_another(tmp_path: Path) -> None:
    good = [evaluated(tmp_path / f"good-{n}", n, 0) for n in (1, 4)]
    bad = evaluated(evaluated(tmp_path / "bad", 2, 6), 3, 6)
    named = Named.of(f"good={good[1]},{good[0]}")
    curve = read_curve(named.directories, AXES, "good")
    assert [point.settings["lower"] for point in curve.points] == [1, 4]
    found = difference(Named("bad", (bad,)), named, AXES, 50)
    assert found["difference"] > 0 and found["p"] < 0.05
    assert in_words(found).startswith("good is above bad over token.AL")
    back = difference(named, Named("bad", (bad,)), AXES, 50)
    assert back["difference"] == pytest.approx(-found["difference"])
    late = Named("late", (evaluated(tmp_path / "late", 8, 0),))
    assert "no latency in common" in in_words(difference(Named("bad", (bad,)), late, AXES, 5))
    for text in ("good", "=x", "good=a,,b"):
        with pytest.raises(UserError, match="LABEL=DIR"):
            Named.of(text)


def test_curves_by_setting() -> None:
    points = [
        CurvePoint(1.0 * n, 30.0, settings={"threshold": t, "lower": n})
        for n in (1, 2)
        for t in (0.8, 0.2)
    ]
    low, high = by_setting(Curve("x", tuple(points)), "threshold")
    assert (low.label, high.label) == ("threshold = 0.2", "threshold = 0.8")
    assert [p.latency for p in low.points] == [1.0, 2.0]
    with pytest.raises(UserError, match="no setting 'k'"):
        by_setting(Curve("x", tuple(points)), "k")


# ---- speed


SMALL = {"width": 16, "ffn": 16, "heads": 2, "encoder_layers": 1, "decoder_layers": 1}


@pytest.mark.parametrize("name", ["mma", "gsimt"])
def test_random_weights_get_a_policy_that_keeps_pace(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(SIZES, "tiny", {**SMALL, "vocabulary": 40})
    system = with_random_policy(random_system(name, "tiny"))
    draw = random.Random(5)
    source, target = ([draw.randrange(4, 40) for _ in range(40)] for _ in range(2))
    engine = Engine(system)
    stream = engine.open(None, forced=[*target, EOS])
    engine.push(stream, source)
    engine.finish(stream)
    engine.advance([stream])
    assert len(set(stream.reads)) > 10, "it reads and writes in turn"
    assert 0.3 < stream.reads[20] / 20 < 2.5


def test_speed_table_has_the_rows_of_the_paper(monkeypatch: pytest.MonkeyPatch) -> None:
    from hmt.analysis.published import published_table

    monkeypatch.setitem(SIZES, "tiny", {**SMALL, "vocabulary": 40})
    rows = {row["system"]: row for row in speed_table("tiny", 1)}
    assert list(rows) == [row[0] for row in published_table("speed")]
    assert rows["hmt L=2 K=4"]["parameters"] == rows["full"]["parameters"] + 2 * 16
    assert rows["mma"]["parameters"] > rows["full"]["parameters"]
    assert all(row["seconds_per_batch"] > 0 < row["seconds_per_token"] for row in rows.values())
    assert rows["gsimt"]["rows_per_token"] > rows["hmt L=9 K=8"]["rows_per_token"] > 1


def test_speed_is_drawn_as_multiples_of_the_first_system() -> None:
    from matplotlib.patches import Rectangle

    times = (("full", 0.5, 0.01), ("hmt", 1.0, 0.03))
    rows = [
        dict(zip(("system", "seconds_per_batch", "seconds_per_token"), t, strict=True))
        for t in times
    ]
    (panel,) = speed_figure(rows).axes
    bars = [patch for patch in panel.patches if isinstance(patch, Rectangle)]
    drawn = [round(bar.get_width(), 6) for bar in bars]
    assert drawn == [1.0, 2.0, 1.0, 3.0], "training of both, then live tokens"
    assert [label.get_text() for label in panel.get_yticklabels()] == ["full", "hmt"]
