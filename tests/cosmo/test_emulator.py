"""Making an emulator: exact where the spectra are polynomials, and CAMB's where they are not."""

import sys

import numpy as np
import pytest
import torch

from gibbsdiff.cli import main
from gibbsdiff.cosmo.emulator import exponents, fit, held_out_error, save_emulator
from gibbsdiff.cosmo.spectra import (
    PRIOR,
    camb_spectrum,
    compute,
    design,
    read_spectra,
    save_spectra,
)
from gibbsdiff.errors import InputError
from gibbsdiff.fourier import radial_bins
from gibbsdiff.noise import CMBNoise
from gibbsdiff.noise.emulator import load_emulator

BOX = {"n_s": (0.92, 1.0), "omega_c": (0.1, 0.14), "tau": (0.04, 0.08)}


def log_c(params, box, ell):
    """A made-up ln C_ℓ of total degree 3, smooth in ℓ."""
    low, high = np.array([*box.values()]).T
    x = (2 * (params - low) / (high - low) - 1).T
    tilt = x[0] + 0.3 * x[1] * x[-1] - 0.2 * x[-1] ** 3
    return 8 - 2 * np.log1p(ell / 30) + 0.1 * tilt[:, None] * np.cos(ell / 200)


def made_up(box, fitted=60, held_out=9, lmax=2000):
    spectra = design(box, fitted, held_out, lmax)
    ell = np.arange(lmax + 1)
    spectra.lensed[:] = np.exp(log_c(spectra.params, box, ell))
    spectra.unlensed[:] = np.exp(log_c(spectra.params, box, 1.1 * ell))
    return spectra


@pytest.fixture
def command(monkeypatch, capsys):
    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["gibbsdiff", *map(str, arguments)])
        with pytest.raises(SystemExit) as stop:
            main()
        return stop.value.code or 0, capsys.readouterr()

    return run


@pytest.mark.parametrize("dimension", [1, 2, 3])
def test_a_design_fills_its_box(dimension):
    box = dict([*BOX.items()][:dimension])
    spectra = design(box, 300, 100)
    low, high = np.array([*box.values()]).T
    u = (spectra.params - low) / (high - low)
    assert u.min() >= 0
    assert u.max() <= 1
    assert spectra.is_test.sum() == 100
    # Uniform where it is tested, arcsine where it is fitted: variances 1/12 and 1/8.
    assert u[spectra.is_test].var(0) == pytest.approx(1 / 12, rel=0.1)
    assert u[~spectra.is_test].var(0) == pytest.approx(1 / 8, rel=0.1)


def test_exponents_are_all_of_a_total_degree():
    assert len(exponents(2, 10)) == 66
    assert len(exponents(3, 4)) == 35
    assert int(exponents(3, 4).sum(1).max()) == 4


def test_a_polynomial_is_recovered():
    """Of its own degree, to float32 and the spline between multipoles; not of a lower."""
    spectra = made_up(BOX)
    right, short = fit(spectra, "lensed", 3), fit(spectra, "lensed", 2)
    assert held_out_error(right, spectra).max < 3e-5
    assert held_out_error(right, spectra).rms < 2e-6
    assert held_out_error(short, spectra).max > 1e-3


def test_named_parameters_become_those_of_the_noise(tmp_path, command):
    """The command on stored spectra, then a noise family of its emulator."""
    save_spectra(made_up(BOX), tmp_path / "spectra.npz")
    arguments = ("--spectra", tmp_path / "spectra.npz", "--degree", 3, "-o", tmp_path / "e.npz")
    code, printed = command("cmb", "emulator", *arguments)
    assert code == 0, printed.err
    assert "lensed: 20 terms, 9 held-out spectra: max 0.001 %" in printed.out
    noise = CMBNoise(emulator=tmp_path / "e.npz")
    assert noise.names == ("sigma", "n_s", "omega_c", "tau")
    assert noise.high.tolist() == [1.2, 1.0, 0.14, 0.08]
    k = radial_bins((64, 64)).k
    a, b = np.array([[0.95, 0.11, 0.05], [0.99, 0.13, 0.07]])
    phi = torch.tensor([[0.5, *a], [0.5, *b]], dtype=torch.float64)
    ell = noise.multipole(k).numpy()
    expected = log_c(a[None], BOX, ell) - log_c(b[None], BOX, ell)
    found = noise.log_power(k, phi)
    assert (found[0] - found[1]).numpy() == pytest.approx(expected[0], abs=1e-5)


def test_files_give_back_what_they_were_given(tmp_path):
    spectra = made_up(PRIOR)
    save_spectra(spectra, tmp_path / "spectra.npz")
    again = read_spectra(tmp_path / "spectra.npz")
    assert again.names == ("H0", "omega_b")
    assert np.array_equal(again.params, spectra.params)
    assert np.array_equal(again.unlensed, spectra.unlensed)
    made = {kind: fit(spectra, kind, 3) for kind in ("lensed", "unlensed")}
    save_emulator(tmp_path / "e.npz", made)
    ell, theta = torch.tensor([2.0, 31.5, 999.0]), torch.tensor([[60.0, 0.02]])
    for kind, emulator in made.items():
        read = load_emulator(tmp_path / "e.npz", kind == "lensed").log_spectrum(theta, ell)
        assert torch.equal(read, emulator.log_spectrum(theta, ell))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--parameter", "n_s"], "--parameter n_s: write it as n_s=0.92:1.0"),
        (["--parameter", "w=0:1"], "parameter w is not one of H0, omega_b"),
        (["--parameter", "n_s=1:0.9"], "parameter n_s: needs low < high"),
        (["--spectra", "nowhere.npz"], "nowhere.npz: no such file"),
        (["--spectra", __file__], "test_emulator.py: not a file of spectra"),
    ],
)
def test_bad_options_are_one_clear_line(command, tmp_path, arguments, words):
    code, printed = command("cmb", "emulator", "-o", tmp_path / "e.npz", *arguments)
    assert code == 2
    assert words in printed.err
    assert printed.err.strip().count("\n") == 0
    assert list(tmp_path.iterdir()) == []


def test_too_few_spectra_are_refused():
    with pytest.raises(InputError, match="15 spectra do not determine 20 terms"):
        fit(made_up(BOX, fitted=15), "lensed", 3)


@pytest.mark.slow
def test_camb_spectra_resume_and_equal_the_shipped_emulator(tmp_path):
    pytest.importorskip("camb")
    wanted = design(PRIOR, 2, 1, lmax=2000)
    path = tmp_path / "spectra.npz"

    def stop(ready):
        if ready == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compute(wanted, path, tick=stop)
    assert len(read_spectra(path).missing) == 2
    done = compute(wanted, path, workers=2)
    assert len(done.missing) == 0
    alone = camb_spectrum(dict(zip(done.names, done.params[1].tolist(), strict=True)))
    assert done.lensed[1, 2:] == pytest.approx(alone[0, 2:], rel=1e-5)
    for kind, C in (("lensed", done.lensed), ("unlensed", done.unlensed)):
        emulator = load_emulator(None, kind == "lensed")
        found = emulator.log_spectrum(torch.from_numpy(done.params), torch.arange(2, 2001).double())
        assert np.abs(np.exp(found.numpy()) / C[:, 2:] - 1).max() < 3e-3
