"""`hmt evaluate` with logs, options and interruptions; `hmt compare`. As a user runs them."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from command_line import TEST, Call

from hmt.evaluation.evaluate import evaluate, read_parallel, setting_folder
from hmt.evaluation.records import read_records
from hmt.models.model import Model, load

# as SimulEval 1.1.4 wrote them with an agent of its own that waits for two words
SIMULEVAL = """\
{"index": 0, "prediction": "ein HUND l\\u00e4uft .", "delays": [2, 3, 4, 4], \
"elapsed": [0, 0, 0, 0], "prediction_length": 4, "reference": "a dog runs .\\n", \
"source": "ein Hund l\\u00e4uft .", "source_length": 4}
{"index": 1, "prediction": "eins", "delays": [1], "elapsed": [0], "prediction_length": 1, \
"reference": "one\\n", "source": "eins", "source_length": 1}
"""
SHORT = ["--resamples", "20"]


def entry(**changes: Any) -> dict[str, Any]:
    sentence = {"prediction": "a b c", "delays": [1, 2, 3], "source": "x y z", "reference": "a b c"}
    return sentence | changes


def write(path: Path, *entries: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(each) + "\n" for each in entries), encoding="utf-8")
    return path


def point_of(folder: Path) -> dict[str, Any]:
    (point,) = json.loads((folder / "scores.json").read_text())["points"]
    assert isinstance(point, dict)
    return point


@pytest.fixture(scope="module")
def curve(world: Path) -> Path:
    """A sweep of two settings on six sentences."""
    text = read_parallel(world / "test.source", world / "test.target")
    evaluate(load(world / "run"), text, world / "swept", [{"lower": 1}, {"lower": 3}])
    return world / "swept"


def test_a_log_of_simuleval_is_scored_without_a_model(hmt: Call, tmp_path: Path) -> None:
    (tmp_path / "instances.log").write_text(SIMULEVAL)
    answer = hmt("evaluate", "--log", str(tmp_path / "instances.log"))
    assert answer.code == 0 and answer.err == ""
    for column in ("BLEU 13a", "chrF2", "AL word", "LAAL word", "DAL word"):
        assert column in answer.out
    # a log has no tokens, and SimulEval's zeros are no clock
    assert "DAL token" not in answer.out and "_CA" not in answer.out
    assert list(tmp_path.iterdir()) == [tmp_path / "instances.log"]

    assert hmt("evaluate", "--log", str(tmp_path), "--output", str(tmp_path)).out
    point = point_of(tmp_path)
    assert point["settings"] == {"log": "instances.log"}
    # (2 + 3 - 1 + 4 - 2) / 3 = 2 and 1
    assert point["latency"]["word"]["AL"] == 1.5
    assert point["conventions"]["latency"]["word"]["delay"].endswith("as the log gives them")
    assert point["scoring"]["unit"] == "word" and not point["scoring"]["clip"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"prediction": "", "delays": []}, "left out: up to 1 of 2"),
        ({"prediction": "a", "delays": [1], "source": "x", "reference": "a"}, "AL word"),
        ({"prediction": "10\u00a0000 c", "delays": [1, 2, 3]}, "AL word"),
        ({"source": ""}, "line 1: a read of 3 is past the end of a source of length 0"),
        ({"source": "", "prediction": "", "delays": []}, "left out: up to 1 of 2"),
        ({"reference": ""}, "AL word"),
        ({"delays": [1, 2, 4]}, "(--clip)."),
        ({"delays": [3, 2, 3]}, "must never decrease"),
        ({"delays": [1, 2]}, "there are 2 delays for a prediction of 3 words"),
        ({"delays": [640.5, 900.0, 1200.0]}, "logs of speech"),
        ({"reference": None}, '"reference" is missing here'),
    ],
)
def test_odd_logs_are_scored_or_told_in_one_sentence(
    hmt: Call, tmp_path: Path, change: dict[str, Any], said: str
) -> None:
    log = write(tmp_path / "odd.log", entry(**change), entry())
    answer = hmt("evaluate", "--log", str(log), *SHORT)
    assert said in answer.out + answer.err
    if answer.code:
        assert answer.out == "" and answer.err.count("\n") == 1 and answer.err.endswith(".\n")


def test_nothing_written_in_the_whole_log(hmt: Call, tmp_path: Path) -> None:
    log = write(tmp_path / "empty.log", entry(prediction="", delays=[]))
    answer = hmt("evaluate", "--log", str(log), "--output", str(tmp_path / "out"))
    assert answer.code == 0 and "AL word" in answer.out
    assert point_of(tmp_path / "out")["latency"]["word"]["AL"] is None


def test_reads_past_the_end_are_clipped_if_asked_for(hmt: Call, tmp_path: Path) -> None:
    log = write(tmp_path / "past.log", entry(delays=[1, 2, 9]))
    out = tmp_path / "out"
    assert hmt("evaluate", "--log", str(log), "--clip", "--output", str(out)).code == 0
    point = point_of(out)
    assert point["latency"]["word"]["AP"] == pytest.approx(6 / 9)
    assert "count as its length" in point["conventions"]["latency"]["word"]["clipped"]
    # what is compared later is read in the same way
    assert hmt("compare", str(out), str(out), *SHORT).code == 0


def test_text_without_spaces(hmt: Call, tmp_path: Path) -> None:
    chinese = entry(prediction="我喜欢狗", reference="我喜欢猫", delays=[1, 2, 2, 3])
    log = write(tmp_path / "zh.log", chinese)
    answer = hmt("evaluate", "--log", str(log), *SHORT)
    assert "AL char" in answer.out and "--tokenize zh" in answer.err
    answer = hmt("evaluate", "--log", str(log), "--tokenize", "zh", *SHORT)
    assert "BLEU zh" in answer.out and "tok:zh" in answer.out and answer.err == ""
    assert "must be one delay" not in hmt("evaluate", "--log", str(log), "--unit", "char").err
    refused = hmt("evaluate", "--log", str(log), "--unit", "word")
    assert refused.code == 2 and "4 delays for a prediction of 1 words" in refused.err


@pytest.mark.parametrize(
    "options",
    [
        "--log swept.log",
        "--log folder/that/is/not",
        "--log test.source",
        "--log run",
        "run --log good.log",
        "--log good.log --source test.source",
        "--log good.log --lower 3",
        "--log good.log --batch 2",
        "--log good.log --unit syllable",
        "--log good.log --tokenize klingon",
        "--log good.log --resamples -1",
        "--log good.log --seconds-per-word 0.4",
        "--log good.log --output swept",
        "--log good.log --output recipe.toml",
        "--log bare.log --comet never",
        "run --source test.source --output never --clip",
        "run --source test.source --output never --unit word",
        "run --source test.source --output never --comet never",
        "run --source test.source --output never --tokenize klingon",
        "run --source test.source --output never --seconds-per-word 0",
        "run --source test.source --output never --seconds-per-word nan",
    ],
)
def test_wrong_uses_are_told_in_one_sentence(
    hmt: Call, world: Path, curve: Path, options: str
) -> None:
    write(world / "good.log", entry())
    write(world / "bare.log", {"prediction": "a", "delays": [1], "source_length": 1})
    answer = hmt("evaluate", *options.split())
    assert answer.code == 2, answer
    assert answer.err.startswith("hmt: ") and answer.err.count("\n") == 1
    assert answer.err.endswith(".\n") and len(answer.err) > 25
    assert answer.out == ""
    assert not (world / "never").exists()


def test_the_table_names_conventions_and_the_scores_hold_the_options(
    hmt: Call, world: Path
) -> None:
    options = ["--output", "aware", "--tokenize", "char", "--seconds-per-word", "0.4", *SHORT]
    answer = hmt("evaluate", "run", *TEST, *options)
    assert answer.code == 0
    for column in ("BLEU char", "AL=LAAL token", "DAL token", "AL word", "LAAL_CA word"):
        assert column in answer.out
    assert "one sentence at a time" in answer.out and "20 resamples of 6 sentences" in answer.out
    point = point_of(world / "aware")
    assert point["scoring"]["seconds_per_word"] == 0.4 and point["intervals"]["resamples"] == 20
    # scored again in another way from the same records
    again = hmt("evaluate", "run", *TEST, "--output", "aware", "--resamples", "0")
    assert "BLEU 13a" in again.out and "_CA" not in again.out and "[" not in again.out
    assert point_of(world / "aware")["intervals"] is None


def test_scores_of_another_version_are_not_kept(hmt: Call, world: Path) -> None:
    """Planted bug: a point is taken over though its numbers meant something else then."""
    assert hmt("evaluate", "run", *TEST, "--output", "older", *SHORT).code == 0
    path = world / "older" / "scores.json"
    content = json.loads(path.read_text())
    right = content["points"][0]["quality"]["bleu_tokenised_lc"]
    content["points"][0]["quality"]["bleu_tokenised_lc"] = -1.0
    path.write_text(json.dumps(content))
    assert hmt("evaluate", "run", *TEST, "--output", "older", *SHORT).code == 0
    assert point_of(world / "older")["quality"]["bleu_tokenised_lc"] == -1.0  # the same version
    content["points"][0]["conventions"]["quality"]["bleu_tokenised_lc"] = "something else"
    path.write_text(json.dumps(content))
    assert hmt("evaluate", "run", *TEST, "--output", "older", *SHORT).code == 0
    assert point_of(world / "older")["quality"]["bleu_tokenised_lc"] == right


def test_clocks_of_sentences_side_by_side_are_told(hmt: Call, world: Path) -> None:
    options = ["--output", "hasty", "--seconds-per-word", "0.4", "--batch", "4", *SHORT]
    answer = hmt("evaluate", "run", *TEST, *options)
    assert answer.code == 0 and "ran side by side" in answer.err
    aware = point_of(world / "hasty")["conventions"]["latency"]["word"]["computation_aware"]
    assert "with 4 sentences side by side" in aware


def test_every_number_has_a_convention(curve: Path) -> None:
    for point in json.loads((curve / "scores.json").read_text())["points"]:
        assert point["conventions"]["quality"].keys() == point["quality"].keys()
        assert point["signatures"].keys() == point["quality"].keys()
        for name, metrics in point["latency"].items():
            said = point["conventions"]["latency"][name]
            assert {"unit", "end_tokens", "target_length", "aggregation", "skipped"} <= said.keys()
            if isinstance(said["target_length"], dict):
                assert said["target_length"].keys() == metrics.keys()
        assert {"method", "level", "resamples", "seed"} <= point["intervals"].keys()


def test_comet_gets_its_files_and_its_command(hmt: Call, world: Path, curve: Path) -> None:
    settings = ["--lower", "1,3", "--output", "swept", "--comet", "for comet"]
    answer = hmt("evaluate", "run", *TEST, *settings)
    commands = [line for line in answer.out.splitlines() if line.startswith("comet-score -s '")]
    assert len(commands) == 2
    sources = (world / "test.source").read_text()
    folders = sorted((world / "for comet").iterdir())
    assert [folder.name for folder in folders] == sorted(f.name for f in curve.glob("lower=*"))
    for folder in folders:
        assert (folder / "comet.src").read_text() == sources
        assert len((folder / "comet.mt").read_text().splitlines()) == 6
    log = folders[0].name
    assert hmt("evaluate", "--log", f"swept/{log}", "--comet", "one", *SHORT).code == 0
    assert (world / "one" / "comet.ref").read_text() == (world / "test.target").read_text()


@pytest.mark.parametrize("tail", ["", '{"index": 5, "sour'], ids=["whole", "torn line"])
def test_a_point_goes_on_where_it_was_stopped(
    world: Path, curve: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tail: str
) -> None:
    text = read_parallel(world / "test.source", world / "test.target")
    model = load(world / "run")

    def stop(stage: str, done: int, total: int) -> None:
        if done == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        evaluate(model, text, tmp_path / "out", [{"lower": 1}], batch=2, progress=stop)
    (partial,) = (tmp_path / "out").glob("*/records.partial.jsonl")
    assert len(read_records(partial)) == 4
    with partial.open("a") as file:
        file.write(tail)

    translated: list[str] = []
    plain = Model.translate_each

    def counted(self: Model, lines: list[str], *arguments: Any, **knobs: Any) -> Any:
        translated.extend(lines)
        return plain(self, lines, *arguments, **knobs)

    monkeypatch.setattr(Model, "translate_each", counted)
    (point,) = evaluate(model, text, tmp_path / "out", [{"lower": 1}])
    assert len(translated) == 2
    assert not partial.exists()
    whole, resumed = (
        read_records(setting_folder(folder, point["settings"]) / "records.jsonl")
        for folder in (curve, tmp_path / "out")
    )
    assert [(r.index, r.source, r.reference, r.prediction, r.reads) for r in resumed] == [
        (r.index, r.source, r.reference, r.prediction, r.reads) for r in whole
    ]


def test_a_directory_in_which_nothing_was_measured_can_be_used_again(
    hmt: Call, world: Path
) -> None:
    (world / "long.source").write_text("al brano .\n" + "al " * 5000 + "\n")
    answer = hmt("evaluate", "run", "--source", "long.source", "--output", "again")
    assert answer.code == 2 and "split it into sentences" in answer.err
    assert hmt("evaluate", "run", *TEST, "--output", "again", *SHORT).code == 0
    answer = hmt("evaluate", "run", *TEST[:2], "--output", "again", *SHORT)
    assert answer.code == 2 and "other text" in answer.err


def test_two_points_are_compared_in_every_score(hmt: Call, curve: Path) -> None:
    one, other = sorted(str(folder) for folder in curve.glob("lower=*"))
    answer = hmt("compare", one, other, *SHORT)
    assert answer.code == 0 and answer.err == ""
    for part in ("BLEU (13a): A ", "AL (token): A ", "LAAL (word): ", "B is later", "p = 0.0"):
        assert part in answer.out
    found = json.loads(hmt("compare", one, other, "--format", "json", *SHORT).out)
    assert found["sentences"] == 6 and found["A"] == one
    assert {"first", "second", "difference", "interval", "p"} == set(
        found["scores"]["latency.token.AL"]
    )
    assert found["scores"]["latency.word.AL"]["difference"] > 0
    same = hmt("compare", one, f"{one}/instances.log", *SHORT).out
    assert "B is later" not in same and "p = 1.000" in same


def test_curves_are_compared_on_average_or_at_a_latency(hmt: Call, curve: Path) -> None:
    answer = hmt("compare", str(curve), str(curve / "scores.json"), *SHORT)
    assert answer.code == 0 and "On average over word.LAAL from" in answer.out
    middle = ["--latency", "token.LAAL", "--quality", "chrf", *SHORT]
    found = json.loads(hmt("compare", *[str(curve)] * 2, *middle, "--format", "json").out)
    low, high = found["range"]
    assert low < high and found["difference"] == 0 and found["p"] == 1
    at = hmt("compare", *[str(curve)] * 2, *middle, "--at", str((low + high) / 2))
    assert at.out.splitlines()[1].startswith("At token.LAAL ") and "chrF2: A " in at.out
    point = str(next(curve.glob("lower=1")))
    assert "At word.LAAL" in hmt("compare", str(curve), point, *SHORT).out


def test_logs_of_another_tool_make_a_curve(hmt: Call, world: Path, curve: Path) -> None:
    for number, folder in enumerate(sorted(curve.glob("lower=*"))):
        shutil.copy(folder / "instances.log", world / f"theirs{number}.log")
        log = ["--log", f"theirs{number}.log", "--output", "theirs", *SHORT]
        assert hmt("evaluate", *log).code == 0
    ours, theirs = (
        [point["latency"]["word"] for point in json.loads(path.read_text())["points"]]
        for path in (curve / "scores.json", world / "theirs" / "scores.json")
    )
    assert ours == theirs
    answer = hmt("compare", "swept", "theirs", *SHORT)
    assert answer.code == 0 and "no difference can be shown" in answer.out


@pytest.mark.parametrize(
    "arguments",
    [
        "swept",
        "swept missing",
        "swept run",
        "swept test.source",
        "swept swept --at 99",
        "swept swept --latency word.XY",
        "swept swept --quality beauty",
        "swept swept --resamples 0",
        "swept swept --tokenize klingon",
        "swept swept --format xml",
        "swept good.log",
        "char.log good.log",
    ],
)
def test_wrong_comparisons_are_told_in_one_sentence(
    hmt: Call, world: Path, curve: Path, arguments: str
) -> None:
    write(world / "good.log", entry())
    write(world / "char.log", entry(prediction="我狗猫", delays=[1, 2, 3]))
    answer = hmt("compare", *arguments.split())
    assert answer.code == 2 and answer.out == "", answer
    assert answer.err.startswith("hmt: ") and answer.err.count("\n") == 1
    assert answer.err.endswith(".\n")
