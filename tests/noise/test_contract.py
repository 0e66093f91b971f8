"""The laws of every noise family. A new family joins FAMILIES and earns them all."""

import math

import pytest
import torch
from scipy import stats
from torch.distributions import MultivariateNormal

from gibbsdiff.errors import InputError
from gibbsdiff.fourier import OPPONENT, REFERENCE, half_plane, power
from gibbsdiff.noise import (
    BandedNoise,
    CMBNoise,
    PixelNoise,
    PowerLawNoise,
    SpectralNoise,
    StationaryNoise,
    WhiteNoise,
    with_fixed,
)
from gibbsdiff.streams import Streams

SHAPE = (8, 6)


def tilted(kx, ky, sigma, stretch, angle):
    """Anisotropic, and not symmetric under ky -> -ky."""
    along = kx * torch.cos(angle) + ky * torch.sin(angle)
    return 2 * torch.log(sigma) - torch.log(1 + (stretch * along) ** 2)


def knee(kx, ky, sigma, knee):
    return 2 * torch.log(sigma) + torch.log(1 + knee**2 / (kx**2 + ky**2))


INTENSITY = torch.linspace(0.1, 2.0, 48).reshape(SHAPE).double()

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
]
IDS = [f"{i}-{noise}" for i, (noise, _) in enumerate(FAMILIES)]
every_family = pytest.mark.parametrize(("noise", "phi"), FAMILIES, ids=IDS)
every_stationary = pytest.mark.parametrize(
    ("noise", "phi"),
    [f for f in FAMILIES if isinstance(f[0], StationaryNoise)],
    ids=[i for i, f in zip(IDS, FAMILIES, strict=True) if isinstance(f[0], StationaryNoise)],
)


def as_phi(phi):
    return torch.tensor([phi], dtype=torch.float64)


def dense_covariance(noise, phi, shape=SHAPE):
    """Σ_φ as a matrix, from the family's own power or variance."""
    size = shape[0] * shape[1]
    if not isinstance(noise, StationaryNoise):
        return torch.diag(noise.covariance(shape, as_phi(phi)).variance.flatten())
    unit = torch.eye(size).double().reshape(size, 1, *shape)
    gain = noise.covariance(shape, as_phi(phi)).power
    spread = torch.fft.irfft2(torch.fft.rfft2(unit) * gain, s=shape)
    return spread.reshape(size, size)


@every_family
def test_draws_follow_their_spectrum(noise, phi):
    """In the eigenbasis of Σ_φ, n draws have power Σ c²/λ ~ χ²_n; the worst of 48 is bounded."""
    n = 4000
    eps = noise.draw(SHAPE, phi, Streams.batch(1, n)).reshape(n, -1)
    eigenvalues, basis = torch.linalg.eigh(dense_covariance(noise, phi))
    assert float(eigenvalues.min()) > 0
    worst = ((eps @ basis).square().sum(0) / eigenvalues).numpy()
    p = 2 * stats.chi2.sf(abs(worst - n) + n, n)  # two-sided, to the precision of n = 4000
    assert p.min() > 0.01 / len(p)


@every_stationary
@pytest.mark.parametrize("shape", [(16, 12), (9, 15)], ids=str)
def test_mode_powers_of_draws(noise, phi, shape):
    """The worst mode of a larger and an odd grid, in all three colours."""
    n = 500
    eps = noise.draw(shape, phi, Streams.batch(2, n), channels=3)
    N = noise.power(shape, as_phi(phi))
    ratio = (power(eps) / N).sum((0, 1)).flatten()
    # A mode that is its own conjugate is real: χ² with 3 n degrees of freedom; others have 6 n.
    k = half_plane(shape)
    own = ((2 * k.kx) % 1 == 0) & ((2 * k.ky) % 1 == 0)
    dof = torch.where(own, 3 * n, 6 * n).double()
    total = torch.where(own, ratio, 2 * ratio)
    p = torch.from_numpy(stats.chi2.cdf(total.numpy(), dof.numpy()))
    assert float(torch.minimum(p, 1 - p).min()) > 0.005 / len(p)


@every_family
def test_channels_are_independent(noise, phi):
    n = 3000
    eps = noise.draw(SHAPE, phi, Streams.batch(3, n), channels=3).flatten(2)
    sd = dense_covariance(noise, phi).diagonal().sqrt()
    cross = (eps[:, 0] * eps[:, 1] / sd**2).mean(0)
    assert float(cross.abs().max()) * math.sqrt(n) < 4.5


