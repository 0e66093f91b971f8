"""What the noise may be."""

from gibbsdiff.noise.base import NoiseModel
from gibbsdiff.noise.cmb import CMBNoise
from gibbsdiff.noise.covariance import (
    Covariance,
    NoiseCovariance,
    PixelCovariance,
    SpectralCovariance,
)
from gibbsdiff.noise.families import BandedNoise, PowerLawNoise, SpectralNoise, WhiteNoise
from gibbsdiff.noise.fixed import with_fixed
from gibbsdiff.noise.level import LevelMap, Light
from gibbsdiff.noise.levelled import LevelledNoise
from gibbsdiff.noise.parameter import Parameter
from gibbsdiff.noise.photo import PhotoNoise
from gibbsdiff.noise.pixel import PixelNoise
from gibbsdiff.noise.smooth import SmoothNoise
from gibbsdiff.noise.stationary import StationaryNoise, Statistic

__all__ = [
    "BandedNoise",
    "CMBNoise",
    "Covariance",
    "LevelMap",
    "LevelledNoise",
    "Light",
    "NoiseCovariance",
    "NoiseModel",
    "Parameter",
    "PhotoNoise",
    "PixelCovariance",
    "PixelNoise",
    "PowerLawNoise",
    "SmoothNoise",
    "SpectralCovariance",
    "SpectralNoise",
    "StationaryNoise",
    "Statistic",
    "WhiteNoise",
    "with_fixed",
]
