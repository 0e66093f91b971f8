"""Every noise family, at a point of its prior. A new family joins FAMILIES and earns the laws of
`test_contract.py`.
"""

from dataclasses import dataclass, replace

import pytest
import torch

from gibbsdiff.fourier import OPPONENT
from gibbsdiff.noise import (
    BandedNoise,
    CMBNoise,
    LevelledNoise,
    Light,
    NoiseModel,
    PhotoNoise,
    PixelNoise,
    PowerLawNoise,
    SmoothNoise,
    SpectralNoise,
    StationaryNoise,
    WhiteNoise,
    with_fixed,
)
from gibbsdiff.noise.covariance import PixelCovariance
from gibbsdiff.noise.level_curves import AS_GIVEN, BY_COUNTS
from gibbsdiff.streams import Streams

SHAPE = (8, 6)
INTENSITY = torch.linspace(0.1, 2.0, 48).reshape(SHAPE).double()


def tilted(kx, ky, sigma, stretch, angle):
    """Anisotropic, and not symmetric under ky -> -ky."""
    along = kx * torch.cos(angle) + ky * torch.sin(angle)
    return 2 * torch.log(sigma) - torch.log(1 + (stretch * along) ** 2)


def knee(kx, ky, sigma, knee):
    return 2 * torch.log(sigma) + torch.log(1 + knee**2 / (kx**2 + ky**2))


LUMA = {"log_sigma": -2.0, "slope": -0.5, "cut": 2.0, "power": 1.7, "floor": -4.0}
CHROMA = {
    "log_ratio": 0.3,
    "log_ratio2": -0.2,
    "slope_c": -1.0,
    "cut_c": 6.0,
    "power_c": 1.5,
    "floor_c": -5.0,
}
PHOTO = LUMA | CHROMA
KNOTS = (0.1, 0.2, 0.35, 0.6)
CURVE = (-3.0, -3.5, -4.0, -6.0)

#: (family, a point inside its prior box)
FAMILIES = [
    (WhiteNoise(), (0.3,)),
    (PowerLawNoise(), (0.2, -0.7)),
    (PowerLawNoise(), (0.5, 1.0)),
    (BandedNoise(edges=(0.2, 0.4)), (-1.0, -2.0, 0.5)),
    (SpectralNoise(knee, {"sigma": (0.01, 1), "knee": (0.01, 0.5)}, isotropic=True), (0.1, 0.2)),
    (
        SpectralNoise(tilted, {"sigma": (0.01, 1), "stretch": (0, 20), "angle": (0, 3.2)}),
        (0.4, 8.0, 0.6),
    ),
    (PixelNoise.affine(INTENSITY), (0.05, 0.3)),
    (CMBNoise(), (0.5, 70.0, 0.032)),
    (CMBNoise(beam=10.0, white=0.03), (0.5, 60.0, 0.02)),
    (PixelNoise.weighted(1 / INTENSITY), (0.3,)),
    (with_fixed(PowerLawNoise(), {"sigma": 0.2}), (-0.7,)),
    (with_fixed(PixelNoise.affine(INTENSITY), {"beta": 0.3}), (0.05,)),
    (PhotoNoise(1), LUMA.values()),
    (PhotoNoise(), PHOTO.values()),
    (
        with_fixed(PhotoNoise(), {"cut": 2.0, "slope_c": -1.0}),
        [value for name, value in PHOTO.items() if name not in ("cut", "slope_c")],
    ),
    (SmoothNoise(1, KNOTS), CURVE),
    (SmoothNoise(3, KNOTS), (*CURVE, -2.0, -4.0, -7.0, -9.0, -2.5, -3.0, -7.5, -8.0)),
    (LevelledNoise(WhiteNoise()), (0.3, 0.8, -1.0)),
    (LevelledNoise(PowerLawNoise()), (0.2, -0.7, 1.1, -2.0)),
    (LevelledNoise(PowerLawNoise(), curve=AS_GIVEN), (0.2, -0.7)),
    (with_fixed(LevelledNoise(PowerLawNoise(), curve=AS_GIVEN), {"sigma": 0.3}), (-0.7,)),
    (LevelledNoise(PhotoNoise()), (*PHOTO.values(), -0.8, 1.5)),
    (LevelledNoise(SmoothNoise(1, KNOTS)), (*CURVE, 1.0, 0.0)),
    (LevelledNoise(PhotoNoise(1), curve=BY_COUNTS), (*LUMA.values(), 1.2)),
    (with_fixed(LevelledNoise(WhiteNoise()), {"a": 0.7}), (0.2, -1.0)),
]


@dataclass(frozen=True)
class Family:
    """Noise at φ (1, d), on pictures of some shape, in as many channels as it has spectra."""

    noise: NoiseModel
    phi: torch.Tensor
    shape: tuple[int, int] = SHAPE

    @property
    def channels(self):
        """Of noise with one spectrum there may be any number; there is one."""
        return getattr(self.noise, "spectra", 1)

    def on(self, shape):
        """The same on a picture of this shape, whose brightness rises along both sides."""
        if not isinstance(self.noise, StationaryNoise):
            return replace(self, shape=shape)
        rows, columns = (torch.linspace(0, 1, n).double() for n in shape)
        light = Light.of((0.7 * rows[:, None] ** 2 + 0.3 * columns)[None, None])
        return replace(self, noise=self.noise.lit(light), shape=shape)

    def rows(self, n):
        return self.phi.expand(n, -1)

    def draw(self, n, seed, channels=None):
        rng = Streams.batch(seed, n)
        return self.noise.draw(self.shape, self.phi, rng, channels or self.channels)

    @property
    def covariance(self):
        return self.noise.covariance(self.shape, self.phi)

    @property
    def g(self):
        """The level map, (1, 1, H, W)."""
        found = getattr(self.covariance, "level_map", None)
        return torch.ones(1, 1, *self.shape).double() if found is None else found.g

    def dense(self, channels=None):
        """Σ_φ = g Fᵀ diag(N) F g as a matrix (C H W, C H W), with F in opponent colours."""
        covariance, channels = self.covariance, channels or self.channels
        size = channels * self.shape[0] * self.shape[1]
        if isinstance(covariance, PixelCovariance):
            return torch.diag(covariance.variance.expand(1, channels, -1, -1).flatten())
        colours = OPPONENT if channels == 3 else torch.eye(channels).double()
        unit = torch.eye(size).double().reshape(size, channels, *self.shape)
        modes = torch.fft.rfft2(torch.einsum("ij,bjhw->bihw", colours, self.g * unit))
        spread = torch.fft.irfft2(modes * covariance.power, s=self.shape)
        return (self.g * torch.einsum("ji,bjhw->bihw", colours, spread)).reshape(size, size)


EVERY = [
    Family(noise, torch.tensor([list(phi)], dtype=torch.float64)).on(SHAPE)
    for noise, phi in FAMILIES
]
IDS = [f"{i}-{family.noise}" for i, family in enumerate(EVERY)]
STATIONARY = [i for i, family in enumerate(EVERY) if isinstance(family.noise, StationaryNoise)]


@pytest.fixture(params=EVERY, ids=IDS)
def family(request):
    """Each family in turn."""
    return request.param


@pytest.fixture(params=[EVERY[i] for i in STATIONARY], ids=[IDS[i] for i in STATIONARY])
def stationary(request):
    """Each family with a spectrum in turn."""
    return request.param


@pytest.fixture
def anisotropic():
    """The family whose spectrum depends on direction, and its log-power."""
    return EVERY[5], tilted
