"""Import of fairseq checkpoints: other sizes and layouts, what is refused, what is never run."""

import argparse
import os
import sys
import types
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from lively import enliven, lively_hmt, small_dims
from torch import Tensor, nn

from hmt.errors import UserError
from hmt.models.fairseq import convert_fairseq
from hmt.models.model import load
from hmt.systems.contract import System
from hmt.systems.full import Full, FullConfig
from hmt.systems.parameters import ConfigT, KnobsT, MemoryT
from hmt.text.symbols import SPECIALS

LAYER = {
    "self_attn_layer_norm": "attention_residual.norm",
    "self_attn.out_proj": "attention.output",
    "fc1": "ffn.inner",
    "fc2": "ffn.outer",
    "final_layer_norm": "ffn_residual.norm",
}
DECODER_LAYER = {
    "encoder_attn_layer_norm": "cross_residual.norm",
    "encoder_attn.out_proj": "cross.output",
}


def fairseq_model(system: nn.Module, layout: str = "apart") -> dict[str, Tensor]:
    """The weights of a system under fairseq's names; `layout` is how attention is stored."""
    ours = {n.removeprefix("transformer."): t.detach() for n, t in system.state_dict().items()}
    theirs = OrderedDict({"encoder.version": torch.tensor([3.0])})
    theirs["encoder.embed_positions._float_tensor"] = torch.zeros(1)
    theirs["encoder.embed_tokens.weight"] = ours["source_embedding.weight"]
    theirs["decoder.embed_tokens.weight"] = ours["target_embedding.weight"]
    name = {"apart": "output_projection.weight", "fused": "embed_out"}[layout]
    theirs[f"decoder.{name}"] = ours["output.weight"]
    for side in ("encoder", "decoder"):
        for kind in ("weight", "bias"):
            if f"{side}_norm.{kind}" in ours:
                theirs[f"{side}.layer_norm.{kind}"] = ours[f"{side}_norm.{kind}"]
        for n in range(2):
            names = LAYER | (DECODER_LAYER if side == "decoder" else {})
            for their, our in names.items():
                for kind in ("weight", "bias"):
                    theirs[f"{side}.layers.{n}.{their}.{kind}"] = ours[f"{side}.{n}.{our}.{kind}"]
            attentions = {"self_attn": ["attention.project"]}
            if side == "decoder":
                attentions["encoder_attn"] = ["cross.query", "cross.project"]
            for their, parts in attentions.items():
                for kind in ("weight", "bias"):
                    fused = torch.cat([ours[f"{side}.{n}.{part}.{kind}"] for part in parts])
                    put(theirs, f"{side}.layers.{n}.{their}", kind, fused, layout)
    if "selection.weight" in ours:
        away = torch.randn_like(ours["selection.weight"])
        rows = torch.cat([away, away + ours["selection.weight"]])
        theirs["decoder.transition_proj.weight"] = rows
    return theirs


def put(theirs: dict[str, Tensor], name: str, kind: str, fused: Tensor, layout: str) -> None:
    if layout == "fused":
        theirs[f"{name}.in_proj_{kind}"] = fused
        return
    for letter, part in zip("qkv", fused.chunk(3), strict=True):
        theirs[f"{name}.{letter}_proj.{kind}"] = part.clone()


def arguments(**changed: Any) -> argparse.Namespace:
    values = {
        "arch": "transformer",
        "encoder_attention_heads": 2,
        "decoder_attention_heads": 2,
        "dropout": 0.3,
        "label_smoothing": 0.1,
        "activation_fn": "relu",
        "left_pad_source": "False",
        "first_read": 3,
        "cands_per_token": 4,
        "lr": [0.0005],
    }
    return argparse.Namespace(**{**values, **changed})


def dictionary(path: Path, size: int, mark: str = "w") -> Path:
    path.write_text("".join(f"{mark}{n} {99 - n}\n" for n in range(size - 4)))
    return path


class Import:
    """A folder with a checkpoint and its dictionaries, ready to be damaged."""

    def __init__(
        self, folder: Path, system: System[ConfigT, KnobsT, MemoryT], joint: bool = True
    ) -> None:
        dims = system.transformers[0].dims
        self.folder, self.output = folder, folder / "model"
        self.checkpoint = folder / "checkpoint.pt"
        self.source = dictionary(folder / "dict.de.txt", dims.source_vocabulary)
        self.target = dictionary(
            folder / "dict.en.txt", dims.target_vocabulary, "w" if joint else "v"
        )
        self.content: dict[str, Any] = {
            "args": arguments(),
            "model": fairseq_model(system),
            "optimizer_history": [{"num_updates": 12000}],
            "extra_state": {"epoch": 3, "val_loss": 1.5},
        }

    def save(self, **how: Any) -> None:
        torch.save(self.content, self.checkpoint, **how)

    def run(self, **more: Any) -> None:
        convert_fairseq(self.checkpoint, self.source, self.target, self.output, **more)

    def refused(self, match: str) -> None:
        """One sentence, and nothing is left behind."""
        before = sorted(self.folder.iterdir())
        with pytest.raises(UserError, match=match) as caught:
            self.run()
        assert "\n" not in str(caught.value)
        assert sorted(self.folder.iterdir()) == before


