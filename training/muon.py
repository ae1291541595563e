"""Muon: momentum with orthogonalised updates, for the matrices inside a transformer.

After Jordan et al., "Muon: An optimizer for hidden layers in neural networks" (2024).
"""

from __future__ import annotations

from collections.abc import Iterable

import torch

__all__ = ["Muon"]

# Quintic Newton-Schulz coefficients of the Muon authors: steep at 0, bounded near 1.
_COEFFICIENTS = (3.4445, -4.7750, 2.0315)
_ITERATIONS = 5


def orthogonalise(matrices: torch.Tensor) -> torch.Tensor:
    """Bring every singular value of a stack of matrices to about 1.

    Parameters
    ----------
    matrices : Tensor, shape (k, rows, columns)

    Returns
    -------
    Tensor of the same shape
    """
    a, b, c = _COEFFICIENTS
    tall = matrices.shape[1] > matrices.shape[2]
    x = matrices.mT if tall else matrices
    x = x / (x.norm(dim=(1, 2), keepdim=True) + 1e-7)
    for _ in range(_ITERATIONS):
        gram = x @ x.mT
        x = torch.baddbmm(a * x, torch.baddbmm(b * gram, gram, gram, alpha=c), x)
    return x.mT if tall else x


class Muon(torch.optim.Optimizer):
    """Nesterov momentum, orthogonalised for each matrix, with decoupled weight decay.

    A fused query-key-value matrix (three times as wide as high) is treated as three matrices.

    Parameters
    ----------
    params : iterable of Parameter
        Matrices only.
    lr : float
        Learning rate; an update has root mean square `0.2 * lr`, like AdamW's.
    momentum : float
    weight_decay : float
    """

    def __init__(
        self,
        params: Iterable[torch.nn.Parameter],
        lr: float,
        momentum: float = 0.95,
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:
        """Take one step for every matrix that has a gradient."""
        for group in self.param_groups:
            by_shape: dict[tuple[int, int], list[tuple[torch.Tensor, torch.Tensor]]] = {}
            for matrix in group["params"]:
                state = self.state[matrix]
                if not state:
                    state["momentum"] = torch.zeros_like(matrix)
                state["momentum"].lerp_(matrix.grad, 1 - group["momentum"])
                update = matrix.grad.lerp(state["momentum"], group["momentum"])
                rows, columns = matrix.shape
                parts = 3 if columns == 3 * rows else 1
                for w, u in zip(matrix.chunk(parts, 1), update.chunk(parts, 1), strict=True):
                    by_shape.setdefault((w.shape[0], w.shape[1]), []).append((w, u))
            for shape, pairs in by_shape.items():
                updates = orthogonalise(torch.stack([u for _, u in pairs]))
                # An orthogonal matrix has root mean square 1/sqrt(longer side).
                scale = 0.2 * max(shape) ** 0.5 * group["lr"]
                for (w, _), update in zip(pairs, updates, strict=True):
                    w.mul_(1 - group["lr"] * group["weight_decay"]).add_(update, alpha=-scale)
