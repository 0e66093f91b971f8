"""The moment network: symmetries, a closed form that it must approach, the right spread, files."""

import math

import numpy as np
import pytest
import torch

from gibbsdiff.cosmo.local_spectra import BANDS, POOL, local_power, log_spectrum
from gibbsdiff.cosmo.moment_start import moments_bytes, new_moments, read_moments
from gibbsdiff.cosmo.moment_training import held_out, train_moments, varied
from gibbsdiff.data.images import turned
from gibbsdiff.data.maps import Maps
from gibbsdiff.diffusion.analytic import GaussianDenoiser
from gibbsdiff.diffusion.signal import PowerLawSignal
from gibbsdiff.errors import InputError
from gibbsdiff.networks.moments import Moments
from gibbsdiff.noise import PowerLawNoise
from gibbsdiff.noise.cmb import CMBNoise
from gibbsdiff.streams import Streams
from gibbsdiff.training.optimizer import Schedule

SIDE = 32
LAW = GaussianDenoiser(PowerLawSignal((1e-3,), (2.6,)))
NOISE = PowerLawNoise((0.05, 1.0))


def gaussian_maps(count=192):
    x = LAW.prior((SIDE, SIDE), Streams.batch(1, count + 64)).float()
    return Maps(0.0, 1.0, x[:count], x[:count], x[count:], x[count:], x[count:])


@pytest.fixture(scope="module")
def trained():
    schedule = Schedule(lr=4e-3, decay=0.6)
    return train_moments(gaussian_maps(), NOISE, 300, vary=(0.0, 0.0), schedule=schedule)


@pytest.fixture(scope="module")
def fresh():
    x = LAW.prior((SIDE, SIDE), Streams.batch(2, 300)).float()
    return held_out(x, NOISE, 9, repeats=1)


def exact_moments(y):
    """Mean and sd of u | y on a grid of the unit box, by eq. (10)."""
    fine, rough = ((torch.arange(n, dtype=torch.float64) + 0.5) / n for n in (60, 20))
    u = torch.cartesian_prod(fine, rough)
    noise = NOISE.covariance((SIDE, SIDE), NOISE.low + u * (NOISE.high - NOISE.low))
    log_p = torch.stack([LAW.log_evidence(row[None], noise) for row in y])
    p = (log_p - log_p.amax(1, keepdim=True)).exp()
    p = p / p.sum(1, keepdim=True)
    mean = p @ u
    return mean, (p @ u.square() - mean.square()).sqrt()


def test_it_approaches_the_exact_posterior_mean(trained, fresh):
    y, u = (part[:60] for part in fresh)
    mean, sd = exact_moments(y)
    found = trained.moments(y)
    ours, best = ((m - u).square().mean(0).sqrt() for m in (found.mean, mean))
    blind = (0.5 - u).square().mean(0).sqrt()
    assert (best < 0.4 * blind).all()
    assert (ours < 1.5 * best + 0.005).all()
    assert ((found.mean - mean).square().mean(0).sqrt() < 0.3 * blind).all()
    # Where the posterior is wide, so is the spread.
    spread = found.covariance.diagonal(dim1=1, dim2=2).sqrt()
    for i in range(2):
        assert np.corrcoef(spread[:, i].log(), sd[:, i].log())[0, 1] > 0.6


def test_the_spread_is_right_on_fresh_data(trained, fresh):
    y, u = fresh
    z = trained.moments(y).z(u)
    # The selection maps that set it are 64, with 12 noises each; sd of an sd 1/√(2·64) at worst.
    assert (z.square().mean(0).sqrt() - 1).abs().max() < 0.3
    assert z.mean(0).abs().max() < 4 / math.sqrt(64)


@pytest.mark.parametrize("symmetry", range(8))
def test_symmetries_of_a_periodic_map_change_nothing(symmetry):
    torch.manual_seed(3)
    start = new_moments(SIDE, NOISE)
    torch.nn.init.normal_(start.network.outputs.weight, std=0.1)
    x = LAW.prior((SIDE, SIDE), Streams.batch(4, 2)).float()
    same = torch.stack([turned(m.roll((3 * POOL, POOL), (-2, -1)), symmetry) for m in x])
    seen, again = (local_power(v, start.network.centre) for v in (x, same))
    moved = torch.stack([turned(m.roll((3, 1), (-2, -1)), symmetry) for m in seen])
    assert torch.allclose(again, moved, atol=2e-4)
    assert torch.allclose(log_spectrum(same), log_spectrum(x), atol=1e-5)
    for a, b in zip(start.moments(x), start.moments(same), strict=True):
        assert torch.allclose(a, b, atol=1e-4)
        assert not torch.allclose(a[0], a[1], atol=1e-3)