@pytest.fixture
def case(tmp_path: Path) -> Import:
    return Import(tmp_path, lively_hmt(0, 3, 4).float())


def equal(
    system: System[ConfigT, KnobsT, MemoryT], directory: Path, tolerance: float = 1e-6
) -> None:
    loaded = load(directory).system
    assert loaded.name == system.name
    mine, theirs = loaded.state_dict(), system.float().state_dict()
    assert mine.keys() == theirs.keys()
    for name in mine:
        assert torch.allclose(mine[name], theirs[name], atol=tolerance), name


@pytest.mark.parametrize("layout", ["apart", "fused"])
@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("shared", [True, False], ids=["joint", "separate"])
def test_round_trip(tmp_path: Path, layout: str, norm: str, shared: bool) -> None:
    """Every layout of that time. Planted bugs: value before key; the final norm left out."""
    sizes = {} if shared else {"target_vocabulary": 17}
    system = lively_hmt(1, 3, 4, norm=norm, share_embeddings=shared, tie_output=shared, **sizes)
    case = Import(tmp_path, system.float(), shared)
    case.content["model"] = fairseq_model(system, layout)
    case.save()
    case.run()
    equal(system, case.output)
    model = load(case.output)
    dims = model.system.transformers[0].dims
    assert (dims.norm, dims.share_embeddings, dims.tie_output) == (norm, shared, shared)
    assert (dims.dropout, model.system.config.label_smoothing) == (0.3, 0.1)
    assert (model.knobs().lower, model.knobs().states) == (3, 4)
    assert (model.source_tokenizer.pieces == model.target_tokenizer.pieces) == shared
    assert model.config.facts["updates"] == 12000
    assert "hmt convert fairseq" in (case.output / "README.md").read_text()
    assert sorted(p.suffix for p in case.output.iterdir()).count(".pt") == 0


def test_the_selection_is_row_one_against_row_zero(case: Import) -> None:
    """Planted bug: row 0 minus row 1."""
    rows = torch.zeros(2, 16)
    rows[1, :8], rows[0, 8:] = 2.0, 0.5  # towards: the state; away: the mean
    case.content["model"]["decoder.transition_proj.weight"] = rows
    case.save()
    case.run()
    weight = load(case.output).system.state_dict()["selection.weight"]
    assert weight.tolist() == [[2.0] * 8 + [-0.5] * 8]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_becomes_single(case: Import, dtype: torch.dtype) -> None:
    case.content["model"] = {n: t.to(dtype) for n, t in case.content["model"].items()}
    case.save()
    case.run()
    assert all(p.dtype == torch.float32 for p in load(case.output).system.parameters())


def test_layer_norms_of_2018_have_numbers(case: Import) -> None:
    system = lively_hmt(0, 3, 4).float()
    numbers = {"self_attn_layer_norm": 0, "encoder_attn_layer_norm": 1}
    renamed = {}
    for name, tensor in case.content["model"].items():
        side = name.split(".")[0]
        for norm, n in {**numbers, "final_layer_norm": 1 if side == "encoder" else 2}.items():
            name = name.replace(f".{norm}.", f".layer_norms.{n}.")
        renamed[name] = tensor
    assert any("layer_norms.2" in name for name in renamed)
    renamed["encoder.embed_positions.weights"] = torch.zeros(9, 8)
    torch.manual_seed(0)
    case.content["model"] = renamed
    case.save()
    case.run()
    equal(system, case.output)


def test_old_file_format(case: Import) -> None:
    case.save(_use_new_zipfile_serialization=False)
    case.run()
    equal(lively_hmt(0, 3, 4), case.output)


def test_settings_of_later_versions(case: Import) -> None:
    """`cfg` in parts, the model's part a table or a Namespace."""
    values = vars(arguments(first_read=1))
    model = {k: v for k, v in values.items() if k != "label_smoothing"}
    for n, part in enumerate((model, argparse.Namespace(**model))):
        case.content["args"] = None
        case.content["cfg"] = {"model": part, "criterion": {"label_smoothing": 0.2}, "task": None}
        case.output = case.folder / f"model{n}"
        case.save()
        case.run()
        loaded = load(case.output)
        assert loaded.system.config.label_smoothing == 0.2
        assert loaded.knobs().lower == 1


