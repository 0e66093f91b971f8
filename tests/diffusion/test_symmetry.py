"""A denoiser by the symmetries of the square: D of the picture turned by hand, turned back."""

from functools import partial

import pytest
import torch

from gibbsdiff.diffusion.analytic import GaussianDenoiser, MixtureDenoiser
from gibbsdiff.diffusion.denoiser import as_denoiser
from gibbsdiff.diffusion.signal import NATURAL, PowerLawSignal
from gibbsdiff.diffusion.solvers import few_step, geometric
from gibbsdiff.diffusion.spectral import SpectralDenoiser
from gibbsdiff.diffusion.symmetry import LABEL, randomly_turned, turned_call
from gibbsdiff.errors import InputError
from gibbsdiff.inference.fingerprint import callable_digest
from gibbsdiff.noise import PixelNoise, PowerLawNoise, SpectralNoise
from gibbsdiff.noise.covariance import SpectralCovariance
from gibbsdiff.noise.level import LevelMap
from gibbsdiff.streams import Streams

SIDE = 32
SQUARE, FLAT = (SIDE, SIDE), (SIDE, 24)
CASES = [(SQUARE, which) for which in range(8)] + [(FLAT, which) for which in range(4)]


def stripes(kx, ky, sigma):
    """Noise in oblique stripes: N is another one for every symmetry but the rotation by 180°."""
    return 2 * sigma.log() + torch.log(0.5 + 4 * torch.exp(-((kx - 2 * ky) ** 2) / 0.01))


TILTED = SpectralNoise(stripes, {"sigma": (0.01, 1.0)})


def by_hand(x, which):
    """The symmetry by NumPy's names, its transposition last."""
    x = x.flip(-1) if which & 1 else x
    x = x.flip(-2) if which & 2 else x
    return x.transpose(-1, -2) if which & 4 else x


def back_by_hand(x, which):
    x = x.transpose(-1, -2) if which & 4 else x
    x = x.flip(-2) if which & 2 else x
    return x.flip(-1) if which & 1 else x


def spectrum_by_hand(v, which, width):
    """Through the kernel in pixel space around its centre, which turns like a picture."""
    kernel = torch.fft.irfft2(v, s=(v.shape[-2], width))
    rows, columns = torch.meshgrid(
        torch.arange(kernel.shape[-2]), torch.arange(width), indexing="ij"
    )
    rows = -rows % kernel.shape[-2] if which & 2 else rows
    columns = -columns % width if which & 1 else columns
    kernel = kernel[..., rows, columns]
    return torch.fft.rfft2(kernel.mT if which & 4 else kernel).real


def level_map(shape, rows=1):
    g = torch.rand(rows, 1, *shape, generator=torch.Generator().manual_seed(7)) + 0.5
    return LevelMap(g / g.square().mean((-2, -1), keepdim=True).sqrt())


def observed(shape, level=None, rows=1, dtype=torch.float32):
    phi = torch.linspace(0.1, 0.2, rows, dtype=torch.float64)[:, None]
    own = TILTED.covariance(shape, phi, dtype)
    noise = SpectralCovariance(own.power, shape, own.descriptor, level_map=level)
    x = GaussianDenoiser(NATURAL).prior(shape, Streams.batch(0, rows), 3).to(dtype)
    return x + noise.draw(Streams.batch(1, rows), 3), noise


@pytest.mark.parametrize("plane", [False, True])
@pytest.mark.parametrize(("shape", "which"), CASES)
def test_a_network_is_shown_the_turned_picture_and_its_answer_is_turned_back(
    small, shape, which, plane
):
    level = level_map(shape) if plane else None
    z, noise = observed(shape, level)
    denoiser = SpectralDenoiser(small(level_plane=plane), NATURAL)
    found = turned_call(denoiser, z, noise, torch.tensor([which]))
    there = SpectralCovariance(
        spectrum_by_hand(noise.power, which, shape[1]),
        shape,
        noise.descriptor,
        level_map=None if level is None else LevelMap(by_hand(level.g, which)),
    )
    mean, error = denoiser(by_hand(z, which).contiguous(), there)
    assert torch.allclose(found.mean, back_by_hand(mean, which), atol=1e-5)
    v = back_by_hand(error.log_variance, which)
    assert torch.allclose(found.error.log_variance, v, atol=1e-4)
    G = spectrum_by_hand(error.G, which, shape[1])
    assert torch.allclose(found.error.G, G, atol=1e-5 * float(G.max()))
    # The map of the error is that of the turned answer, turned back.
    variance = back_by_hand(error.pixel_variance(), which)
    assert torch.allclose(found.error.pixel_variance(), variance, rtol=1e-3)
    if which:  # and it is another answer
        assert not torch.allclose(found.mean, denoiser(z, noise).mean, atol=1e-5)
    else:
        assert torch.equal(found.mean, denoiser(z, noise).mean)


@pytest.mark.parametrize(("shape", "which"), CASES)
def test_an_exact_denoiser_is_the_same_by_every_symmetry(shape, which):
    """Of a Gaussian signal, isotropic, under noise that is not: D = D_T and E = E_T."""
    exact = GaussianDenoiser(NATURAL)
    z, noise = observed(shape, dtype=torch.float64)
    plain, found = exact(z, noise), turned_call(exact, z, noise, torch.tensor([which]))
    assert torch.allclose(found.mean, plain.mean, atol=1e-12)
    assert torch.allclose(found.error.spectrum(), plain.error.spectrum(), atol=1e-14)
    moved = noise.turned(torch.tensor([which])).power
    assert torch.allclose(moved, noise.power) == (which in (0, 3))


