"""Adam, or Muon beside it, with warm-up and a decaying rate, over one flat gradient buffer.

Weight decay is decoupled from the gradient (AdamW), as in fairseq's `adam`, which the papers'
`weight-decay 0.0001` refers to. It applies to every parameter, as in fairseq.
"""

import math
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from hmt.errors import UserError
from hmt.systems.contract import System
from hmt.training.muon import Muon, Stacked
from hmt.training.processes import Group
from hmt.training.recipe import Training

DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}


def learning_rate(training: Training, step: int) -> float:
    """Rate of update `step` (from 1): linear warm-up, then decay with 1/sqrt(step) or to zero.

    As in fairseq the first update is made with `warmup_init` itself.
    """
    done = step - 1
    if done < training.warmup:
        slope = (training.learning_rate - training.warmup_init) / training.warmup
        return training.warmup_init + done * slope
    if training.decay == "linear":
        left = (training.updates - done) / max(1, training.updates - training.warmup)
        return training.learning_rate * left
    return training.learning_rate * math.sqrt(max(1, training.warmup) / max(1, done))


def autocast(precision: str, device: torch.device) -> torch.autocast:
    """Where the forward pass may use half precision."""
    if precision == "fp16" and device.type != "cuda":
        raise UserError(
            'training.precision = "fp16" needs a GPU and there is none: use "bf16" or "fp32".'
        )
    dtype = DTYPES.get(precision)
    return torch.autocast(device.type, dtype=dtype, enabled=dtype is not None)


def matrices_of_layers(system: System) -> Iterator[Stacked]:
    """The matrices that Muon updates, each with the number of projections stacked in it."""
    layers = (
        layer
        for transformer in system.transformers
        for layer in (*transformer.encoder, *transformer.decoder)
    )
    for layer in layers:
        for name, module in layer.named_modules():
            if isinstance(module, nn.Linear) and module.weight.requires_grad:
                rows, columns = module.weight.shape
                stacked = rows // columns if name.endswith(".project") else 1
                yield module.get_parameter("weight"), stacked


class Optimizer:
    """Gradients in one buffer, summed over processes, clipped, then a step."""

    def __init__(
        self,
        parameters: Iterable[nn.Parameter],
        training: Training,
        group: Group,
        matrices: Iterable[Stacked] = (),  # of the layers; where Muon is chosen it updates them
    ):
        self.training, self.group = training, group
        self.parameters = [p for p in parameters if p.requires_grad]
        # every gradient is a view of one buffer for the whole run: nothing is allocated per step,
        # and clipping and all-reduce are one operation each
        self.gradient = torch.zeros(
            sum(p.numel() for p in self.parameters), device=group.device, dtype=torch.float32
        )
        at = 0
        for p in self.parameters:
            p.grad = self.gradient[at : at + p.numel()].view_as(p)
            at += p.numel()
        self.rules = self._rules(list(matrices) if training.optimizer == "muon" else [])
        self.scaler = torch.amp.GradScaler(
            group.device.type, enabled=training.precision == "fp16" and group.device.type == "cuda"
        )

    def _rules(self, matrices: list[Stacked]) -> dict[str, torch.optim.Optimizer]:
        """What updates which weights: Muon these matrices, AdamW all others."""
        rate, decay = self.training.learning_rate, self.training.weight_decay
        taken = {id(matrix) for matrix, _ in matrices}
        others = [p for p in self.parameters if id(p) not in taken]
        adam = torch.optim.AdamW(
            others, lr=rate, betas=self.training.betas, weight_decay=decay, fused=True
        )
        if not matrices:
            return {"adam": adam}
        # five times as fast as single precision with avx512_bf16, where it was 0.29 of an update
        is_half = self.training.precision == "bf16"
        dtype = torch.bfloat16 if is_half else torch.float32
        return {"adam": adam, "muon": Muon(matrices, rate, decay, dtype)}

    def clear(self) -> None:
        self.gradient.zero_()

    def backward(self, loss: Tensor) -> None:
        self.scaler.scale(loss).backward()

    def gather(self) -> float:
        """Sum the gradient over processes, unscale and clip it. -> its norm before clipping"""
        self.group.add_up(self.gradient)
        for rule in self.rules.values():
            self.scaler.unscale_(rule)
        norm = float(torch.linalg.vector_norm(self.gradient))
        if self.training.clip and math.isfinite(norm) and norm > self.training.clip:
            self.gradient.mul_(self.training.clip / norm)
        return norm

    @property
    def tolerates_overflow(self) -> bool:
        """fp16: a non-finite gradient only means that the loss scale was too large."""
        return self.scaler.is_enabled()

    def step(self, step: int) -> float:
        """Update the weights. -> the learning rate used"""
        rate = learning_rate(self.training, step)
        for rule in self.rules.values():
            for settings in rule.param_groups:
                settings["lr"] = rate
            self.scaler.step(rule)
        self.scaler.update()
        return rate

    def state(self) -> dict[str, Any]:
        rules = {name: rule.state_dict() for name, rule in self.rules.items()}
        return {**rules, "scaler": self.scaler.state_dict()}

    def restore(self, state: dict[str, Any]) -> None:
        for name, rule in self.rules.items():
            rule.load_state_dict(state[name])
        self.scaler.load_state_dict(state["scaler"])
