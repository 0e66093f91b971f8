"""The denoiser's interface: one call for two moments of x | z, eq. (3), and what else a denoiser
may be able to do.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from gibbsdiff.diffusion.process import Process
from gibbsdiff.errors import InputError
from gibbsdiff.identity import digest_of
from gibbsdiff.networks.precision import Precision
from gibbsdiff.noise.covariance import Covariance, NoiseCovariance


class Estimate(NamedTuple):
    """D(z, N) ≈ E[x | z], and the covariance E_t of x - D given z; None if it is not modelled."""

    mean: Tensor
    error: Covariance | None = None


class NoiseError(NamedTuple):
    """Median (8 C,) over images of ρ in N̂/N - 1 = ρ q, eq. (12), and E[ρ ρᵀ] around it
    (8 C, 8 C), at the reference frequencies, channels outermost.
    """

    bias: Tensor
    scatter: Tensor


class Denoiser(ABC):
    """E[x | z] for a batch z: the one method that a denoiser must have is the call.

    The rest is optional: the defaults are those of a denoiser that can do nothing else.

    >>> class Half(Denoiser):
    ...     channels = 1
    ...     def __call__(self, z, noise):
    ...         return Estimate(z / 2)
    """

    channels: int | None = None
    """Channels of the images that it takes; None: any number."""
    error_model: bool = False
    """Whether `Estimate.error` is a model of x - D, with a spectrum and a pixel variance
    wherever the noise is stationary."""
    exact: bool = False
    """Whether that error is Cov[x | z] itself, not a model of it."""
    differentiable: bool = False
    """Whether D is smooth in z, so that its differences are the derivative of eq. (13)."""
    adaptable: bool = False
    """Whether `adapted` corrects the error model for one image."""
    camera: bool = False
    """Whether it knows noise like that of cameras: spectra by channel, and level maps."""
    pictures: bool = False
    """Whether it was loaded as a model of pictures on [0, 1]."""
    scatter: Tensor | None = None
    """Cov ρ of eq. (12), (8 C, 8 C), channels outermost; None: its error model is exact."""
    dtype: torch.dtype | None = None
    """The floating-point type that it computes in; None: that of z."""
    process: Process | None = None
    """The process that it was trained on, whose highest level is also its own; None: any level."""
    precision: Precision = "float32"
    """What a network's products are made in; only one that has `with_precision` has another."""
    turnable: bool = False
    """Whether D of a turned picture, turned back, is as good as D: what it was taught has all
    symmetries of the square, and its error can be turned."""

    @abstractmethod
    def __call__(self, z: Tensor, noise: NoiseCovariance) -> Estimate:
        """E[x | x + N(0, Σ) = z] for a batch z (B, C, H, W), with its error covariance."""

    def with_derivative_error(self, seed: int = 0) -> Denoiser:
        """The same denoiser with its error by ∂D/∂z, eq. (13), where it is not exact already.

        The seed is that of the random phases of the probe.
        """
        return self

    def noise_error(self, *, weighted: bool = False, camera: bool = False) -> NoiseError | None:
        """What the noise that it leaves is off by, eq. (12); `weighted`: in the places where it is
        sure, eq. (14); `camera`: of noise with a spectrum for each channel or a level map, eq.
        (15). None: nothing is known, or nothing is wrong.
        """
        scatter = self.scatter
        return None if scatter is None else NoiseError(scatter.new_zeros(len(scatter)), scatter)

    def adapted(self, z: Tensor, noise: NoiseCovariance) -> Denoiser:
        """The same denoiser, its error model corrected for the one image z (1, C, H, W)."""
        return self

    def tiled(self, tile: int) -> Denoiser:
        """The same denoiser in less memory: it sees at most about tile² pixels at once."""
        return self

    def with_precision(self, wanted: Precision) -> Denoiser:
        """The same denoiser, by the same weights, its network's products made in `wanted`, if it
        can do that. A derivative is always that of `with_precision("float32")`: rounding by 2⁻⁸ is
        little beside D, and as much as a small change of it.
        """
        return self

    def digest(self) -> str | None:
        """A name that changes with whatever changes the results, weights and calibration among
        them; None if there is none. Only a denoiser with a digest can resume a checkpoint.
        """
        return None


