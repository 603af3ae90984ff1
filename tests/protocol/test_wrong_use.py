"""Wrong uses of every command: exit code 2, one sentence on stderr, and nothing is damaged."""

import inspect
import json
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import RECIPE, TEST, TEXT, VALID, WORDS, Call, contents

from hmt.errors import UserError

OUT = ["--output", "never"]
SIDES = ("source", "target")
DICTS = ["--source-dict", "dict.txt", "--target-dict", "dict.txt"]


class Evil:
    """A pickle that would leave a file behind if it were executed."""

    def __reduce__(self) -> tuple[Callable[..., object], tuple[str]]:
        return Path.touch, (Path("executed"),)  # type: ignore[return-value]


@pytest.fixture(scope="session")
def broken(world: Path) -> Path:
    """The world with all kinds of broken things in it."""

    def model(name: str) -> Path:
        shutil.copytree(world / "run", world / name, ignore=shutil.ignore_patterns("training"))
        return world / name

    def changed(name: str, **values: object) -> None:
        path = model(name) / "config.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **values}))

    (world / "short").write_text("one line\n")
    (world / "latin").write_bytes(b"al brano\nsv\xe9 .\n")
    (world / "empty").write_text("")
    (world / "blank").write_text("\n \n")
    (world / "half.gz").write_bytes(b"\x1f\x8b\x08\x00 not really")
    (world / "folder" / "inside").mkdir(parents=True)
    (world / "bad.toml").write_text("output = ")
    (world / "other.toml").write_text(RECIPE.replace("updates = 6", "updates = 6\nclip = 1.0"))
    (model("no weights") / "model.safetensors").unlink()
    (model("bad weights") / "model.safetensors").write_bytes(b"nonsense")
    (model("bad config") / "config.json").write_text("{")
    (model("no tokenizer") / "source.tokenizer.json").unlink()
    (model("bad tokenizer") / "target.tokenizer.json").write_text("{}")
    changed("unknown system", system="babelfish")
    changed("later format", format=99)
    config = json.loads((world / "run" / "config.json").read_text())["config"]
    changed("other size", config={**config, "dims": {**config["dims"], "width": 32}})
    changed("unknown key", config={**config, "lover": 3})
    changed("bad knob", knobs={"lower": "three"})
    (world / "dict.txt").write_text("al 10\nbrano 5\n")
    (world / "bad dict").write_text("al ten\n")
    (world / "evil.pt").write_bytes(pickle.dumps(Evil()))
    (world / "not.pt").write_text("this is text")
    return world


def prepare(
    *arguments: str, source: str = "train.source", target: str = "train.target"
) -> list[str]:
    text = ["--source", source, "--target", target]
    return ["prepare", *text, *VALID, *WORDS, "--output", "never", *arguments]


def train(*overrides: str) -> list[str]:
    settings = ("output=never", *overrides)
    return ["train", "recipe.toml", *(word for s in settings for word in ("--set", s))]


def on_models(*command: str) -> list[list[str]]:
    """What every command that loads a model must refuse."""
    names = ["missing", "folder", "recipe.toml", "no weights", "bad weights", "bad config"]
    names += ["no tokenizer", "bad tokenizer", "unknown system", "later format", "other size"]
    names += ["unknown key", "bad knob"]
    return [[command[0], name, *command[1:]] for name in names]


def on_knobs(*command: str) -> list[list[str]]:
    """What every command with knobs must refuse."""
    wrong = ["--lower 99999999999999999999"]
    wrong += ["--lover 3", "--lower three", "--lower", "--states 0", "--threshold nan"]
    wrong += [
        "--attention none",
        "--policy=",
        "--lower 1 --lower 2",
        "--device tpu",
        "--device cuda:99",
        f"--lower {9:0<400}",
    ]
    return [[*command, *options.split()] for options in wrong]


