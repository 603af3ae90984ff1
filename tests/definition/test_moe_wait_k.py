"""MoE wait-k: experts, their gate, and what they become without it."""

import dataclasses
from pathlib import Path
from typing import cast

import pytest
import torch
from lively import DIMS, assert_close, batch_of, lively, with_weights
from training_runs import DIMS as TOY_DIMS
from training_runs import prepare_toy, recipe

from hmt.errors import UserError
from hmt.model.attention import split_heads, split_projections
from hmt.model.passes import Packing, Pass, whole_pass
from hmt.model.rows import Rows, plain_bias
from hmt.models.directory import load_system
from hmt.plain import to_plain
from hmt.systems.moe_wait_k import ExpertAttention, MoEWaitK, MoEWaitKConfig, expert_lags
from hmt.systems.wait_k import WaitKKnobs
from hmt.training import train


def test_the_experts_lags_are_those_of_the_authors() -> None:
    assert expert_lags(4) == (1, 6, 11, 16)
    assert expert_lags(8) == (1, 3, 5, 7, 9, 11, 13, 15)
    assert expert_lags(16) == tuple(range(1, 17))
    for heads in 1, 2, 3, 6, 12, 20:
        lags = expert_lags(heads)
        assert len(lags) == heads and list(lags) == sorted(lags) and lags[-1] == 16
    with pytest.raises(UserError, match=r"lags = \[1, 2, 3\] for 2 heads"):
        MoEWaitKConfig(DIMS, lags=(1, 2, 3))


def expert_pass(k: int, source: int, steps: int) -> Pass:
    """Rows of wait-k beside one sentence."""
    target = torch.arange(1, steps + 1)[None]
    rows = Rows.of(target, (k + target - 1).clamp(max=source))
    h = torch.zeros(1, source, DIMS.width, dtype=torch.float64)
    bias = plain_bias(rows, rows, h.dtype)
    return whole_pass(rows, bias, Packing(1, steps), h, torch.tensor([source]), setting=k)


def attention(lags: tuple[int, ...]) -> ExpertAttention:
    system = MoEWaitK(MoEWaitKConfig(dataclasses.replace(DIMS, heads=len(lags)), lags))
    torch.manual_seed(1)
    module = cast(ExpertAttention, system.transformer.decoder[0].cross).double()
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter)
    return module


def test_experts_see_their_own_spans() -> None:
    """MO-1"""
    spans = attention((1, 3, 5, 7)).spans(expert_pass(k=4, source=10, steps=8).rows)
    assert spans[0, :, 0].tolist() == [1, 3, 4, 4]
    assert spans[0, :, 3].tolist() == [4, 6, 7, 7]
    assert spans[0, :, 7].tolist() == [8, 10, 10, 10]


def test_gated_attention_is_its_definition() -> None:
    """MO-4, and every number of the layer computed one by one."""
    lags, k, source, steps = (1, 3, 5, 7), 4, 6, 5
    module = attention(lags)
    heads, width = len(lags), DIMS.width
    x, h = (torch.randn(n, width, dtype=torch.float64) for n in (steps, source))
    kept = module.keep(h)[None]
    seen = split_projections(kept, heads, width)
    at = expert_pass(k, source, steps)
    out = module(x, seen, at, None).out
    query = split_heads(module.query(x)[None], heads)
    gate = module.look(x, query, seen.unbind(), at, None).shares
    assert gate is not None
    assert_close(gate.sum(-1).detach(), torch.full((1, steps), float(heads)))
    assert gate.std() > 0.1

    projected = module.query(x), kept[0, :, :width], kept[0, :, width:]
    query, keys, values = (p.unflatten(-1, (heads, -1)).transpose(0, 1) for p in projected)
    for i in range(1, steps + 1):
        read = min(k + i - 1, source)
        contexts, shares = [], []
        for n, lag in enumerate(lags):
            span = min(min(lag, k) + i - 1, source)
            scores = keys[n] @ query[n, i - 1] / (width / heads) ** 0.5
            contexts.append(scores[:span].softmax(0) @ values[n, :span])
            shares.append(scores[:read].softmax(0)[:span].sum() / span)
        assert module.gate is not None
        logits = module.gate(
            torch.stack([*shares, torch.tensor(k / 10, dtype=torch.float64)])
        ).tanh()
        weights = heads * logits.softmax(0)
        assert_close(gate[0, i - 1].detach(), weights.detach())
        joined = torch.cat([w * c for w, c in zip(weights, contexts, strict=True)])
        assert_close(out[i - 1].detach(), module.output(joined).detach())


@pytest.mark.parametrize("k", [1, 3])
def test_experts_that_all_wait_for_k_are_wait_k(k: int) -> None:
    """MO-2, INV-8"""
    wait_k = lively("wait-k", k=k)
    moe = with_weights(lively("moe-wait-k", seed=8, lags=[3, 5], gate=False), wait_k)
    batch = batch_of()
    expected = wait_k.validation_loss(batch).total.detach()
    assert_close(moe.loss(batch, moe.knobs(k=k)).total.detach(), expected)
    apart = with_weights(lively("moe-wait-k", seed=8, lags=[1, 5], gate=False), wait_k)
    assert (k == 1) == torch.allclose(apart.loss(batch, apart.knobs(k=k)).total, expected)


def test_a_gate_of_zeros_changes_nothing() -> None:
    """MO-3: the second stage begins where the first ended."""
    first = lively("moe-wait-k", lags=[1, 4], gate=False)
    second = with_weights(lively("moe-wait-k", seed=8, lags=[1, 4]), first)
    batch, knobs = batch_of(), WaitKKnobs(k=3)
    expected = first.loss(batch, knobs).total.detach()
    assert not torch.allclose(second.loss(batch, knobs).total, expected)
    for name, parameter in second.named_parameters():
        if ".gate." in name:
            torch.nn.init.zeros_(parameter)
    assert_close(second.loss(batch, knobs).total.detach(), expected)
    fresh = second.state_dict().keys() - first.state_dict().keys()
    assert fresh and all(".gate." in name for name in fresh)


def test_the_gate_learns_in_a_second_stage(tmp_path: Path) -> None:
    stages = [{"model": {"config": {"gate": gate}}} for gate in (False, True)]
    config = {"dims": {**TOY_DIMS, "share_embeddings": False}}
    model = {"system": "moe-wait-k", "config": config}
    output = tmp_path / "moe"
    train(recipe(prepare_toy(tmp_path), output, model=model, stage=stages, updates=2))
    system = load_system(output)[0]
    assert to_plain(system.config)["gate"]
    assert any(".gate." in name for name, _ in system.named_parameters())
