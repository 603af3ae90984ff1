"""Curves, tables and explanations: the right numbers, drawn where they belong, and nothing else."""

import dataclasses
import io
import json
import math
import random
import re
import shutil
import subprocess
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from lively import lively, lively_hmt
from matplotlib.lines import Line2D
from matplotlib.text import Text
from model_directories import save
from naive_hmt import naive_pass

from hmt.analysis.curves import Axes, read_curves
from hmt.analysis.explanation import END, Explanation, explain, explain_record
from hmt.analysis.figures import curve_figure, save_figure
from hmt.analysis.html_page import html_page
from hmt.analysis.picture import picture
from hmt.analysis.published import published
from hmt.analysis.tables import latex_table, markdown_table
from hmt.analysis.waits import waits
from hmt.cli import run
from hmt.errors import UserError
from hmt.evaluation.points import add_point
from hmt.evaluation.records import write_records
from hmt.metrics.scores import score
from hmt.model.attention import CrossAttention, split_projections
from hmt.model.dims import Dims
from hmt.model.passes import Packing, whole_pass
from hmt.model.rows import Rows, plain_bias
from hmt.models.model import Model
from hmt.streaming.record import Record
from hmt.systems import SYSTEMS
from hmt.text.symbols import BOS, EOS, PAD, UNK
from hmt.text.tokenizer import word_tokenizer

ROOT = Path(__file__).resolve().parents[2]
AXES = Axes.named("bleu", "token.AL")


def record(**changed: Any) -> Record:
    """The sentence of the documentation: "played" waits for "gespielt"."""
    values: dict[str, Any] = {
        "index": 3,
        "source": "ich habe oft Ball gespielt .",
        "prediction": "I often played .",
        "source_tokens": ["▁ich", "▁habe", "▁oft", "▁Ball", "▁ge", "spielt", "▁.", "</s>"],
        "target_tokens": ["▁I", "▁often", "▁played", "▁.", "</s>"],
        "reads": [2, 3, 6, 8, 8],
        "source_word_ends": [0, 1, 2, 3, 5, 6],
        "target_word_ends": [0, 1, 2, 3],
        "moments": [[2, 3], [3, 4], [2, 4, 5, 6, 7], [7, 8], [8]],
        "confidences": [[0.9, 0.9], [0.6, 0.8], [0.1, 0.2, 0.3, 0.7, 0.9], [0.4, 1.0], [1.0]],
        "log_probs": [-0.1, -0.2, -0.3, -0.4, -0.5],
        "settings": {"lower": 2, "states": 5},
    }
    return Record(**{**values, **changed})


def model_of(system: Any) -> Model:
    size = system.transformers[0].dims.source_vocabulary
    tokenizer = word_tokenizer([f"w{n}" for n in range(4, size)])
    return Model(system, (tokenizer, tokenizer))


# ---- curves


def scores(folder: Path, name: str, points: list[tuple[int, float, float]]) -> Path:
    """A scores.json as `hmt evaluate` writes it, with these lower boundaries, AL and BLEU."""
    folder = folder / name
    folder.mkdir()
    for lower, latency, quality in points:
        point = score([record(reference="I often played .")] * 3, resamples=10)
        point["settings"] = {"lower": lower, "states": 6}
        point["latency"]["token"]["AL"], point["quality"]["bleu"] = latency, quality
        point["intervals"]["latency"]["token"]["AL"] = [latency - 0.5, latency + 0.25]
        point["intervals"]["quality"]["bleu"] = [quality - 1, quality + 2]
        add_point(folder / "scores.json", point)
    return folder


@pytest.fixture
def two(tmp_path: Path) -> list[Path]:
    first = scores(tmp_path, "hmt", [(5, 4.0, 30.0), (1, 1.0, 22.0), (3, 2.5, 28.0)])
    return [first, scores(tmp_path, "_full $x$", [(1, 20.0, 31.0)])]


def points(line: Line2D) -> tuple[list[float], list[float]]:
    """x and y of all points of a drawn line."""
    x, y = (np.asarray(data, dtype=float).tolist() for data in line.get_data())
    return x, y