@every_family
@pytest.mark.parametrize("channels", [1, 3])
def test_likelihood_equals_the_dense_gaussian(noise, phi, channels):
    eps = noise.draw(SHAPE, phi, Streams.batch(4, 2), channels)
    dense = MultivariateNormal(torch.zeros(48).double(), dense_covariance(noise, phi))
    expected = dense.log_prob(eps.flatten(2)).sum(1)
    exact = {"exact": True} if isinstance(noise, StationaryNoise) else {}
    statistic = noise.statistic(eps, **exact)
    value = noise.log_likelihood(as_phi(phi).expand(2, -1), statistic)
    assert torch.allclose(value, expected, rtol=1e-10)


@every_family
def test_gradient_equals_finite_differences(noise, phi):
    statistic = noise.statistic(noise.draw(SHAPE, phi, Streams.batch(5, 1), 3))
    at = (0.9 * as_phi(phi) + 0.1 * (noise.low + noise.high) / 2).requires_grad_()
    (gradient,) = torch.autograd.grad(noise.log_posterior(statistic)(at).sum(), at)
    for i in range(at.shape[1]):
        h = torch.zeros_like(at)
        h[0, i] = 1e-5 * float(noise.high[i] - noise.low[i])
        f = [noise.log_likelihood(at.detach() + c * h, statistic) for c in (-2, -1, 1, 2)]
        slope = (f[0] - 8 * f[1] + 8 * f[2] - f[3]) / (12 * h[0, i])
        assert float(gradient[0, i]) == pytest.approx(float(slope), rel=1e-6, abs=1e-5)


@every_family
def test_prior_is_flat_inside_and_zero_outside(noise, phi):
    inside = noise.draw_prior(Streams.batch(6, 1000))
    assert torch.equal(noise.log_prior(inside), torch.zeros(1000).double())
    u = (inside - noise.low) / (noise.high - noise.low)
    for column in u.T:
        assert stats.kstest(column.numpy(), "uniform").pvalue > 0.01 / u.shape[1]
    outside = torch.stack([noise.low - 1e-9, noise.high + 1e-9])
    assert torch.equal(noise.log_prior(outside), torch.full((2,), -torch.inf).double())


@every_family
def test_a_row_does_not_depend_on_its_batch(noise, phi):
    batch = noise.draw(SHAPE, phi, Streams.batch(7, 3), 3)
    alone = noise.draw(SHAPE, phi, Streams(7, [(1,)]), 3)
    assert torch.allclose(batch[1:2], alone, atol=1e-14)


@every_stationary
@pytest.mark.parametrize("shape", [(192, 192), (24, 48)], ids=str)
def test_descriptor_is_the_log_amplitude_at_the_references(noise, phi, shape):
    """½ log N where the grid has the reference frequency; by definition of N elsewhere."""
    descriptor = noise.descriptor(shape, as_phi(phi))
    N = noise.power(shape, as_phi(phi))[0, 0]
    checked = 0
    for radius, value in zip(REFERENCE, descriptor[0, 0], strict=True):
        n = radius * shape[1]
        if abs(n - round(n)) > 1e-9 or radius > 0.5 or not noise.isotropic:
            continue
        # Normalising over bins instead of modes shifts the level by less than 1e-3.
        assert float(value) == pytest.approx(0.5 * math.log(float(N[0, round(n)])), abs=1e-3)
        checked += 1
    assert checked > 0 or not noise.isotropic


@every_stationary
def test_descriptor_moves_by_log_u_with_the_level(noise, phi):
    covariance = noise.covariance((24, 40), as_phi(phi))
    u = torch.tensor([0.37], dtype=torch.float64)
    lower = covariance.scaled(u)
    assert torch.allclose(lower.descriptor, covariance.descriptor + math.log(0.37))
    assert float(lower.level) == pytest.approx(0.37 * float(covariance.level), rel=1e-12)


def test_anisotropic_descriptor_is_the_mean_over_angles():
    noise, phi = FAMILIES[5]
    theta = torch.arange(2000, dtype=torch.float64) * math.pi / 2000
    for radius, value in zip(REFERENCE, noise.descriptor(SHAPE, as_phi(phi))[0, 0], strict=True):
        p = [torch.tensor(v, dtype=torch.float64) for v in phi]
        log_n = tilted(radius * torch.cos(theta), radius * torch.sin(theta), *p)
        assert float(value) == pytest.approx(float(log_n.mean()) / 2, abs=0.02)


