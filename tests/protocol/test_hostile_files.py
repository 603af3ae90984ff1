"""Small files from strangers that ask for gigabytes or hours, and what no parser expects.

Each is refused by a UserError, within seconds and without the memory that it asks for.
"""

import contextlib
import gzip
import json
import resource
import shutil
import struct
import sys
import tracemalloc
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import training_runs as tiny
from safetensors.torch import save_file

import hmt
from hmt.analysis.explanation import Explanation
from hmt.cli import _words
from hmt.errors import UserError
from hmt.evaluation.logs import read_log
from hmt.evaluation.points import read_points
from hmt.evaluation.records import read_records
from hmt.evaluation.talks import Delivered
from hmt.models.fairseq.checkpoint import read_checkpoint
from hmt.models.fairseq.convert import import_system
from hmt.models.model import PRETRAINED
from hmt.models.weights import read_weights
from hmt.streaming.events import Notice
from hmt.text.corpus import read_data
from hmt.text.lines import scan
from hmt.text.symbols import UNK
from hmt.text.tokenizer import Tokenizer, train_bpe, train_words
from hmt.training import train
from hmt.training.recipe import load_recipe

MOST = 2 << 30  # bytes beyond what the test process has already


@pytest.fixture(autouse=True)
def little_memory() -> Iterator[None]:
    """What a hostile file asks for is not there to be had."""
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + MOST, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A copy of the model that ships."""
    return Path(shutil.copytree(PRETRAINED, tmp_path / "model"))


def edit(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    values = json.loads(path.read_text(encoding="utf-8"))
    change(values)
    path.write_text(json.dumps(values), encoding="utf-8")


# Sizes of a network


@pytest.mark.parametrize(
    ("sizes", "reason"),
    [
        ({"encoder_layers": 1_000_000}, "from 1 to 100"),
        ({"width": 1_000_000_000}, "from 1 to 16,384"),
        ({"ffn": 2**52}, "from 1 to 65,536"),
        ({"source_vocabulary": 2**31, "target_vocabulary": 2**31}, "from 1 to 4,000,000"),
        # within the bounds: what the file has not is not allocated
        ({"width": 16_384, "ffn": 65_536, "heads": 256}, "have the shape"),
        ({"decoder_layers": 100, "encoder_layers": 100}, "lack"),
        ({"source_vocabulary": 4_000_000, "target_vocabulary": 4_000_000}, "have the shape"),
    ],
)
def test_sizes_of_a_configuration_cost_nothing(
    directory: Path, sizes: dict[str, int], reason: str
) -> None:
    edit(directory / "config.json", lambda values: values["config"]["dims"].update(sizes))
    with pytest.raises(UserError, match=reason):
        hmt.load(directory)


def test_a_million_lags_cost_nothing(directory: Path) -> None:
    def many(values: dict[str, Any]) -> None:
        dims = values["config"]["dims"]
        values.update(system="adaptive", knobs={}, config={"dims": dims, "lags": [1] * 1_000_000})

    edit(directory / "config.json", many)
    with pytest.raises(UserError, match="at most 16"):
        hmt.load(directory)


def test_weights_that_are_no_numbers_with_a_point(directory: Path) -> None:
    path = directory / "model.safetensors"
    from hmt.models.weights import read_weights

    save_file({name: t.to(torch.int32) for name, t in read_weights(path).items()}, path)
    with pytest.raises(UserError, match="are int32, not floating-point"):
        hmt.load(directory)


# Checkpoints of fairseq


def embedding(*shape: int) -> torch.Tensor:
    return torch.zeros(1).expand(shape)


def save_checkpoint(path: Path, tensors: dict[str, torch.Tensor]) -> Path:
    torch.save({"model": tensors, "args": {"encoder_attention_heads": 2}}, path)
    return path


@pytest.mark.parametrize("kind, bits", [("F4", 4), ("F6_E2M3", 6), ("F8_E8M0", 8), ("X9", 8)])
def test_weights_of_a_rare_kind_are_read_or_refused(tmp_path: Path, kind: str, bits: int) -> None:
    entry = {"dtype": kind, "shape": [8], "data_offsets": [0, bits]}
    header = json.dumps({"w": entry}).encode()
    path = tmp_path / "weights"
    path.write_bytes(struct.pack("<Q", len(header)) + header + bytes(bits))
    with contextlib.suppress(UserError):
        assert read_weights(path)["w"].numel() == 8


def test_one_number_repeated_is_no_weight(tmp_path: Path) -> None:
    tensors = {"encoder.embed_tokens.weight": embedding(1_000_000, 1_000_000)}
    path = save_checkpoint(tmp_path / "small.pt", tensors)
    assert path.stat().st_size < 3000
    with pytest.raises(UserError, match="larger than the whole file"):
        read_checkpoint(path)


def test_sizes_that_do_not_belong_together_are_not_allocated(tmp_path: Path) -> None:
    """A long thin source embedding beside a short wide target embedding: the product is 64 GB."""
    tensors = {
        "encoder.embed_tokens.weight": torch.zeros(1_000_000, 1),
        "decoder.embed_tokens.weight": torch.zeros(8, 16_384),
    }
    parts = ("q_proj", "k_proj", "v_proj", "out_proj")
    names = [f"{kind}.{part}" for kind in ("self_attn", "encoder_attn") for part in parts]
    names += ["self_attn_layer_norm", "encoder_attn_layer_norm", "final_layer_norm", "fc1", "fc2"]
    for side in ("encoder", "decoder"):
        for name in names:
            if side == "decoder" or "encoder_attn" not in name:
                tensors[f"{side}.layers.0.{name}.weight"] = torch.zeros(8, 8)
                tensors[f"{side}.layers.0.{name}.bias"] = torch.zeros(8)
    with pytest.raises(UserError, match="have the shape"):
        import_system(read_checkpoint(save_checkpoint(tmp_path / "thin.pt", tensors)))


def test_a_compressed_checkpoint_is_not_opened(tmp_path: Path) -> None:
    plain = save_checkpoint(tmp_path / "plain.pt", {"w": torch.zeros(5_000_000)})
    packed = tmp_path / "packed.pt"
    with zipfile.ZipFile(plain) as old, zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            new.writestr(name, old.read(name))
    assert packed.stat().st_size < 40_000
    with pytest.raises(UserError, match="compressed"):
        read_checkpoint(packed)


# Tokenizer files


NORMALISER = {"type": "Replace", "pattern": {"String": "a"}, "content": "a" * 100_000}
PADDING = {
    "strategy": {"Fixed": 1_000_000_000},
    "direction": "Right",
    "pad_to_multiple_of": None,
    "pad_id": 1,
    "pad_type_id": 0,
    "pad_token": "<pad>",
}
CATASTROPHIC = {
    "type": "Split",
    "pattern": {"Regex": "(a*)*(a*)*b"},
    "behavior": "Isolated",
    "invert": False,
}
TEMPLATE = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("normalizer", NORMALISER),
        ("normalizer", {"type": "Sequence", "normalizers": [NORMALISER] * 3}),
        ("padding", PADDING),
        ("truncation", {"max_length": 1, "stride": 0, "strategy": "LongestFirst"}),
        ("pre_tokenizer", CATASTROPHIC),
        ("pre_tokenizer", None),
        ("post_processor", TEMPLATE),
        ("decoder", None),
        ("model.dropout", 0.5),
        ("model.continuing_subword_prefix", "x" * 1000),
        ("model.vocab", {}),
        ("model.vocab", {"a": 10**400}),
        ("added_tokens", [{"id": 0, "content": "", "special": False}]),
    ],
)
def test_only_the_parts_of_hmts_own_tokenizers_are_read(
    directory: Path, part: str, value: object
) -> None:
    def change(values: dict[str, Any]) -> None:
        *outer, last = part.split(".")
        (values[outer[0]] if outer else values)[last] = value

    path = directory / "tokenizer.json"
    edit(path, change)
    with pytest.raises(UserError, match="tokenizer"):
        Tokenizer.load(path)


def test_a_part_that_comes_twice_is_the_one_that_was_checked(directory: Path) -> None:
    path = directory / "tokenizer.json"
    text = path.read_text(encoding="utf-8")
    expected = Tokenizer.load(path).encode("banane")
    evil = json.dumps(NORMALISER)
    for changed in (text.replace("{", f'{{"normalizer": {evil},', 1),):
        path.write_text(changed, encoding="utf-8")
        assert Tokenizer.load(path).encode("banane") == expected


# Text without end


def test_a_word_without_end_is_read_to_its_bound() -> None:
    tokenizer = Tokenizer.load(PRETRAINED / "tokenizer.json")
    ids = tokenizer.encode("ab" * 500_000)
    assert ids == tokenizer.encode("ab" * 150)
    # 300 words of 100,000 characters were remembered in 271 MB
    tracemalloc.start()
    for n in range(100):
        tokenizer.encode(f"{n}" + "ab" * 50_000)
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < 1_000_000


def test_a_vocabulary_of_words_without_end(tmp_path: Path) -> None:
    """What is learned from can be read again, and the words are those that encoding looks up."""
    text = ["ab" * 1000 + " b", "a b"]
    for tokenizer in (train_words(text), train_bpe(text, 20)):
        again = Tokenizer.from_json(tokenizer.to_json())
        assert UNK not in again.encode(text[0])


def test_a_session_keeps_no_word_without_end() -> None:
    session = hmt.load().session()
    session.push("ab" * 500_000 + " endet hier.")
    session.finish()
    assert len(session.records[0].source) < 400
    assert [event.code for event in session.events if isinstance(event, Notice)] == ["long_word"]


class Endless:
    """A descriptor's worth of one character, and how much of it was read."""

    def __init__(self, blocks: int) -> None:
        self.blocks = blocks

    def __call__(self, descriptor: int) -> bytes:
        self.blocks -= 1
        return b"a" * 65_536 if self.blocks >= 0 else b""


