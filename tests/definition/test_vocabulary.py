"""Chunked vocabulary losses against plain log-softmax, in values, gradients and memory."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from hmt.model import vocabulary
from hmt.model.vocabulary import gold_log_prob, smoothed


@pytest.fixture(params=[1, 40, 1 << 22], ids=["rows one by one", "uneven chunks", "one chunk"])
def chunks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(vocabulary, "CHUNK_CELLS", request.param)
    return int(request.param)


@pytest.fixture(params=[0, 1 << 22], ids=["computed twice", "kept"])
def kept(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Whether a batch is large enough for its probabilities to be computed again."""
    monkeypatch.setattr(vocabulary, "KEPT_CELLS", request.param)
    return int(request.param)


def random_case(
    states: int = 11, width: int = 5, size: int = 13, dtype: torch.dtype = torch.double
) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(states)
    s = torch.randn(states, width, generator=generator).to(dtype).requires_grad_()
    w = torch.randn(size, width, generator=generator).to(dtype).requires_grad_()
    gold = torch.randint(size, (states,), generator=generator)
    return s, w, gold


def plain(states: Tensor, weight: Tensor, gold: Tensor) -> tuple[Tensor, Tensor]:
    log_prob = (states @ weight.T).log_softmax(-1)
    return log_prob.gather(1, gold[:, None])[:, 0], log_prob.mean(-1)


def test_values_and_gradients_equal_log_softmax(chunks: int, kept: int) -> None:
    """Planted bugs: the last, smaller chunk is skipped; the gradient of the mean misses 1/V; the
    weight's gradient is overwritten by each chunk instead of summed."""
    case = random_case()
    got, expected = gold_log_prob(*case), plain(*case)
    for g, e in zip(got, expected, strict=True):
        assert torch.allclose(g, e, atol=1e-12)
    share = torch.randn(2, 11, generator=torch.Generator().manual_seed(1)).double()
    gradients = [
        torch.autograd.grad((pair[0] * share[0] + pair[1] * share[1]).sum(), case[:2])
        for pair in (got, expected)
    ]
    for g, e in zip(*gradients, strict=True):
        assert torch.allclose(g, e, atol=1e-12)


def test_gradients_equal_finite_differences(chunks: int, kept: int) -> None:
    states, weight, gold = random_case(6, 3, 7)
    assert torch.autograd.gradcheck(lambda s, w: gold_log_prob(s, w, gold), (states, weight))


def test_one_output_alone_can_be_used(chunks: int, kept: int) -> None:
    """Without smoothing nobody asks for the mean; its gradient then is zero, not missing."""
    case = random_case()
    for n in range(2):
        got = torch.autograd.grad(gold_log_prob(*case)[n].sum(), case[:2])
        expected = torch.autograd.grad(plain(*case)[n].sum(), case[:2])
        assert all(torch.allclose(g, e) for g, e in zip(got, expected, strict=True))


def test_smoothing_is_spread_over_all_symbols() -> None:
    """Planted bug: the gold symbol left out of the spread (divided by V - 1)."""
    states, weight, gold = random_case()
    got = -smoothed(*gold_log_prob(states, weight, gold), 0.1)
    expected = F.cross_entropy(states @ weight.T, gold, label_smoothing=0.1, reduction="none")
    assert torch.allclose(got, expected, atol=1e-12)


class Largest(TorchDispatchMode):
    """Remembers the largest tensor that any operation made."""

    def __init__(self) -> None:
        super().__init__()
        self.cells = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        out = func(*args, **(kwargs or {}))
        for x in out if isinstance(out, tuple | list) else [out]:
            if isinstance(x, Tensor):
                self.cells = max(self.cells, x.numel())
        return out


