"""Hostile forms of every file from a stranger; `make attack` draws them for minutes.

Each parser has a valid text. It is damaged in its bytes, or one of its values is replaced by an odd
one, and then the parser may do two things: read it, with all that follows from reading, or refuse
it by the one error that is meant for the user. The tests draw a few dozen forms for each.
"""

import argparse
import contextlib
import io
import json
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import torch
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

import hmt
from hmt.analysis.curves import Axes, read_curves
from hmt.analysis.explanation import Explanation, explain_record
from hmt.analysis.html_page import html_page
from hmt.analysis.tables import latex_table, markdown_table
from hmt.cli import _recognised
from hmt.errors import UserError
from hmt.evaluation.logs import read_log
from hmt.evaluation.points import read_points
from hmt.evaluation.records import read_records
from hmt.evaluation.talks import Delivered, Sentence
from hmt.metrics.instance import instance_of
from hmt.model.dims import Dims
from hmt.model.segmenter import Segmenter
from hmt.models.directory import load_segmenter, read_config, write_segmenter
from hmt.models.fairseq.checkpoint import read_checkpoint
from hmt.models.fairseq.convert import import_system, read_dictionary
from hmt.models.model import PRETRAINED
from hmt.models.outline import outline
from hmt.models.weights import read_weights, shapes_of, write_weights
from hmt.server.messages import InvalidError, decode
from hmt.streaming.captions import Captions, srt, vtt
from hmt.streaming.events import Written
from hmt.text.corpus import FORMAT, read_data
from hmt.text.tokenizer import Tokenizer, bpe_tokenizer_from_codes, train_bpe
from hmt.training.checkpoint import Position, load_state, save_state
from hmt.training.journal import Journal
from hmt.training.recipe import load_recipe

ODD: list[Any] = [
    *(None, True, False, 0, -1, 1, 7, 2**31, 2**63, -(2**63), 10**30, 10**400),
    *(0.5, -0.0, 1e308, 1e-320, float("inf"), float("nan")),
    *("", " ", "\0", "\ud800", "\u2028", "x" * 2000, "../../x", "1e5", "<script>", "▁", "</s>"),
    *([], [[]], {}, {"": None}, [None], [0, -1], [0.5, "a"], {"a": {"b": 1}}, ["a"] * 100),
]


@dataclass(frozen=True)
class Parser:
    """One kind of file, a valid one, and all that is done with it."""

    valid: bytes
    read: Callable[[Path], object]
    name: str = "file"  # of the file
    is_json: bool = False  # or JSON lines
    refusals: tuple[type[Exception], ...] = (UserError,)


# ---- hostile forms


def hostile(parser: Parser) -> st.SearchStrategy[bytes]:
    """The valid file, damaged."""
    forms = [_bytes_damaged(parser.valid)]
    if parser.is_json:
        forms = [_value_replaced(parser.valid), _value_replaced(parser.valid), *forms]
    return st.one_of(forms)


@st.composite
def _bytes_damaged(draw: st.DrawFn, valid: bytes) -> bytes:
    content = bytearray(valid)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, max(0, len(content) - 1)))
        span = draw(st.sampled_from([0, 1, 1, 2, 8, 100, 5000]))
        piece = draw(
            st.one_of(
                st.binary(max_size=8),
                st.sampled_from([b"[" * 3000, b'{"a":' * 2000, b"9" * 5000, b"\xff", b"\n" * 9]),
                st.just(bytes(content[at : at + span]) * 2),
            )
        )
        content[at : at + span] = piece
    return bytes(content)


@st.composite
def _value_replaced(draw: st.DrawFn, valid: bytes) -> bytes:
    lines = [json.loads(line) for line in valid.decode().split("\n\n") if line.strip()]
    line = draw(st.integers(0, len(lines) - 1))
    for _ in range(draw(st.integers(1, 3))):
        places = list(_places(lines[line]))
        holder, key = places[draw(st.integers(0, len(places) - 1))]
        value = deepcopy(draw(st.one_of(st.sampled_from(ODD), _values())))
        if draw(st.booleans()) or isinstance(holder, list):
            holder[key] = value
        else:
            holder[draw(st.text(max_size=5))] = value
            if draw(st.booleans()):
                del holder[key]
        if not isinstance(lines[line], dict | list) or not lines[line]:
            break
    return "\n".join(json.dumps(line) for line in lines).encode()


def _values() -> st.SearchStrategy[Any]:
    leaves = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
    return st.recursive(
        leaves, lambda v: st.lists(v, max_size=4) | st.dictionaries(st.text(max_size=4), v)
    )


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every place of a JSON value, as its holder and the key in it."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in list(items):
        yield value, key
        if isinstance(inner, dict | list) and inner:
            yield from _places(inner)