def plain_model(seed: int = 0) -> Full:
    torch.manual_seed(seed)
    system = Full(FullConfig(small_dims(share_embeddings=True, tie_output=True)))
    return enliven(system).float()


def test_a_plain_transformer_is_a_full_sentence_model(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The reader is warned, because fairseq's own encoder looks ahead."""
    system = plain_model()
    case = Import(tmp_path, system)
    case.save()
    case.run()
    equal(system, case.output)
    assert "bidirectional" in caplog.text
    assert "bidirectional" in (case.output / "README.md").read_text()
    record = load(case.output).translate(["w1 w2 w3"])[0]
    assert set(record.reads) == {4}


@pytest.mark.parametrize("name", ["waitk_lagging", "waitk"])
def test_a_lag_makes_it_wait_k(tmp_path: Path, name: str) -> None:
    case = Import(tmp_path, plain_model())
    case.content["args"] = arguments(**{name: 5})
    case.save()
    case.run()
    model = load(case.output)
    assert (model.system.name, model.knobs().k) == ("wait-k", 5)


def test_subword_codes(case: Import) -> None:
    """With codes text goes in and comes out in whole words."""
    (case.folder / "codes").write_text("#version: 0.2\na b</w>\n")
    symbols = ["a@@", "b@@", "ab", "a", "b", "c@@", "c"]
    symbols += [f"madeupword{n:04}" for n in range(9)]
    for file in (case.source, case.target):
        file.write_text("".join(f"{s} 1\n" for s in symbols))
    case.save()
    case.run(bpe_codes=case.folder / "codes")
    tokenizer = load(case.output).source_tokenizer
    ids = tokenizer.encode("ab cab c")
    assert [tokenizer.piece(n) for n in ids] == ["ab", "c@@", "ab", "c"]
    assert tokenizer.decode(ids) == "ab cab c"


def test_pieces_without_codes_are_warned_about(
    case: Import, caplog: pytest.LogCaptureFixture
) -> None:
    for file in (case.source, case.target):
        file.write_text(file.read_text().replace("w3 ", "w3@@ "))
    case.save()
    case.run()
    assert "--bpe-codes" in caplog.text


def test_special_symbols_may_stand_in_the_dictionary(case: Import) -> None:
    for file in (case.source, case.target):
        file.write_text("".join(f"{s} 0\n" for s in SPECIALS) + file.read_text())
    case.save()
    case.run()
    assert load(case.output).source_tokenizer.encode("w0 w1 what") == [4, 5, 3]


class Harmful:
    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (f"touch {self.mark}",)


class Unknown:
    pass


@pytest.mark.parametrize("is_zip", [True, False], ids=["zip", "legacy"])
def test_a_pickle_is_never_run(case: Import, is_zip: bool) -> None:
    """Planted bug: weights_only=False."""
    mark = case.folder / "mark"
    for place in (case.content["extra_state"], vars(case.content["args"]), case.content["model"]):
        place["x"] = Harmful(mark)
        case.save(_use_new_zipfile_serialization=is_zip)
        case.refused("posix.system")
        assert not mark.exists()
        del place["x"]
    case.content["extra_state"]["x"] = Unknown()
    case.save(_use_new_zipfile_serialization=is_zip)
    case.refused("Unknown")


def test_what_training_left_behind_is_inert(case: Import, monkeypatch: pytest.MonkeyPatch) -> None:
    """Meters and numpy's numbers, which fairseq of 2019 pickled beside the weights."""
    for name in ("fairseq", "fairseq.meters"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    meter = type("AverageMeter", (), {"__module__": "fairseq.meters"})
    sys.modules["fairseq.meters"].AverageMeter = meter  # type: ignore[attr-defined]
    one = meter()
    one.val = np.float64(2.0)
    case.content["extra_state"] |= {
        "train_meters": OrderedDict(train_loss=one),
        "best": np.float64(1.5),
    }
    case.save()
    case.run()
    equal(lively_hmt(0, 3, 4), case.output)


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"encoder_learned_pos": True}, "learned positions"),
        ({"no_token_positional_embeddings": True}, "no positions"),
        ({"no_scale_embedding": True}, "unscaled"),
        ({"layernorm_embedding": True}, "layer norms"),
        ({"adaptive_softmax_cutoff": "100,200"}, "adaptive softmax"),
        ({"activation_fn": "gelu"}, "gelu"),
        ({"decoder_attention_heads": 4}, "attention_heads 2"),
        ({"encoder_ffn_embed_dim": 12, "decoder_ffn_embed_dim": 24}, "ffn_embed_dim 12"),
        ({"encoder_normalize_before": True, "decoder_normalize_before": False}, "normalize_before"),
        ({"encoder_attention_heads": None}, "encoder_attention_heads"),
        ({"encoder_attention_heads": 0, "decoder_attention_heads": 0}, "encoder_attention_heads"),
        ({"encoder_attention_heads": 3, "decoder_attention_heads": 3}, "3 heads"),
        ({"first_read": None}, "first_read"),
        ({"cands_per_token": 0}, "cands_per_token"),
        ({"dropout": "much"}, "dropout"),
    ],
)
def test_settings_that_are_refused(case: Import, changed: dict[str, Any], named: str) -> None:
    case.content["args"] = arguments(**changed)
    case.save()
    case.refused(named)