CASES = {
    "hmt": [["translat"], ["--verbose"], ["--version=3"], ["Train", "recipe.toml"]],
    "prepare": [
        ["prepare"],
        ["prepare", *TEXT, *OUT],
        ["prepare", *TEXT, *VALID],
        prepare(source="missing"),
        prepare(source="folder"),
        prepare(source="short"),
        prepare(source="latin"),
        prepare(source="empty", target="empty"),
        prepare(source="half.gz"),
        prepare("--vocabulary", "word"),
        prepare("--vocabulary", "given"),
        prepare("--min-count", "0"),
        prepare("--size", "many"),
        prepare("--size", "2147483648"),
        prepare("--size", "-1"),
        prepare("--min-count", "99999999999999999999"),
        prepare("--max-tokens", "99999999999999999999"),
        prepare("--max-ratio", "inf"),
        prepare("--vocabulary-lines", "-1"),
        prepare("--workers", "1000000"),
        prepare("--max-ratio", "-1"),
        prepare("--max-ratio", "nan"),
        prepare(source="blank", target="blank"),
        prepare("--workers", "0"),
        prepare("--test-source", "test.source"),
        prepare("--source-tokenizer", "run/source.tokenizer.json"),
        prepare("--output", "run"),
        prepare("--output", "data", "--lowercase"),
        prepare("--output", "recipe.toml/inside"),
        prepare("surplus"),
    ],
    "train": [
        ["train"],
        ["train", "missing.toml"],
        ["train", "folder"],
        ["train", "bad.toml"],
        ["train", "latin"],
        ["train", "other.toml"],
        ["train", "recipe.toml", "--set"],
        ["train", "recipe.toml", "surplus"],
        train("updates"),
        train("training.update=3"),
        train("training.updates=three"),
        train("training.updates=0"),
        train("training.threads=1000000000"),
        train(f"training.updates={9:0<400}"),
        train(f"training.updates=0x{9:0<9000}"),
        train(f"training.betas={'[' * 5000}{']' * 5000}"),
        train(f"model.{'a.' * 2000}b=1"),
        train("training.betas=[0.9]"),
        train("model.system=babelfish"),
        train("model.config.lover=3"),
        train("model.config.dims.width=15"),
        train("model.config.dims.width=-4"),
        train("model.config.dims.heads=0"),
        train("model.config.dims.encoder_layers=0"),
        train("model.config.dims.dropout=1.5"),
        train("model.config.label_smoothing=2"),
        train("model.config.latency_weight=nan"),
        train("model=3"),
        train("model.config=3"),
        ["train", "run/config.json"],
        train("model.knobs.lover=3"),
        train("model.knobs.lower=1.5"),
        train("model.knobs.threshold=high"),
        train("data.directory=missing"),
        train("data.directory=run"),
        train("training.warm_start=missing"),
        train("output=no weights/../mean of none", "training.precision=fp8"),
        train("output=bad config"),
        train("output=recipe.toml"),
        train('output="a\\u0000b"'),
    ],
    "evaluate": [
        ["evaluate"],
        ["evaluate", "run", *OUT],
        ["evaluate", "run", *TEST],
        ["evaluate", "run", "--source", "missing", *OUT],
        ["evaluate", "run", "--source", "test.source", "--target", "short", *OUT],
        ["evaluate", "run", "--source", "latin", *OUT],
        ["evaluate", "run", "--source", "empty", *OUT],
        ["evaluate", "run", *TEST, "--output", "data"],
        ["evaluate", "run", *TEST, "--output", "recipe.toml"],
        ["evaluate", "run", *TEST, *OUT, "--batch", "0"],
        ["evaluate", "run", *TEST, *OUT, "--batch", "1000000000000"],
        ["evaluate", "run", *TEST, *OUT, "--resamples", "1000000000000"],
        ["evaluate", "run", *TEST, *OUT, "--lower", "1,,3"],
        *on_models("evaluate", *TEST, *OUT),
        *on_knobs("evaluate", "run", *TEST, *OUT),
    ],
    "score": [
        ["score"],
        ["score", "run", "--source", "test.source"],
        ["score", "run", "--source", "test.source", "--target", "short"],
        ["score", "run", "--source", "test.source", "--target", "latin"],
        ["score", "run", "--source", "missing", "--target", "test.target"],
        ["score", "run", *TEST, "--batch", "-1"],
        ["score", "run", *TEST, "--batch", "1000000000000"],
        ["score", "run", *TEST, "--alignment-base", "2"],
        ["score", "run", *TEST, "--lower", "1,3"],
        *on_models("score", *TEST),
        *on_knobs("score", "run", *TEST),
    ],
    "translate": [
        ["translate", "run", "surplus"],
        ["translate", "run", "--format", "xml"],
        ["translate", "run", "--input", "xml"],
        ["translate", "run", "--timing", "source"],
        ["translate", "run", "--by-line", "--input", "jsonl"],
        ["translate", "run", "--caption-offset", "soon"],
        ["translate", "run", "--caption-offset", "inf"],
        ["translate", "run", "--caption-offset", "nan"],
        ["translate", "run", "--lower", "1,3"],
        *on_models("translate"),
        *on_knobs("translate", "run"),
    ],
    "average": [
        ["average"],
        ["average", "run"],
        ["average", *OUT],
        ["average", "run", *OUT, "--last", "0"],
        ["average", "run", *OUT, "--last", "two"],
        ["average", "run", *OUT, "--last", "99"],
        ["average", "run", "--output", "run"],
        ["average", "run", "--output", "recipe.toml"],
        ["average", "run", "folder", *OUT],
        ["average", "run", "other size", *OUT],
        ["average", "run", "no weights", *OUT],
        ["average", "run", "bad weights", *OUT],
        ["average", "run", "bad tokenizer", *OUT],
        ["average", "missing", *OUT],
    ],
    "info": [
        ["info", "a\0b"],
        ["info", "a" * 5000],
        ["info", "run", "surplus"],
        ["info", "run", "--format", "xml"],
        ["info", "run", "--lower", "3"],
        *on_models("info"),
    ],
    "bench": [
        ["bench", "memory"],
        ["bench", "--size", "huge"],
        ["bench", "--slots", "1000000000000"],
        ["bench", "--slots", "0"],
        ["bench", "--sentences", "-1"],
        ["bench", "--repeats", "0"],
        ["bench", "--threads", "1000000"],
        ["bench", "--lengths", "10,-1"],
        ["bench", "--lengths", "1000000000000"],
        ["bench", "--sessions", "1000000000000"],
        ["bench", "--seconds", "nan"],
        ["bench", "--compare", "test.source"],
    ],
    "audit": [
        ["audit", "run", "run"],
        ["audit", "run", "--source", "missing"],
        ["audit", "run", "--probes", "0"],
        ["audit", "run", "--probes", "1000000000000"],
        ["audit", "run", "--seed", "one"],
        *on_models("audit"),
        *on_knobs("audit", "run"),
    ],
    "explain": [
        ["explain"],
        ["explain", "run"],
        ["explain", "run", "al", "brano"],
        ["explain", "run", "al brano", "--layer", "0"],
        ["explain", "run", "al brano", "--layer", "1000000000000"],
        ["explain", "--record", "missing", "--index", "-1"],
        *on_models("explain", "al brano"),
        *on_knobs("explain", "run", "al brano"),
    ],
    "analyse": [
        ["analyse"],
        ["analyse", "nothing"],
        ["analyse", "accuracy", "run", *OUT],
        ["analyse", "accuracy", "run", "--source", "short", "--target", "test.target", *OUT],
        ["analyse", "accuracy", "run", *TEST, "--lover", "3", *OUT],
        ["analyse", "selection", "missing", *OUT],
        ["analyse", "selection", "latin", *OUT],
        ["analyse", "selection", "folder", *OUT],
        ["analyse", "policy", "run", *TEST, "--alignment", "missing", *OUT],
        ["analyse", "policy", "run", *TEST, "--alignment", "short", *OUT],
        ["analyse", "rivals", "folder", *OUT],
        ["analyse", "rivals", "a=folder", *OUT],
        ["analyse", "rivals", "a=folder", "--quality", "best", *OUT],
        ["analyse", "architecture", "--own", "folder", *OUT],
        ["analyse", "threshold", "folder", *OUT],
        ["analyse", "speed", "--size", "huge", *OUT],
        ["analyse", "state-loss", "run", *TEST, *OUT],
        ["analyse", "state-loss", "run", "missing", *TEST, *OUT],
        ["analyse", "cases", "run", "missing", *OUT],
        ["analyse", "cases", "run", "empty", *OUT],
    ],
    "paper": [
        ["paper", "nothing"],
        ["paper", "main", "nothing"],
        ["paper", "--dry-run"],
        ["paper", "--dry-run", "--recipes", "missing"],
        ["paper", "--dry-run", "--seeds", "one"],
        ["paper", "--dry-run", "--seeds", ""],
        ["paper", "--seeds", "1,,2"],
        ["paper", "--data", "missing"],
        ["paper", "speed", "--data", "missing"],
        ["paper", "speed", "--data", "short"],
        ["paper", "--no-such-option"],
    ],
    "convert": [
        ["convert"],
        ["convert", "marian"],
        ["convert", "fairseq"],
        ["convert", "fairseq", "not.pt", *DICTS],
        ["convert", "fairseq", "not.pt", *OUT],
        ["convert", "fairseq", "missing.pt", *DICTS, *OUT],
        ["convert", "fairseq", "folder", *DICTS, *OUT],
        ["convert", "fairseq", "not.pt", *DICTS, *OUT],
        ["convert", "fairseq", "evil.pt", *DICTS, *OUT],
        ["convert", "fairseq", "empty", *DICTS, *OUT],
        ["convert", "fairseq", "run/training/state.pt", *DICTS, *OUT],
        ["convert", "fairseq", "run/model.safetensors", *DICTS, *OUT],
        ["convert", "fairseq", "evil.pt", *DICTS, "--output", "run"],
    ],
}


