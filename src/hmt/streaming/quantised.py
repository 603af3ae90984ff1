"""Linear layers in eight bits, for large models on a CPU: PyTorch's own dynamic quantisation.

Shapes: N rows, D width, V vocabulary.
"""

import warnings

from torch import Tensor, nn

from hmt.systems.system import System


class QuantisedOutput(nn.Module):
    """The output layer in eight bits, beside the float table that it shares with embeddings."""

    def __init__(self, table: nn.Linear) -> None:
        super().__init__()
        own = nn.Linear(table.in_features, table.out_features, bias=False)
        own.weight = nn.Parameter(table.weight.detach().clone())
        self.weight = table.weight
        self.linear = in_eight_bits(nn.Sequential(own))

    def forward(self, x: Tensor) -> Tensor:
        """(N, D) -> (N, V)"""
        out: Tensor = self.linear(x)
        return out


def quantise(system: System) -> None:
    """Change all linear layers of a system's Transformers; it can only translate afterwards."""
    for transformer in system.parts:
        for name in ("encoder", "decoder"):
            setattr(transformer, name, in_eight_bits(getattr(transformer, name)))
        transformer.output = QuantisedOutput(transformer.output)  # type: ignore[assignment]


def in_eight_bits(module: nn.Module) -> nn.Module:
    """A copy with one scale per row of each matrix."""
    from torch.ao import quantization

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it will move to another package
        made: nn.Module = quantization.quantize_dynamic(
            module, {nn.Linear: quantization.per_channel_dynamic_qconfig}
        )
    return made
