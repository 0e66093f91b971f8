"""The one place where tensors change their device and their floating-point type."""

from __future__ import annotations

from copy import deepcopy
from itertools import chain
from typing import Any, get_args

import torch
from torch import Tensor, nn

from gibbsdiff.diffusion.denoiser import Denoiser, Estimate, NoiseError, as_denoiser
from gibbsdiff.errors import InputError
from gibbsdiff.networks.precision import Precision
from gibbsdiff.noise.covariance import Covariance, NoiseCovariance
from gibbsdiff.noise.level import LevelMap

#: Numbers of a batch whose estimate is remembered.
REMEMBERED = 3 * 2**20


def on_device(
    denoiser: Denoiser,
    device: torch.device | str,
    dtype: torch.dtype | None = None,
    precision: Precision | None = None,
) -> Denoiser:
    """The same denoiser, computed on a device, for callers on the CPU in any precision.

    z and the noise's covariance go to the device in the type that the denoiser computes in, or in
    `dtype`; mean and error come back to the CPU in the type of z. Weights are copied to the
    device once, here, and the denoiser given stays as it is. Randomness stays on the CPU.
    `precision` is that of products within its network, `Denoiser.with_precision`; None leaves it.
    """
    denoiser, place = _in_precision(as_denoiser(denoiser), precision), _checked(device)
    inner = _moved(denoiser, place, dtype)
    computes_in = dtype or inner.dtype
    if place.type == "cpu" and computes_in is None:
        return denoiser
    return _OnDevice(inner, place, computes_in)


class _OnDevice(Denoiser):
    """A denoiser that computes on a device, for callers on the CPU.

    It remembers its last two estimates of pictures that are not large: a search ends where weights
    are made, and where the check looks, and a derivative has a call of its own in between.
    """

    def __init__(self, inner: Denoiser, device: torch.device, dtype: torch.dtype | None) -> None:
        self.inner, self.device, self.dtype = inner, device, dtype
        self.channels, self.error_model = inner.channels, inner.error_model
        self.exact, self.differentiable = inner.exact, inner.differentiable
        self.adaptable, self.scatter = inner.adaptable, inner.scatter
        self.process, self.camera, self.pictures = inner.process, inner.camera, inner.pictures
        self.precision, self.turnable = inner.precision, inner.turnable
        self._last: list[tuple[tuple[Tensor, NoiseCovariance], Estimate]] = []

    def __call__(self, z: Tensor, noise: NoiseCovariance) -> Estimate:
        """D on the device, its result brought back to the CPU."""
        for (z_then, noise_then), found in self._last:
            if same(z, z_then) and same(noise, noise_then):
                return found
        mean, error = self.inner(*self._there(z, noise))
        back = None if error is None else error.to("cpu", z.dtype)
        found = Estimate(mean.to("cpu", z.dtype), back)
        if z.numel() <= REMEMBERED and not z.requires_grad and not torch.is_grad_enabled():
            self._last = [*self._last[-1:], ((z, noise), found)]
        return found

    def with_derivative_error(self, seed: int = 0) -> Denoiser:
        """The inner denoiser's, on the same device."""
        return self._same(self.inner.with_derivative_error(seed))

    def noise_error(self, *, weighted: bool = False, camera: bool = False) -> NoiseError | None:
        """The inner denoiser's."""
        return self.inner.noise_error(weighted=weighted, camera=camera)

    def adapted(self, z: Tensor, noise: NoiseCovariance) -> Denoiser:
        """The inner denoiser's, on the same device."""
        return self._same(self.inner.adapted(*self._there(z, noise)))

    def tiled(self, tile: int) -> Denoiser:
        """The inner denoiser's, on the same device."""
        return self._same(self.inner.tiled(tile))

    def with_precision(self, wanted: Precision) -> Denoiser:
        """The inner denoiser's, on the same device."""
        return self._same(self.inner.with_precision(wanted))

    def digest(self) -> str | None:
        """The inner denoiser's: a device changes rounding alone."""
        return self.inner.digest()

    def _there(self, z: Tensor, noise: NoiseCovariance) -> tuple[Tensor, NoiseCovariance]:
        dtype = self.dtype or z.dtype
        return z.to(self.device, dtype), noise.to(self.device, dtype)

    def _same(self, inner: Denoiser) -> Denoiser:
        return self if inner is self.inner else _OnDevice(inner, self.device, self.dtype)


def same(one: Any, other: Any) -> bool:
    """Whether two inputs hold the same numbers."""
    if isinstance(one, Tensor) and isinstance(other, Tensor):
        return one is other or (one.dtype == other.dtype and torch.equal(one, other))
    if type(one) is not type(other):
        return False
    if isinstance(one, Covariance | LevelMap):
        mine, others = vars(one), vars(other)
        return all(same(value, others[name]) for name, value in mine.items())
    return bool(one == other)


def _in_precision(denoiser: Denoiser, wanted: Precision | None) -> Denoiser:
    """The denoiser with its network's products in the precision that is wanted."""
    if wanted is None:
        return denoiser
    if wanted not in get_args(Precision):
        there = ", ".join(get_args(Precision))
        raise InputError(f"precision {wanted!r}: there are {there}")
    found = denoiser.with_precision(wanted)
    if wanted == "bfloat16" and found.precision != wanted:
        raise InputError("precision: this denoiser computes in its own type, not in bfloat16")
    return found


def _moved(denoiser: Denoiser, device: torch.device, dtype: torch.dtype | None) -> Denoiser:
    """A copy of the denoiser with its weights where they are needed, if they are not there."""
    if not isinstance(denoiser, nn.Module):
        return denoiser
    weights = chain(denoiser.parameters(), denoiser.buffers())
    if all(w.device == device and _fits(w, dtype) for w in weights):
        return denoiser
    return deepcopy(denoiser).to(device=device, dtype=dtype)


def _fits(weight: Tensor, dtype: torch.dtype | None) -> bool:
    return dtype is None or not weight.is_floating_point() or weight.dtype == dtype


def _checked(device: torch.device | str) -> torch.device:
    try:
        return torch.empty(0, device=device).device
    except (RuntimeError, AssertionError) as trouble:
        reason = " ".join(str(trouble).splitlines()[0].split())
        raise InputError(f"device {str(device)!r}: not available ({reason})") from None
