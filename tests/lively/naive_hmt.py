"""HMTs that write different tokens at different moments, and a naive HMT to compare with.

Shapes: I target tokens, J source tokens, K states, N = I K rows, D width, V vocabulary.
"""

import math
import random
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hmt.model.dims import Dims
from hmt.model.transformer import Transformer
from hmt.streaming.engine import Engine
from hmt.systems.hmt import HMT, HMTConfig, HMTKnobs
from hmt.systems.stream import Stream
from hmt.text.symbols import EOS, UNK

VOCABULARY = 20


def small_dims(**changed: Any) -> Dims:
    values: dict[str, Any] = {
        "source_vocabulary": VOCABULARY,
        "target_vocabulary": VOCABULARY,
        "width": 8,
        "ffn": 12,
        "heads": 2,
        "encoder_layers": 2,
        "decoder_layers": 2,
        "dropout": 0.0,
        "share_embeddings": False,
        "tie_output": False,
    }
    return Dims(**{**values, **changed})


def enliven(system: nn.Module, seed: int) -> None:
    """Large random weights everywhere, so that attention is sharp and every token matters."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weight in system.named_parameters():
            noise = torch.randn(weight.shape, generator=generator)
            if weight.dim() == 1:
                weight.copy_(0.1 * noise + float(name.endswith("norm.weight")))
            else:
                # most of a state comes from the source it sees, so that moments differ
                scale = 3.0 if "cross" in name else 1.0
                weight.copy_(scale * noise / math.sqrt(weight.shape[1]))


def lively_hmt(seed: int, lower: int = 2, states: int = 3, **changed: Any) -> HMT:
    """A small HMT in double precision that writes many different tokens at different moments."""
    attention = changed.pop("attention", "multiple")
    system = HMT(HMTConfig(small_dims(**changed), lower, states, attention=attention))
    enliven(system, seed)
    system.double().eval()
    draw = random.Random(seed)
    size = system.config.dims.source_vocabulary, system.config.dims.target_vocabulary
    sources, targets = ([random_tokens(draw, 40, n) for _ in range(4)] for n in size)
    with torch.no_grad():
        done = [
            naive_pass(system, s, t, HMTKnobs(lower=2, states=3))
            for s, t in zip(sources, targets, strict=True)
        ]
        features = torch.cat([d.features for d in done])
        width = features.shape[1] // 2
        _spread(system.transformer.output.weight, features[:, :width], 3.0)
        system.transformer.output.weight[EOS] *= 1.4  # sentences end sooner or later
        # Confidence mostly follows what changes from moment to moment of one token.
        own = features.view(-1, 3, 2 * width)
        changes = (own - own.mean(1, keepdim=True)).flatten(0, 1)
        system.selection.weight.copy_(system.selection.weight @ changes.T @ changes)
        _spread(system.selection.weight, features, 1.0)
    return system


def _spread(weight: Tensor, features: Tensor, wanted: float) -> None:
    """Give the logits mean zero over the features and this deviation. (R, F), (N, F)

    What all states have in common would make one token, and one answer, win everywhere.
    """
    common = features.mean(0)
    weight -= (weight @ common)[:, None] * common / (common @ common)
    weight *= wanted / (features @ weight.T).std(0)[:, None]


def random_tokens(draw: random.Random, length: int, vocabulary: int = VOCABULARY) -> list[int]:
    return [draw.randrange(UNK, vocabulary) for _ in range(length)]


def run_alone(
    system: HMT,
    source: list[int],
    knobs: HMTKnobs,
    forced: list[int] | None = None,
    engine: Engine | None = None,
) -> Stream:
    """One stream in an engine of its own, word by word."""
    engine = engine or Engine(system)
    stream = engine.open(knobs, forced)
    for token in source:
        engine.push(stream, [token])
        engine.advance([stream])
    engine.finish(stream)
    engine.advance([stream])
    engine.close(stream)
    return stream


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
    """Causal source states. -> (J, D)"""
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
        wanted = max(m for m in moments[j] if m <= t)
    else:
        assert selected is not None
        wanted = selected[j]
    return u == wanted and moments[j].index(u) == k  # of equal copies the first


def _attend(query: Tensor, keys: Tensor, values: Tensor, seen: Tensor, heads: int) -> Tensor:
    out = []
    for q, k, v in zip(*(x.chunk(heads, -1) for x in (query, keys, values)), strict=True):
        score = (q @ k.T / math.sqrt(q.shape[-1])).masked_fill(~seen, -math.inf)
        out.append(F.softmax(score, -1) @ v)
    return torch.cat(out, -1)
