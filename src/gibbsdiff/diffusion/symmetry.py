"""A random symmetry of the square for each call of a denoiser, which costs nothing:

    D_T(z, Σ) = T⁻¹ D(T z, T Σ Tᵀ),    E_T = T⁻¹ E Tᵀ⁻¹

The posterior mean of pictures that are as likely turned as upright is the same for every T. What a
network was not taught to do alike averages out over the calls of a chain.
"""

from __future__ import annotations

from torch import Tensor

from gibbsdiff.diffusion.denoiser import Denoiser, Estimate
from gibbsdiff.errors import InputError
from gibbsdiff.fourier import turned
from gibbsdiff.noise.covariance import NoiseCovariance
from gibbsdiff.streams import Streams

#: Names the streams of symmetries beside those of the noise, which stay as they are.
LABEL = 8


def symmetries(z: Tensor) -> int:
    """How many symmetries keep the shape of z: all 8 of a square, 4 of another rectangle."""
    return 8 if z.shape[-2] == z.shape[-1] else 4


def turned_call(denoiser: Denoiser, z: Tensor, noise: NoiseCovariance, which: Tensor) -> Estimate:
    """D_T and E_T of a batch z (B, C, H, W), T the symmetry `which` (B,) of each row: see
    `fourier.turned`.
    """
    there = noise.turned(which)
    if there is None:
        raise InputError(f"turned: {type(noise).__name__} cannot be turned with the picture")
    mean, error = denoiser(turned(z, which), there)
    back = None
    if error is not None:
        back = error.turned(which, back=True)
        if back is None:
            raise InputError("turned: the error of this denoiser cannot be turned back")
    return Estimate(turned(mean, which, back=True), back)


def randomly_turned(
    denoiser: Denoiser, z: Tensor, noise: NoiseCovariance, rng: Streams
) -> Estimate:
    """D_T and E_T with a random T for each row, from its own stream."""
    return turned_call(denoiser, z, noise, rng.integers(0, symmetries(z) - 1))
