"""The truth by NumPy alone, so that no mistake of the package can be on both sides of a test."""

from types import SimpleNamespace

import numpy as np
import pytest

import gibbsdiff
from gibbsdiff import GaussianDenoiser, PowerLawSignal

AMPLITUDE, SLOPE, MEAN = 2e-3, 2.0, 0.4


def frequencies(shape):
    """|k| of every mode of the plane, in cycles per pixel."""
    return np.hypot(*np.meshgrid(*map(np.fft.fftfreq, shape), indexing="ij"))


def noise_spectrum(shape, sigma, phi):
    """N(k) = σ² |k|^φ / mean(|k|^φ), with |k|^φ := 1 at k = 0, on the whole plane."""
    k = frequencies(shape)
    power = np.where(k > 0, np.where(k > 0, k, 1.0) ** phi, 1.0)
    return sigma**2 * power / power.mean()


def signal_spectrum(shape):
    """S_x(k) of `GAUSSIAN`; k = 0 takes |k| = 0.5/max(H, W)."""
    k = frequencies(shape)
    return AMPLITUDE * np.where(k > 0, k, 0.5 / max(shape)) ** -SLOPE


def field(spectrum, seed, channels=1):
    """A stationary Gaussian field (C, H, W) with this spectrum."""
    white = np.random.default_rng(seed).standard_normal((channels, *spectrum.shape))
    return np.fft.ifft2(np.fft.fft2(white) * np.sqrt(spectrum)).real


def coloured(shape, sigma, phi, seed, channels=1, cut=False):
    """Power-law noise (C, H, W); `cut` from a plane twice as large, as a camera's would be."""
    if not cut:
        return field(noise_spectrum(shape, sigma, phi), seed, channels)
    large = field(noise_spectrum((2 * shape[0], 2 * shape[1]), sigma, phi), seed, channels)
    return large[:, : shape[0], : shape[1]]


def observe(shape, sigma, phi, seed=0, channels=1):
    """x and y (C, H, W): a signal of `GAUSSIAN`, and the same under power-law noise."""
    x = MEAN + field(signal_spectrum(shape), (seed, 0), channels)
    return x, x + coloured(shape, sigma, phi, (seed, 1), channels)


def wiener(y, sigma, phi):
    """E[x | y, φ] (C, H, W) and the sd of a pixel around it."""
    S, N = signal_spectrum(y.shape[-2:]), noise_spectrum(y.shape[-2:], sigma, phi)
    mean = MEAN + np.fft.ifft2(np.fft.fft2(y - MEAN) * S / (S + N)).real
    return mean, np.sqrt((S * N / (S + N)).mean())


def power_law_posterior(y, sigma=(0.01, 1.0), phi=(-1.0, 1.0), points=48):
    """Mean and covariance of (σ, φ) | y, eq. (10), and mean and sd of x | y (C, H, W), by a grid
    that is narrowed to ± 6 sd. A range of no width fixes the parameter.
    """
    k, group, count = np.unique(
        np.round(frequencies(y.shape[-2:]), 12).ravel(), return_inverse=True, return_counts=True
    )
    P = np.abs(np.fft.fft2(y - MEAN)) ** 2 / y[0].size
    P = np.bincount(group.ravel(), P.sum(0).ravel())
    S = np.bincount(group.ravel(), signal_spectrum(y.shape[-2:]).ravel()) / count
    box = np.array([sigma, phi])
    low, high = box.T
    for _ in range(4):  # a coarse grid may see all in one point: the next is a step wider
        axes = [np.linspace(a, b, points if b > a else 1) for a, b in zip(low, high, strict=True)]
        at = np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, 2)
        shape = np.where(k > 0, np.where(k > 0, k, 1.0) ** at[:, 1:], 1.0)
        N = at[:, :1] ** 2 * shape / ((shape * count).sum(1, keepdims=True) / count.sum())
        log_p = -0.5 * (len(y) * count * np.log(S + N) + P / (S + N)).sum(1)
        p = np.exp(log_p - log_p.max())
        p /= p.sum()
        mean = p @ at
        cov = np.einsum("g,gi,gj->ij", p, at - mean, at - mean)
        reach = 6 * np.sqrt(cov.diagonal()) + (high - low) / points
        low, high = np.maximum(mean - reach, box[:, 0]), np.minimum(mean + reach, box[:, 1])
    first, second = 0.0, 0.0
    for weight, phi_ in zip(p, at, strict=True):
        if weight > 1e-7:
            centre, sd = wiener(y, *phi_)
            first, second = first + weight * centre, second + weight * (centre**2 + sd**2)
    return SimpleNamespace(
        mean=mean, cov=cov, sd=np.sqrt(cov.diagonal()), x=first, x_sd=np.sqrt(second - first**2)
    )


@pytest.fixture(scope="session")
def truth():
    """The functions above, and the package's own denoiser of the same signal as `GAUSSIAN`."""
    return SimpleNamespace(
        GAUSSIAN=GaussianDenoiser(PowerLawSignal((AMPLITUDE,), (SLOPE,), MEAN)),
        noise_spectrum=noise_spectrum,
        signal_spectrum=signal_spectrum,
        field=field,
        coloured=coloured,
        observe=observe,
        wiener=wiener,
        posterior=power_law_posterior,
    )


@pytest.fixture(scope="session")
def natural():
    return gibbsdiff.load_model("natural")


@pytest.fixture(scope="session")
def fast():
    """A calibrated network for tests of the code, not of the default weights."""
    return gibbsdiff.load_model("natural-fast")