@pytest.mark.parametrize(
    ("name", "tensor", "named"),
    [
        ("encoder.embed_positions.weight", torch.zeros(9, 8), "learned positions"),
        ("decoder.project_in_dim.weight", torch.zeros(8, 8), "narrower"),
        ("decoder.adaptive_softmax.head.weight", torch.zeros(8, 8), "adaptive softmax"),
        ("encoder.layers.0.self_attn.bias_k", torch.zeros(1, 1, 8), "extra keys"),
        ("decoder.gate.weight", torch.zeros(8), "decoder.gate.weight"),
        ("decoder.layers.0.fc1.weight", None, "lacks .*decoder.layers.0.fc1"),
        ("decoder.layers.0.fc1.weight", torch.zeros(3, 3), "have the shape"),
        ("decoder.layers.0.fc1.weight", torch.full((12, 8), float("nan")), "finite"),
        ("decoder.layers.1.self_attn.k_proj.weight", torch.zeros(4, 8), "shape"),
        ("decoder.transition_proj.weight", torch.zeros(3, 16), "rows"),
        ("decoder.layers.0.fc1.bias", "text", "not a plain tensor"),
        ("decoder.layers.3.fc1.bias", torch.zeros(12), "layers"),
    ],
)
def test_weights_that_are_refused(case: Import, name: str, tensor: Any, named: str) -> None:
    if tensor is None:
        del case.content["model"][name]
    else:
        case.content["model"][name] = tensor
    case.save()
    case.refused(named)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", "empty"),
        ("w0 3\nw1\n", "Line 2"),
        ("w0 three\n", "Line 1"),
        ("w0 3\nw1 2\n", "20 rows"),
        ("".join(f"w{n} 1\n" for n in range(30)), "20 rows"),
        ("".join(f"w{n // 2} 1\n" for n in range(16)), "twice"),
        ("".join(f"other{n} 1\n" for n in range(16)), "differ"),
    ],
)
def test_dictionaries_that_are_refused(tmp_path: Path, text: str, named: str) -> None:
    case = Import(tmp_path, lively_hmt(0, share_embeddings=True, tie_output=True).float())
    case.save()
    case.source.write_text(text)
    if named == "twice":
        case.target.write_text(text)
    case.refused(named)


def test_broken_and_missing_files(case: Import) -> None:
    """Cut anywhere, empty, of another kind, or not there: one sentence each."""
    for is_zip in (True, False):
        case.save(_use_new_zipfile_serialization=is_zip)
        whole = case.checkpoint.read_bytes()
        for size in (0, 1, 3, 100, len(whole) // 2, len(whole) - 30):
            case.checkpoint.write_bytes(whole[:size])
            case.refused("damaged")
    for other in (b"just text\n", b"\x80\x02.", bytes(range(256)) * 9):
        case.checkpoint.write_bytes(other)
        case.refused("checkpoint.pt")
    torch.save([1, 2], case.checkpoint)
    case.refused("no weights")
    torch.save({"model": {"a": torch.zeros(1)}}, case.checkpoint)
    case.refused("args")
    case.checkpoint.unlink()
    case.refused("no checkpoint")
    case.save()
    case.target.write_bytes(b"\xff\xfe 3\n")
    case.refused("UTF-8")
    case.target.unlink()
    case.refused("cannot be read")


def test_output_that_holds_something_is_left_alone(case: Import) -> None:
    case.save()
    case.output.mkdir()
    (case.output / "notes").write_text("mine")
    case.refused("not an empty")
    assert [p.name for p in case.output.iterdir()] == ["notes"]
    (case.output / "notes").unlink()
    case.run()  # an empty directory is fine
    case.refused("not an empty")
    assert load(case.output).system.name == "hmt"
    file = case.folder / "file"
    file.write_text("")
    case.output = file
    case.refused("not an empty")
