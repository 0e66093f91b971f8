"""Blind denoising with Gibbs diffusion: the clean signal and the noise, both as a posterior.

The public names below are loaded when first used, so that `import gibbsdiff` is light.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from gibbsdiff.diffusion.analytic import GaussianDenoiser as GaussianDenoiser
    from gibbsdiff.diffusion.analytic import MixtureDenoiser as MixtureDenoiser
    from gibbsdiff.diffusion.solvers import ddpm as ddpm
    from gibbsdiff.diffusion.solvers import few_step as few_step
    from gibbsdiff.errors import InputError as InputError
    from gibbsdiff.inference.denoise import denoise as denoise
    from gibbsdiff.inference.posterior import Posterior as Posterior
    from gibbsdiff.noise import BandedNoise as BandedNoise
    from gibbsdiff.noise import PixelNoise as PixelNoise
    from gibbsdiff.noise import PowerLawNoise as PowerLawNoise
    from gibbsdiff.noise import SpectralNoise as SpectralNoise
    from gibbsdiff.noise import WhiteNoise as WhiteNoise
    from gibbsdiff.pretrained import load_model as load_model
    from gibbsdiff.streams import Streams as Streams

_HOME = {
    "BandedNoise": "noise",
    "GaussianDenoiser": "diffusion.analytic",
    "InputError": "errors",
    "MixtureDenoiser": "diffusion.analytic",
    "PixelNoise": "noise",
    "Posterior": "inference.posterior",
    "PowerLawNoise": "noise",
    "SpectralNoise": "noise",
    "Streams": "streams",
    "WhiteNoise": "noise",
    "ddpm": "diffusion.solvers",
    "denoise": "inference.denoise",
    "few_step": "diffusion.solvers",
    "load_model": "pretrained",
}

__all__ = ["__version__", *_HOME]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'gibbsdiff' has no attribute {name!r}")
    return getattr(import_module(f"gibbsdiff.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
