"""One Transformer for all systems: a causal encoder, a decoder over rows, caches as arguments.

Shapes: B batch or streams, Q rows of this pass (padded), N rows of this pass (packed), C keys,
J source tokens, D width, H heads, V vocabulary.

A *row* is one decoder position: a target index, a moment (how much source it sees) and a bias that
says which other rows it sees.  Nothing here knows which system the rows belong to, and nothing is
kept between calls: what earlier passes computed comes in through `Remember`.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hmt.fast.dropout import dropout
from hmt.model.attention import Attended, CrossAttention, Report, SelfAttention, split_projections
from hmt.model.dims import Dims
from hmt.model.passes import Packing, Pass
from hmt.model.rows import source_bias
from hmt.text.symbols import PAD

TABLE = 4096  # positions whose sinusoids are kept

Remember = Callable[[int, Tensor], Tensor]
"""(layer, new keys and values (N, 2D)) -> those of all rows so far (2, B, H, C, D / H)."""


class FeedForward(nn.Module):
    def __init__(self, dims: Dims) -> None:
        super().__init__()
        self.inner = nn.Linear(dims.width, dims.ffn)
        self.outer = nn.Linear(dims.ffn, dims.width)

    def forward(self, x: Tensor) -> Tensor:
        """(N, D) -> (N, D)"""
        out: Tensor = self.outer(F.relu(self.inner(x), inplace=True))
        return out


class Residual(nn.Module):
    """x + sublayer(x) with its layer norm after (post) or before (pre)."""

    def __init__(self, dims: Dims) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(dims.width)
        self.is_pre = dims.norm == "pre"
        self.dropout = dims.dropout

    def before(self, x: Tensor) -> Tensor:
        return self.norm(x) if self.is_pre else x

    def after(self, x: Tensor, out: Tensor) -> Tensor:
        if self.training:  # saves a live stream twenty calls per pass that do nothing
            out = dropout(out, self.dropout)
        x = x + out
        return x if self.is_pre else self.norm(x)


class EncoderLayer(nn.Module):
    def __init__(self, dims: Dims) -> None:
        super().__init__()
        self.attention, self.attention_residual = SelfAttention(dims), Residual(dims)
        self.ffn, self.ffn_residual = FeedForward(dims), Residual(dims)

    def forward(
        self,
        x: Tensor,
        bias: Tensor | None,
        packing: Packing,
        remember: Callable[[Tensor], Tensor] | None,
    ) -> Tensor:
        """(N, D) -> (N, D)"""
        r = self.attention_residual
        x = r.after(x, self.attention(r.before(x), bias, packing, remember))
        r = self.ffn_residual
        return r.after(x, self.ffn(r.before(x)))


class DecoderLayer(nn.Module):
    def __init__(self, dims: Dims, cross: CrossAttention) -> None:
        super().__init__()
        self.attention, self.attention_residual = SelfAttention(dims), Residual(dims)
        self.cross, self.cross_residual = cross, Residual(dims)
        self.ffn, self.ffn_residual = FeedForward(dims), Residual(dims)

    def forward(
        self,
        x: Tensor,
        source: Tensor,
        at: Pass,
        register: Tensor | None,
        remember: Callable[[Tensor], Tensor] | None,
    ) -> tuple[Tensor, Attended]:
        """(N, D) -> (N, D), and what the cross-attention returned"""
        r = self.attention_residual
        x = r.after(x, self.attention(r.before(x), at.row_bias, at.row_packing, remember))
        r = self.cross_residual
        attended = self.cross(r.before(x), source, at, register)
        x = r.after(x, attended.out)
        r = self.ffn_residual
        return r.after(x, self.ffn(r.before(x))), attended


def sinusoids(positions: Tensor, width: int, dtype: torch.dtype) -> Tensor:
    """Position p has angle p + 2, as fairseq counts after its padding symbol. (...,) -> (..., D)"""
    if positions.device.type == "cpu":
        try:
            return F.embedding(positions, sinusoid_table(width, dtype))
        except IndexError:  # some position is beyond the table
            pass
    return computed_sinusoids(positions, width, dtype)


def computed_sinusoids(positions: Tensor, width: int, dtype: torch.dtype) -> Tensor:
    """(...,) -> (..., D)"""
    half = width // 2
    steps = torch.arange(half, dtype=torch.float64, device=positions.device)
    frequencies = (steps * -(math.log(10000.0) / max(half - 1, 1))).exp()
    # Angles in double precision: at position 500 float32 would already be off by 3e-5.
    angles = (positions + 2).double()[..., None] * frequencies
    return torch.cat([angles.sin(), angles.cos()], dim=-1).to(dtype)


@lru_cache(maxsize=32)
def sinusoid_table(width: int, dtype: torch.dtype) -> Tensor:
    """The sinusoids of the first positions, computed once. -> (TABLE, D)"""
    with torch.inference_mode(False):  # training may use a table that a stream computed
        return computed_sinusoids(torch.arange(TABLE), width, dtype)


def embedded(table: nn.Embedding, tokens: Tensor, positions: Tensor) -> Tensor:
    """The vectors of tokens at their positions. (...,) twice -> (..., D)"""
    x = F.embedding(tokens, table.weight)
    width = x.shape[-1]
    return torch.add(sinusoids(positions, width, x.dtype), x, alpha=math.sqrt(width))


def encoded(
    layers: nn.ModuleList,
    norm: nn.Module,
    x: Tensor,
    bias: Tensor | None,
    packing: Packing,
    remember: Remember | None,
) -> Tensor:
    """What the layers of an encoder make of these vectors. (N, D) -> (N, D)"""
    for n, layer in enumerate(layers):
        x = layer(x, bias, packing, _at_layer(remember, n))
    hidden: Tensor = norm(x)
    return hidden


@dataclass(frozen=True)
class DecoderOutput:
    hidden: Tensor  # (N, D), packed
    reports: list[Report]  # of the cross-attention, per layer
    attention: list[Tensor]  # (N, H, J) weights per layer; empty unless the pass is watched


class Transformer(nn.Module):
    """Encoder, decoder, embeddings, output; `cross` makes the cross-attention of each layer."""

    def __init__(
        self, dims: Dims, cross: Callable[[Dims], CrossAttention] = CrossAttention
    ) -> None:
        super().__init__()
        self.dims = dims
        self.sees_ahead = False  # a bidirectional encoder: only where nothing is read in parts
        self.target_embedding = nn.Embedding(dims.target_vocabulary, dims.width)
        self.source_embedding = (
            self.target_embedding
            if dims.share_embeddings
            else nn.Embedding(dims.source_vocabulary, dims.width)
        )
        self.output = nn.Linear(dims.width, dims.target_vocabulary, bias=False)
        if dims.tie_output:
            self.output.weight = self.target_embedding.weight
        self.encoder = nn.ModuleList(EncoderLayer(dims) for _ in range(dims.encoder_layers))
        self.decoder = nn.ModuleList(
            DecoderLayer(dims, cross(dims)) for _ in range(dims.decoder_layers)
        )
        is_pre = dims.norm == "pre"
        self.encoder_norm = nn.LayerNorm(dims.width) if is_pre else nn.Identity()
        self.decoder_norm = nn.LayerNorm(dims.width) if is_pre else nn.Identity()
        self.apply(_initialise)
        for table in (self.target_embedding, self.source_embedding, self.output):
            nn.init.normal_(table.weight, std=dims.width**-0.5)

    def embed(self, table: nn.Embedding, tokens: Tensor, positions: Tensor) -> Tensor:
        """(...,) -> (..., D)"""
        x = embedded(table, tokens, positions)
        return dropout(x, self.dims.dropout) if self.training else x

    def encode(
        self,
        tokens: Tensor,
        positions: Tensor | None = None,
        packing: Packing | None = None,
        keys: int | None = None,
        remember: Remember | None = None,
    ) -> Tensor:
        """Encoded source, causal; with `remember`, of new tokens after older ones. (B, Q) -> (N, D)

        `keys` is how many positions `remember` returns; without it there are only `tokens`.
        """
        batch, width = tokens.shape
        packing = packing or Packing(batch, width)
        if positions is None:
            positions = torch.arange(width, device=tokens.device).expand(batch, width)
        x = self.embed(self.source_embedding, packing.pack(tokens), packing.pack(positions))
        bias = None
        if self.sees_ahead:
            seen = (tokens != PAD).sum(1, keepdim=True).expand_as(tokens)
            bias = source_bias(seen, width, x.dtype)[:, None]
        elif batch * width > 1:  # a single new token sees all that came before it
            bias = source_bias(positions + 1, keys or width, x.dtype)[:, None]
        return encoded(self.encoder, self.encoder_norm, x, bias, packing, remember)

    def encode_batch(self, tokens: Tensor, length: Tensor) -> Tensor:
        """Whole padded sources; padding costs nothing. (B, J), (B,) -> (B, J, D)"""
        is_real = torch.arange(tokens.shape[1], device=tokens.device) < length[:, None]
        packing = Packing.where(is_real)
        return packing.unpack(self.encode(tokens, packing=packing))

    def keep(self, h: Tensor) -> list[Tensor]:
        """What cross-attention needs of the encoded source, per layer. (..., D) -> (..., W) each"""
        return [layer.cross.keep(h) for layer in self.decoder]  # type: ignore[union-attr, operator]

    def read(self, h: Tensor) -> list[Tensor]:
        """The same, laid out for attention. (B, J, D) -> (P, B, H, J, D / H) each"""
        return [split_projections(x, self.dims.heads, self.dims.width) for x in self.keep(h)]

    def decode(
        self, tokens: Tensor, source: list[Tensor], at: Pass, remember: Remember | None = None
    ) -> DecoderOutput:
        """Decode rows, each given its preceding token. (N,), source per layer -> hidden (N, D)"""
        x = self.embed(self.target_embedding, tokens, at.packing.pack(at.rows.target) - 1)
        reports, weights = [], []
        for n, layer in enumerate(self.decoder):
            register = at.registers[n] if at.registers else None
            x, attended = layer(x, source[n], at, register, _at_layer(remember, n))
            reports.append(attended.report)
            if attended.weights is not None:
                weights.append(attended.weights)
        return DecoderOutput(self.decoder_norm(x), reports, weights)


def _at_layer(remember: Remember | None, layer: int) -> Callable[[Tensor], Tensor] | None:
    if remember is None:
        return None
    return lambda new: remember(layer, new)


def _initialise(module: nn.Module) -> None:
    """Weights from U(-1/sqrt(inputs), 1/sqrt(inputs)), biases zero.

    Xavier's bound is 1.2 to 1.7 times as large in these layers and costs about one BLEU on Multi30k
    at every latency (docs/log.md).
    """
    if isinstance(module, nn.Linear):
        bound = module.in_features**-0.5
        nn.init.uniform_(module.weight, -bound, bound)
        if module.bias is not None:
            nn.init.zeros_(module.bias)
