"""Blind denoising with Gibbs diffusion: the clean signal and the noise, both as a posterior.

The public names below are loaded when first used, so that `import gibbsdiff` is light.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"

if TYPE_CHECKING:
    from gibbsdiff.diffusion.analytic import GaussianDenoiser as GaussianDenoiser
    from gibbsdiff.diffusion.analytic import MixtureDenoiser as MixtureDenoiser
    from gibbsdiff.diffusion.denoiser import Denoiser as Denoiser
    from gibbsdiff.diffusion.denoiser import Estimate as Estimate
    from gibbsdiff.diffusion.process import DiscreteVariancePreserving as DiscreteVariancePreserving
    from gibbsdiff.diffusion.process import VariancePreserving as VariancePreserving
    from gibbsdiff.diffusion.signal import PowerLawSignal as PowerLawSignal
    from gibbsdiff.diffusion.solvers import ddpm as ddpm
    from gibbsdiff.diffusion.solvers import few_step as few_step
    from gibbsdiff.ecosystem.restore import restore as restore
    from gibbsdiff.errors import InputError as InputError
    from gibbsdiff.inference.denoise import denoise as denoise
    from gibbsdiff.inference.files import denoise_file as denoise_file
    from gibbsdiff.inference.gibbs import Settings as Settings
    from gibbsdiff.inference.gibbs import gibbs as gibbs
    from gibbsdiff.inference.marginal import Marginal as Marginal
    from gibbsdiff.inference.model_check import ModelCheck as ModelCheck
    from gibbsdiff.inference.observation import ObservationModel as ObservationModel
    from gibbsdiff.inference.phi_steps import conjugate_amplitude as conjugate_amplitude
    from gibbsdiff.inference.pipeline import infer as infer
    from gibbsdiff.inference.posterior import Posterior as Posterior
    from gibbsdiff.inference.problem import Options as Options
    from gibbsdiff.inference.problem import Problem as Problem
    from gibbsdiff.inference.profile import NoiseProfile as NoiseProfile
    from gibbsdiff.inference.search import find_mode as find_mode
    from gibbsdiff.inference.series import Series as Series
    from gibbsdiff.inference.series import denoise_series as denoise_series
    from gibbsdiff.inference.stacks import denoise_stack as denoise_stack
    from gibbsdiff.metrics import psnr as psnr
    from gibbsdiff.metrics import ssim as ssim
    from gibbsdiff.noise import BandedNoise as BandedNoise
    from gibbsdiff.noise import CMBNoise as CMBNoise
    from gibbsdiff.noise import LevelledNoise as LevelledNoise
    from gibbsdiff.noise import Light as Light
    from gibbsdiff.noise import NoiseModel as NoiseModel
    from gibbsdiff.noise import Parameter as Parameter
    from gibbsdiff.noise import PhotoNoise as PhotoNoise
    from gibbsdiff.noise import PixelCovariance as PixelCovariance
    from gibbsdiff.noise import PixelNoise as PixelNoise
    from gibbsdiff.noise import PowerLawNoise as PowerLawNoise
    from gibbsdiff.noise import SmoothNoise as SmoothNoise
    from gibbsdiff.noise import SpectralCovariance as SpectralCovariance
    from gibbsdiff.noise import SpectralNoise as SpectralNoise
    from gibbsdiff.noise import StationaryNoise as StationaryNoise
    from gibbsdiff.noise import WhiteNoise as WhiteNoise
    from gibbsdiff.noise.priors import GaussianPrior as GaussianPrior
    from gibbsdiff.pretrained import load_model as load_model
    from gibbsdiff.streams import Streams as Streams

_HOME = {
    "BandedNoise": "noise",
    "CMBNoise": "noise",
    "Denoiser": "diffusion.denoiser",
    "DiscreteVariancePreserving": "diffusion.process",
    "Estimate": "diffusion.denoiser",
    "GaussianDenoiser": "diffusion.analytic",
    "GaussianPrior": "noise.priors",
    "InputError": "errors",
    "LevelledNoise": "noise",
    "Light": "noise",
    "Marginal": "inference.marginal",
    "MixtureDenoiser": "diffusion.analytic",
    "ModelCheck": "inference.model_check",
    "NoiseModel": "noise",
    "NoiseProfile": "inference.profile",
    "ObservationModel": "inference.observation",
    "Options": "inference.problem",
    "Parameter": "noise",
    "PhotoNoise": "noise",
    "PixelCovariance": "noise",
    "PixelNoise": "noise",
    "Posterior": "inference.posterior",
    "PowerLawNoise": "noise",
    "PowerLawSignal": "diffusion.signal",
    "Problem": "inference.problem",
    "Series": "inference.series",
    "Settings": "inference.gibbs",
    "SmoothNoise": "noise",
    "SpectralCovariance": "noise",
    "SpectralNoise": "noise",
    "StationaryNoise": "noise",
    "Streams": "streams",
    "VariancePreserving": "diffusion.process",
    "WhiteNoise": "noise",
    "conjugate_amplitude": "inference.phi_steps",
    "ddpm": "diffusion.solvers",
    "denoise": "inference.denoise",
    "denoise_file": "inference.files",
    "denoise_series": "inference.series",
    "denoise_stack": "inference.stacks",
    "few_step": "diffusion.solvers",
    "find_mode": "inference.search",
    "gibbs": "inference.gibbs",
    "infer": "inference.pipeline",
    "load_model": "pretrained",
    "psnr": "metrics",
    "restore": "ecosystem.restore",
    "ssim": "metrics",
}

__all__ = ["__version__", *_HOME]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'gibbsdiff' has no attribute {name!r}")
    return getattr(import_module(f"gibbsdiff.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
