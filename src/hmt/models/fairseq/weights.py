"""From fairseq's names and layouts of a Transformer to ours.

Shapes: D width, V vocabulary, F width of the feed-forward network.
"""

import re
from typing import Any

import torch
from torch import Tensor

from hmt.errors import UserError
from hmt.models.fairseq.checkpoint import Checkpoint

# Written by fairseq into every checkpoint, but no part of the model.
IGNORED = re.compile(r"(en|de)coder\.(version|embed_positions\.(_float_tensor|weights))")
# Settings that must be off, and what they would make of the model.
MUST_BE_OFF = {
    "encoder_learned_pos": "learned positions",
    "decoder_learned_pos": "learned positions",
    "no_token_positional_embeddings": "no positions",
    "no_scale_embedding": "unscaled embeddings",
    "layernorm_embedding": "layer norms on its embeddings",
    "adaptive_softmax_cutoff": "an adaptive softmax",
    "adaptive_input": "adaptive embeddings",
    "cross_self_attention": "joint self- and cross-attention",
    "no_cross_attention": "no cross-attention",
}
# The same by names of weights, and other parts that are not supported.
FOREIGN = {
    "embed_positions": "learned positions",
    "layernorm_embedding": "layer norms on its embeddings",
    "adaptive_softmax": "an adaptive softmax",
    "project_in_dim": "embeddings narrower than its layers",
    "project_out_dim": "an output narrower than its layers",
    "rel": "relative positions",
    "bias_k": "extra keys and values in its attention",
    "bias_v": "extra keys and values in its attention",
}
# Names of layer norms in checkpoints of 2018, by their number.
OLD_NORMS = {
    "encoder": ("self_attn_layer_norm", "final_layer_norm"),
    "decoder": ("self_attn_layer_norm", "encoder_attn_layer_norm", "final_layer_norm"),
}


def check_supported(checkpoint: Checkpoint) -> None:
    """Refuse what our Transformer does not support."""
    settings = checkpoint.settings
    for name, what in MUST_BE_OFF.items():
        if settings.get(name) not in (None, False, 0, "", "False"):
            _refuse(checkpoint, what)
    activation = settings.get("activation_fn") or "relu"
    if activation != "relu":
        _refuse(checkpoint, f"the activation {activation}")
    for pair in ("attention_heads", "ffn_embed_dim", "embed_dim", "normalize_before"):
        encoder, decoder = (settings.get(f"{side}_{pair}") for side in ("encoder", "decoder"))
        if encoder is not None and decoder is not None and encoder != decoder:
            _refuse(checkpoint, f"{pair} {encoder} in its encoder but {decoder} in its decoder")


def _refuse(checkpoint: Checkpoint, what: str) -> None:
    raise UserError(
        f"{checkpoint.path} is a model with {what}, which cannot be imported: hmt has Transformers "
        "with sinusoidal positions, scaled embeddings, ReLU, and equal sizes on both sides."
    )


