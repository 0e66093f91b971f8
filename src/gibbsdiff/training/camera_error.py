"""How wrong the noise is that a denoiser leaves of noise like a camera's, eqs. (12) and (15)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor

from gibbsdiff.diffusion.boundary import on_device
from gibbsdiff.diffusion.calibration import Calibration
from gibbsdiff.diffusion.denoiser import NoiseError
from gibbsdiff.diffusion.spectral import SpectralDenoiser
from gibbsdiff.inference.marginal import Marginal
from gibbsdiff.inference.observation import ObservationModel
from gibbsdiff.inference.weights import Sureness
from gibbsdiff.noise.level import Light, brightness
from gibbsdiff.noise.levelled import LevelledNoise
from gibbsdiff.noise.photo import PhotoNoise
from gibbsdiff.noise.stationary import StationaryNoise
from gibbsdiff.streams import Streams
from gibbsdiff.training.noise_error import Observed, error_over, needed_by_each

LEVELS = (0.005, 0.15)
MOST = 54  # images
DRAWS = 6  # noises for every image
FEW = 0.02  # part of the observations whose ρ is off by much more than others', at small scales
LIGHT = 3  # pixels over which the brightness is averaged that the level goes with


def with_camera(denoiser: SpectralDenoiser, images: Tensor, rule: Sureness) -> Calibration:
    """The denoiser's calibration with bias and scatter on camera noise measured anew: plain, and
    with the weights of a rule, eq. (14), there without level maps.
    """
    assert denoiser.calibration is not None
    bare = replace(
        denoiser.calibration, bias=None, weighted=None, camera=None, camera_weighted=None
    )
    known = SpectralDenoiser(denoiser.network, denoiser.signal, bare)
    return replace(
        denoiser.calibration,
        camera=camera_error(known, images),
        camera_weighted=camera_error(known, images, levelled=False, rule=rule),
    )


def camera_error(
    denoiser: SpectralDenoiser,
    images: Tensor,
    *,
    draws: int = DRAWS,
    levelled: bool = True,
    rule: Sureness | None = None,
    seed: int = 300,
) -> NoiseError:
    """Bias and scatter of ρ, much as `noise_error` has them, over images and noises drawn from the
    prior of `PhotoNoise`, every second one with a level that goes with the brightness, if
    `levelled`.
    """
    images = images[:: -(-len(images) // MOST)]
    near = on_device(denoiser, next(denoiser.parameters()).device)
    shape = (images.shape[-2], images.shape[-1])

    def observations() -> Iterator[Observed]:
        for i, x in enumerate(images.split(1)):
            for j in range(draws):
                # Which noises have a level map must not go with the image.
                light = Light.of(brightness(x, LIGHT)) if levelled and (i + j) % 2 else None
                photo = PhotoNoise(images.shape[1])
                noise = photo if light is None else LevelledNoise(photo)
                rng = Streams(seed, [(i, j)])
                phi = draw_photo(noise, shape, rng)
                observation = ObservationModel(noise, shape, light=light)
                y = x + observation.covariance(phi, x.dtype).draw(rng, images.shape[1])
                yield Observed(Marginal(y, noise, near, observation), phi, x)

    return error_over(observations(), rule, FEW, needed_by_each)


def draw_photo(noise: StationaryNoise, shape: tuple[int, int], rng: Streams) -> Tensor:
    """φ (B, d) from the prior, but for σ: the level, rather, is log-uniform on LEVELS."""
    phi, u = noise.draw_prior(rng), rng.uniform(1)[:, 0]
    level = torch.exp(math.log(LEVELS[0]) + u * math.log(LEVELS[1] / LEVELS[0]))
    for _ in range(8):  # rounding does not scale with σ: the level is not quite proportional to it
        now = noise.covariance(shape, phi).level
        phi[:, 0] = (phi[:, 0] + torch.log(level / now)).clamp(noise.low[0], noise.high[0])
    return phi