def test_figure_has_a_line_per_system_in_order_of_latency(two: list[Path]) -> None:
    figure = curve_figure([*read_curves(two, AXES), published("wmt15-base", AXES)], AXES)
    (panel,) = figure.axes
    lines = [line for line in panel.lines if line.get_gid() == "curve"]
    assert [points(line)[0] for line in lines[:2]] == [[1.0, 2.5, 4.0], [20.0]]
    assert [points(line)[1] for line in lines[:2]] == [[22.0, 28.0, 30.0], [31.0]]
    delays, scores = points(lines[2])
    assert len(delays) == 8 and scores[-1] == 31.71
    legend = panel.get_legend()
    assert legend is not None
    names = [text.get_text() for text in legend.get_texts()]
    assert [name.strip("\u200b") for name in names] == ["hmt", "_full $x$", "paper: wmt15-base"]
    assert len({line.get_marker() for line in lines}) == len({line.get_color() for line in lines})
    assert panel.get_xlabel() == "AL (tokens)" and panel.get_ylabel() == "sacreBLEU"
    bands = [
        np.asarray(c.get_paths()[0].vertices)
        for c in panel.collections
        if c.get_paths() and c.get_alpha() == 0.15
    ]
    assert len(bands) == 1, "a curve of one point has bars instead"
    assert (bands[0][:, 1].min(), bands[0][:, 1].max()) == (21.0, 32.0)


def test_figure_is_legible_in_one_column_and_can_be_saved(two: list[Path], tmp_path: Path) -> None:
    curves = read_curves(two * 4, AXES, [f"system {n}" for n in range(8)])
    for some in (curves[:2], curves):
        figure = curve_figure(some, AXES)
        assert figure.get_figwidth() == pytest.approx(3.3)
        texts = [item for item in figure.findobj(Text) if isinstance(item, Text)]
        assert min(float(text.get_fontsize()) for text in texts if text.get_text()) >= 7
    for suffix, start in ((".pdf", b"%PDF"), (".png", b"\x89PNG"), (".svg", b"<?xml")):
        path = tmp_path / f"curve{suffix}"
        save_figure(figure, path)
        first = path.read_bytes()
        assert first.startswith(start)
        if suffix != ".png":
            save_figure(figure, path)
            assert path.read_bytes() == first, "the same figure is the same file"


def test_tables_have_all_points_and_name_their_conventions(two: list[Path]) -> None:
    curves = [*read_curves(two, AXES, ["a|b", "50% & more_"]), published("wmt15-base", AXES)]
    markdown = markdown_table(curves, AXES)
    head, _, *rows = [line for line in markdown.splitlines() if line.startswith("|")]
    assert "AL (token)" in head and "sacreBLEU" in head and len(rows) == 12
    assert rows[0].startswith(r"| a\|b | lower=1 |")
    assert "1.00 [0.50, 1.25]" in rows[0] and rows[0].endswith("22.00 [21.00, 24.00] |")
    assert "lower=-1" in rows[4] and "22.52" in rows[4]
    for word in ("tok:13a", "end tokens counted", "95%", "Sentences: 3", "ICLR 2023"):
        assert word in markdown
    latex = latex_table(curves, AXES)
    assert r"50\% \& more\_ & lower=1, states=6" in latex
    body = latex[latex.index(r"\midrule") : latex.index(r"\bottomrule")]
    assert body.count(r"\\") == 12 and body.count(r"\midrule") == 3
    assert all(
        line.count("&") - line.count(r"\&") == 6 for line in body.splitlines() if "&" in line
    )


def test_published_points_are_those_of_the_paper(shared: Path) -> None:
    tables = [
        [[float(cell) for cell in re.findall(r"-?\d+\.?\d*", row)] for row in rows]
        for part in "".join(p.read_text() for p in (shared / "paper").glob("*.txt")).split(
            r"\begin{table}"
        )
        if (rows := re.findall(r"^-?\d+ +& +\d+ +&.*", part, re.MULTILINE))
    ][-3:]
    content = json.loads((ROOT / "docs" / "paper-results.json").read_text())
    ours = [
        [list(map(float, point.values())) for point in setting["points"]]
        for setting in content["settings"].values()
    ]
    assert ours == tables
    assert list(content["settings"]) == ["iwslt15-small", "wmt15-base", "wmt15-big"]


# ---- what states saw