@every_family
def test_level_is_the_pixel_standard_deviation(noise, phi):
    variance = dense_covariance(noise, phi).diagonal().mean()
    assert float(noise.covariance(SHAPE, as_phi(phi)).level ** 2) == pytest.approx(float(variance))


def test_opponent_rotation_leaves_noise_alone():
    """White noise of three channels is as iid in opponent colours as in RGB."""
    eps = WhiteNoise().draw(SHAPE, (0.3,), Streams.batch(8, 2000), 3)
    rotated = torch.einsum("ij,bjhw->bihw", OPPONENT, eps).transpose(0, 1).flatten(1)
    cov = rotated @ rotated.T / rotated.shape[1] / 0.09
    assert float((cov - torch.eye(3)).abs().max()) < 4.5 * math.sqrt(2 / rotated.shape[1])


@every_family
def test_spectrum_and_pixel_variance_are_diagonals_of_the_covariance(noise, phi):
    """Of Σ_φ in the Fourier basis, for noise with a spectrum, and in pixels."""
    covariance, dense = noise.covariance(SHAPE, as_phi(phi)), dense_covariance(noise, phi)
    pixels = covariance.pixel_variance()[0, 0]
    assert torch.allclose(pixels, dense.diagonal().reshape(SHAPE), rtol=1e-10)
    assert noise.stationary == isinstance(noise, StationaryNoise)
    if not noise.stationary:
        assert covariance.spectrum() is None
        return
    F = torch.fft.rfft2(torch.eye(48).double().reshape(48, *SHAPE), norm="ortho").flatten(1)
    modes = torch.einsum("ik,ij,jk->k", F.conj(), dense.to(F.dtype), F).real
    assert torch.allclose(covariance.spectrum()[0, 0].flatten(), modes, rtol=1e-9)


@every_family
def test_a_covariance_in_another_type_is_the_same(noise, phi):
    covariance = noise.covariance(SHAPE, as_phi(phi))
    single = covariance.to(dtype=torch.float32)
    for name, value in vars(covariance).items():
        other = getattr(single, name)
        if torch.is_tensor(value):
            assert other.dtype == torch.float32
            assert torch.equal(other, value.float())
        else:
            assert other == value
    assert covariance.pixel_variance().dtype == torch.float64
    assert covariance.to("meta").pixel_variance().device.type == "meta"


@every_family
def test_a_seed_is_one_stream_for_each_row(noise, phi):
    rows = [phi, phi]
    drawn = noise.draw(SHAPE, rows, channels=2, seed=3)
    assert torch.equal(drawn, noise.draw(SHAPE, rows, Streams.batch(3, 2), 2))
    assert not torch.equal(drawn, noise.draw(SHAPE, rows, channels=2, seed=4))


@pytest.mark.parametrize(("noise", "phi"), [f for f in FAMILIES if not f[0].stationary], ids=str)
@pytest.mark.parametrize("channels", [1, 3])
def test_missing_pixels_leave_the_likelihood_of_pixel_noise(noise, phi, channels):
    """The dense Gaussian of the observed pixels alone, whatever stands in the others."""
    observed = torch.rand(SHAPE, generator=torch.Generator().manual_seed(1)) > 0.4
    eps = noise.draw(SHAPE, phi, Streams.batch(4, 2), channels)
    inside = observed.flatten()
    dense = MultivariateNormal(
        torch.zeros(int(inside.sum())).double(), dense_covariance(noise, phi)[inside][:, inside]
    )
    expected = dense.log_prob(eps.flatten(2)[..., inside]).sum(1)
    statistic = noise.statistic(torch.where(observed, eps, torch.nan), observed)
    at = as_phi(phi).expand(2, -1).clone().requires_grad_()
    value = noise.log_likelihood(at, statistic)
    assert torch.allclose(value, expected, rtol=1e-10)
    assert torch.equal(noise.log_likelihood(at[1:], statistic.rows([1])), value[1:])
    (gradient,) = torch.autograd.grad(value.sum(), at)
    assert bool(torch.isfinite(gradient).all())


@every_stationary
def test_stationary_noise_refuses_missing_pixels(noise, phi):
    eps = noise.draw(SHAPE, phi)
    whole = torch.ones(SHAPE, dtype=torch.bool)
    assert torch.equal(noise.statistic(eps, whole).P, noise.statistic(eps).P)
    whole[2, 3] = False
    with pytest.raises(InputError, match="missing pixels needs a window"):
        noise.statistic(eps, whole)