class Weights:
    """Tensors of a checkpoint, taken out one by one; any that are left at the end are an error."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self.checkpoint = checkpoint
        self._left = {
            _modern(name): tensor
            for name, tensor in checkpoint.tensors.items()
            if not IGNORED.fullmatch(name)
        }

    def __contains__(self, name: str) -> bool:
        return name in self._left

    def layers(self, side: str) -> int:
        """How many layers one side has."""
        found = {m[1] for m in (re.match(rf"{side}\.layers\.(\d+)\.", n) for n in self._left) if m}
        if not found or found != {str(n) for n in range(len(found))}:
            raise UserError(f"{self.checkpoint.path} is damaged: layers of its {side} are missing.")
        return len(found)

    def peek(self, name: str) -> Tensor:
        """A tensor in single precision."""
        path = self.checkpoint.path
        if name not in self._left:
            raise UserError(
                f"{path} lacks the weight {name}: it is damaged, or not a Transformer for "
                "translation."
            )
        tensor = self._left[name]
        if not tensor.is_floating_point() or not torch.isfinite(tensor).all():
            raise UserError(f"{path} is damaged: its weight {name} is not all finite.")
        return tensor.float()

    def take(self, name: str) -> Tensor:
        """Remove and return a tensor in single precision."""
        tensor = self.peek(name)
        del self._left[name]
        return tensor

    def affine(self, theirs: str, ours: str) -> dict[str, Tensor]:
        """Weight and bias of a linear map or a layer norm."""
        return {f"{ours}.{kind}": self.take(f"{theirs}.{kind}") for kind in ("weight", "bias")}

    def projections(self, theirs: str) -> tuple[list[Tensor], list[Tensor]]:
        """Weights (D, D) and biases (D,) of query, key and value, stored fused or apart."""
        if f"{theirs}.in_proj_weight" in self:
            weight = list(self.take(f"{theirs}.in_proj_weight").chunk(3))
            bias = list(self.take(f"{theirs}.in_proj_bias").chunk(3))
        else:
            weight = [self.take(f"{theirs}.{part}_proj.weight") for part in "qkv"]
            bias = [self.take(f"{theirs}.{part}_proj.bias") for part in "qkv"]
        if any(len(part) != 3 or len({x.shape for x in part}) > 1 for part in (weight, bias)):
            raise UserError(
                f"{self.checkpoint.path} is damaged: query, key and value of {theirs} differ in "
                "shape."
            )
        return weight, bias

    def finish(self) -> None:
        """Refuse a checkpoint with tensors that were not taken."""
        if not self._left:
            return
        name = sorted(self._left)[0]
        words = re.split(r"[._]", name)
        for mark, what in FOREIGN.items():
            if mark in name if "_" in mark else mark in words:
                _refuse(self.checkpoint, f"{what} ({name})")
        _refuse(self.checkpoint, f"the weight {name}")


def _modern(name: str) -> str:
    old = re.fullmatch(r"(encoder|decoder)(\.layers\.\d+\.)layer_norms\.([0-2])(\..+)", name)
    if old is None or int(old[3]) >= len(OLD_NORMS[old[1]]):
        return name
    return f"{old[1]}{old[2]}{OLD_NORMS[old[1]][int(old[3])]}{old[4]}"


def transformer(weights: Weights) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Dimensions and tensors of our Transformer, by the names of its `state_dict`."""
    source = weights.take("encoder.embed_tokens.weight")
    target = weights.take("decoder.embed_tokens.weight")
    output = next(
        (
            weights.take(name)
            for name in ("decoder.output_projection.weight", "decoder.embed_out")
            if name in weights
        ),
        target,
    )
    is_pre = "encoder.layer_norm.weight" in weights or "decoder.layer_norm.weight" in weights
    dims: dict[str, Any] = {
        "source_vocabulary": source.shape[0],
        "target_vocabulary": target.shape[0],
        "width": target.shape[-1],
        "ffn": weights.peek("encoder.layers.0.fc1.weight").shape[0],
        "encoder_layers": weights.layers("encoder"),
        "decoder_layers": weights.layers("decoder"),
        "norm": "pre" if is_pre else "post",
        "share_embeddings": torch.equal(source, target),
        "tie_output": torch.equal(output, target),
    }
    tensors = {"target_embedding.weight": target}
    if not dims["share_embeddings"]:
        tensors["source_embedding.weight"] = source
    if not dims["tie_output"]:
        tensors["output.weight"] = output
    for side in ("encoder", "decoder"):
        for n in range(dims[f"{side}_layers"]):
            tensors |= _layer(weights, side, n)
        if is_pre:
            tensors |= weights.affine(f"{side}.layer_norm", f"{side}_norm")
    return dims, {f"transformer.{name}": tensor for name, tensor in tensors.items()}


def _layer(weights: Weights, side: str, n: int) -> dict[str, Tensor]:
    theirs, ours = f"{side}.layers.{n}", f"{side}.{n}"
    found = {
        **_attention(weights, f"{theirs}.self_attn", f"{ours}.attention"),
        **weights.affine(f"{theirs}.self_attn_layer_norm", f"{ours}.attention_residual.norm"),
        **weights.affine(f"{theirs}.fc1", f"{ours}.ffn.inner"),
        **weights.affine(f"{theirs}.fc2", f"{ours}.ffn.outer"),
        **weights.affine(f"{theirs}.final_layer_norm", f"{ours}.ffn_residual.norm"),
    }
    if side == "decoder":
        found |= _cross_attention(weights, f"{theirs}.encoder_attn", f"{ours}.cross")
        found |= weights.affine(f"{theirs}.encoder_attn_layer_norm", f"{ours}.cross_residual.norm")
    return found


def _attention(weights: Weights, theirs: str, ours: str) -> dict[str, Tensor]:
    weight, bias = weights.projections(theirs)
    return {
        f"{ours}.project.weight": torch.cat(weight),  # (3D, D): query, key, value
        f"{ours}.project.bias": torch.cat(bias),
        **weights.affine(f"{theirs}.out_proj", f"{ours}.output"),
    }


def _cross_attention(weights: Weights, theirs: str, ours: str) -> dict[str, Tensor]:
    weight, bias = weights.projections(theirs)
    return {
        f"{ours}.query.weight": weight[0],
        f"{ours}.query.bias": bias[0],
        f"{ours}.project.weight": torch.cat(weight[1:]),  # (2D, D): key, value
        f"{ours}.project.bias": torch.cat(bias[1:]),
        **weights.affine(f"{theirs}.out_proj", f"{ours}.output"),
    }