def test_attention_of_a_module_is_the_softmax_of_its_scores() -> None:
    torch.manual_seed(1)
    cross = CrossAttention(Dims(9, 9, width=8, heads=2)).double()
    length, moment = 11, torch.tensor([[3, 11, 1]])  # more source tokens than a head is wide
    x, h = torch.randn(3, 8).double(), torch.randn(1, length, 8).double()
    rows = Rows.of(moment, moment)
    bias = plain_bias(rows, rows, h.dtype)
    at = whole_pass(rows, bias, Packing(1, 3), h, torch.tensor([length]))
    source = split_projections(cross.keep(h), 2, 8)
    assert cross(x, source, at, None).weights is None, "computed only for those who watch"
    attended = cross(x, source, dataclasses.replace(at, is_watched=True), None)
    assert torch.equal(attended.out, cross(x, source, at, None).out)
    found = attended.weights.mean(1)
    for row in range(3):
        own = []
        for head in range(2):
            part = slice(4 * head, 4 * head + 4)
            keys = cross.keep(h)[0, : moment[0, row], :8][:, part]
            own.append((keys @ cross.query(x)[row, part] / 2).softmax(0))
        expected = torch.zeros(length).double()
        expected[: moment[0, row]] = torch.stack(own).mean(0)
        torch.testing.assert_close(found[row], expected)


@pytest.mark.parametrize(
    ("name", "seed", "source", "knobs"),
    [
        *((name, 3, "w5 w9 w4 w13 w7 w6", {}) for name in SYSTEMS),
        # an early end is not believed: the last write sees less source than was read
        ("adaptive", 5, "w10 w4 w12 w7 w11 w11", {"k_max": 2}),
    ],
)
def test_selected_states_say_what_was_written_in_every_system(
    name: str, seed: int, source: str, knobs: dict[str, Any]
) -> None:
    model = model_of(lively(name, seed))
    told = explain(model, source, **knobs)
    done = model.translate([source], **knobs)[0]
    assert [token.reads for token in told.target_tokens] == done.reads
    for token, log_prob in zip(told.target_tokens, done.log_probs, strict=True):
        best = token.selected.words[0]
        assert best.text == token.text
        assert best.probability == pytest.approx(math.exp(log_prob), rel=1e-6)
        for state in token.states:
            assert len(state.words) == 3, "every state that the record has was seen"
            assert len(state.attention) == state.moment
            assert sum(state.attention) == pytest.approx(1.0, abs=1e-5)
    assert Explanation.from_json(told.to_json()) == told


def test_states_say_what_the_naive_model_says() -> None:
    """All states of HMT, those after the write included, against K copies without a cache."""
    system = lively_hmt(4)
    model = model_of(system)
    knobs = model.knobs(lower=1, states=3)
    ids = {f"w{n}": n for n in range(4, 20)} | {END: EOS, "<unk>": UNK}
    draw = random.Random(2)
    roles: Counter[str] = Counter()
    for _ in range(4):
        words = [f"w{draw.randrange(4, 20)}" for _ in range(9)]
        told = explain(model, " ".join(words), lower=1, states=3)
        source = [ids[token.text] for token in told.source_tokens]
        target = [ids[token.text] for token in told.target_tokens]
        naive = naive_pass(system, source, target, knobs)
        for i, token in enumerate(told.target_tokens):
            for state in token.states:
                k = naive.moments[i].index(state.moment)
                probability = naive.log_prob[i, k].exp()
                probability[[BOS, PAD]] = 0
                best = probability.topk(3)
                assert [ids[word.text] for word in state.words] == best.indices.tolist()
                found = [word.probability for word in state.words]
                assert found == pytest.approx(best.values.tolist())
                if state.confidence != 1.0:
                    assert state.confidence == pytest.approx(
                        naive.confidence[i, k].sigmoid().item()
                    )
                roles[state.role] += 1
    assert len(roles) == 3 and min(roles.values()) > 3, roles


# ---- roles and waits


def test_roles_follow_the_definition() -> None:
    told = explain_record(record())
    roles = [[(s.moment, s.role) for s in token.states] for token in told.target_tokens]
    assert roles[0] == [(2, "selected"), (3, "not considered")]
    assert roles[2] == [
        (2, "not considered"), (4, "rejected"), (5, "rejected"), (6, "selected"),
        (7, "not considered"),
    ]  # fmt: skip
    assert [token.text for token in told.source_tokens[3:]] == ["Ball", "ge", "…spielt", ".", END]


def test_each_wait_is_told_in_a_sentence() -> None:
    assert [wait.sentence for wait in waits(explain_record(record()))] == [
        "Before writing “I” the model read “ich” and “habe”; no earlier moment was open to it.",
        "Before writing “played” the model waited for “gespielt”.",
        "Before writing “.” the model waited for the end of the sentence. "
        "This was the last moment it had.",
    ]
    longer = record(
        moments=[[2], [3], [3, 6], [8], [8]], confidences=[[1.0], [1.0], [0.1, 0.7], [1.0], [1.0]]
    )
    assert [wait.sentence for wait in waits(explain_record(longer)) if wait.is_choice] == [
        "Before writing “played” the model waited for “gespielt”: “Ball” was not enough."
    ]
    pieces = record(moments=[[2], [3], [5, 6], [8], [8]], confidences=longer.confidences)
    (wait,) = [wait for wait in waits(explain_record(pieces)) if wait.is_choice]
    assert wait.sentence == "Before writing “played” the model waited for more of “gespielt”."


