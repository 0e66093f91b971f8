"""The CMB on skies that are not flat and periodic, against closed forms of the sphere."""

import math
import sys

import numpy as np
import pytest
import torch
from astropy.io import fits

from gibbsdiff.cosmo.mock import mock
from gibbsdiff.cosmo.skies import SKIES, curved_patch, draw_cmb
from gibbsdiff.errors import InputError
from gibbsdiff.fourier import half_plane, power
from gibbsdiff.noise.cmb import ARCMIN, CMBNoise
from gibbsdiff.streams import Streams

PHI = torch.tensor([[0.5, 70.0, 0.032]], dtype=torch.float64)


def correlation(noise, shape, cosine):
    """σ²/V_fid Σ (2ℓ+1)/4π C_ℓ P_ℓ(cos γ), 2 ≤ ℓ ≤ 2000."""
    ell = torch.arange(2001, dtype=torch.float64)
    C = torch.exp(noise.emulator.log_spectrum(PHI[0, 1:], ell)).numpy()
    C[:2] = 0
    legendre = np.polynomial.legendre.legval(cosine, C * (2 * ell.numpy() + 1) / (4 * np.pi))
    return float(PHI[0, 0]) ** 2 / noise.fiducial_variance(shape) * legendre


def within(found, expected, sigmas=4):
    """Rows are independent: is their mean the expectation, by their own standard error?"""
    error = found.std(0) / math.sqrt(len(found))
    return (np.abs(found.mean(0) - expected) < sigmas * error).all(), error


def test_the_sphere_has_its_variance_and_its_correlations_by_angle():
    """A ring at 60° is half as long as the equator: its pixels are half as far apart."""
    noise, shape, step = CMBNoise(pixel=60.0), (121, 48), 60 * ARCMIN
    maps = [curved_patch(noise, shape, PHI, Streams(0, [(i,)]), True)[0, 0] for i in range(16)]
    maps = np.stack([m.numpy() for m in maps])
    variance = correlation(noise, shape, 1.0)
    good, error = within((maps**2).mean((1, 2)), variance)
    assert good
    assert error < 0.02 * variance
    for n in (1, 3, 8):
        across = ((maps[:, :-n] - maps[:, n:]) ** 2).mean((1, 2)) / 2
        flat = variance - correlation(noise, shape, math.cos(n * step))
        assert within(across, flat)[0]
        for latitude in (0, 30, 60):
            rows = maps[:, [60 - latitude, 60 + latitude]]
            along = ((rows[..., :-n] - rows[..., n:]) ** 2).mean((1, 2)) / 2
            cos, sin = math.cos(latitude * step), math.sin(latitude * step)
            angle = sin**2 + cos**2 * math.cos(n * step)
            good, error = within(along, variance - correlation(noise, shape, angle))
            assert good
            if latitude == 60 and n == 1:
                assert flat - along.mean() > 10 * error


def test_small_patches_of_the_sphere_are_flat():
    """Of 4°, at the equator: band powers as of a patch cut out of a flat sky."""
    noise, shape = CMBNoise(), (32, 32)
    modes = half_plane(shape)
    edges = torch.tensor([150.0, 500.0, 800.0, 1100.0, 1350.0, 1900.0], dtype=torch.float64)
    band = torch.bucketize(noise.multipole(modes), edges)
    P = {}
    for sky in ("cut", "curved"):
        rows = Streams.batch(2, 24)
        drawn = [draw_cmb(noise, shape, PHI, rows.rows([i]), sky) for i in range(len(rows))]
        p = power(torch.cat(drawn).double())[:, 0].flatten(1)
        P[sky] = torch.stack([p[:, band == b].mean(1) for b in range(1, 5)], 1).log()
    gap = (P["curved"].mean(0) - P["cut"].mean(0)).abs()
    error = sum(v.var(0) / len(v) for v in P.values()).sqrt()
    assert (gap < 4 * error).all()
    assert error.max() < 0.08