def test_states_times_vocabulary_of_a_large_batch_is_never_held(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Planted bug: logits kept for the backward pass."""
    monkeypatch.setattr(vocabulary, "CHUNK_CELLS", 4000)
    monkeypatch.setattr(vocabulary, "KEPT_CELLS", 500 * 400 - 1)
    states, weight, gold = random_case(500, 4, 400, torch.float32)
    with Largest() as chunked:
        got = gold_log_prob(states, weight, gold)
        (got[0] + got[1]).sum().backward()
    assert chunked.cells <= 4000
    with Largest() as whole:
        plain(states, weight, gold)[0].sum().backward()
    assert whole.cells == 500 * 400  # so that the counter is known to count


class Products(TorchDispatchMode):
    """Remembers the matrix products: how many, and of which types."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0
        self.dtypes: set[torch.dtype] = set()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func.overloadpacket in (torch.ops.aten.mm, torch.ops.aten.addmm_):
            self.count += 1
            self.dtypes.update(x.dtype for x in args if isinstance(x, Tensor))
        return func(*args, **(kwargs or {}))


def test_a_small_batch_is_computed_once(kept: int) -> None:
    """Planted bug: the backward pass computes the logits again though they were kept."""
    states, weight, gold = random_case(50, 4, 40, torch.float32)
    with Products() as products:
        gold_log_prob(states, weight, gold)[0].sum().backward()
    assert products.count == (3 if kept else 4)


def test_a_second_backward_pass_gives_the_same(kept: int) -> None:
    """Planted bug: what was kept is scaled in place."""
    case = random_case()
    total = gold_log_prob(*case)[0].sum()
    first, second = (torch.autograd.grad(total, case[:2], retain_graph=True) for _ in range(2))
    assert all(torch.equal(g, e) for g, e in zip(first, second, strict=True))


def test_a_certain_model_still_learns_in_half_precision(kept: int) -> None:
    """Planted bug: p(gold) rounded to half precision: 1 - p(gold) is zero or twice as large."""
    states, weight, gold = random_case(40, 16, 9, torch.float32)
    sure = (states + 6 * weight[gold] / weight[gold].norm(dim=1, keepdim=True) ** 2).detach()
    case = sure.bfloat16().requires_grad_(), weight.detach().bfloat16().requires_grad_()
    exact = [x.detach().double().requires_grad_() for x in case]
    got = torch.autograd.grad(gold_log_prob(*case, gold)[0].sum(), case[0])[0]
    expected = torch.autograd.grad(plain(exact[0], exact[1], gold)[0].sum(), exact[0])[0]
    wrong = (got.double() - expected).norm(dim=1) / expected.norm(dim=1)
    assert float(wrong.max()) < 0.05


def test_half_precision_sums_in_single() -> None:
    """Planted bug: the normaliser in the precision of the states."""
    case = random_case(64, 16, 3000, torch.bfloat16)
    got = gold_log_prob(*case)
    assert got[0].dtype == got[1].dtype == torch.float32
    log_prob = (case[0] @ case[1].T).float().log_softmax(-1)
    assert torch.allclose(got[0], log_prob.gather(1, case[2][:, None])[:, 0], atol=1e-4)
    assert torch.allclose(got[1], log_prob.mean(-1), atol=0.1)
    gradients = torch.autograd.grad(got[0].sum(), case[:2])
    assert [g.dtype for g in gradients] == [torch.bfloat16] * 2


def test_autocast_multiplies_in_half_precision_both_ways() -> None:
    """Planted bug: the backward pass multiplies in single precision, at half the speed."""
    case = random_case(64, 16, 300, torch.float32)
    with Products() as products:
        with torch.autocast("cpu", torch.bfloat16):
            got = gold_log_prob(*case)
        gradients = torch.autograd.grad(got[0].sum(), case[:2])
    assert products.dtypes == {torch.bfloat16}
    assert [g.dtype for g in gradients] == [torch.float32] * 2
    assert torch.allclose(got[0], plain(*case)[0], atol=0.2)


def test_no_states_at_all() -> None:
    weight = torch.randn(7, 3, requires_grad=True)
    got = gold_log_prob(torch.zeros(0, 3, requires_grad=True), weight, torch.zeros(0).long())
    assert got[0].shape == got[1].shape == (0,)
