"""Running text: re-segmentation, long-form latency, talks and logs; by hand and as run."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from command_line import TEST, Call
from hypothesis import given
from hypothesis import strategies as st

from hmt.analysis.curves import Axes, read_curves
from hmt.errors import UserError
from hmt.evaluation.longform import LongForm, evaluate_longform, running_text
from hmt.evaluation.longform_logs import write_logs
from hmt.evaluation.talks import (
    Delivered,
    Listener,
    Sentence,
    deliver,
    equal_talks,
    read_talks,
    scripts,
)
from hmt.metrics.longform import (
    LONG_METRICS,
    Segment,
    Talk,
    elapsed_of_talk,
    long_latency,
    segments_of,
)
from hmt.metrics.resegmentation import Similarities, align, fold, resegment
from hmt.models.model import Model, load
from hmt.streaming.events import Ended, Written
from hmt.text.spoken import unpunctuated

WORDS = st.lists(st.sampled_from(["ab", "abc", "b", "cd", ".", "-", "Ab"]), max_size=5)


# ---- re-segmentation


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("house", "house", 1.0),
        ("house", "horse", 4 / 6),  # h, o, s, e of h, o, u, r, s, e
        ("tom", "mary", 1 / 6),
        ("aab", "ba", 1.0),  # sets of letters
        (".", "house", float("-inf")),
        (".", ",", 0.0),
        ("house.", "house", 5 / 6),
    ],
)
def test_similarity_is_the_share_of_letters_in_common(
    first: str, second: str, expected: float
) -> None:
    assert Similarities([first], [second]).of(0, 0) == pytest.approx(expected)
    assert Similarities([second], [first]).row(0).tolist() == [pytest.approx(expected)]


def test_fold_makes_one_of_compatible_characters() -> None:
    assert fold("ﬁnal…") == "final..."
    assert fold("STRASSE") == "strasse"


def test_words_go_to_the_sentence_they_resemble() -> None:
    references = ["the dog barks .", "a cat sleeps ."]
    written = ["the", "dog", "barked", "loudly", ".", "a", "cat", "is", "asleep", "."]
    assert resegment(references, written).sentences == [0, 0, 0, 0, 0, 1, 1, 1, 1, 1]


def test_a_word_without_a_partner_goes_where_it_is_more_similar() -> None:
    # "x" and "y" are aligned; between them stand words that nothing is aligned with
    references = ["x", "yz"]
    assert resegment(references, ["x", "xw", "yw", "xw", "yz"]).sentences == [0, 0, 1, 1, 1]
    # once a word has gone over, the rest of the run follows; equally similar words stay
    assert resegment(references, ["x", "q", "yz"]).sentences == [0, 0, 1]


def test_a_lone_mark_at_the_start_belongs_nowhere() -> None:
    assert resegment(["word here"], ["-", "word", "here"]).sentences == [None, 0, 0]
    assert resegment(["word here"], ["word", "here", "-"]).sentences == [0, 0, 0]


def test_the_reference_itself_is_shared_out_as_it_was() -> None:
    references = ["a b c", "b", "c a b a"]
    found = resegment(references, " ".join(references).split())
    assert found.sentences == [0, 0, 0, 1, 2, 2, 2, 2]
    assert found.similarity == 8


def test_nothing_written_and_nothing_to_compare_with() -> None:
    assert resegment(["a b"], []).sentences == []
    with pytest.raises(UserError, match="no words"):
        resegment(["", " "], ["a"])


def best_by_enumeration(first: list[str], second: list[str]) -> float:
    """The largest sum of similarities over every alignment."""
    table = Similarities(first, second)

    @cache
    def best(i: int, j: int) -> float:
        if i == len(first) or j == len(second):
            return 0.0
        return max(best(i + 1, j), best(i, j + 1), best(i + 1, j + 1) + table.of(i, j))

    return best(0, 0)


@given(WORDS, WORDS)
def test_alignments_are_the_best_of_all(first: list[str], second: list[str]) -> None:
    if not first or not second:
        return
    table = Similarities(first, second)
    pairs = align(table)
    assert [i for i, _ in pairs if i is not None] == list(range(len(first)))
    assert [j for _, j in pairs if j is not None] == list(range(len(second)))
    total = sum(table.of(i, j) for i, j in pairs if i is not None and j is not None)
    assert total == pytest.approx(best_by_enumeration(first, second))


@given(st.lists(WORDS.filter(bool), min_size=1, max_size=4), WORDS)
def test_shares_never_fall(references: list[list[str]], written: list[str]) -> None:
    found = resegment([" ".join(words) for words in references], written)
    kept = [n for n in found.sentences if n is not None]
    assert len(found.sentences) == len(written)
    assert kept == sorted(kept) and all(0 <= n < len(references) for n in kept)


# ---- latency


def test_long_form_latency_by_hand() -> None:
    # 4 source words, 3 written, reference of 2; the talk ends 6 words after the sentence began
    segment = Segment("r s", ["a", "b", "c"], [2, 4, 6], 4, 6)
    found = long_latency(segment)
    assert found == {
        # 4/3 words of source per written word; the third was written when all was over
        "LongYAAL": (2 + (4 - 4 / 3)) / 2,
        # 4/2 words per reference word, up to the first that had all four
        "LongAL": (2 + (4 - 2)) / 2,
        "LongLAAL": (2 + (4 - 4 / 3)) / 2,
        "LongAP": 12 / 8,
        # lags 2, 4 - 4/3, 6 - 8/3 rise already
        "LongDAL": pytest.approx((2 + 8 / 3 + 10 / 3) / 3),
    }


def test_a_sentence_may_be_written_after_its_end_while_the_talk_goes_on() -> None:
    found = long_latency(Segment("a", ["a", "a"], [5, 7], 2, 20))
    assert found is not None
    # short-form YAAL would have nothing to count
    assert found["LongYAAL"] == (5 + (7 - 1)) / 2
    assert found["LongAL"] == 5


def test_what_has_no_latency() -> None:
    assert long_latency(Segment("a", [], [], 2, 20)) is None
    found = long_latency(Segment("a", ["a"], [20], 2, 20))
    assert found is not None and found["LongYAAL"] is None and found["LongAL"] == 20


def test_wait_k_of_equal_lengths_has_latency_k() -> None:
    """Every word three behind, over sentence ends: the state that long-form metrics measure."""
    lengths = [4, 6, 5]
    words = [f"w{chr(97 + n)}{chr(110 + n)}" for n in range(15)]
    references = [" ".join(words[:4]), " ".join(words[4:10]), " ".join(words[10:])]
    delays = [min(n + 3, 15) for n in range(15)]
    segments, health = segments_of([Talk(lengths, references, words, delays)])
    assert [segment.words for segment in segments] == [r.split() for r in references]
    assert segments[1].delays == [3, 4, 5, 6, 7, 8] and segments[1].to_end == 11
    for segment in segments:
        found = long_latency(segment)
        assert found is not None and found["LongYAAL"] == found["LongAL"] == 3
    assert health.similarity == 1 and health.early == health.empty == health.lost == 0


def test_health_of_nonsense() -> None:
    talk = Talk([2, 2], ["aa bb", "cc dd"], ["cc", "dd"], [1, 1])
    segments, health = segments_of([talk])
    # written after one word, given to a sentence that began after two
    assert segments[1].delays == [-1, -1]
    assert (health.similarity, health.early, health.empty, health.lost) == (0.5, 1.0, 1, 0)


@pytest.mark.parametrize(
    "talk",
    [
        Talk([1], ["a"], ["a", "b"], [1]),
        Talk([1], ["a"], ["a"], [1], [1.0, 2.0]),
        Talk([1, 2], ["a"], ["a"], [1]),
    ],
)
def test_talks_that_do_not_fit_are_refused(talk: Talk) -> None:
    with pytest.raises(UserError, match="there must be"):
        segments_of([talk])


def test_computing_time_delays_what_follows() -> None:
    # half a second per word; the second word costs a second, so the third starts late
    out = elapsed_of_talk([1, 2, 3, 3], [0.1, 1.0, 0.0], 0.5)
    assert out == [1.2, 4.0, 4.0, 4.0]
    segment = Segment("a b c d", ["a", "b", "c", "d"], [1, 2, 3, 3], 3, 9, out)
    found = long_latency(segment)
    assert found is not None
    assert found["LongYAAL_CA"] == pytest.approx((sum(out) - 6 * 3 / 4) / 4)


# ---- talks


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("Guten Tag, Frau Müller!", "guten tag frau müller"),
        ("Geht's dir gut – per E-Mail?", "geht's dir gut per e-mail"),
        ("„Ja“, sagte er.", "ja sagte er"),
        ("3,5 Prozent", "3 5 prozent"),
        ("...", ""),
    ],
)
def test_unpunctuated(line: str, expected: str) -> None:
    assert unpunctuated(line) == expected


def test_lines_are_joined_to_talks(tmp_path: Path) -> None:
    assert equal_talks(7, 3) == [3, 3, 1] and equal_talks(6, 3) == [3, 3]
    path = tmp_path / "talks"
    path.write_text("one\none\ntwo\none\n")
    assert read_talks(path, 4) == [2, 1, 1]
    path.write_text("docid=0,segid=0\ndocid=0,segid=1\ndocid=1,segid=0\n")
    assert read_talks(path, 3) == [2, 1]
    made = scripts(["A b.", "C, d", "E"], ["a  b", "c", "d"], [2, 1], spoken=True)
    assert [script.words for script in made] == [["a", "b", "c", "d"], ["e"]]
    assert made[0].references == ("a b", "c") and made[0].lengths == [2, 2]


@pytest.mark.parametrize(
    ("content", "said"),
    [("a\n", "has 1 lines but there are 2"), ("a\n\n", "line 2"), (None, "cannot be read")],
)
def test_wrong_files_of_talks(tmp_path: Path, content: str | None, said: str) -> None:
    path = tmp_path / "talks"
    if content is not None:
        path.write_text(content)
    with pytest.raises(UserError, match=said):
        read_talks(path, 2)


def test_pairs_without_words_are_refused() -> None:
    with pytest.raises(UserError, match="Line 2 of the source"):
        scripts(["a", "..."], ["b", "c"], [2], spoken=True)
    with pytest.raises(UserError, match="Line 1 of the reference"):
        scripts(["a"], [" "], [1], spoken=False)


def written(text: str, *, is_whole: bool = False) -> Written:
    return Written(0, 0.0, text, 0, 0, None, 0.0, is_whole)


def test_a_word_counts_when_it_is_sure_to_be_complete() -> None:
    listener = Listener()
    for given_words, event in (
        (1, written("Ha")),
        (2, written("us")),
        (3, written(" und")),  # only now is "Haus" complete
        (4, written(" Hof.", is_whole=True)),
        (5, written(" Da")),
        (6, Ended(0, 0.0, "", "", 6, "model")),
        (7, written(" 10\u00a0000")),
        (8, Ended(1, 0.0, "", "", 2, "finish")),
    ):
        listener.given = given_words
        listener(event)
    assert listener.written == ["Haus", "und", "Hof.", "Da", "10", "000"]
    assert listener.delays == [3, 4, 4, 6, 8, 8]
    assert listener.sentences == [Sentence(6, 4, "model"), Sentence(2, 2, "finish")]


def test_what_became_of_the_source() -> None:
    (script,) = scripts(["a b c", "d e", "f"], ["x", "y", "z"], [3], spoken=False)
    found = [Sentence(3, 2, "model"), Sentence(1, 0, "model"), Sentence(2, 1, "finish")]
    said = running_text([script], [Delivered(script.name, ["x"] * 3, [3] * 3, [0.0] * 6, found)])
    assert said["translated_share"] == 5 / 6
    assert said["borders"] == {"true": 2, "found": 2, "right": 1}
    assert said["ended_by"] == {"finish": 1, "model": 2}


# ---- as run


def test_a_long_talk_keeps_all_records(world: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted bug: only as many as a session keeps by itself."""
    defaults = Model.session.__kwdefaults__
    assert defaults is not None
    monkeypatch.setitem(defaults, "keep", 10)
    (script,) = scripts(["oja."] * 25, ["x"] * 25, [25], spoken=False)
    delivered, records = deliver(load(world / "run"), script, {})
    assert [record.index for record in records] == list(range(25))
    assert len(delivered.sentences) == 25