def test_local_power_is_that_of_a_wave_in_its_place():
    centre = torch.zeros(log_spectrum(torch.ones(1, 1, 64, 64)).shape[1])
    white = Streams.batch(0, 40).normal(1, 64, 64, dtype=torch.float32)
    assert torch.allclose(local_power(white, centre).exp().mean((0, 2, 3)), torch.ones(9), atol=0.1)
    row = torch.arange(64.0)
    wave = torch.cos(2 * math.pi * row / 8)[:, None].repeat(1, 64)
    wave[:, 32:] = 0  # the right half is empty
    P = local_power(wave[None, None], centre)[0].exp()
    assert BANDS[int(P.mean((1, 2)).argmax())] == pytest.approx(1 / 8)
    band = P[BANDS.index(1 / 8)]
    assert float(band[:, 2:6].min()) > 10 * float(band[:, 10:14].max())
    with pytest.raises(InputError, match="multiples of 8"):
        local_power(torch.ones(1, 1, 20, 20), log_spectrum(torch.ones(1, 1, 20, 20))[0])


def test_the_loss_is_least_at_the_moments():
    covariance = torch.tensor([[0.04, 0.018], [0.018, 0.09]], dtype=torch.float64)
    mean = torch.tensor([0.3, 0.6], dtype=torch.float64)
    z = Streams.batch(0, 20000).normal(2)
    z = (z - z.mean(0)) @ torch.linalg.inv(torch.linalg.cholesky(torch.cov(z.T, correction=0))).T
    u = mean + z @ torch.linalg.cholesky(covariance).T  # these very moments
    # L with LᵀL the precision, lower triangular: the Cholesky factor of the reversed order.
    factor = torch.linalg.cholesky(torch.linalg.inv(covariance).flip(0, 1)).mT.flip(0, 1)
    at = mean.clone().requires_grad_(), factor.clone().requires_grad_()
    moments = Moments(at[0].expand(len(u), 2), at[1].expand(len(u), 2, 2))
    assert torch.allclose(moments.covariance[0], covariance)
    moments.loss(u).mean().backward()
    assert at[0].grad.abs().max() < 1e-9
    assert at[1].grad.tril().abs().max() < 1e-9
    assert torch.allclose(torch.cov(moments.z(u).detach().T), torch.eye(2).double(), atol=1e-3)


def test_starts_stay_in_the_prior_box(trained):
    wild = torch.cat([f * Streams.batch(5, 8).normal(1, SIDE, SIDE) for f in (1e-4, 1.0, 1e4)])
    phi = trained.start(wild)
    assert NOISE.check(phi).shape == (24, 2)
    inside = trained.moments(wild).mean
    assert not ((inside >= 0) & (inside <= 1)).all()  # or nothing was projected


def test_dust_is_varied_by_the_given_sd():
    x = torch.ones(4000, 1, 8, 8) * Streams.batch(0, 1).normal(1, 8, 8, dtype=torch.float32)
    ratio = log_spectrum(varied(x, (0.3, 0.0), torch.Generator().manual_seed(0))) - log_spectrum(x)
    assert torch.allclose(ratio, ratio[:, :1].expand_as(ratio), atol=1e-4)
    assert float(ratio[:, 0].std()) == pytest.approx(0.3, rel=4 / math.sqrt(2 * 4000))
    assert torch.equal(varied(x[:1], (0.0, 0.0), torch.Generator()).round(decimals=5),
                       x[:1].round(decimals=5))  # fmt: skip


def test_the_same_seed_trains_the_same_network_and_files_keep_it(tmp_path):
    maps, y = gaussian_maps(8), LAW.prior((SIDE, SIDE), Streams.batch(6, 3))
    first, second, other = (
        train_moments(maps, NOISE, 3, batch=4, seed=seed).moments(y).mean for seed in (1, 1, 2)
    )
    assert torch.equal(first, second)
    assert not torch.equal(first, other)
    start = train_moments(maps, NOISE, 3, batch=4)
    path = tmp_path / "m.npz"
    path.write_bytes(moments_bytes(start))
    back = read_moments(path)
    assert back.fits(NOISE)
    assert not back.fits(PowerLawNoise((0.1, 1.0)))
    assert not back.fits(CMBNoise())
    assert torch.allclose(back.start(y), start.start(y), atol=2e-3)
    began = train_moments(maps, NOISE, 1, batch=4, init=back, schedule=Schedule(lr=0.0))
    assert torch.equal(began.network.block.weight, back.network.block.weight)


def test_bad_files_and_maps_are_refused(trained, tmp_path):
    path = tmp_path / "m.npz"
    with pytest.raises(InputError, match=r"m.npz: no such file"):
        read_moments(path)
    good = moments_bytes(trained)
    for content in (b"", b"nothing", good[: len(good) // 2]):
        path.write_bytes(content)
        with pytest.raises(InputError, match=r"m.npz: not a file of a moment network"):
            read_moments(path)
    np.savez(path, names=np.array(["sigma"]), side=np.array(SIDE))
    with pytest.raises(InputError, match="not a file of a moment network"):
        read_moments(path)
    with pytest.raises(InputError, match="maps of 32×32 are known"):
        trained.start(torch.zeros(1, 1, 64, 64))