def test_full_confidence_of_every_token_does_not_mean_that_it_had_to_write() -> None:
    """Planted bug: GMA and MMA, which write once all layers are content, had a "last moment"."""
    content = [[1.0], [1.0], [0.0, 1.0], [1.0], [1.0]]
    told = explain_record(record(moments=[[2], [3], [3, 6], [8], [8]], confidences=content))
    (wait,) = [wait for wait in waits(told) if wait.is_choice]
    assert "last moment" not in wait.sentence


def test_a_system_without_choices_has_no_confidence() -> None:
    alone = record(moments=[[n] for n in record().reads], confidences=[[1.0]] * 5)
    told = explain_record(alone)
    assert all(len(token.states) == 1 for token in told.target_tokens)
    assert {token.selected.confidence for token in told.target_tokens} == {None}


# ---- page and picture

HOSTILE = [
    "<script>alert(1)</script>",
    "\"'",
    "&amp;",
    "</script>",
    "שלום",
    "日本語",
    "x$y$z",
    "\u202eabc",
]


def hostile() -> Explanation:
    """Words that would break out of a page that forgot to escape one of them."""
    words = len(HOSTILE)
    return explain_record(
        Record(
            index=0,
            source=" ".join(HOSTILE),
            prediction=" ".join(reversed(HOSTILE)),
            source_tokens=[*HOSTILE, "</s>"],
            target_tokens=[*reversed(HOSTILE), "</s>"],
            reads=[min(n + 2, words + 1) for n in range(words + 1)],
            source_word_ends=list(range(words)),
            target_word_ends=list(range(words)),
            moments=[[min(n + 1, words), min(n + 2, words + 1)] for n in range(words + 1)],
            confidences=[[0.1, 0.9]] * (words + 1),
            log_probs=[-0.5] * (words + 1),
            settings={"<b>": "</style>"},
            reference="<img src=x onerror=alert(1)>",
        )
    )