def test_what_is_finer_than_the_pixels_is_left_out():
    """Without aliases the power near the highest |k| of an axis is C_ℓ, with them twice that."""
    noise, shape = CMBNoise(), (64, 64)
    ratio = {}
    for aliased in (False, True):
        rng = Streams(3, [(0,)])
        x = curved_patch(noise, shape, PHI, rng, aliased)
        N = torch.exp(noise.log_power(half_plane(shape), PHI))[0]
        # Across the equator, away from the axis itself, where the edges of the patch are seen.
        modes = half_plane(shape)
        near = (modes.ky.abs() > 0.47) & (modes.kx > 0.1) & (modes.kx < 0.3)
        ratio[aliased] = float((power(x)[0, 0].flatten() / N)[near].mean())
    count = 2 * int(near.sum())  # real and imaginary parts
    assert abs(ratio[False] - 1) < 4 * math.sqrt(2 / count) + 0.1
    assert ratio[True] > 1.6


def test_a_patch_cut_out_has_its_variance_and_no_period():
    noise, shape = CMBNoise(), (24, 24)
    x = draw_cmb(noise, shape, PHI.expand(400, 3), Streams.batch(4, 400), "cut").double().numpy()
    larger = noise.fiducial_variance((72, 72)) / noise.fiducial_variance(shape)
    N = torch.exp(noise.log_power(half_plane((72, 72)), PHI))
    assert within((x**2).mean((1, 2, 3)), larger * float(half_plane((72, 72)).mean(N)))[0]
    flat = draw_cmb(noise, shape, PHI.expand(400, 3), Streams.batch(4, 400)).double().numpy()
    inside = ((x[..., 1:] - x[..., :-1]) ** 2).mean()
    assert ((x[..., 0] - x[..., -1]) ** 2).mean() > 5 * inside
    assert ((flat[..., 0] - flat[..., -1]) ** 2).mean() < 1.2 * inside


def test_mocks_have_the_same_dust_on_every_sky():
    noise, dust = CMBNoise(), torch.ones(1, 16, 16)
    made = {sky: mock((0.5, 70.0, 0.032), dust, noise, 1, sky=sky) for sky in SKIES}
    assert torch.equal(made["flat"].y, mock((0.5, 70.0, 0.032), dust, noise, 1).y)
    assert not torch.equal(made["cut"].y, made["curved"].y)
    for one in made.values():
        assert torch.equal(one.y - one.cmb, dust) or torch.allclose(one.y - one.cmb, dust)


def test_what_cannot_be_drawn_is_refused(monkeypatch):
    rng = Streams(0, [(0,)])
    with pytest.raises(InputError, match="pixels of 13 arcmin do not tile"):
        curved_patch(CMBNoise(pixel=13.0), (16, 16), PHI, rng)
    with pytest.raises(InputError, match="1400×16 pixels"):
        curved_patch(CMBNoise(), (1400, 16), PHI, rng)
    for sky in ("cut", "curved"):
        with pytest.raises(InputError, match="without white noise"):
            draw_cmb(CMBNoise(white=0.1), (16, 16), PHI, rng, sky)
    monkeypatch.setitem(sys.modules, "ducc0", None)
    with pytest.raises(InputError, match=r"gibbsdiff\[sky\]"):
        curved_patch(CMBNoise(), (16, 16), PHI, rng)


def test_the_command_makes_mocks_of_a_curved_sky(model, command, tmp_path):
    arguments = ("cmb", "infer", "--mock", 70, 0.032, 0.5, "--size", 32, "--model", model)
    options = ("--sky", "curved", "--method", "marginal", "--draws", 4, "--seed", 3)
    made = command(*arguments, *options, "-o", tmp_path / "out")
    assert made.code == 0, made.stderr
    noise, shape = CMBNoise(), (32, 32)
    expected = draw_cmb(noise, shape, PHI, Streams(3, [(0, 1)]), "curved")[0, 0]
    unit = math.sqrt(noise.fiducial_variance(shape)) / 0.5
    truth = fits.getdata(tmp_path / "out" / "cmb.fits", "TRUTH")
    np.testing.assert_allclose(truth, expected.numpy() * unit, atol=1e-3 * unit)
    np.save(tmp_path / "map.npy", np.random.default_rng(0).normal(size=shape))
    line = command("cmb", "infer", tmp_path / "map.npy", "--sky", "cut").refusal()
    assert "--sky: for a mock, not for a map" in line