def test_a_talk_is_delivered_word_by_word(world: Path) -> None:
    model = load(world / "run")
    lines = (world / "test.source").read_text().splitlines()
    (script,) = scripts(lines, lines, [len(lines)], spoken=False)
    calls: list[int] = []
    delivered, records = deliver(model, script, {}, lambda: calls.append(1))
    assert len(calls) == len(delivered.seconds) == len(script.words)
    assert sum(sentence.source_words for sentence in delivered.sentences) == len(script.words)
    assert [len(r.prediction.split()) for r in records] == [
        sentence.written_words for sentence in delivered.sentences
    ]
    assert " ".join(r.prediction for r in records).split() == delivered.written
    assert delivered.delays == sorted(delivered.delays) and delivered.delays[-1] <= len(
        script.words
    )
    assert Delivered.from_json(delivered.to_json()) == delivered


def long_arguments(output: str, *more: str) -> list[str]:
    options = ["--longform", "--talk-sentences", "4", "--output", output, "--resamples", "10"]
    return ["evaluate", "run", *TEST, *options, *more]


def points_of(folder: Path) -> list[dict[str, Any]]:
    found = json.loads((folder / "scores.json").read_text())["points"]
    assert isinstance(found, list)
    return found


def test_the_command_writes_scores_and_logs(hmt: Call, world: Path) -> None:
    answer = hmt(*long_arguments("long", "--lower", "1,3"))
    assert answer.code == 0, answer.err
    assert "running text, written" in answer.out and "LongYAAL" in answer.out
    points = points_of(world / "long")
    assert [point["settings"]["lower"] for point in points] == [1, 3]
    for point in points:
        assert set(point["latency"]["word"]) == set(LONG_METRICS)
        assert point["longform"]["talks"] == 2 and point["longform"]["translated_share"] <= 1
        assert point["intervals"]["quality"]["bleu"]
        assert list(point["sentence_by_sentence"]) == ["written"]
    (folder,) = (world / "long").glob("lower=3,*")
    names = {path.name for path in folder.iterdir()}
    assert names == {
        *("talks.jsonl", "records.jsonl", "resegmented.jsonl", "segmentation.yaml"),
        *("references.txt", "omnisteval.jsonl", "simulstream.jsonl", "simulstream.yaml", "lock"),
    }
    records = (folder / "records.jsonl").read_text().splitlines()
    assert [json.loads(line)["index"] for line in records] == list(range(len(records)))
    assert len(records) == points[1]["longform"]["sentences_found"]
    (curve,) = read_curves([world / "long"], Axes.named("bleu", "word.LongYAAL"))
    assert len(curve.points) == 2 and curve.points[0].latency_interval


