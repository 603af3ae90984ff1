"""Arranged matrices give what ordinary ones give, and only where nothing can change any more."""

from pathlib import Path

import pytest
import torch
from torch import nn

import hmt
from hmt.streaming.packed import PackedLinear, pack

pytestmark = pytest.mark.skipif(
    not torch.backends.mkldnn.is_available(), reason="this build of torch has no oneDNN"
)


def packed_pair(bias: bool = True) -> tuple[nn.Linear, nn.Module]:
    torch.manual_seed(1)
    linear = nn.Linear(512, 640, bias=bias)
    holder = nn.Sequential(linear, nn.Linear(640, 8))
    pack(holder)
    assert type(holder[1]) is nn.Linear, "small matrices stay as they are"
    assert isinstance(holder[0], PackedLinear)
    return linear, holder[0]


@pytest.mark.parametrize("rows", [1, 2, 5, 8, 9, 64, 300])
@pytest.mark.parametrize("bias", [True, False])
def test_a_packed_layer_gives_what_the_layer_gives(rows: int, bias: bool) -> None:
    linear, packed = packed_pair(bias)
    x = torch.randn(rows, 512)
    with torch.inference_mode():
        # rows of a larger tensor, as the engine gives them, are not contiguous
        wide = torch.randn(rows, 1024)
        for given in (x, wide[:, 256:768]):
            torch.testing.assert_close(packed(given), linear(given), rtol=1e-4, atol=1e-5)


def test_gradients_and_other_precisions_take_the_ordinary_way() -> None:
    linear, packed = packed_pair()
    packed(torch.randn(3, 512)).sum().backward()
    assert linear.weight.grad is not None
    assert packed.weight is linear.weight and set(packed.state_dict()) == {"weight", "bias"}
    with torch.inference_mode():
        x = torch.randn(3, 512, dtype=torch.float64)
        torch.testing.assert_close(packed.double()(x), nn.Linear.forward(packed, x))


def test_a_loaded_model_is_packed_where_it_is_large(tmp_path: Path) -> None:
    model = hmt.load()
    large = [m for m in model.system.modules() if isinstance(m, PackedLinear)]
    assert [m.weight.shape[0] for m in large] == [model.target_tokenizer.size]
    assert model.translate(["Hallo!"])[0].prediction
