"""Our bidirectional `full` weights as a CTranslate2 model that takes and gives token ids."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from hmt.errors import UserError
from hmt.limits import MAX_SENTENCE_TOKENS
from hmt.model.transformer import sinusoids
from hmt.systems.contract import System

SPECIAL = ["<s>", "<blank>", "</s>", "<unk>"]  # our symbols 0 to 3 as CTranslate2 calls them


def fill(spec: Any, **tensors: torch.Tensor | None) -> None:
    """Give weights to a layer of a specification."""
    for name, tensor in tensors.items():
        if tensor is not None:
            setattr(spec, name, tensor.detach().float().numpy())


def fill_attention(spec: Any, module: Any, residual: Any) -> None:
    """Self-attention has queries, keys and values in one matrix; cross-attention keys and values"""
    projections = [module.query, module.project] if hasattr(module, "query") else [module.project]
    for part, linear in zip(spec.linear, [*projections, module.output], strict=True):
        fill(part, weight=linear.weight, bias=linear.bias)
    fill(spec.layer_norm, gamma=residual.norm.weight, beta=residual.norm.bias)


def fill_layer(spec: Any, layer: Any) -> None:
    """One encoder or decoder layer."""
    fill_attention(spec.self_attention, layer.attention, layer.attention_residual)
    if hasattr(layer, "cross"):
        fill_attention(spec.attention, layer.cross, layer.cross_residual)
    fill(spec.ffn.linear_0, weight=layer.ffn.inner.weight, bias=layer.ffn.inner.bias)
    fill(spec.ffn.linear_1, weight=layer.ffn.outer.weight, bias=layer.ffn.outer.bias)
    norm = layer.ffn_residual.norm
    fill(spec.ffn.layer_norm, gamma=norm.weight, beta=norm.bias)


def convert(system: System, folder: Path) -> None:
    """Write a bidirectional `full` system as a CTranslate2 model; symbols are named by their ids"""
    if getattr(system.config, "encoder", None) != "bidirectional":
        raise UserError(
            f"A {system.name} model with a causal encoder has no counterpart in CTranslate2; give "
            'a `full` model that was trained with encoder = "bidirectional".'
        )
    from ctranslate2.specs import TransformerSpec

    transformer = system.transformers[0]
    dims = transformer.dims
    layers = dims.encoder_layers, dims.decoder_layers
    spec = TransformerSpec.from_config(layers, dims.heads, pre_norm=dims.norm == "pre")
    encodings = sinusoids(torch.arange(4 * MAX_SENTENCE_TOKENS), dims.width, torch.float32)
    sides: list[tuple[Any, Any, Any]] = [
        (spec.encoder, transformer.encoder, transformer.encoder_norm),
        (spec.decoder, transformer.decoder, transformer.decoder_norm),
    ]
    for side, modules, norm in sides:
        fill(side.position_encodings, encodings=encodings)
        for layer_spec, layer in zip(side.layer, modules, strict=True):
            fill_layer(layer_spec, layer)
        if dims.norm == "pre":
            fill(side.layer_norm, gamma=norm.weight, beta=norm.bias)
    fill(spec.encoder.embeddings[0], weight=transformer.source_embedding.weight)
    fill(spec.decoder.embeddings, weight=transformer.target_embedding.weight)
    fill(spec.decoder.projection, weight=transformer.output.weight)
    spec.register_source_vocabulary(_symbols(dims.source_vocabulary))
    spec.register_target_vocabulary(_symbols(dims.target_vocabulary))
    spec.config.decoder_start_token, spec.config.add_source_eos = "</s>", True
    spec.validate()
    spec.optimize()
    folder.mkdir()
    spec.save(str(folder))


def _symbols(size: int) -> list[str]:
    return [*SPECIAL, *map(str, range(len(SPECIAL), size))]


class Translator:
    """A CTranslate2 model that takes and gives token ids, greedy as our engine is."""

    def __init__(self, folder: Path, compute_type: str, threads: int) -> None:
        import ctranslate2

        self.inner = ctranslate2.Translator(
            str(folder), compute_type=compute_type, intra_threads=threads, inter_threads=1
        )

    def translate(
        self, source: Sequence[int], prefix: Sequence[int] = (), length: int | None = None
    ) -> list[int]:
        """Target without its end token, of exactly `length` tokens if that is given."""
        limit = length or 2 * (len(source) + 1) + 20  # as our engine cuts a translation off
        [result] = self.inner.translate_batch(
            [_names(source)],
            target_prefix=[_names(prefix)] if prefix else None,
            beam_size=1,
            suppress_sequences=[["<s>"], ["<blank>"]],
            max_input_length=0,
            min_decoding_length=length or 0,
            max_decoding_length=limit,
        )
        return [_id(name) for name in result.hypotheses[0]]


def _names(ids: Sequence[int]) -> list[str]:
    return [SPECIAL[n] if n < len(SPECIAL) else str(n) for n in ids]


def _id(name: str) -> int:
    return SPECIAL.index(name) if name in SPECIAL else int(name)
