"""Correlated channels, eq. (17), against the exact posterior mean of a Gaussian signal."""

import torch

from gibbsdiff.diffusion.analytic import GaussianDenoiser
from gibbsdiff.diffusion.correlated import OF_CAMERAS, Correlated, around_references, with_power
from gibbsdiff.diffusion.signal import NATURAL
from gibbsdiff.fourier import REFERENCE, fft, from_opponent, half_plane, to_opponent
from gibbsdiff.noise import SpectralCovariance
from gibbsdiff.streams import Streams

SHAPE, BETA = (64, 64), 0.65


def scene(beta):
    """x, y and the noise told: luma has its own and β of green chroma's, which is low-passed."""
    k = half_plane(SHAPE).k.reshape(64, -1)
    low = torch.exp(-((k / 0.15) ** 2)) + 1e-3
    own = torch.stack([0.3 * low + 0.02, low, low]) * 0.1**2
    N = own.clone()
    N[0] = own[0] + beta**2 * own[2]
    S = NATURAL.power(SHAPE)[0].double()

    def drawn(power, key):
        white = fft(Streams(0, [(key,)]).normal(3, *SHAPE))
        return torch.fft.irfft2(white * power.sqrt(), s=SHAPE, norm="ortho")

    x, eps = drawn(S, 1), drawn(own.double(), 2)
    eps[:, 0] += beta * eps[:, 2]
    noise = SpectralCovariance(N[None].double(), SHAPE)
    y = from_opponent(x + eps) + NATURAL.mean
    return from_opponent(x) + NATURAL.mean, y, noise, S, own.double()


def exact(y, S, own, beta):
    """E[x | y] with the noise as it is, three channels together in every mode."""
    Q = torch.diag_embed(own.permute(1, 2, 0))
    Q[..., 0, 0] += beta**2 * own[2]
    Q[..., 0, 2] = Q[..., 2, 0] = beta * own[2]
    T = torch.diag_embed(S.permute(1, 2, 0))
    seen = fft(to_opponent(y - NATURAL.mean))[0].permute(1, 2, 0)[..., None]
    found = (T @ torch.linalg.inv(T + Q)).to(seen.dtype) @ seen
    field = torch.fft.irfft2(found[..., 0].permute(2, 0, 1), s=SHAPE, norm="ortho")
    return from_opponent(field[None]) + NATURAL.mean


def luma_error(found, x):
    return float(to_opponent(found - x)[:, 0].square().mean())


def test_chroma_tells_most_of_what_it_knows_of_the_noise_of_luma():
    x, y, noise, S, own = scene(BETA)
    plain = GaussianDenoiser(NATURAL)
    alone = luma_error(plain(y, noise).mean, x)
    both = luma_error(Correlated(plain, BETA)(y, noise).mean, x)
    best = luma_error(exact(y, S, own, BETA), x)
    assert best < alone
    assert both < alone - 0.8 * (alone - best)


def test_no_correlation_changes_nothing():
    _, y, noise, _, _ = scene(0.0)
    plain = GaussianDenoiser(NATURAL)
    torch.testing.assert_close(Correlated(plain, 0.0)(y, noise).mean, plain(y, noise).mean)


def test_the_descriptor_changes_as_the_power_does():
    _, _, noise, _, _ = scene(BETA)
    told = SpectralCovariance(noise.power, SHAPE, torch.zeros(1, 3, len(REFERENCE)).double())
    found = with_power(told, noise.power * torch.tensor([0.5, 1.0, 2.0]).double().view(1, 3, 1, 1))
    expected = 0.5 * torch.tensor([0.5, 1.0, 2.0]).double().log().view(1, 3, 1)
    torch.testing.assert_close(found.descriptor, expected.expand_as(found.descriptor))
    flat = torch.ones(1, 3, 64, 33).double()
    torch.testing.assert_close(around_references(flat, SHAPE), torch.ones(1, 3, 8).double())


def test_beta_is_that_of_sensors():
    """Independent noise in pixels of which half are green, through white balance and colour
    matrices whose rows sum to 1: β = Cov(luma, green chroma)/Var(green chroma).
    """
    rng, n = torch.Generator().manual_seed(0), 20000

    def between(low, high):
        return low + (high - low) * torch.rand(n, generator=rng).double()

    red, blue = between(1.5, 2.5), between(1.3, 2.2)
    power = torch.stack([4 * red**2, torch.full_like(red, 2.0), 4 * blue**2], 1)
    a, b, c, d = between(0.3, 0.8), between(0.0, 0.3), between(0.1, 0.3), between(0.2, 0.5)
    e, f = between(-0.1, 0.1), between(0.3, 0.8)
    rows = ([1 + a + b, -a, -b], [-c, 1 + c + d, -d], [-e, -f, 1 + e + f])
    matrix = torch.stack([torch.stack(row, 1) for row in rows], 1)
    luma, _, green = to_opponent(matrix[..., None]).squeeze(-1).unbind(1)
    beta = (luma * green * power).sum(1) / (green.square() * power).sum(1)
    assert abs(float(beta.mean()) - OF_CAMERAS) < 0.01
    assert abs(float(beta.std()) - 0.09) < 0.01