class Reader(HTMLParser):
    """What a browser would find: elements, attributes and texts."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.texts: list[str] = []
        self.data: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        (self.data if self.tags and self.tags[-1] in ("script", "style") else self.texts).append(
            data
        )


@pytest.mark.parametrize("told", [hostile(), explain_record(record())], ids=["hostile", "plain"])
def test_page_shows_every_word_and_loads_nothing(told: Explanation) -> None:
    page = html_page(told)
    found = Reader(page)
    for word in (*told.source_words, *told.target_words):
        assert word in found.texts, word
    for wait in waits(told):
        assert wait.sentence in "".join(found.texts)
    assert found.tags.count("script") == 2 and not {"img", "link", "iframe", "b"} & set(found.tags)
    names = {name for name, _ in found.attributes}
    assert not names & {"src", "href", "action", "srcset"} and not {
        n for n in names if n.startswith("on")
    }
    style_and_script = "".join(found.data)
    assert "url(" not in style_and_script and "@import" not in style_and_script
    assert "://" not in page
    embedded = page.split('id="explanation">')[1].split("</script>")[0]
    assert Explanation.from_json(embedded) == told
    assert "default-src 'none'" in page


@pytest.mark.skipif(shutil.which("chromium") is None, reason="there is no chromium to look with")
@pytest.mark.parametrize("told", [hostile(), explain_record(record())], ids=["hostile", "plain"])
def test_page_works_in_a_browser(told: Explanation, tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text(html_page(told), encoding="utf-8")
    options = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        f"--user-data-dir={tmp_path / 'user'}",
    ]
    done = subprocess.run(
        ["chromium", *options, "--dump-dom", (tmp_path / "page.html").as_uri()],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    panel = done.stdout.split('id="detail"')[1].split("</aside>")[0]
    assert "source tokens" in panel and "It would write" in panel, done.stderr
    assert done.stdout.split("</style>")[1].count('aria-pressed="true"') == 1


def test_picture_shows_states_path_and_attention() -> None:
    model = model_of(lively("hmt"))
    told = explain(model, "w5 w9 w4 w13 w7 w6")
    figure = picture(told)
    grid, attention = figure.axes
    (path,) = [line for line in grid.lines if line.get_gid() == "path"]
    reads = [token.reads for token in told.target_tokens]
    assert points(path)[0] == [0, *(r for r in reads for _ in (0, 1))]
    shown = " ".join(text.get_text() for text in grid.texts)
    states = [state for token in told.target_tokens for state in token.states]
    assert shown.count("✓") == len(told.target_tokens)
    assert shown.count("✗") == sum(state.role == "rejected" for state in states)
    assert all(state.words[0].text in shown for state in states)
    assert sum("after" in text.get_text() for text in attention.texts) == len(states)
    assert [label.get_text() for label in grid.get_xticklabels()] == [
        token.text for token in told.source_tokens
    ]


@pytest.mark.filterwarnings("ignore:Glyph")
def test_picture_of_odd_text_can_be_drawn() -> None:
    picture(hostile()).savefig(io.BytesIO(), format="png", dpi=50)
    cut = record(
        target_tokens=[],
        reads=[],
        target_word_ends=[],
        prediction="",
        moments=[],
        confidences=[],
        log_probs=[],
    )
    assert "It never waited" in html_page(explain_record(cut))
    picture(explain_record(cut)).savefig(io.BytesIO(), format="png", dpi=50)


# ---- the command line


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model directory, another model, and records of the first."""
    folder = tmp_path_factory.mktemp("analysis")
    for name, seed in (("model", 3), ("other", 4)):
        model = model_of(lively("hmt", seed).float())
        save(folder / name, model.system, model.source_tokenizer)
        if name == "model":
            records = model.translate(["w5 w9 w4", "w7 w6 w8 w11 w5"], states=3)
            write_records(folder / "records.jsonl", records)
    (folder / "empty.jsonl").write_text("")
    (folder / "bad").mkdir()
    (folder / "bad" / "scores.json").write_text('{"points": 3}')
    (folder / "none").mkdir()
    (folder / "none" / "scores.json").write_text('{"points": []}')
    scores(folder, "good", [(1, 1.0, 20.0), (3, 2.0, 25.0)])
    return folder


def call(world: Path, monkeypatch: pytest.MonkeyPatch, line: str) -> int:
    monkeypatch.chdir(world)
    return run([word.replace("+", " ") for word in line.split()])


def test_plot_writes_figure_and_table(world: Path, monkeypatch: Any, capsys: Any) -> None:
    line = "plot good --label mine --output a.svg --table a.tex --paper wmt15-big"
    assert call(world, monkeypatch, line) == 0
    assert (world / "a.svg").stat().st_size > 5000 and "mine" in (world / "a.tex").read_text()
    assert "prefers-color-scheme: dark" in (world / "a.svg").read_text()
    assert "not the sacreBLEU of this axis" in capsys.readouterr().err
    assert call(world, monkeypatch, "plot good") == 0
    assert "of this axis" not in capsys.readouterr().err
    assert call(world, monkeypatch, "plot good --latency word.LAAL --quality chrf") == 0
    assert "| system | setting |" in capsys.readouterr().out


