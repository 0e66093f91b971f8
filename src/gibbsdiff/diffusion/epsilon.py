"""The paper's networks ε_θ(z_t, t, φ) as denoisers: eqs. (1), (2) and (3)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from gibbsdiff.diffusion.denoiser import Denoiser, Estimate, dtype_of
from gibbsdiff.diffusion.process import DiscreteVariancePreserving, Process
from gibbsdiff.errors import InputError
from gibbsdiff.identity import digest_of
from gibbsdiff.noise.base import Range
from gibbsdiff.noise.covariance import NoiseCovariance, SpectralCovariance


def network_time(process: Process, t: Tensor) -> Tensor:
    """The number by which a network takes the time t: t itself, or the step of a discrete chain.

    The authors count steps i = 0 … T-1 and ᾱ_i has the factors 0 … i, so that step i is the
    time t = (i+1)/T. Between steps i is real, and below step 0 it goes on to -1 at t = 0.
    """
    if isinstance(process, DiscreteVariancePreserving):
        return t * process.steps - 1
    return t


class EpsilonDenoiser(nn.Module, Denoiser):
    """D = z - σ ε_θ(a z, t, φ) with t = t*(σ) of eq. (2) and a = a(t), for z = x + σ ε at level σ.

    ε has unit level, so this is (z_t - b ε_θ)/a in the scaling z_t = a z of eq. (1). The paper
    has no error model: E = 0 in eq. (7). It works only for the family of noise that it was trained
    on, up to the highest level of its process.

    Arguments:
        network: Maps z_t (B, C, H, W), a time or step (B,) and φ (B, K) to ε.
        process: The process that the network was trained on.
        ranges: Of the K parameters of the noise's shape, which the network takes on [-1, 1].
        names: Of these parameters, by which other families are refused; none: any names will do.
    """

    process: Process

    def __init__(
        self,
        network: nn.Module,
        process: Process,
        ranges: Sequence[Range] = ((-1.0, 1.0),),
        names: Sequence[str] = (),
    ) -> None:
        super().__init__()
        self.network = network
        self.process = process
        self.ranges = tuple((float(low), float(high)) for low, high in ranges)
        self.names = tuple(names)
        self.channels = getattr(network, "channels", None)

    @property
    def dtype(self) -> torch.dtype | None:  # type: ignore[override]
        """That of the weights."""
        return dtype_of(self.network)

    def digest(self) -> str | None:
        """Of weights, process and ranges."""
        process = self.process.digest()
        name = type(self.network).__name__
        return process and digest_of(name, self.network.state_dict(), process, self.ranges)

    def __call__(self, z: Tensor, noise: NoiseCovariance) -> Estimate:
        """D, and no error."""
        found: Estimate = super().__call__(z, noise)
        return found

    def forward(self, z: Tensor, noise: NoiseCovariance) -> Estimate:
        """D, and no error."""
        return Estimate(z - _column(noise.level, z) * self.epsilon(z, noise))

    def epsilon(self, z: Tensor, noise: NoiseCovariance) -> Tensor:
        """ε_θ ≈ E[ε | z], of unit level."""
        phi = self._phi(noise).to(z)
        # Times are float64 on the CPU: a step of the chain is 2e-4 of [0, 1].
        t = self.process.time(noise.level.cpu())
        time = network_time(self.process, t).to(z)
        out: Tensor = self.network(_column(self.process.a(t), z) * z, time, phi)
        return out

    def losses(self, x: Tensor, z: Tensor, noise: NoiseCovariance) -> Tensor:
        """(B,) mean squares of ε_θ - ε, with ε = (z - x)/σ.

        That is ε-prediction, and it is the reweighted score matching of the paper's appendix at
        λ(t) = 1: its target (z_t - √ᾱ x)/√(1-ᾱ) is (a z - a x)/b = (z - x)/σ.
        """
        target = (z - x) / _column(noise.level, z)
        return (self.epsilon(z, noise) - target).square().mean((1, 2, 3))

    def _phi(self, noise: NoiseCovariance) -> Tensor:
        phi = noise.shape_parameters if isinstance(noise, SpectralCovariance) else None
        names = noise.shape_names if isinstance(noise, SpectralCovariance) else ()
        other = bool(self.names and names) and names != self.names
        if phi is None or phi.shape[-1] != len(self.ranges) or other:
            wanted = ", ".join(self.names) or f"{len(self.ranges)} parameters"
            raise InputError(
                f"this network was trained on another family of noise: it takes {wanted} "
                f"for the shape of the spectrum, the noise has {', '.join(names) or 'none'}"
            )
        ends = torch.tensor(self.ranges, dtype=phi.dtype, device=phi.device)
        low, high = ends.reshape(-1, 2).unbind(-1)
        return 2 * (phi - low) / (high - low) - 1


def _column(values: Tensor, like: Tensor) -> Tensor:
    return values.to(like).view(-1, 1, 1, 1)