# ---- parsers, with what follows from reading


def _config(path: Path) -> None:
    config = read_config(path.parent)
    if len(str(config.config)) < 10_000:
        outline(config.system, config.config).knobs(**config.knobs)


def _tokenizer(path: Path) -> None:
    tokenizer = Tokenizer.load(path)
    tokenizer.decode(tokenizer.encode("al brano <unk> ▁"))


def _records(path: Path) -> None:
    for record in read_records(path):
        str(record)
        instance_of(record)
        html_page(explain_record(record))


def _explanation(path: Path) -> None:
    html_page(Explanation.from_json(_text(path)))


def _delivered(path: Path) -> None:
    Delivered.from_json(_text(path))


def _points(path: Path) -> None:
    read_points(path)
    axes = Axes.named("bleu", "token.AL")
    curves = read_curves([path.parent], axes)
    markdown_table(curves, axes)
    latex_table(curves, axes)


def _journal(path: Path) -> None:
    Journal(path.parent, 2, tensorboard=False).close()


def _recognised_lines(path: Path) -> None:
    with _session() as session:
        for number, line in enumerate(_text(path).split("\n"), 1):
            _recognised.take(session, line[:3000], number)


def _captions(path: Path) -> None:
    """Cues of any text at any time: none of them can pretend to be another one."""
    captions, text = Captions(), _text(path)
    events = [
        replace(EVENT, text=f" {word}", seconds=float(n * len(word)))
        for n, word in enumerate(text.split()[:200])
    ]
    cues = [cue for event in events for cue in captions.take(event)] + captions.rest()
    for cue in cues:
        assert srt(cue).count("-->") == vtt(cue).count("-->") == 1


def _checkpoint(path: Path) -> None:
    import_system(read_checkpoint(path))


def _weights(path: Path) -> None:
    shapes_of(path)
    read_weights(path)


def _codes(path: Path) -> None:
    bpe_tokenizer_from_codes(_text(path).split("\n"), ["al", "b@@", "brano"]).encode("al brano")


def _message(path: Path) -> None:
    decode(path.read_bytes())


def _text(path: Path) -> str:
    return path.read_bytes().decode("utf-8", "replace")


EVENT = Written(0, 0.0, "", 1, 1, None, -1.0, is_whole=True, spoken=None)


@cache
def _model() -> hmt.Model:
    return hmt.load()


def _session() -> Any:
    return _model().session(keep=1)


@cache
def parsers() -> dict[str, Parser]:
    """Every parser of files from strangers, by name."""
    record = _model().translate(["Guten Morgen, mein Freund."])[0]
    tokenizer = train_bpe(["al brano sve , al brano ."] * 3, 40)
    delivered = Delivered("talk", ["a", "b"], [1, 2], [0.1, 0.2], [Sentence(2, 2, "finish")])
    log = {"index": 0, "prediction": "a b", "delays": [1, 2], "elapsed": [1, 2]}
    log |= {"source": "x y", "source_length": 2, "reference": "a c"}
    values = {"token": {"AL": 2.5}, "word": {"AL": 2.0}, "bleu": 20.0, "sentences": 3}
    points = {"format": 1, "points": [{"settings": {"lower": n}, **values} for n in (1, 2)]}
    said = [{"text": "Ich habe", "at": 1.25}, {"text": "Ich habe dich", "committed": 2}]
    event = {"type": "input_text.append", "event_id": "a", "text": "Hallo", "hmt": {}}
    return {
        "config": Parser((PRETRAINED / "config.json").read_bytes(), _config, "config.json", True),
        "tokenizer": Parser(tokenizer.to_json().encode(), _tokenizer, is_json=True),
        "records": Parser(record.to_json().encode(), _records, is_json=True),
        "explanation": Parser(
            explain_record(record).to_json().encode(), _explanation, is_json=True
        ),
        "talks": Parser(delivered.to_json().encode(), _delivered, is_json=True),
        "logs": Parser(_lines(log, {**log, "index": 1}), read_log, is_json=True),
        "scores": Parser(_lines(points), _points, "scores.json", True),
        "data": Parser(_lines(DATA), lambda path: read_data(path.parent), "data.json", True),
        "recipe": Parser(RECIPE, load_recipe, "recipe.toml"),
        "recipe of a run": Parser(_lines({"recipe": JSON_RECIPE}), load_recipe, "r.json", True),
        "journal": Parser(_lines({"step": 1}, {"step": 2}), _journal, "log.jsonl", True),
        "recognised": Parser(_lines(*said), _recognised_lines, is_json=True),
        "captions": Parser("Ein --> Wort <b> & 日本語".encode(), _captions),
        "messages": Parser(_lines(event), _message, is_json=True, refusals=(InvalidError,)),
        "dictionary": Parser(b"al 10\nbrano 5\n", read_dictionary),
        "codes": Parser(b"#version: 0.2\na l</w>\nb r\n", _codes),
        "checkpoint": Parser(_saved(), _checkpoint),
        "state": Parser(_state(), load_state),
        "weights": Parser(_weights_file(), _weights),
        "segmenter": Parser(
            _segmenter_file(),
            lambda path: load_segmenter(path.parent, TINY),
            "segmenter.safetensors",
        ),
    }


