"""Muon for the convolutions of the trunk, AdamW for the rest, and their schedule."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

#: a, b, c of the Newton-Schulz polynomial a s + b s³ + c s⁵, steep at 0 and flat around 1.
NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)


def orthogonalise(gradient: Tensor, steps: int = 5) -> Tensor:
    """U Vᵀ, roughly, of a matrix U s Vᵀ: its singular values are driven into [0.7, 1.2].

    Every step is X ← (a + b A + c A²) X with A = X Xᵀ. All of these polynomials are in
    the first A and commute, so that they are multiplied together on the small side of
    the matrix, and meet X only once.
    """
    a, b, c = NEWTON_SCHULZ
    X = gradient / (gradient.norm() + 1e-7)
    wide = X.shape[0] <= X.shape[1]
    A = X @ X.T if wide else X.T @ X
    eye = torch.eye(len(A), dtype=A.dtype, device=A.device)
    Q = eye
    for step in range(steps):
        P = a * eye + b * A + c * (A @ A)
        Q = P @ Q
        if step < steps - 1:
            A = P @ A @ P
    return Q @ X if wide else X @ Q


class Muon(torch.optim.Optimizer):
    """Nesterov momentum, orthogonalised: W ← W - lr 0.2 √max(fan) · orthogonalise(u).

    A convolution's weight is the matrix (out, in · kh · kw); with the factor 0.2 √max(fan)
    the update's entries are about as large as Adam's, so that one rate serves both.
    """

    def __init__(self, params: Iterable[nn.Parameter], lr: float, momentum: float = 0.95) -> None:
        super().__init__(params, {"lr": lr, "momentum": momentum})

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> None:  # type: ignore[override]
        """Update every weight that has a gradient."""
        if closure is not None:
            raise ValueError("Muon takes no closure")
        for group in self.param_groups:
            for weight in group["params"]:
                if weight.grad is not None:
                    self._update(weight, group["lr"], group["momentum"])

    def _update(self, weight: nn.Parameter, lr: float, momentum: float) -> None:
        assert weight.grad is not None
        state = self.state[weight]
        if "average" not in state:
            state["average"] = torch.zeros_like(weight)
        state["average"].lerp_(weight.grad, 1 - momentum)
        nesterov = weight.grad.lerp(state["average"], momentum)
        matrix = nesterov.reshape(len(weight), -1)
        scale = 0.2 * math.sqrt(max(matrix.shape))
        weight.sub_(orthogonalise(matrix).view(weight.shape), alpha=lr * scale)


def optimizers(
    network: nn.Module, lr: float, kind: Literal["muon", "adamw"] = "muon"
) -> list[torch.optim.Optimizer]:
    """Muon on the 4-D weights between the first and the last convolution, AdamW elsewhere; or
    AdamW alone. There is no weight decay.
    """
    if kind == "adamw":
        return [torch.optim.AdamW(network.parameters(), lr, weight_decay=0.0)]
    trunk: list[nn.Parameter] = []
    rest: list[nn.Parameter] = []
    for name, parameter in network.named_parameters():
        inside = not name.startswith(("inputs.", "outputs."))
        (trunk if parameter.ndim == 4 and inside else rest).append(parameter)
    made: list[torch.optim.Optimizer] = [
        torch.optim.AdamW(rest, lr, betas=(0.9, 0.99), weight_decay=0.0)
    ]
    return [Muon(trunk, lr), *made] if trunk else made


@dataclass(frozen=True)
class Schedule:
    """Warm-up, constant, linear decay, in fractions of the budget; or constant from beginning to
    end; or, after the warm-up w, falling as √(w/done).
    """

    kind: Literal["warmup-constant-decay", "constant", "inverse-sqrt"] = "warmup-constant-decay"
    lr: float = 2e-3
    warm_up: float = 0.02
    decay: float = 0.4
    least: float = 0.01

    def rate(self, done: float) -> float:
        """lr · min(1, done/warm_up, (1 - done)/decay), and at least `least` of lr; or lr; or
        lr · min(done/warm_up, √(warm_up/done)).
        """
        if self.kind == "constant":
            return self.lr
        rising = done / self.warm_up if self.warm_up > 0 else 1.0
        if self.kind == "inverse-sqrt":
            return self.lr * min(rising, math.sqrt(1 / rising) if rising > 0 else 1.0)
        falling = (1 - done) / self.decay if self.decay > 0 else 1.0
        return self.lr * max(self.least, min(1.0, rising, falling))

    def decays(self, done: float) -> bool:
        """Whether the decay has begun."""
        return self.kind == "warmup-constant-decay" and done >= 1 - self.decay

    def set(self, made: Iterable[torch.optim.Optimizer], done: float) -> float:
        """Give every optimizer the rate of now."""
        rate = self.rate(done)
        for optimizer in made:
            for group in optimizer.param_groups:
                group["lr"] = rate
        return rate