def as_denoiser(thing: Any) -> Denoiser:
    """A `Denoiser` as it is, or a callable (z, noise) -> Estimate or Tensor made into one.

    Attributes of the callable that have the names of a denoiser's are kept: `f.channels = 1`,
    `f.digest = "v1"`. A network (`nn.Module`) computes in the type of its weights.
    """
    if isinstance(thing, Denoiser):
        return thing
    if not callable(thing):
        raise InputError(f"denoiser: a callable (z, noise) is needed, not a {type(thing).__name__}")
    return _FromCallable(thing)


class _FromCallable(nn.Module, Denoiser):
    """A callable with the interface of a denoiser. A module, so that weights in it are found."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function
        kept = (
            "channels",
            "error_model",
            "exact",
            "differentiable",
            "adaptable",
            "camera",
            "pictures",
            "process",
            "precision",
            "turnable",
        )
        for name in (*kept, "scatter"):
            if hasattr(function, name):
                setattr(self, name, getattr(function, name))

    @property
    def dtype(self) -> torch.dtype | None:  # type: ignore[override]
        """That of the weights if there are any, else the callable's."""
        return dtype_of(self) or getattr(self.function, "dtype", None)

    def __call__(self, z: Tensor, noise: NoiseCovariance) -> Estimate:
        """What the callable returns; a tensor is the mean alone."""
        found = self.function(z, noise)
        if isinstance(found, Tensor):
            return Estimate(found)
        if not isinstance(found, Estimate):
            kind = type(found).__name__
            raise InputError(f"denoiser: it must return an Estimate or a Tensor, not a {kind}")
        return found

    def with_derivative_error(self, seed: int = 0) -> Denoiser:
        """The callable's, if it has one."""
        return self._changed("with_derivative_error", seed)

    def noise_error(self, *, weighted: bool = False, camera: bool = False) -> NoiseError | None:
        """The callable's, if it has one."""
        own = getattr(self.function, "noise_error", None)
        if own is None:
            return super().noise_error(weighted=weighted, camera=camera)
        found: NoiseError | None = own(weighted=weighted, camera=camera)
        return found

    def adapted(self, z: Tensor, noise: NoiseCovariance) -> Denoiser:
        """The callable's, if it has one."""
        return self._changed("adapted", z, noise)

    def tiled(self, tile: int) -> Denoiser:
        """The callable's, if it has one."""
        return self._changed("tiled", tile)

    def with_precision(self, wanted: Precision) -> Denoiser:
        """The callable's, if it has one."""
        return self._changed("with_precision", wanted)

    def digest(self) -> str | None:
        """The callable's, a text or a method, if it has one."""
        own = getattr(self.function, "digest", None)
        found: str | None = own() if callable(own) else own
        return found

    def _changed(self, name: str, *arguments: Any) -> Denoiser:
        own = getattr(self.function, name, None)
        return self if own is None else as_denoiser(own(*arguments))


def without_error(denoiser: Denoiser) -> Denoiser:
    """D alone, as the paper has it: the same denoiser without its model of x - D, E = 0."""
    own = as_denoiser(denoiser)
    return own if isinstance(own, _WithoutError) else _WithoutError(own)


class _WithoutError(nn.Module, Denoiser):
    """A denoiser whose error is not used. A module, so that weights in it are found."""

    def __init__(self, inner: Denoiser) -> None:
        super().__init__()
        self.inner = inner
        self.channels, self.process = inner.channels, inner.process
        self.precision, self.turnable = inner.precision, inner.turnable
        self.pictures = inner.pictures

    @property
    def dtype(self) -> torch.dtype | None:  # type: ignore[override]
        """The inner denoiser's."""
        return self.inner.dtype

    def __call__(self, z: Tensor, noise: NoiseCovariance) -> Estimate:
        """D, and no error."""
        return Estimate(self.inner(z, noise).mean)

    def tiled(self, tile: int) -> Denoiser:
        """The inner denoiser's, without its error."""
        inner = self.inner.tiled(tile)
        return self if inner is self.inner else _WithoutError(inner)

    def with_precision(self, wanted: Precision) -> Denoiser:
        """The inner denoiser's, without its error."""
        inner = self.inner.with_precision(wanted)
        return self if inner is self.inner else _WithoutError(inner)

    def digest(self) -> str | None:
        """The inner denoiser's, marked."""
        own = self.inner.digest()
        return own and digest_of("without error", own)


def dtype_of(module: nn.Module) -> torch.dtype | None:
    """The floating-point type of a module's weights; None if it has none."""
    return next((p.dtype for p in module.parameters() if p.is_floating_point()), None)