def test_unpunctuated_text_stands_beside_written_text(hmt: Call, world: Path) -> None:
    assert hmt(*long_arguments("both")).code == 0
    answer = hmt(*long_arguments("both", "--unpunctuated", "--seconds-per-word", "0.4"))
    assert answer.code == 0, answer.err
    points = points_of(world / "both")
    assert [point["settings"]["text"] for point in points] == ["written", "unpunctuated"]
    assert list(points[1]["sentence_by_sentence"]) == ["written", "unpunctuated"]
    assert "LongYAAL_CA" in points[1]["latency"]["word"]
    aware, plain = (points[1]["latency"]["word"][f"LongDAL{end}"] for end in ("_CA", ""))
    assert aware > plain


def test_a_stopped_run_goes_on(hmt: Call, world: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert hmt(*long_arguments("whole", "--lower", "2")).code == 0
    delivered: list[str] = []

    def stop_at_second(model: Any, script: Any, knobs: Any, heard: Any) -> Any:
        delivered.append(script.name)
        if delivered == ["talk-001", "talk-002"]:
            raise KeyboardInterrupt
        return deliver(model, script, knobs, heard)

    monkeypatch.setattr("hmt.evaluation.longform.deliver", stop_at_second)
    hmt(*long_arguments("stopped", "--lower", "2"))
    assert hmt(*long_arguments("stopped", "--lower", "2")).code == 0
    assert delivered == ["talk-001", "talk-002", "talk-002"]
    whole, stopped = (points_of(world / name)[0] for name in ("whole", "stopped"))
    assert whole["quality"] == stopped["quality"] and whole["latency"] == stopped["latency"]
    for name in ("omnisteval.jsonl", "resegmented.jsonl", "segmentation.yaml"):
        first, second = (next((world / of).glob("lower=2,*")) / name for of in ("whole", "stopped"))
        assert first.read_text() == second.read_text()


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--talks", "nothing", "--talk-sentences", "3"], "not both"),
        (["--comet", "x"], "--longform and --comet exclude"),
        (["--log", "x"], "leave out"),
    ],
)
def test_options_that_contradict(hmt: Call, more: list[str], said: str) -> None:
    answer = hmt("evaluate", "run", *TEST, "--longform", "--output", "never", *more)
    assert answer.code != 0 and said in answer.err