def test_explain_a_sentence_and_a_record(world: Path, monkeypatch: Any, capsys: Any) -> None:
    outputs = "--output a.html --png a.png --data a.json"
    assert call(world, monkeypatch, f"explain model w5+w9+w4 --states 3 --layer 1 {outputs}") == 0
    told = Explanation.from_json((world / "a.json").read_text())
    assert told.settings["states"] == 3 and "decoder layer 1" in told.attention
    assert (world / "a.html").exists() and (world / "a.png").exists()
    assert told.prediction in capsys.readouterr().out
    assert call(world, monkeypatch, "explain --record records.jsonl --index 1 --data b.json") == 0
    alone = Explanation.from_json((world / "b.json").read_text())
    line = "explain model --record records.jsonl --index 1 --data c.json"
    assert call(world, monkeypatch, line) == 0
    both = Explanation.from_json((world / "c.json").read_text())
    assert alone.attention == "" and both.attention
    assert [t.reads for t in alone.target_tokens] == [t.reads for t in both.target_tokens]
    assert both.target_tokens[0].states[0].words and both.source == "w7 w6 w8 w11 w5"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("plot nowhere", "nowhere has no scores.json"),
        ("plot bad", "must be an object with a list 'points'"),
        ("plot none", "no points"),
        ("plot good --quality comet", "bleu, chrf, bleu_tokenised_lc"),
        ("plot good --latency AL", "as in token.AL"),
        ("plot good --latency word.XX", "as in token.AL"),
        ("plot good --latency word.AL_CA", "has no point with both"),
        ("plot good --label a --label b", "2 labels for 1 directories"),
        ("plot good --output a.jpg", "must end in .pdf or .png or .svg"),
        ("plot good --table a.csv", "must end in .md or .tex"),
        ("plot good --paper wmt14", "iwslt15-small, wmt15-base, wmt15-big"),
        ("plot good --paper wmt15-base --latency word.AL", "token.AL, token.AP"),
        ("plot good --paper wmt15-base --quality chrf", "no chrF"),
        ("plot good --output nowhere/a.png", "nowhere/a.png"),
        ("explain", "Give a sentence"),
        ("explain model", "Give a sentence"),
        ("explain model +", "The sentence is empty"),
        ("explain nowhere w5", "nowhere is not a model directory"),
        ("explain model w5 --layer 9", "layers 1 to 2"),
        ("explain model w5 --output a.txt", "must end in .html"),
        ("explain model w5 --speed 3", "There is no option --speed"),
        ("explain --record records.jsonl --index 9", "no record 9; records.jsonl has 0 to 1"),
        ("explain --record records.jsonl", "Name a record with --index"),
        ("explain --record empty.jsonl --index 0", "holds no records"),
        ("explain --record nowhere.jsonl --index 0", "nowhere.jsonl cannot be read"),
        ("explain --record records.jsonl --index 0 --lower 3", "leave out --lower"),
        ("explain other --record records.jsonl --index 1", "was not made by this model"),
    ],
)  # fmt: skip
def test_a_mistake_is_told_in_one_sentence(
    line: str, said: str, world: Path, monkeypatch: Any, capsys: Any
) -> None:
    assert call(world, monkeypatch, line) == 2
    answer = capsys.readouterr()
    assert said in answer.err and answer.err.count("\n") == 1 and answer.out == ""


def test_records_with_reads_past_the_end_are_refused() -> None:
    with pytest.raises(UserError, match="Record 3: a read of 9 is past the end"):
        explain_record(record(reads=[2, 3, 6, 8, 9]))
    with pytest.raises(UserError, match="not an explanation"):
        Explanation.from_json('{"format": 1}')


def test_an_explanation_without_a_written_state_is_refused() -> None:
    """Planted bug: StopIteration while the page is drawn."""
    token = {"text": "see", "word": 0, "reads": 1}
    state = {"moment": 1, "role": "../../x", "confidence": 0.9}
    values: dict[str, Any] = {"source": "a", "prediction": "see", "reference": None}
    values |= {"source_words": ["a"]}
    values |= {"target_words": ["see"], "source_tokens": [{"text": "a", "word": 0}]}
    values |= {"settings": {}, "attention": "", "format": 1}
    for states in ([], [state], [state | {"role": "selected"}] * 2):
        text = json.dumps({**values, "target_tokens": [{**token, "states": states}]})
        with pytest.raises(UserError, match=r'"see" needs one state that is selected'):
            Explanation.from_json(text)


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"settings": {"lower": float("nan")}}, "not finite"),
        ({"source_tokens": [{"text": "a", "word": 7}]}, '"a" belongs to no word'),
        ({"source_tokens": []}, "moment outside the range 0 to 0"),
        ({"target_words": []}, '"see" belongs to no word'),
        ({"moment": 2}, "moment outside the range 0 to 1"),
        ({"reads": -1}, "moment outside the range 0 to 1"),
    ],
)
def test_an_explanation_that_does_not_fit_together_is_refused(
    changed: dict[str, Any], reason: str
) -> None:
    """Planted bug: indices beyond the sentence while the page is drawn."""
    state = {"moment": changed.get("moment", 1), "role": "selected", "confidence": 0.9}
    token = {"text": "see", "word": 0, "reads": changed.get("reads", 1), "states": [state]}
    values: dict[str, Any] = {"source": "a", "prediction": "see", "reference": None}
    values |= {"source_words": ["a"], "source_tokens": [{"text": "a", "word": 0}]}
    values |= {"target_words": ["see"], "target_tokens": [token]}
    values |= {"settings": {}, "attention": "", "format": 1}
    assert Explanation.from_json(json.dumps({**values, "target_tokens": []}))
    values |= {key: value for key, value in changed.items() if key not in ("moment", "reads")}
    with pytest.raises(UserError, match=reason):
        Explanation.from_json(json.dumps(values))
