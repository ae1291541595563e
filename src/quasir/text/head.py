"""A head: what a proposal adds to the base's last hidden state, and to some of its logits.

With h the state before a token, s the bits of the wanted features (`guides.automaton`) and E the
model's own output matrix, the logits of q are E(h + g(h, s)) + c. g is two small layers that start
at zero; c has factors for a few tokens, and is off once the constraint is met. So log a and log q
come out of one pass of the network, at the cost of one more product with E, or none without g.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn.functional import gelu, layer_norm

from quasir.core.types import Array
from quasir.errors import InputError
from quasir.guides.guide import Ints

if TYPE_CHECKING:
    from quasir.text.causal import CausalLM


class Head:
    """The layers of g, and the boosted tokens of c; either may be missing.

    Attributes
    ----------
    layers : dict of tensors
        ``read`` (hidden, d + bits) and ``bias`` (hidden,); ``write`` (d, hidden) and ``shift``
        (d,). Empty without g.
    tokens, log_factors : array
        c, for these tokens; no others.
    until : tuple of int
        The bits of the state that, all set, end c; without any, c stays.
    """

    def __init__(
        self,
        layers: dict[str, Tensor] | None = None,
        tokens: Sequence[int] | Ints | Tensor = (),
        log_factors: Sequence[float] | Array | Tensor = (),
        until: Sequence[int] = (),
    ) -> None:
        self.layers = {} if layers is None else layers
        self.tokens = torch.as_tensor(tokens, dtype=torch.int64)
        self.log_factors = torch.as_tensor(log_factors, dtype=torch.float32)
        self.until = tuple(until)

    @classmethod
    def zero(cls, width: int, bits: int, hidden: int, seed: int, boosts: Head | None) -> Head:
        """Return a head that changes nothing yet but by the boosted tokens of another."""
        random = torch.Generator().manual_seed(seed)
        read = torch.randn(hidden, width + bits, generator=random) / (width + bits) ** 0.5
        layers = {"read": read, "bias": torch.zeros(hidden)}
        layers |= {"write": torch.zeros(width, hidden), "shift": torch.zeros(width)}
        return (boosts or cls()).with_layers(layers)

    @classmethod
    def mean(cls, heads: Sequence[Head]) -> Head:
        """Return the head whose g is the mean of theirs, which have the same c."""
        each = {name: [head.layers[name] for head in heads] for name in heads[0].layers}
        joined = {name: torch.cat(each[name]) for name in ("read", "bias")}
        joined["write"] = torch.cat(each["write"], dim=1) / len(heads)
        joined["shift"] = torch.stack(each["shift"]).mean(0)
        # As its file keeps it: what is judged is what will draw.
        rounded = {name: x.detach().cpu().half().float() for name, x in joined.items()}
        return heads[0].to(torch.device("cpu")).with_layers(rounded)

    def with_layers(self, layers: dict[str, Tensor]) -> Head:
        """Return a head with other layers, and the same boosted tokens."""
        return Head(layers, self.tokens, self.log_factors, self.until)

    @property
    def fingerprint(self) -> str:
        """A hash of all its numbers."""
        total = hashlib.sha256(repr(self.until).encode())
        named = {**self.layers, "tokens": self.tokens, "log_factors": self.log_factors}
        for name, value in sorted(named.items()):
            total.update(f"{name} {tuple(value.shape)} {value.dtype}".encode())
            total.update(value.detach().cpu().contiguous().numpy().tobytes())
        return total.hexdigest()

    def to(self, device: torch.device) -> Head:
        """Return this head on a device."""
        if self.log_factors.device == device:
            return self
        layers = {name: x.to(device) for name, x in self.layers.items()}
        return Head(layers, self.tokens.to(device), self.log_factors.to(device), self.until)

    def check(self, lm: CausalLM, bits: int) -> None:
        """Refuse a model that this head was not made for."""
        if not self.layers:
            return
        if not lm._plain:
            raise InputError(
                "this model scales or caps its logits, so a head on its last state is not its own: "
                "use boosts."
            )
        width = lm.model.get_output_embeddings().weight.shape[1]
        if self.layers["read"].shape[1] != width + bits:
            raise InputError(
                f"the head reads {self.layers['read'].shape[1]} numbers, but this model's state "
                f"and the features have {width} + {bits}: it was made for another model or target."
            )

    def shifted(self, h: Tensor, bits: Tensor, dropped: Tensor | None = None) -> Tensor:
        """Return h + g(h, s); `dropped` multiplies the inner layer in training."""
        inner = torch.cat([layer_norm(h, h.shape[-1:]), bits.to(h.dtype)], dim=-1)
        inner = gelu(inner @ self.layers["read"].T + self.layers["bias"])
        inner = inner if dropped is None else inner * dropped
        return h + inner @ self.layers["write"].T + self.layers["shift"]

    def logits(self, lm: CausalLM, h: Tensor, bits: Tensor, own: Tensor) -> Tensor:
        """Return the logits of q, given the state and the logits of the base itself."""
        made = own
        if self.layers:
            made = lm._head(self.shifted(h.float(), bits).to(h.dtype)).float()
            made = made / lm.warp.temperature
            if lm.truncates:
                made = made.masked_fill(own == -torch.inf, -torch.inf)
        return self.boosted(made, bits) if self.layers or len(self.tokens) else own.clone()

    def boosted(self, logits: Tensor, bits: Tensor) -> Tensor:
        """Return logits with c added."""
        if not len(self.tokens):
            return logits
        on = torch.ones(len(logits), device=logits.device)
        if self.until:
            on -= bits[:, list(self.until)].all(dim=1).to(logits.dtype)
        return logits.index_add(1, self.tokens, on[:, None] * self.log_factors)

    def damped(self, by: float) -> Head:
        """Return the head with a part of g: closer to what it multiplies."""
        layers = {
            name: (by * x).half().float() if name in ("write", "shift") else x
            for name, x in self.layers.items()
        }
        return self.with_layers(layers)
