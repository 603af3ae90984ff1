"""A third of the time per product in live passes: weights read from memory in half precision.

Shapes: N rows, D inputs, E outputs.

A product with a few rows takes as long as its weights take to arrive from memory.  Weights that
were stored in half precision, like those of the model that ships, lose nothing if they are kept so:
they become single precision again in the registers, and all sums are taken in single precision.
256 x 1,024 with four rows takes 62 microseconds, against 200 with weights pre-packed for oneDNN;
256 x 10,000 with one row takes 380, against 1,040.  From about a hundred rows on there is no gain.
"""

import warnings
from functools import lru_cache

import torch
from torch import Tensor

# With more rows the processor, not memory, is the limit: several threads of another product win.
FEW_ROWS = 64


@lru_cache(maxsize=1)
def is_available() -> bool:
    """Whether this build of PyTorch has the product for this processor."""
    has_call = hasattr(torch, "fbgemm_linear_fp16_weight_fp32_activation")
    return has_call and "fbgemm" in torch.backends.quantized.supported_engines


def packed_halves(weight: Tensor) -> Tensor | None:
    """The weights for `half_linear`; None where half precision would change them. (E, D)"""
    if weight.device.type != "cpu" or weight.dtype != torch.float32 or not is_available():
        return None
    if not torch.equal(weight.half().float(), weight):
        return None
    with warnings.catch_warnings():
        # PyTorch warns once, at the first call, that later releases may lack it
        warnings.simplefilter("ignore")
        packed = torch.fbgemm_pack_gemm_matrix_fp16(weight)
        half_linear(weight.new_zeros(1, weight.shape[1]), packed, None)
    return packed


def half_linear(x: Tensor, packed: Tensor, bias: Tensor | None) -> Tensor:
    """(N, D) -> (N, E)"""
    return torch.fbgemm_linear_fp16_weight_fp32_activation(x, packed, bias)


def is_worthwhile(x: Tensor) -> bool:
    """Whether it is the fastest product for this many rows; it uses one thread. (N, D)"""
    return x.shape[0] <= FEW_ROWS or torch.get_num_threads() == 1
