"""The laws of every noise family of `conftest.py`."""

import math

import numpy as np
import pytest
import torch
from scipy import stats
from torch.distributions import MultivariateNormal

from gibbsdiff.errors import InputError
from gibbsdiff.fourier import OPPONENT, REFERENCE, half_plane, power, to_opponent
from gibbsdiff.noise import StationaryNoise, WhiteNoise
from gibbsdiff.noise.level import LevelMap
from gibbsdiff.streams import Streams


def test_draws_follow_their_spectrum(family):
    """In the eigenbasis of Σ_φ, n draws have power Σ c²/λ ~ χ²_n; the worst of all is bounded."""
    n = 4000
    eps = family.draw(n, 1).reshape(n, -1)
    eigenvalues, basis = torch.linalg.eigh(family.dense())
    assert float(eigenvalues.min()) > 0
    worst = ((eps @ basis).square().sum(0) / eigenvalues).numpy()
    p = 2 * stats.chi2.sf(abs(worst - n) + n, n)  # two-sided, to the precision of n = 4000
    assert p.min() > 0.01 / len(p)


@pytest.mark.parametrize("shape", [(16, 12), (9, 15)], ids=str)
def test_mode_powers_of_draws(stationary, shape):
    """The worst mode of a larger and an odd grid, in all three colours."""
    n, there = 500, stationary.on(shape)
    eps = to_opponent(there.draw(n, 2, channels=3) / there.g)
    ratio = (power(eps) / there.covariance.power).sum((0, 1)).flatten()
    # A mode that is its own conjugate is real: χ² with 3 n degrees of freedom; others have 6 n.
    k = half_plane(shape)
    own = ((2 * k.kx) % 1 == 0) & ((2 * k.ky) % 1 == 0)
    dof = torch.where(own, 3 * n, 6 * n).double()
    total = torch.where(own, ratio, 2 * ratio)
    p = torch.from_numpy(stats.chi2.cdf(total.numpy(), dof.numpy()))
    assert float(torch.minimum(p, 1 - p).min()) > 0.005 / len(p)


def test_opponent_channels_are_independent(family):
    n = 3000
    eps = to_opponent(family.draw(n, 3, channels=3))
    sd = family.covariance.pixel_variance().sqrt()
    eps = (eps / sd).flatten(2)
    for one, other in ((0, 1), (1, 2), (0, 2)):
        cross = (eps[:, one] * eps[:, other]).mean(0)
        assert float(cross.abs().max()) * math.sqrt(n) < 4.5


@pytest.mark.parametrize("channels", [1, 3])
def test_likelihood_equals_the_dense_gaussian(family, channels):
    """In all channels at once: of colours Σ_φ is no longer block by block."""
    if channels < family.channels:
        with pytest.raises(InputError, match="for 3 channels, not 1"):
            family.noise.log_likelihood(family.phi, family.noise.statistic(torch.ones(8, 6)))
        return
    eps = family.draw(2, 4, channels)
    dense = MultivariateNormal(torch.zeros(48 * channels).double(), family.dense(channels))
    exact = {"exact": True} if isinstance(family.noise, StationaryNoise) else {}
    value = family.noise.log_likelihood(family.rows(2), family.noise.statistic(eps, **exact))
    assert torch.allclose(value, dense.log_prob(eps.flatten(1)), rtol=1e-10)


def test_gradient_equals_finite_differences(family):
    noise = family.noise
    density = noise.log_posterior(noise.statistic(family.draw(1, 5, channels=3)))
    at = (0.9 * family.phi + 0.1 * (noise.low + noise.high) / 2).requires_grad_()
    (gradient,) = torch.autograd.grad(density(at).sum(), at)
    for i in range(at.shape[1]):
        h = torch.zeros_like(at)
        h[0, i] = 1e-5 * float(noise.high[i] - noise.low[i])
        f = [density(at.detach() + c * h) for c in (-2, -1, 1, 2)]
        slope = (f[0] - 8 * f[1] + 8 * f[2] - f[3]) / (12 * h[0, i])
        assert float(gradient[0, i]) == pytest.approx(float(slope), rel=1e-6, abs=1e-5)


def prior_by_rejection(noise, n, seed=0):
    """n draws by NumPy: uniform on the box, or Gaussian with precision Λ, those inside the box."""
    rng, precision = np.random.default_rng(seed), noise.prior_curvature().numpy()
    low, high = noise.low.numpy(), noise.high.numpy()
    phi = rng.uniform(low, high, (8 * n, len(low)))
    known = precision.diagonal() > 0
    if known.any():
        covariance = np.linalg.inv(precision[known][:, known])
        mean = noise.prior.mean.numpy()[known]
        phi[:, known] = rng.multivariate_normal(mean, covariance, 8 * n)
    return phi[((phi >= low) & (phi <= high)).all(1)][:n]