def test_options_that_need_others(hmt: Call) -> None:
    answer = hmt("evaluate", "run", *TEST, "--output", "never", "--unpunctuated")
    assert answer.code != 0 and "add --longform" in answer.err
    answer = hmt("evaluate", "run", *TEST[:2], "--output", "never", "--longform")
    assert answer.code != 0 and "--target" in answer.err


def test_other_talks_need_another_directory(world: Path) -> None:
    from hmt.evaluation.evaluate import read_parallel

    model = load(world / "run")
    text = read_parallel(world / "test.source", world / "test.target")
    evaluate_longform(model, text, world / "claimed", LongForm((6,)))
    with pytest.raises(UserError, match="name another output directory"):
        evaluate_longform(model, text, world / "claimed", LongForm((3, 3)))


def test_logs_have_their_formats(tmp_path: Path) -> None:
    texts = scripts(["a b", "c"], ["x y", "z"], [2], spoken=False)
    delivered = Delivered(
        "talk-001", ["x", "y", "z"], [2, 3, 3], [0.5, 0.0, 1.0], [Sentence(3, 3, "finish")]
    )
    talk = Talk([2, 1], texts[0].references, delivered.written, delivered.delays, [2.5, 4.0, 4.0])
    write_logs(tmp_path, texts, [delivered], [talk], 0.5)
    assert (tmp_path / "segmentation.yaml").read_text() == (
        "- {wav: talk-001, offset: 0.0, duration: 2.0}\n"
        "- {wav: talk-001, offset: 2.0, duration: 1.0}\n"
    )
    assert (tmp_path / "references.txt").read_text() == "x y\nz\n"
    (row,) = map(json.loads, (tmp_path / "omnisteval.jsonl").read_text().splitlines())
    assert row == {
        "index": 0,
        "source": "talk-001",
        "source_length": 3000,
        "prediction": "x y z",
        "prediction_length": 3,
        "delays": [2000, 3000, 3000],
        "elapsed": [2500, 4000, 4000],
    }
    first, *rest = map(json.loads, (tmp_path / "simulstream.jsonl").read_text().splitlines())
    assert first == {"id": 0, "metadata": {"wav_name": "talk-001.wav"}}
    assert [line["generated_tokens"] for line in rest] == [[], ["x"], ["y", "z"]]
    assert [line["total_audio_processed"] for line in rest] == [1, 2, 3]
    assert [line["computation_time"] for line in rest] == [1, 0, 2]
