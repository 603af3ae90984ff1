"""Small files from strangers that ask for gigabytes or hours, and what no parser expects.

Each is refused by a UserError, within seconds and without the memory that it asks for.
"""

import json
import resource
import shutil
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

import hmt
from hmt.errors import UserError
from hmt.models.fairseq.checkpoint import read_checkpoint
from hmt.models.fairseq.convert import import_system
from hmt.models.model import PRETRAINED
from hmt.text.tokenizer import Tokenizer

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
    names = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.out_proj")
    names += ("encoder_attn.q_proj", "encoder_attn.k_proj", "encoder_attn.v_proj")
    names += ("encoder_attn.out_proj", "self_attn_layer_norm", "encoder_attn_layer_norm")
    names += ("final_layer_norm", "fc1", "fc2")
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