def test_the_prior_is_drawn_exactly(family):
    """Every parameter, and a sum and a difference of neighbours, as correlations are."""
    n, noise = 2000, family.noise
    drawn, exact = noise.draw_prior(Streams.batch(6, n)).numpy(), prior_by_rejection(noise, n)
    assert len(exact) == n
    scale = exact.std(0)
    for a, b in ((drawn, exact), *((p, q) for p, q in neighbours(drawn / scale, exact / scale))):
        for one, other in zip(a.T, b.T, strict=True):
            assert stats.ks_2samp(one, other).pvalue > 0.01 / (3 * len(scale))


def neighbours(*draws):
    return [[f(d[:, 1:], d[:, :-1]) for d in draws] for f in (np.add, np.subtract)]


def test_the_prior_is_gaussian_or_flat_inside_and_zero_outside(family):
    noise = family.noise
    inside = noise.draw_prior(Streams.batch(6, 1000))
    expected = torch.zeros(1000).double()
    if noise.prior is not None:
        off = inside - noise.prior.mean
        expected = -0.5 * torch.einsum("bi,ij,bj->b", off, noise.prior_curvature(), off)
    assert torch.allclose(noise.log_prior(inside), expected, atol=1e-9)
    outside = torch.stack([noise.low - 1e-9, noise.high + 1e-9])
    assert torch.equal(noise.log_prior(outside), torch.full((2,), -torch.inf).double())


def test_a_row_does_not_depend_on_its_batch(family):
    """Draws to rounding; the density of a chain to the last bit."""
    noise, shape = family.noise, family.shape
    batch = family.draw(3, 7)
    alone = noise.draw(shape, family.phi, Streams(7, [(1,)]), family.channels)
    assert torch.allclose(batch[1:2], alone, atol=1e-14)
    for n in (2, 3, 17):
        phi = noise.draw_prior(Streams.batch(8, n))
        many = noise.log_posterior(noise.statistic(alone.expand(n, -1, -1, -1)))(phi)
        one = noise.log_posterior(noise.statistic(alone))(phi[-1:])
        assert torch.equal(many[-1:], one)


@pytest.mark.parametrize("shape", [(192, 192), (24, 48)], ids=str)
def test_descriptor_is_the_log_amplitude_at_the_references(stationary, shape):
    """½ log N where the grid has the reference frequency; by definition of N elsewhere."""
    noise, phi = stationary.noise, stationary.phi
    rows, spectra = noise.descriptor(shape, phi)[0], noise.power(shape, phi)[0]
    assert rows.shape == (noise.spectra, len(REFERENCE))
    checked = 0
    for descriptor, N in zip(rows, spectra, strict=True):
        for radius, value in zip(REFERENCE, descriptor, strict=True):
            n = radius * shape[1]
            if abs(n - round(n)) > 1e-9 or radius > 0.5 or not noise.isotropic:
                continue
            # Normalising over bins instead of modes shifts the level by less than 1e-3.
            assert float(value) == pytest.approx(0.5 * math.log(float(N[0, round(n)])), abs=1e-3)
            checked += 1
    assert checked > 0 or not noise.isotropic


def test_descriptor_moves_by_log_u_with_the_level(stationary):
    covariance = stationary.on((24, 40)).covariance
    u = torch.tensor([0.37], dtype=torch.float64)
    lower = covariance.scaled(u)
    assert torch.allclose(lower.descriptor, covariance.descriptor + math.log(0.37))
    assert float(lower.level) == pytest.approx(0.37 * float(covariance.level), rel=1e-12)


def test_anisotropic_descriptor_is_the_mean_over_angles(anisotropic):
    family, log_power = anisotropic
    theta = torch.arange(2000, dtype=torch.float64) * math.pi / 2000
    (row,) = family.noise.descriptor(family.shape, family.phi)[0]
    for radius, value in zip(REFERENCE, row, strict=True):
        log_n = log_power(radius * torch.cos(theta), radius * torch.sin(theta), *family.phi[0])
        assert float(value) == pytest.approx(float(log_n.mean()) / 2, abs=0.02)


def test_level_is_the_pixel_standard_deviation(family):
    """Also where it changes over the picture: g has the mean square 1."""
    variance = family.dense().diagonal().mean()
    assert float(family.covariance.level**2) == pytest.approx(float(variance))
    assert float(family.g.square().mean()) == pytest.approx(1)