def test_standard_input_without_a_border(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_words, "_read", Endless(20))
    monkeypatch.setattr("sys.stdin", sys.__stdin__)
    first, end = _words.arriving()
    assert len(first) == 301 and end == "\n"
    monkeypatch.setattr(_words, "_read", Endless(1 << 40))
    with pytest.raises(UserError, match="Line 1 of the input has more than 1,000,000"):
        list(_words.lines_arriving())


@pytest.mark.parametrize(("zipped", "lines"), [(False, 0), (True, 0), (False, 7)])
def test_a_line_of_100_megabytes(tmp_path: Path, zipped: bool, lines: int) -> None:
    path = tmp_path / "text"
    with (gzip.open if zipped else open)(path, "wb") as file:
        file.write(b"short\n" * lines)
        for _ in range(100):
            file.write(b"a" * 1_000_000)
        file.write(b"\n")
    tracemalloc.start()
    with pytest.raises(UserError, match=f"line {lines + 1}: longer than 1,000,000 bytes"):
        scan(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 10_000_000


def test_a_line_at_its_bound(tmp_path: Path) -> None:
    path = tmp_path / "text"
    for size in (999_999, 1_000_000, 1_000_001):
        path.write_bytes(b"x\n" * 1000 + b"a" * size + b"\ny\n")
        if size > 1_000_000:
            with pytest.raises(UserError, match="line 1001"):
                scan(path)
        else:
            assert scan(path).lines == 1002


def test_a_small_archive_that_never_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hmt.text.lines.ENOUGH", 1 << 20)
    path = tmp_path / "bomb.gz"
    path.write_bytes(gzip.compress(b"\n" * 20_000_000))
    tracemalloc.start()
    with pytest.raises(UserError, match="more than 200 times its size"):
        scan(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 10_000_000
    path.write_bytes(gzip.compress(b"natural text is no bomb\n" * 1000))
    assert scan(path).lines == 1000


# Files that no parser expects


DEEP = "[" * 100_000 + "]" * 100_000
WIDE = "9" * 400


@pytest.mark.parametrize("value", [DEEP, "[" * 60 + "]" * 60, WIDE, "9" * 5000, '{"a":' * 900])
def test_deep_and_endless_json(directory: Path, value: str) -> None:
    """In every file of a model and of an evaluation; in places, too, where anything may stand."""
    config = (directory / "config.json").read_text(encoding="utf-8")
    for text in (config.replace('"facts": {', f'"facts": {{"x": {value},'), value):
        (directory / "config.json").write_text(text, encoding="utf-8")
        with pytest.raises(UserError, match=r"config\.json"):
            hmt.load(directory)
    path = directory / "hostile"
    path.write_text(f'{{"settings": {value}}}\n', encoding="utf-8")
    for read in (read_records, read_log, read_points, Tokenizer.load):
        with pytest.raises(UserError, match="hostile"):
            read(path)
    for parse in (Explanation.from_json, Delivered.from_json):
        with pytest.raises(UserError):
            parse(path.read_text(encoding="utf-8"))
    path.with_name("data.json").write_text(f'{{"format": 1, "x": {value}}}')
    with pytest.raises(UserError, match="run hmt prepare again"):
        read_data(directory)


@pytest.mark.parametrize(
    "text",
    [
        f"x = {DEEP}",
        f"x = {'9' * 5000}",
        f"seed = 0x{'f' * 9000}",
        f"seed = {WIDE}",
        "a." * 60 + "a = 1",
        "a." * 20_000 + "a = 1",
        "x = " + "{a = " * 1000 + "1" + "}" * 1000,
    ],
)
def test_deep_and_endless_toml(tmp_path: Path, text: str) -> None:
    path = tmp_path / "recipe.toml"
    path.write_text(f'output = "x"\ndata.directory = "y"\n{text}\n')
    with pytest.raises(UserError):
        load_recipe(path)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.prepare_toy(tmp_path_factory.mktemp("toy"))


@pytest.mark.parametrize(
    ("file", "place", "value", "reason"),
    [
        ("train.source.tokens", 3, 60_000, "has the id 60000, but the tokenizer"),
        ("train.target.tokens", 0, 60_000, "has the id 60000, but the tokenizer"),
        ("train.target.offsets", 2, -5, "do not increase"),
        ("train.source.offsets", 2, 2**62, "do not increase"),
        ("train.source.offsets", 0, 1, "expects"),
        ("train.source.offsets", -1, 2**62, "expects"),
    ],
)
def test_numbers_out_of_place_in_prepared_data(
    prepared: Path, tmp_path: Path, file: str, place: int, value: int, reason: str
) -> None:
    copy = Path(shutil.copytree(prepared, tmp_path / "data"))
    edit(copy / "data.json", lambda values: values.update(digests={}))
    kind = "<i8" if file.endswith("offsets") else "<u2"
    numbers = np.fromfile(copy / file, dtype=kind)
    numbers[place] = value
    numbers.tofile(copy / file)
    with pytest.raises(UserError, match=reason):
        train(tiny.recipe(copy, tmp_path / "run"))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("dtype", "object"),
        ("dtype", 3),
        ("report", []),
        ("report", {"splits": {"train": 3}}),
        ("files", {"train": "x"}),
        ("digests", {"train.source.tokens": 3}),
        ("digests", {"../../etc/passwd.json": "x"}),
        ("format", [1]),
        ("settings", None),
    ],
)
def test_wrong_types_in_data_json(prepared: Path, tmp_path: Path, key: str, value: object) -> None:
    copy = Path(shutil.copytree(prepared, tmp_path / "data"))
    edit(copy / "data.json", lambda values: values.update({key: value}))
    with pytest.raises(UserError):
        train(tiny.recipe(copy, tmp_path / "run"))


def test_a_panic_of_the_library_is_an_error() -> None:
    """Panics of Rust derive from BaseException, which nothing that serves many would catch."""

    class PanicException(BaseException):
        pass

    class Panicking:
        def encode_batch_fast(self, *_: object, **__: object) -> None:
            raise PanicException("index out of bounds")

    tokenizer = Tokenizer.load(PRETRAINED / "tokenizer.json")
    tokenizer.backend = Panicking()  # type: ignore[assignment]
    with pytest.raises(UserError, match="index out of bounds"):
        tokenizer.encode("unheard")