def test_prepare_is_as_strict_from_python(world: Path) -> None:
    """The bounds of the options are those of the settings: the tokenizer library would abort."""
    from hmt.cli.prepare import prepare as command
    from hmt.text.prepare import LIMITS, Prepare
    from hmt.text.prepare import prepare as run

    options = inspect.signature(command).parameters
    for name, bounds in LIMITS.items():
        assert (options[name].default.min, options[name].default.max) == bounds, name
    train, valid = ([world / f"{split}.{side}" for side in SIDES] for split in ("train", "valid"))
    with pytest.raises(UserError, match="size is 2147483648; it must be from 8 to 1,000,000"):
        run(Prepare(train[0], train[1], valid[0], valid[1], world / "never", size=2**31))


@pytest.mark.parametrize(
    "arguments",
    [pytest.param(case, id=" ".join(case)) for cases in CASES.values() for case in cases],
)
def test_a_mistake_is_told_in_one_sentence(arguments: list[str], hmt: Call, broken: Path) -> None:
    before = contents(broken)
    answer = hmt(*arguments, given="al brano .\n")
    assert answer.code == 2, answer
    assert answer.out == ""
    # training reports what it does before it finds what it cannot do
    sentence = answer.err.splitlines()[-1]
    assert answer.err.count("\n") == 1 or arguments[0] == "train", answer.err
    assert sentence.startswith("hmt: ") and sentence.endswith("."), sentence
    assert len(sentence) > 25, "it says what is allowed or what to do"
    after = contents(broken)
    assert {name: after.get(name) for name in before} == before, "what was there is as it was"
    # a run begins by claiming its directory, so that no other run takes it
    assert all(name.startswith("never/training/") for name in after.keys() - before.keys())
    shutil.rmtree(broken / "never", ignore_errors=True)


def test_every_command_has_ten_wrong_uses() -> None:
    assert all(len(cases) >= 10 for name, cases in CASES.items() if name != "hmt")


def test_input_that_is_no_text_names_its_line(hmt: Call) -> None:
    answer = hmt("translate", "run", given=b"al brano .\nal \xff brano .\n")
    assert answer.code == 2 and "Line 2" in answer.err


def test_golden_checkpoint_with_wrong_dictionaries(hmt: Call, broken: Path, shared: Path) -> None:
    checkpoint = str(shared / "golden" / "checkpoint.pt")
    before = contents(broken)
    for wrong in ("dict.txt", "bad dict", "latin", "missing", "folder"):
        names = ["--source-dict", wrong, "--target-dict", wrong, *OUT]
        answer = hmt("convert", "fairseq", checkpoint, *names)
        assert answer.code == 2 and answer.err.count("\n") == 1, answer
    assert contents(broken) == before
