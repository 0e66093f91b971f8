"""deepinv: our denoiser as one of theirs, theirs as ours, and our estimate of the noise's level.

Their denoisers are called as `forward(x, sigma)`: white noise whose σ is told. The extra `deepinv`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from gibbsdiff.diffusion.denoiser import Denoiser, Estimate, dtype_of
from gibbsdiff.ecosystem.optional import load_deepinv
from gibbsdiff.errors import InputError
from gibbsdiff.inference.denoise import denoise
from gibbsdiff.inference.observation import ObservationModel
from gibbsdiff.noise import WhiteNoise
from gibbsdiff.noise.base import NoiseModel
from gibbsdiff.noise.covariance import NoiseCovariance
from gibbsdiff.pretrained import load_model
from gibbsdiff.streams import Streams

LEAST = 1e-3  # σ: their algorithms may ask for none, of which the network knows nothing
FLAT = 1e-3  # that a white spectrum may be off by, as a part of it

deepinv_models = load_deepinv().models


class GibbsdiffDenoiser(deepinv_models.Denoiser):  # type: ignore[misc, name-defined]
    """One of our networks with their interface: D(x, σ² everywhere), eq. (3), one call.

    Arguments:
        model: A network of the package by name, or a model file.
        seed: Of the chroma noise that a grey picture is shown with to a network for colours.
    """

    def __init__(
        self, model: str | Path = "natural", device: str | torch.device = "cpu", seed: int = 0
    ) -> None:
        super().__init__(device=device)
        network = load_model(model)
        if not isinstance(network, nn.Module):
            raise InputError(f"{model}: not a network")
        self.network, self.seed = network.to(device), seed

    def forward(self, x: Tensor, sigma: Any, **kwargs: Any) -> Tensor:
        """E[x | x + N(0, σ²)] of a batch (B, 1 or 3, H, W) on [0, 1]; σ a number or (B,)."""
        levels = self._handle_sigma(sigma, batch_size=len(x), device=torch.device("cpu"))
        phi = torch.as_tensor(levels).double().reshape(-1, 1).expand(len(x), 1).clamp(min=LEAST)
        grey = x.shape[1] == 1 and self.network.channels == 3
        if not grey and self.network.channels not in (None, x.shape[1]):
            raise InputError(f"x: {x.shape[1]} channels, but the model is for 1 or 3")
        given = ObservationModel(WhiteNoise(), (x.shape[-2], x.shape[-1]), grey)
        kind = dtype_of(self.network) or x.dtype
        covariance = given.covariance(phi, kind)
        shown = given.show(x.to(kind), covariance, Streams.batch(self.seed, len(x)))
        return given.take(self.network(shown, covariance).mean).to(x.dtype)


class _FromDeepinv(nn.Module, Denoiser):
    """One of theirs: told σ, and without a model of its error."""

    def __init__(self, denoiser: nn.Module, channels: int | None, digest: str | None) -> None:
        super().__init__()
        self.inner, self.channels, self._digest = denoiser, channels, digest

    @property
    def dtype(self) -> torch.dtype | None:  # type: ignore[override]
        """That of its weights; float32 if it has none."""
        return dtype_of(self.inner) or torch.float32

    def __call__(self, z: Tensor, noise: NoiseCovariance) -> Estimate:
        """What it makes of z and σ; noise of another spectrum is refused."""
        N = noise.spectrum()
        white = N is not None and bool((N.amax() - N.amin()) <= FLAT * N.amax())
        if N is not None and not white:  # rows of a batch may differ, a row may not
            low, high = N.flatten(1).amin(1), N.flatten(1).amax(1)
            white = bool((high - low <= FLAT * high).all())
        if not white:
            raise InputError('denoiser: those of deepinv are told σ alone; give noise="white"')
        with torch.no_grad():
            return Estimate(self.inner(z, noise.level.to(z)))

    def digest(self) -> str | None:
        """As it was given."""
        return self._digest


def from_deepinv(
    denoiser: nn.Module, channels: int | None = None, digest: str | None = None
) -> Denoiser:
    """A denoiser of deepinv as one of ours, for white noise: `denoise(y, model=…, noise="white")`.

    It has no model of its error, so that σ is found by Gibbs chains, and their draws of x are made
    by ancestral sampling.

    Arguments:
        denoiser: Anything with `forward(x, sigma)`.
        channels: That it takes; None: any number.
        digest: A name that changes with its weights: chains in a checkpoint need it.
    """
    return _FromDeepinv(denoiser, channels, digest)


class GibbsdiffNoiseEstimator(nn.Module):
    """σ of each picture of a batch, as their estimators give it: the standard deviation of a pixel.

    Arguments:
        noise: The family: "white" as theirs, or any other, whose level is given.
        options: Those of `gibbsdiff.denoise`.
    """

    def __init__(self, noise: str | NoiseModel = "power-law", **options: Any) -> None:
        super().__init__()
        self.noise, self.options = noise, {"check": False, **options}

    def forward(self, x: Tensor) -> Tensor:
        """(B,) levels of a batch (B, C, H, W)."""
        found = denoise(list(x.detach().cpu()), noise=self.noise, **self.options)
        return x.new_tensor([one.level for one in found])