def _explained(record: hmt.Record) -> bytes:
    return explain_record(record).to_json().encode()


def _lines(*values: Any) -> bytes:
    return "\n\n".join(json.dumps(value) for value in values).encode()


RECIPE = b"""\
output = "run"
data.directory = "data"
seed = 3
[model]
system = "hmt"
config = {lower = [1, 3], dims = {width = 16, heads = 2}}
knobs.threshold = 0.5
[training]
updates = 6
betas = [0.9, 0.98]
[[stage]]
training.updates = 3
[[stage]]
model.system = "full"
"""
JSON_RECIPE = {
    "output": "run",
    "seed": 1,
    "data": {"directory": "data"},
    "stage": [{"model": {"system": "full", "config": {}}, "training": {"updates": 3}}],
}
DATA = {
    "format": FORMAT,
    "settings": {},
    "inputs": {"train.source": {"lines": 3}},
    "dtype": "uint16",
    "report": {
        "source_size": 9,
        "target_size": 9,
        "vocabulary_lines": 3,
        "splits": {"train": {"pairs": 3}},
    },
    "files": {"train": ["a", "b"]},
    "versions": {"hmt": "0"},
    "digests": {"train.source.tokens": "00"},
}


def _saved() -> bytes:
    file = io.BytesIO()
    model = {"encoder.embed_tokens.weight": torch.zeros(9, 4), "decoder.x": torch.ones(3)}
    torch.save({"model": model, "args": {"encoder_attention_heads": 2, "dropout": 0.1}}, file)
    return file.getvalue()


def _state() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        learned = {"w": torch.zeros(3)}, {"m": [torch.zeros(3)]}
        save_state(Path(folder), Position(), {"output": "x"}, ("f", {"a": "b"}), learned)
        return (Path(folder) / "state.pt").read_bytes()


def _weights_file() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        write_weights(Path(folder) / "w", {"a": torch.zeros(3, 2), "b": torch.ones(1)})
        return (Path(folder) / "w").read_bytes()


TINY = Dims(9, 9, width=2, ffn=2, heads=1, encoder_layers=2, decoder_layers=1)


def _segmenter_file() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        write_segmenter(Path(folder), Segmenter(TINY, memory=2))
        return (Path(folder) / "segmenter.safetensors").read_bytes()


# ---- the attack


def attack(name: str, examples: int, number: int, folder: Path) -> None:
    """Give one parser some hostile files; anything but a result or a refusal is an error."""
    parser = parsers()[name]
    path = folder / parser.name

    @seed(number)
    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )
    @given(hostile(parser))
    def holds(content: bytes) -> None:
        path.write_bytes(content)
        began = time.monotonic()
        with contextlib.suppress(*parser.refusals):
            parser.read(path)
        assert time.monotonic() - began < 20, "a small file must not cost minutes"

    holds()


def main() -> None:
    """Attack every parser in turn for some seconds, with other draws each time."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seconds", type=float, default=300)
    options.add_argument("--seed", type=int, default=time.time_ns() % 2**32)
    options.add_argument("--only", default="", help="one parser")
    chosen = options.parse_args()
    print(f"seed {chosen.seed}", flush=True)
    names = [chosen.only] if chosen.only else list(parsers())
    end, rounds, failures = time.monotonic() + chosen.seconds, 0, set()
    with tempfile.TemporaryDirectory() as folder:
        while time.monotonic() < end:
            name = names[rounds % len(names)]
            try:
                attack(name, 100, chosen.seed + rounds, Path(folder))
            except Exception as error:  # goes on, so that one run shows all of them
                failures.add(name)
                where = traceback.extract_tb(error.__traceback__)[-1]
                place = f"{Path(where.filename).name}:{where.lineno}"
                print(f"{name}: {error!r:.300} at {place}", flush=True)
            rounds += 1
    print(f"{rounds} rounds of 100 files, {len(failures)} parsers failed {sorted(failures) or ''}")
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
