"""Products of a CPU's float32 weights by oneDNN, which packs each weight matrix once.

Torch computes them with MKL, which leaves half of the units of an AMD processor idle: with 128
texts at once a core does 1.1e11 operations a second by MKL, and 2.5e11 by oneDNN. The numbers are
float32 either way. Where gradients are wanted, torch computes as always.
"""

from __future__ import annotations

import platform
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import linear
from transformers.pytorch_utils import Conv1D

PACKED_FOR = 128
"""Rows that weights are packed for; other numbers are right too, and about as fast."""
MOST = 1 << 30
"""Numbers in the weights of a model at most: a packed copy takes as much memory again."""


def pack(weight: Tensor) -> Tensor:
    """Return a matrix (outputs, inputs) as oneDNN lays it out."""
    packed: Tensor = torch.ops.mkldnn._reorder_linear_weight(weight, PACKED_FOR)
    return packed


def _product(x: Tensor, packed: Tensor, bias: Tensor | None) -> Tensor:
    done: Tensor = torch.ops.mkldnn._linear_pointwise(x, packed, bias, "none", [], "")
    return done


class _Packed:
    """A layer whose product is oneDNN's, if no gradient is wanted."""

    weight: Any
    bias: Any
    _copy: tuple[int, int, Tensor] | None = None  # what the weight was, and its packed copy

    def forward(self, x: Tensor) -> Tensor:
        if torch.is_grad_enabled() or x.dtype != torch.float32 or x.device.type != "cpu":
            return super().forward(x)  # type: ignore[misc, no-any-return]
        # A weight that was made in inference mode counts no changes, and allows few.
        changes = 0 if self.weight.is_inference() else self.weight._version
        version = (self.weight.data_ptr(), changes)
        if self._copy is None or self._copy[:2] != version:
            rows = self.weight.detach()
            rows = rows.T.contiguous() if isinstance(self, Conv1D) else rows
            self._copy = (*version, pack(rows))
        return _product(x, self._copy[2], self.bias)

    def __getstate__(self) -> dict[str, Any]:
        return {key: kept for key, kept in self.__dict__.items() if key != "_copy"}


class _Fixed(torch.autograd.Function):
    """x W' with a gradient for x alone, both by oneDNN."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, there: Tensor, back: Tensor) -> Tensor:
        ctx.back = back
        return _product(x, there, None)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        return _product(gradient.contiguous(), ctx.back, None), None, None


def fixed(layer: nn.Linear) -> Callable[[Tensor], Tensor]:
    """Return a layer as a function whose gradient is that of its input alone."""
    weight, bias = layer.weight.detach(), None if layer.bias is None else layer.bias.detach()
    if not isinstance(layer, PackedLinear) or weight.device.type != "cpu" or bias is not None:
        return lambda x: linear(x, weight, bias)
    there, back = pack(weight), pack(weight.T.contiguous())
    return lambda x: _Fixed.apply(x, there, back)


class PackedLinear(_Packed, nn.Linear):
    """A linear layer."""


class PackedConv1D(_Packed, Conv1D):  # type: ignore[misc]
    """GPT-2's linear layer, whose weight is transposed."""


PACKED: dict[type, type] = {nn.Linear: PackedLinear, Conv1D: PackedConv1D}


def with_packed_products(model: Any) -> Any:
    """Return a model, its linear layers computed by oneDNN where that is worth it."""
    if not isinstance(model, nn.Module):
        return model
    small = sum(weight.numel() for weight in model.parameters()) <= MOST
    x86 = platform.machine().lower() in ("x86_64", "amd64")
    known = hasattr(torch.ops.mkldnn, "_reorder_linear_weight")
    on_cpu = all(weight.device.type == "cpu" for weight in model.parameters())
    if not (on_cpu and small and x86 and known):
        return model
    for module in model.modules():
        if type(module) in PACKED and module.weight.dtype == torch.float32:
            module.__class__ = PACKED[type(module)]
    return model