def test_opponent_rotation_leaves_noise_alone():
    """White noise of three channels is as iid in opponent colours as in RGB."""
    eps = WhiteNoise().draw((8, 6), (0.3,), Streams.batch(8, 2000), 3)
    rotated = torch.einsum("ij,bjhw->bihw", OPPONENT, eps).transpose(0, 1).flatten(1)
    cov = rotated @ rotated.T / rotated.shape[1] / 0.09
    assert float((cov - torch.eye(3)).abs().max()) < 4.5 * math.sqrt(2 / rotated.shape[1])


def test_spectrum_and_pixel_variance_are_diagonals_of_the_covariance(family):
    """Of g⁻¹ Σ_φ g⁻¹ in the Fourier basis, for noise with a spectrum, and of Σ_φ in pixels."""
    noise, covariance, C = family.noise, family.covariance, family.channels
    colours = torch.kron(OPPONENT if C == 3 else torch.eye(C).double(), torch.eye(48).double())
    dense = (colours @ family.dense() @ colours.T).reshape(C, 48, C, 48)
    of_channel = dense.diagonal(dim1=0, dim2=2).permute(2, 0, 1)
    pixels = of_channel.diagonal(dim1=1, dim2=2).reshape(1, C, *family.shape)
    assert torch.allclose(covariance.pixel_variance(), pixels, rtol=1e-10)
    assert noise.stationary == isinstance(noise, StationaryNoise)
    if not noise.stationary:
        assert covariance.spectrum() is None
        return
    of_channel = of_channel / family.g.reshape(48) / family.g.reshape(48, 1)
    F = torch.fft.rfft2(torch.eye(48).double().reshape(48, *family.shape), norm="ortho").flatten(1)
    modes = torch.einsum("ik,cij,jk->ck", F.conj(), of_channel.to(F.dtype), F).real
    assert torch.allclose(covariance.spectrum()[0].flatten(1), modes, rtol=1e-9)


def same_in_single(single, whole):
    for name, value in vars(whole).items():
        other = getattr(single, name)
        if torch.is_tensor(value):
            assert other.dtype == torch.float32
            assert torch.equal(other, value.float())
        elif isinstance(value, LevelMap):
            same_in_single(other, value)
        else:
            assert other == value


def test_a_covariance_in_another_type_is_the_same(family):
    covariance = family.covariance
    same_in_single(covariance.to(dtype=torch.float32), covariance)
    assert covariance.pixel_variance().dtype == torch.float64
    assert covariance.to("meta").pixel_variance().device.type == "meta"


def test_a_seed_is_one_stream_for_each_row(family):
    noise, shape, channels = family.noise, family.shape, 3
    drawn = noise.draw(shape, family.rows(2), channels=channels, seed=3)
    assert torch.equal(drawn, noise.draw(shape, family.rows(2), Streams.batch(3, 2), channels))
    assert not torch.equal(drawn, noise.draw(shape, family.rows(2), channels=channels, seed=4))


@pytest.mark.parametrize("channels", [1, 3])
def test_missing_pixels_leave_the_likelihood_of_pixel_noise(family, channels):
    """The dense Gaussian of the observed pixels alone, whatever stands in the others; modes of
    noise with a spectrum are those of a whole grid.
    """
    noise, channels = family.noise, max(channels, family.channels)
    eps = family.draw(2, 4, channels)
    observed = torch.rand(family.shape, generator=torch.Generator().manual_seed(1)) > 0.4
    if noise.stationary:
        whole = [noise.statistic(eps, given) for given in (None, torch.ones_like(observed))]
        a, b = (noise.log_likelihood(family.rows(2), statistic) for statistic in whole)
        assert torch.equal(a, b)
        with pytest.raises(InputError, match="missing pixels needs a window"):
            noise.statistic(eps, observed)
        return
    inside = observed.flatten()
    dense = family.dense()[inside][:, inside]
    law = MultivariateNormal(torch.zeros(len(dense)).double(), dense)
    expected = law.log_prob(eps.flatten(2)[..., inside]).sum(1)
    statistic = noise.statistic(torch.where(observed, eps, torch.nan), observed)
    at = family.rows(2).clone().requires_grad_()
    value = noise.log_likelihood(at, statistic)
    assert torch.allclose(value, expected, rtol=1e-10)
    assert torch.equal(noise.log_likelihood(at[1:], statistic.rows([1])), value[1:])
    (gradient,) = torch.autograd.grad(value.sum(), at)
    assert bool(torch.isfinite(gradient).all())