def test_draws_of_an_exact_denoiser_are_the_same_to_rounding():
    """Symmetries have streams of their own: the noise of a draw stays."""
    exact = GaussianDenoiser(PowerLawSignal((2e-3,) * 3, (2.0,) * 3, 0.4))
    z, noise = observed(SQUARE, rows=3, dtype=torch.float64)
    plain, found = (
        few_step(exact, z, noise, Streams.batch(2, 3), calls=5, turned=t) for t in (False, True)
    )
    assert torch.allclose(found.x, plain.x, atol=1e-10)
    assert torch.allclose(found.mean, plain.mean, atol=1e-12)
    assert torch.equal(found.calls, plain.calls)


def test_each_row_has_a_symmetry_of_its_own_and_results_do_not_depend_on_the_batch(small):
    """Together, one by one, and with a row that leaves the batch early."""
    denoiser = SpectralDenoiser(small(), NATURAL).double()
    z, noise = observed(SQUARE, level=None, rows=6, dtype=torch.float64)
    noise = noise.scaled(torch.tensor([1.0, 1.0, 0.03, 1.0, 1.0, 1.0]).double())
    count = (geometric(noise.level, 4).u > 0).sum(1)
    assert len(set(count.tolist())) > 1
    together = few_step(denoiser, z, noise, Streams.batch(3, 6), calls=4, turned=True)
    for b in range(6):
        row = torch.tensor([b])
        alone = few_step(
            denoiser, z[row], noise.rows(row), Streams(3, [(b,)]), calls=4, turned=True
        )
        assert torch.allclose(alone.x[0], together.x[b], atol=1e-9)
        assert torch.allclose(alone.mean[0], together.mean[b], atol=1e-9)
    upright = few_step(denoiser, z, noise, Streams.batch(3, 6), calls=4)
    assert (together.mean - upright.mean).abs().amax((1, 2, 3)).gt(1e-6).sum() >= 3


@pytest.mark.parametrize(("shape", "count"), [(SQUARE, 8), (FLAT, 4)])
def test_symmetries_are_drawn_alike_and_none_changes_the_shape(shape, count):
    """All that there are, each as often as the others: χ² of 400 draws."""
    rows = 400
    seen = []

    def mark(z, noise):
        """Where the brightest pixels of what it is shown are says how it was turned."""
        assert z.shape[-2:] == shape
        seen.append(z)
        return z

    z = torch.zeros(1, 1, *shape)
    z[..., 0, 0], z[..., 0, 1] = 2.0, 1.0
    noise = PowerLawNoise().covariance(shape, torch.tensor([[0.1, 0.0]]).double(), z.dtype)
    index = torch.zeros(rows, dtype=torch.int64)
    rng = Streams.batch(4, rows).fold(LABEL)
    found = randomly_turned(as_denoiser(mark), z[index], noise.rows(index), rng)
    assert torch.equal(found.mean, z[index])  # turned back
    names = [tuple(shown.flatten().topk(2).indices.tolist()) for shown in seen[0]]
    frequency = [names.count(name) for name in set(names)]
    assert len(frequency) == count
    expected = rows / count
    chi2 = sum((n - expected) ** 2 / expected for n in frequency)
    assert chi2 < 24.3  # p = 0.001 with 7 degrees of freedom


def test_the_mean_over_the_calls_is_that_over_the_symmetries(small):
    """E over T of D_T: eight rows of all symmetries, and 400 at random, to 5 standard errors."""
    denoiser = SpectralDenoiser(small(), NATURAL)
    z, noise = observed(SQUARE)
    eight = torch.zeros(8, dtype=torch.int64)
    each = turned_call(denoiser, z[eight], noise.rows(eight), torch.arange(8)).mean
    rows = torch.zeros(400, dtype=torch.int64)
    mean = randomly_turned(denoiser, z[rows], noise.rows(rows), Streams.batch(5, 400)).mean
    error = each.std(0, unbiased=False) / 400**0.5
    assert ((mean.mean(0) - each.mean(0)).abs() / (error + 1e-6)).max() < 5


def test_noise_of_pixels_turns_with_the_picture():
    maps = torch.rand(1, *SQUARE, generator=torch.Generator().manual_seed(1)) + 0.5
    noise = PixelNoise.weighted(maps[0]).covariance(SQUARE, torch.ones(1, 1).double())
    for which in range(8):
        there = noise.turned(torch.tensor([which]))
        assert torch.equal(there.variance, by_hand(noise.variance, which))
        assert torch.equal(there.turned(torch.tensor([which]), back=True).variance, noise.variance)


def test_what_cannot_be_turned_is_refused():
    S = PowerLawSignal((2e-3,), (2.0,), 0.4).power(SQUARE)[0]
    mixture = MixtureDenoiser([1.0], [torch.tensor(0.4)], [S])
    noise = PowerLawNoise().covariance(SQUARE, torch.tensor([[0.1, 0.0]]).double())
    with pytest.raises(InputError, match="error of this denoiser cannot be turned back"):
        turned_call(mixture, torch.rand(1, 1, *SQUARE).double(), noise, torch.tensor([1]))


def test_a_checkpoint_knows_whether_draws_turn_the_picture():
    names = {callable_digest(partial(few_step, calls=4, turned=turned)) for turned in (True, False)}
    assert len(names) == 2
    assert None not in names
