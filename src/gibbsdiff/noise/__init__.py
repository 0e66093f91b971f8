"""What the noise may be."""

from gibbsdiff.noise.base import NoiseModel, Parameter
from gibbsdiff.noise.cmb import CMBNoise
from gibbsdiff.noise.covariance import (
    Covariance,
    NoiseCovariance,
    PixelCovariance,
    SpectralCovariance,
)
from gibbsdiff.noise.families import BandedNoise, PowerLawNoise, SpectralNoise, WhiteNoise
from gibbsdiff.noise.fixed import with_fixed
from gibbsdiff.noise.pixel import PixelNoise
from gibbsdiff.noise.stationary import StationaryNoise, Statistic

__all__ = [
    "BandedNoise",
    "CMBNoise",
    "Covariance",
    "NoiseCovariance",
    "NoiseModel",
    "Parameter",
    "PixelCovariance",
    "PixelNoise",
    "PowerLawNoise",
    "SpectralCovariance",
    "SpectralNoise",
    "StationaryNoise",
    "Statistic",
    "WhiteNoise",
    "with_fixed",
]
