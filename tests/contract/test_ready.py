"""Layers made ready give what ordinary ones give, and notice what happens to their weights."""

import copy
import pickle

import pytest
import torch
from torch import Tensor, nn

import hmt
from hmt.fast import half_weights
from hmt.fast.half_weights import FEW_ROWS
from hmt.fast.prepacked import LEAST, ReadyLinear, ReadyNorm, make_ready

# packed for oneDNN, and not; kept in half precision
SHAPES = [(512, 640, False), (64, 48, False), (64, 48, True)]


def ready_pair(shape: tuple[int, int, bool], bias: bool = True) -> tuple[nn.Linear, ReadyLinear]:
    """Two layers with the same weights, the second made ready."""
    torch.manual_seed(1)
    inputs, outputs, is_half = shape
    plain = nn.Linear(inputs, outputs, bias=bias)
    if is_half:
        plain.weight.data = plain.weight.data.half().float()
    holder = nn.Sequential(nn.Linear(inputs, outputs, bias=bias))
    holder[0].load_state_dict(plain.state_dict())
    make_ready(holder)
    ready = holder[0]
    assert isinstance(ready, ReadyLinear)
    is_large = inputs * outputs >= LEAST and torch.backends.mkldnn.is_available()
    assert (ready.packed is not None) == is_large
    assert (ready.halves is not None) == (is_half and half_weights.is_available())
    return plain, ready


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("rows", [1, 2, 5, 8, 9, 64, 300])
@pytest.mark.parametrize("bias", [True, False])
def test_a_ready_layer_gives_what_the_layer_gives(
    shape: tuple[int, int, bool], rows: int, bias: bool
) -> None:
    plain, ready = ready_pair(shape, bias)
    with torch.inference_mode():
        # rows of a larger tensor, as the engine gives them, are not contiguous
        wide = torch.randn(rows, 2 * shape[0])
        for given in (torch.randn(rows, shape[0]), wide[:, 16 : 16 + shape[0]]):
            torch.testing.assert_close(ready(given), plain(given), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("shape", SHAPES)
def test_gradients_go_through(shape: tuple[int, int, bool]) -> None:
    plain, ready = ready_pair(shape)
    x = torch.randn(3, shape[0])
    for layer in (plain, ready):
        layer(x).square().sum().backward()
    assert plain.weight.grad is not None and ready.weight.grad is not None
    torch.testing.assert_close(ready.weight.grad, plain.weight.grad)
    assert set(ready.state_dict()) == {"weight", "bias"}


@pytest.mark.parametrize("shape", SHAPES)
def test_a_conversion_is_noticed(shape: tuple[int, int, bool]) -> None:
    """Planted bug: `_apply` does not call `hold`."""
    plain, ready = ready_pair(shape)
    x = torch.randn(3, shape[0], dtype=torch.float64)
    with torch.inference_mode():
        torch.testing.assert_close(ready.double()(x), plain.double()(x), rtol=1e-12, atol=1e-12)
        again = ready.float()
        torch.testing.assert_close(again(x.float()), plain.float()(x.float()), rtol=1e-4, atol=1e-5)


def test_halves_follow_what_they_lose(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted bug: `packed_halves` does not compare, so that weights are rounded."""
    _, ready = ready_pair((64, 48, True))
    calls: list[int] = []

    def counted(x: Tensor, packed: Tensor, bias: Tensor | None) -> Tensor:
        calls.append(len(x))
        return half_weights.half_linear(x, packed, bias)

    monkeypatch.setattr("hmt.fast.prepacked.half_linear", counted)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    with torch.inference_mode():
        for rows in (1, FEW_ROWS, FEW_ROWS + 1):  # many rows are for several threads
            ready(torch.randn(rows, 64))
    assert calls == ([1, FEW_ROWS] if half_weights.is_available() else [])
    ready.weight.data[3, 5] = 1 / 3
    make_ready(ready)
    assert ready.halves is None


def test_a_ready_norm_gives_what_the_norm_gives() -> None:
    norm, holder = nn.LayerNorm(24), nn.Sequential(nn.LayerNorm(24))
    nn.init.normal_(norm.weight)
    nn.init.normal_(norm.bias)
    holder[0].load_state_dict(norm.state_dict())
    make_ready(holder)
    assert isinstance(holder[0], ReadyNorm)
    x = torch.randn(5, 24)
    with torch.inference_mode():
        torch.testing.assert_close(holder[0](x), norm(x))
        torch.testing.assert_close(holder.double()[0](x.double()), norm.double()(x.double()))


def test_a_loaded_model_is_ready() -> None:
    model = hmt.load()
    linear = [m for m in model.system.transformer.modules() if isinstance(m, nn.Linear)]
    assert model.segmenter is not None
    linear += [m for m in model.segmenter.modules() if isinstance(m, nn.Linear)]
    assert all(isinstance(m, ReadyLinear) for m in linear)
    if half_weights.is_available():  # the weights that ship are stored in half precision
        assert all(m.halves is not None for m in linear)
    shared = model.system.transformer
    assert shared.output.weight is shared.target_embedding.weight
    assert model.translate(["Hallo!"])[0].prediction


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("assign", [False, True])
def test_replaced_weights_are_noticed(shape: tuple[int, int, bool], assign: bool) -> None:
    """Planted bug: `_load_from_state_dict` does not call `hold`."""
    _, ready = ready_pair(shape)
    other = nn.Linear(*shape[:2])
    ready.load_state_dict(other.state_dict(), assign=assign)
    x = torch.randn(3, shape[0])
    with torch.inference_mode():
        torch.testing.assert_close(ready(x), other(x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("shape", SHAPES)
def test_other_precisions_of_the_input_are_refused_as_by_any_layer(
    shape: tuple[int, int, bool],
) -> None:
    _, ready = ready_pair(shape)
    with torch.inference_mode(), pytest.raises(RuntimeError, match="dtype"):
        ready(torch.randn(3, shape[0], dtype=torch.float64))


def test_hooks_are_called_where_gradients_are_wanted() -> None:
    """Planted bug: `forward` is called instead of the module."""
    for holder in (nn.Sequential(nn.Linear(8, 8)), nn.Sequential(nn.LayerNorm(8))):
        make_ready(holder)
        calls: list[int] = []
        holder[0].register_forward_hook(lambda *_, calls=calls: calls.append(1))
        holder(torch.randn(2, 8))
        assert calls == [1]


def test_a_loaded_model_can_be_copied_and_pickled() -> None:
    """Planted bug: without `__getstate__` what oneDNN has packed cannot be copied."""
    _, packed = ready_pair(SHAPES[0])
    x = torch.randn(2, SHAPES[0][0])
    for again in (copy.deepcopy(packed), pickle.loads(pickle.dumps(packed))):
        with torch.inference_mode():
            torch.testing.assert_close(again(x), packed(x))
    model = hmt.load()
    x = torch.randn(2, model.system.transformer.dims.width)
    for other in (copy.deepcopy(model.system), pickle.loads(pickle.dumps(model.system))):
        transformer = other.transformer
        assert transformer.output.weight is transformer.target_embedding.weight
        assert isinstance(transformer.output, ReadyLinear)
        with torch.inference_mode():
            torch.testing.assert_close(transformer.output(x), model.system.transformer.output(x))
