"""HMT once more, computed naively, to compare with.

Shapes: I target tokens, J source tokens, K states, N = I K rows, D width, V vocabulary.
"""

import math
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from hmt.model.transformer import Transformer
from hmt.systems.hmt import HMT, HMTKnobs
from hmt.text.symbols import EOS


@dataclass(frozen=True)
class NaivePass:
    """One sentence computed with all K copies of every token's states, nothing packed."""

    moments: list[list[int]]  # (I, K)
    features: Tensor  # (N, 2D) state and source mean of each
    confidence: Tensor  # (I, K) logits
    log_prob: Tensor  # (I, K, V)


def naive_moments(lower: int, states: int, source: int, target: int) -> list[list[int]]:
    return [[min(max(lower + i + k, 1), source) for k in range(states)] for i in range(target)]


def naive_pass(
    system: HMT,
    source: list[int],
    target: list[int],
    knobs: HMTKnobs,
    selected: list[int] | None = None,
) -> NaivePass:
    """Eq. 3-6 for one sentence, end tokens included on both sides; `selected` is g_i if needed."""
    t = system.transformer
    moments = naive_moments(knobs.lower, knobs.states, len(source), len(target))
    rows = [(i, k, m) for i, own in enumerate(moments) for k, m in enumerate(own)]
    h = naive_encode(t, source)  # (J, D)
    fed = [EOS, *target[:-1]]
    at = torch.tensor([i for i, _, _ in rows])
    x = t.embed(t.target_embedding, torch.tensor([fed[i] for i, _, _ in rows]), at)
    seen = torch.tensor([[_sees(q, c, moments, knobs, selected) for c in rows] for q in rows])
    reach = torch.tensor([[j < m for j in range(len(source))] for _, _, m in rows])
    layer: Any
    for layer in t.decoder:
        a, width = layer.attention, x.shape[-1]
        r = layer.attention_residual
        query, keys, values = a.project(r.before(x)).split(width, -1)
        x = r.after(x, a.output(_attend(query, keys, values, seen, a.heads)))
        c, r = layer.cross, layer.cross_residual
        keys, values = c.project(h).split(width, -1)
        x = r.after(x, c.output(_attend(c.query(r.before(x)), keys, values, reach, c.heads)))
        r = layer.ffn_residual
        x = r.after(x, layer.ffn(r.before(x)))
    x = t.decoder_norm(x)
    means = torch.stack([h[:m].mean(0) for _, _, m in rows])
    features = torch.cat([x, means], -1)
    confidence = (features * system.selection.weight[0]).sum(-1)
    log_prob = (x @ t.output.weight.T).log_softmax(-1)
    shape = len(target), knobs.states
    return NaivePass(moments, features, confidence.view(shape), log_prob.view(*shape, -1))


def naive_encode(t: Transformer, source: list[int]) -> Tensor:
    """The source, encoded causally. -> (J, D)"""
    size = len(source)
    x = t.embed(t.source_embedding, torch.tensor(source), torch.arange(size))
    seen = torch.ones(size, size, dtype=torch.bool).tril()
    layer: Any
    for layer in t.encoder:
        a, r = layer.attention, layer.attention_residual
        query, keys, values = a.project(r.before(x)).split(x.shape[-1], -1)
        x = r.after(x, a.output(_attend(query, keys, values, seen, a.heads)))
        r = layer.ffn_residual
        x = r.after(x, layer.ffn(r.before(x)))
    out: Tensor = t.encoder_norm(x)
    return out


def _sees(
    query: tuple[int, int, int],
    key: tuple[int, int, int],
    moments: list[list[int]],
    knobs: HMTKnobs,
    selected: list[int] | None,
) -> bool:
    """Whether copy (i, k) sees copy (j, k')."""
    (i, _, t), (j, k, u) = query, key
    if j > i or u > t:
        return False
    if j == i or knobs.attention == "multiple":
        return True
    if knobs.attention == "max":
        moment = max(m for m in moments[j] if m <= t)
    else:
        assert selected is not None
        moment = selected[j]
    return u == moment and moments[j].index(u) == k  # of equal copies the first


def _attend(query: Tensor, keys: Tensor, values: Tensor, seen: Tensor, heads: int) -> Tensor:
    out = []
    for q, k, v in zip(*(x.chunk(heads, -1) for x in (query, keys, values)), strict=True):
        score = (q @ k.T / math.sqrt(q.shape[-1])).masked_fill(~seen, -math.inf)
        out.append(F.softmax(score, -1) @ v)
    return torch.cat(out, -1)
