"""The denoiser that a network makes: spectral preconditioning, eq. (4)."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from gibbsdiff.diffusion.calibration import Calibration, between
from gibbsdiff.diffusion.denoiser import Denoiser, Estimate, NoiseError, dtype_of
from gibbsdiff.diffusion.error_model import NetworkError, by_heads, calibration_for_one
from gibbsdiff.diffusion.signal import Signal, Wiener, wiener
from gibbsdiff.diffusion.tweedie import derivative, own_factor
from gibbsdiff.errors import InputError
from gibbsdiff.fourier import Shape, filtered, from_opponent, half_plane, to_opponent
from gibbsdiff.identity import digest_of
from gibbsdiff.networks.precision import Precision, products
from gibbsdiff.networks.tiled import Tiled
from gibbsdiff.networks.unet import Heads, UNet
from gibbsdiff.noise.covariance import NoiseCovariance, SpectralCovariance

#: Scale in pixels above which a network for cameras' pictures corrects nothing.
LARGEST = 32.0


class Evaluation(NamedTuple):
    """D by the network alone, its heads, and the Wiener filter that they correct, eq. (4)."""

    mean: Tensor
    heads: Heads
    wiener: Wiener


class SpectralDenoiser(nn.Module, Denoiser):
    """The Wiener estimate plus a network's correction of unit variance in every mode, eq. (4):

    D = m + skip ∗ (z-m) + √V ∗ F_θ(3·skip ∗ (z-m), T^(-½) ∗ (z-m); descriptor)

    Arguments:
        network: F_θ.
        signal: m and S_x.
        calibration: Corrections of mean and error, measured on held-out images.
        tile: F_θ takes large images in pieces of at most tile² pixels; filters stay global.
        probe: The seed of a probe by which the error has the power of ∂D/∂z, eq. (13); None
            leaves the error to heads and calibration.
        precision: What F_θ's products are made in; filters, and F_θ of a derivative, stay in
            float32.
    """

    error_model = differentiable = adaptable = turnable = True

    def __init__(
        self,
        network: UNet,
        signal: Signal,
        calibration: Calibration | None = None,
        *,
        tile: int | None = None,
        probe: int | None = None,
        precision: Precision = "float32",
    ) -> None:
        super().__init__()
        self.network = network
        self.signal = signal
        self.calibration = calibration
        self.tile = tile
        self.probe = probe
        self.precision = precision
        self.channels = network.channels
        self.camera = network.told > 1 and network.level_plane
        self._adapted_from: str | None = None

    @property
    def scatter(self) -> Tensor | None:  # type: ignore[override]
        """The calibration's, eq. (12)."""
        return None if self.calibration is None else self.calibration.scatter

    def noise_error(self, *, weighted: bool = False, camera: bool = False) -> NoiseError | None:
        """The calibration's; where it was not measured with weights, that without them, and where
        it was not measured on camera noise, that of power laws.
        """
        return None if self.calibration is None else self.calibration.noise_error(weighted, camera)

    @property
    def dtype(self) -> torch.dtype | None:  # type: ignore[override]
        """That of the weights."""
        return dtype_of(self.network)

    def with_derivative_error(self, seed: int = 0) -> SpectralDenoiser:
        """The same denoiser, its error's power by ∂D/∂z: a call costs two."""
        return self._with(probe=seed)

    def tiled(self, tile: int = 1024) -> SpectralDenoiser:
        """The same denoiser, by the same weights, in the memory of one tile: `Tiled`."""
        return self._with(tile=tile)

    def with_precision(self, wanted: Precision) -> SpectralDenoiser:
        """The same denoiser, by the same weights, F_θ's products made in `wanted`."""
        return self if wanted == self.precision else self._with(precision=wanted)

    def adapted(self, z: Tensor, noise: NoiseCovariance) -> SpectralDenoiser:
        """The same denoiser with c of eq. (7) for one image z (1, C, H, W), by ∂D/∂z, at every
        level of the noise.
        """
        with torch.no_grad():
            _, _, log_c = self._by_derivative(z, _spectral(noise), self.probe or 0)
        found = self._with(calibration=calibration_for_one(self.calibration, log_c[0]), probe=None)
        found._adapted_from = self.digest()
        return found

    def digest(self) -> str | None:
        """Of weights, signal, calibration and probe; tiles and precision change rounding alone.

        An adapted denoiser is named by what it was made from: c follows from the image up to
        rounding, which differs from machine to machine.
        """
        if self._adapted_from is not None:
            return digest_of(self._adapted_from, "adapted", self.probe)
        F = self.network
        return digest_of(F.state_dict(), F.padding, self.signal, self.calibration, self.probe)

    def __call__(self, z: Tensor, noise: NoiseCovariance) -> Estimate:
        """D and its error model."""
        found: Estimate = super().__call__(z, noise)
        return found

    def forward(self, z: Tensor, noise: NoiseCovariance) -> Estimate:
        """D and its error model."""
        spectral = _spectral(noise)
        if self.probe is None:
            return Estimate(*self._by_heads(z, spectral))
        mean, error, log_c = self._by_derivative(z, spectral, self.probe)
        return Estimate(mean, error.times(log_c))

    def evaluate(self, z: Tensor, noise: SpectralCovariance) -> Evaluation:
        """The network's own D, without calibration, and its heads."""
        descriptor, m = self._told(noise), self.signal.mean
        w = wiener(self._signal(z), noise.power)
        opponent = torch.fft.rfft2(to_opponent(z - m))
        linear = torch.fft.irfft2(opponent * w.skip, s=noise.shape)
        whitened = torch.fft.irfft2(opponent * w.whiten, s=noise.shape)
        planes = torch.cat([3 * linear, whitened, *self._level_plane(z, noise)], 1)
        del opponent, whitened  # room for the network, which counts from ten megapixels on
        network = self.network if self.tile is None else Tiled(self.network, self.tile)
        with products(self.precision, z.device.type):
            heads = network(planes, descriptor)
        del planes
        heads = Heads(*(part.to(z.dtype) for part in heads))
        correction = filtered(heads.correction, w.V.sqrt() * self._corrected(noise.shape).to(z))
        mean = m + from_opponent(linear + correction)
        return Evaluation(mean, heads, w)

    def _by_heads(self, z: Tensor, noise: SpectralCovariance) -> tuple[Tensor, NetworkError]:
        """D, and the error by heads and calibration."""
        mean, heads, w = self.evaluate(z, noise)
        table = self.calibration
        if table is None:
            return mean, by_heads(heads, w.V, None)
        place = (noise.power, self._signal(z), noise.shape)
        error = by_heads(heads, w.V, table.factor(*place))
        if table.gain is not None:
            gain = between(table.gain, *place)
            mean = mean + from_opponent(filtered(to_opponent(z - mean), gain))
        return mean, error

    def _by_derivative(
        self, z: Tensor, noise: SpectralCovariance, seed: int
    ) -> tuple[Tensor, NetworkError, Tensor]:
        """D, the error by heads, and log c by which ∂D/∂z corrects it: (B, C, 8)."""
        exact, held = self.with_precision("float32"), noise.held(z)
        mean, error = exact._by_heads(z, noise)
        J = derivative(lambda at: exact._by_heads(at, held)[0], mean, z, noise, seed)
        return mean, error, own_factor(error.spectrum() / noise.power, J, noise)

    def _told(self, noise: SpectralCovariance) -> Tensor:
        """The descriptor in as many rows as the network takes, (B, told, 8)."""
        if noise.descriptor is None:
            raise InputError("this network needs the noise's descriptor, eq. (5)")
        rows, told = noise.descriptor, self.network.told
        if told < rows.shape[1] and not torch.equal(rows, rows[:, :1].expand_as(rows)):
            raise InputError("this network was trained on noise that is equal in all channels")
        return rows[:, :1] if told == 1 else rows.expand(-1, told, -1)

    def _corrected(self, shape: Shape) -> Tensor:
        """1 - exp(-(2π|k|s)²/2), s = `LARGEST`: how much of its correction F_θ makes in each mode.

        Means over hundreds of pixels hardly have noise, and the Wiener filter knows that. A network
        that is wrong by a twentieth of the noise's sd in all pixels of a picture, as in dark ones
        of real cameras, is wrong there by many.
        """
        if not self.camera:
            return torch.ones(())
        k = half_plane(shape).k.reshape(shape[0], -1)
        return -torch.expm1(-0.5 * (2 * torch.pi * LARGEST * k).square())

    def _level_plane(self, z: Tensor, noise: SpectralCovariance) -> tuple[Tensor, ...]:
        """log g, eq. (15), for a network that takes it."""
        if not self.network.level_plane:
            if noise.level_map is not None:
                raise InputError("this network was trained on noise of one level in all places")
            return ()
        if noise.level_map is None:
            return (torch.zeros_like(z[:, :1]),)
        return (noise.level_map.shown(z).to(z),)

    def _signal(self, z: Tensor) -> Tensor:
        return self.signal.power((z.shape[-2], z.shape[-1])).to(z)

    def _with(self, **changed: Any) -> SpectralDenoiser:
        own: dict[str, Any] = {"calibration": self.calibration, "tile": self.tile}
        own |= {"probe": self.probe, "precision": self.precision}
        made = SpectralDenoiser(self.network, self.signal, **(own | changed))
        made._adapted_from, made.pictures = self._adapted_from, self.pictures
        return made


def _spectral(noise: NoiseCovariance) -> SpectralCovariance:
    if not isinstance(noise, SpectralCovariance):
        words = f"this network needs stationary noise, not {type(noise).__name__}"
        raise InputError(f"{words}; a level map says where it is how strong")
    return noise
