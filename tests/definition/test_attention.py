"""Attention by products, dropout with few draws, positions from a table are what they stand for."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from hmt.fast.dropout import dropout
from hmt.fast.small_attention import small_attention
from hmt.model import attention
from hmt.model.attention import attend, split_heads, split_projections
from hmt.model.rows import NEVER
from hmt.model.transformer import TABLE, sinusoids

SHAPES = [(3, 2, 5, 7, 4), (2, 3, 1, 6, 2), (4, 1, 8, 8, 6)]  # B, H, Q, C, E


def given(shape: tuple[int, ...], bias_heads: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Query, keys, values and a bias with some cells closed."""
    torch.manual_seed(sum(shape))
    batch, heads, rows, keys, size = shape
    bias = torch.randn(batch, bias_heads, rows, keys, dtype=torch.float64)
    closed = torch.rand_like(bias) < 0.3
    closed[..., 0] = False
    return (
        torch.randn(batch, heads, rows, size, dtype=torch.float64),
        torch.randn(batch, heads, keys, size, dtype=torch.float64),
        torch.randn(batch, heads, keys, size, dtype=torch.float64),
        bias.masked_fill(closed, NEVER),
    )


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("per_head", [False, True])
def test_products_are_attention_with_all_its_gradients(
    shape: tuple[int, ...], per_head: bool
) -> None:
    """Planted bugs: no scale for the query's gradient; the bias gets no gradient."""
    inputs = [x.requires_grad_() for x in given(shape, shape[1] if per_head else 1)]
    q, k, v, bias = inputs
    expected = F.scaled_dot_product_attention(q, k, v, attn_mask=bias)
    toward = torch.randn_like(expected)
    wanted = torch.autograd.grad(expected, inputs, toward)
    got = small_attention(q, k, v, bias)
    torch.testing.assert_close(got, expected, rtol=1e-12, atol=1e-12)
    found = torch.autograd.grad(got, inputs, toward)
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-12)


def test_bfloat16_is_attention_but_for_rounding() -> None:
    """Bias and gradients in half precision. Planted bug: scores grow by the scale, not shrink."""
    inputs = given(SHAPES[2], 1)
    exact = F.scaled_dot_product_attention(*inputs[:3], attn_mask=inputs[3])
    rounded = [x.bfloat16().requires_grad_() for x in inputs]
    got = small_attention(*rounded)
    assert got.dtype == torch.bfloat16
    torch.testing.assert_close(got.double(), exact, rtol=0.03, atol=0.03)
    gradients = torch.autograd.grad(got.sum(), rounded)
    assert all(g.dtype == torch.bfloat16 and g.isfinite().all() for g in gradients)


@pytest.mark.parametrize("cells", [0, 1 << 24])
def test_both_ways_give_the_same_rows(cells: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention, "SMALL_CELLS", cells)
    q, k, v, bias = given(SHAPES[0], 1)
    expected = F.scaled_dot_product_attention(q, k, v, attn_mask=bias).transpose(1, 2).flatten(2)
    torch.testing.assert_close(attend(q, k, v, bias), expected, rtol=1e-12, atol=1e-12)


def test_large_batches_do_not_hold_their_scores(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted bug: the limit is not looked at."""
    q, k, v, bias = given(SHAPES[0], 1)
    monkeypatch.setattr(attention, "small_attention", lambda *_: pytest.fail("scores are held"))
    monkeypatch.setattr(attention, "SMALL_CELLS", q.shape[0] * q.shape[1] * 5 * 7 - 1)
    attend(q, k, v, bias)


def test_projections_and_heads_are_where_they_belong() -> None:
    x = torch.arange(2 * 3 * 12.0).view(2, 3, 12)
    assert torch.equal(split_heads(x, 4)[1, 2, 0], x[1, 0, 6:9])
    projections = split_projections(x, 2, 6)
    assert projections.shape == (2, 2, 2, 3, 3)
    assert torch.equal(projections[1, 0, 1, 2], x[0, 2, 9:12])


@pytest.mark.parametrize("probability", [0.1, 0.3, 0.5])
@pytest.mark.parametrize("shape", [(1_000_003,), (501, 1999)])
def test_dropout_keeps_the_share_and_the_mean(probability: float, shape: tuple[int, ...]) -> None:
    """Planted bugs: draws from 0 on (half of the levels never occur); no scale."""
    torch.manual_seed(1)
    out = dropout(torch.ones(shape), probability)
    tolerance = 5 * (probability * (1 - probability) / out.numel()) ** 0.5
    assert abs(float((out == 0).float().mean()) - probability) < tolerance
    assert abs(float(out.mean()) - 1) < 2 * tolerance / (1 - probability)
    kept = (out.flatten() != 0).float()  # neighbours share a random number
    for step in (1, 2, 3, 4):
        together = float((kept[:-step] * kept[step:]).mean())
        assert abs(together - (1 - probability) ** 2) < 2 * tolerance


def test_dropout_follows_the_seed_and_lets_gradients_through() -> None:
    x = torch.randn(40, 30, requires_grad=True)
    torch.manual_seed(3)
    first = dropout(x, 0.2)
    torch.manual_seed(3)
    assert torch.equal(first, dropout(x, 0.2))
    assert not torch.equal(first, dropout(x, 0.2))
    first.sum().backward()
    assert x.grad is not None
    torch.testing.assert_close(x.grad * x, first)
    assert torch.equal(dropout(x, 0.0), x)


def test_positions_from_the_table_and_beyond_it_follow_one_formula() -> None:
    """Planted bug: the table starts at angle 0."""
    width, places = 6, [0, 1, 37, TABLE - 1, TABLE, 70_000]
    for chosen in (places, places[:4]):
        found = sinusoids(torch.tensor(chosen), width, torch.float64)
        for p, row in zip(chosen, found.tolist(), strict=True):
            angles = [(p + 2) * 10000 ** (-n / 2) for n in range(3)]
            expected = [*map(math.sin, angles), *map(math.cos, angles)]
            assert row == pytest.approx(expected, abs=1e-9)
