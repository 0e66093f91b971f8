"""`gibbsdiff cmb infer` from end to end, with a network that has learnt nothing."""

import math
import signal
import sys
import warnings
from contextlib import contextmanager

import arviz
import numpy as np
import pytest
import torch
from astropy import units
from astropy.io import fits
from astropy.wcs import WCS
from matplotlib.text import Text

from gibbsdiff import cli
from gibbsdiff.cli import progress
from gibbsdiff.cosmo.check import MockRun
from gibbsdiff.cosmo.command import truth_table
from gibbsdiff.cosmo.mock import dust_from_file, lognormal, mock
from gibbsdiff.cosmo.report import report
from gibbsdiff.cosmo.sky import read_mixture
from gibbsdiff.diffusion.signal import TabulatedSignal
from gibbsdiff.fourier import power, radial_bins
from gibbsdiff.inference.gibbs import STAGE as GIBBS_STAGE
from gibbsdiff.inference.posterior import Posterior
from gibbsdiff.inference.search import SEARCH
from gibbsdiff.noise.cmb import CMBNoise
from gibbsdiff.plots.style import VERMILION
from gibbsdiff.streams import Streams

SIDE = 32
SIGNAL = TabulatedSignal(
    tuple(math.log(k) for k in (1 / 128, 4 / 128, 16 / 128, 64 / 128)),
    (tuple(math.log(s) for s in (400.0, 30.0, 0.7, 0.006)),),
)
MEAN, SD = 1.0, 0.75


def run(monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["gibbsdiff", "cmb", "infer", *map(str, arguments)])
    with pytest.raises(SystemExit) as end:
        cli.main()
    return end.value.code


def test_a_mock_becomes_maps_chains_and_a_page(model, tmp_path, monkeypatch):
    out = tmp_path / "out"
    mock = ("--mock", 70, 0.032, 0.5, "--size", SIDE, "--seed", 3)
    options = ("--model", model, "--chains", 2, "--draws", 4, "--calls", 2, "--samples", 3)
    options += ("--method", "marginal")
    assert run(monkeypatch, *mock, *options, "-o", out) in (0, None)

    y = fits.getdata(out / "mixture.fits")
    unit = CMBNoise().fiducial_variance((SIDE, SIDE)) ** 0.5 / 0.5
    with fits.open(out / "dust.fits") as dust, fits.open(out / "cmb.fits") as cmb:
        for name in ("mean", "truth", "samples"):
            assert np.allclose(dust[name].data + cmb[name].data, y, atol=1e-3 * unit)
        assert dust["samples"].data.shape == (3, SIDE, SIDE)
        for hdu in (*dust, *cmb):
            assert units.Unit(hdu.header["BUNIT"]) == units.uK
            sky = WCS(hdu.header).celestial
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                corner, next_one = sky.pixel_to_world([0, 1], [0, 0])
            assert corner.separation(next_one).arcmin == pytest.approx(8, rel=2e-3)
        # The CMB of a mock has the amplitude of the sky.
        assert cmb["truth"].data.std() == pytest.approx(0.5 * unit, rel=0.3)

    posterior = Posterior.load(out / "posterior.nc")
    assert posterior.names == ("sigma", "H0", "omega_b")
    assert posterior.truth == (0.5, 70, 0.032)
    data = arviz.from_netcdf(out / "posterior.nc")
    assert data.posterior["H0"].shape == (2, 4)
    for i in range(2):
        rows = np.loadtxt(out / f"chains_{i + 1}.txt")
        assert np.allclose(rows[:, 2:], posterior.phi[i].numpy())
        assert (rows[:, 0] == 1).all()
    names = (out / "chains.paramnames").read_text().split("\n")
    assert names[1].startswith("H0\tH_0 # ")
    ranges = [line.split() for line in (out / "chains.ranges").read_text().splitlines()]
    assert [r[0] for r in ranges] == ["sigma", "H0", "omega_b"]
    assert [float(v) for v in ranges[1][1:]] == [50, 90]
    assert (out / "report.png").read_bytes().startswith(b"\x89PNG")


def test_chains_of_an_earlier_result_do_not_stay(model, tmp_path, monkeypatch):
    mock = ("--mock", 70, 0.032, 0.5, "--size", SIDE, "--model", model, "--method", "marginal")
    options = ("--draws", 4, "--samples", 0, "-o", tmp_path)
    (tmp_path / "chains_of_mine.txt").touch()
    for chains in (3, 2):
        assert run(monkeypatch, *mock, *options, "--chains", chains) in (0, None)
        files = {p.name for p in tmp_path.glob("chains*.txt")}
        expected = {f"chains_{i + 1}.txt" for i in range(chains)}
        assert files == expected | {"chains_of_mine.txt"}
    assert not [p for p in tmp_path.iterdir() if p.name.startswith(".")]


@pytest.mark.parametrize("stage", [SEARCH, GIBBS_STAGE])
def test_ctrl_c_ends_with_what_is_there(stage, model, tmp_path, monkeypatch, capfd):
    @contextmanager
    def stages(label=""):
        def show(name, step, of=None):
            if name == stage and step == (2 if stage == SEARCH else 7):  # 5 draws after burn-in
                signal.raise_signal(signal.SIGINT)

        yield show

    monkeypatch.setattr(progress, "stages", stages)
    out = tmp_path / "out"
    mock = ("--mock", 70, 0.032, 0.5, "--size", SIDE, "--model", model, "-o", out)
    code = run(monkeypatch, *mock, "--chains", 2, "--draws", 10, "--samples", 2)
    printed, complaint = capfd.readouterr()
    assert code == 130
    assert complaint.endswith("gibbsdiff: interrupted\n")
    if stage == SEARCH:
        assert not out.exists()
        assert printed == ""
        return
    assert printed.startswith("INTERRUPTED, NOT CONVERGED: gibbs")
    found = Posterior.load(out / "posterior.nc")
    assert found.interrupted
    assert 0 < found.phi.shape[1] < 10
    assert {"dust.fits", "cmb.fits", "mixture.fits", "chains_1.txt", "chains_2.txt",
            "report.png"} <= {p.name for p in out.iterdir()}  # fmt: skip


def test_weights_are_those_asked_for(model, tmp_path, monkeypatch):
    """None by default, and the result says which they were."""
    mock = ("--mock", 70, 0.032, 0.5, "--size", SIDE, "--model", model, "--method", "marginal")
    short = ("--chains", 2, "--draws", 4, "--samples", 0)
    found = []
    for given in (("--weights", "sure"), ("--weights", "none"), ()):
        out = tmp_path / "-".join(["out", *given])
        assert run(monkeypatch, *mock, *short, *given, "-o", out) in (0, None)
        found.append(Posterior.load(out / "posterior.nc"))
    sure, plain, usual = found
    assert "where the network is sure" in sure.how
    assert "where the network is sure" not in plain.how
    assert torch.equal(usual.phi, plain.phi)
    assert not torch.equal(sure.phi, plain.phi)


def test_a_check_is_known_by_its_weights():
    usual, plain, weighted = (
        MockRun("maps", "d", None, "e", **how)
        for how in ({"weights": "sure"}, {"weights": "none"}, {"weighted_chains": True})
    )
    assert weighted.options(3).weighted_chains
    assert plain.identity == usual.identity | {"weights": "none"}
    assert weighted.identity["weighted_chains"] is True


def test_the_report_shows_both_errors_and_an_interruption(tmp_path):
    noise, rng = CMBNoise(), Streams.batch(0, 4)
    truth = torch.tensor([0.5, 70.0, 0.032], dtype=torch.float64)
    scale = (noise.high - noise.low) / 100
    x = Streams(1, [(0,)]).normal(SIDE, SIDE)
    mixture = mock(tuple(truth.tolist()), x.float(), noise, seed=2)
    posterior = Posterior(
        noise.names,
        truth + scale * rng.normal(100, 3),
        mixture.y,
        mixture.dust,
        model_error=torch.diag(3 * scale**2),
        box=torch.stack([noise.low, noise.high]),
        method="marginal",
        interrupted=True,
        truth=mixture.truth,
        notes=("no uncertainty map: there is none",),
    )
    page = report(tmp_path / "report.png", mixture, posterior, noise, "a mock")
    words = {t.get_text(): t.get_color() for t in page.findobj(Text) if t.get_text()}
    (line,) = [t for t in words if t.startswith("INTERRUPTED, the search ended")]
    assert words[line] == VERMILION
    assert any("a mock · no uncertainty map: there is none" in t for t in words)
    assert any("with the network's" in t for t in words)
    assert not any("sd of either" in t for t in words)
    row = posterior.rows[1]
    assert f"{row.mean:.2f} ± {row.sd:.2f}" in words
    assert f"± {row.total_sd:.2f}" in words
    # The table judges by the larger error.
    table = truth_table(posterior).splitlines()
    assert float(table[2].split()[-1]) == pytest.approx((70 - row.mean) / row.total_sd, abs=0.006)
    assert "with model error" in table[0]


def test_what_was_written_can_be_read_again(model, tmp_path):
    header = fits.Header({"BUNIT": "mK"})
    pixels = np.random.default_rng(0).standard_normal((SIDE, SIDE)) + 7
    fits.writeto(tmp_path / "map.fits", pixels, header)
    mixture = read_mixture(tmp_path / "map.fits", dust_rms=200.0)
    assert np.allclose(mixture.y[0], (pixels - pixels.mean()) * 1000 / 200, atol=1e-5)
    np.save(tmp_path / "map.npy", pixels)
    assert np.allclose(read_mixture(tmp_path / "map.npy").y[0], pixels - pixels.mean(), atol=1e-5)


BAD = {
    "wide": (np.zeros((32, 48)), None, "square"),
    "nan": (np.full((32, 32), np.nan), None, "all pixels are NaN"),
    "hole": (np.where(np.eye(32) > 0, np.nan, 1.0), None, "32 of 1024 pixels"),
    "flat": (np.ones((32, 32)), None, "equal"),
    "unitless": (np.eye(32), "", "no unit"),
    "jansky": (np.eye(32), "MJy/sr", "'MJy/sr'"),
    "large": (np.eye(64), None, "not 64"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_maps_are_one_line_and_exit_2(name, model, tmp_path, monkeypatch, capsys):
    pixels, unit, message = BAD[name]
    path = tmp_path / (f"{name}.npy" if unit is None else f"{name}.fits")
    if unit is None:
        np.save(path, pixels)
    else:
        fits.writeto(path, pixels, fits.Header({"BUNIT": unit} if unit else {}))
    code = run(monkeypatch, path, "--model", model, "--dust-rms", 1.0, "-o", tmp_path / "out")
    complaint = capsys.readouterr().err
    assert code == 2
    assert message in complaint
    assert complaint.count("\n") == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--mock", 95, 0.03, 0.5), "H0 = 95 is outside its prior range [50, 90]"),
        (("--mock", 70, 0.1, 0.5), "omega_b = 0.1 is outside"),
        (("--mock", 70, 0.03, 3.0), "sigma = 3 is outside"),
        ((), "give a map, or --mock"),
        (("none.fits", "--dust-rms", 1.0), "none.fits: no such file"),
        (("none.npy",), "none.npy: No such file"),
        (("none.npy", "--dust", "maps.npz"), "--dust: for a mock"),
        (("--mock", 70, 0.03, 0.5, "--device", "nowhere"), "device 'nowhere': not available"),
    ],
)
def test_bad_arguments_are_one_line_and_exit_2(
    arguments, message, model, tmp_path, monkeypatch, capsys
):
    tiny = ("--model", model, "-o", tmp_path / "out")
    tiny += ("--size", SIDE) if "--mock" in arguments else ()
    assert run(monkeypatch, *arguments, *tiny) == 2
    complaint = capsys.readouterr().err
    assert message in complaint
    assert complaint.count("\n") == 1


def test_a_fits_map_needs_the_dusts_rms(tmp_path, monkeypatch, capsys):
    fits.writeto(tmp_path / "map.fits", np.eye(32), fits.Header({"BUNIT": "uK_CMB"}))
    assert run(monkeypatch, tmp_path / "map.fits") == 2
    assert "--dust-rms" in capsys.readouterr().err


def test_the_lognormal_field_has_the_spectrum_of_the_signal():
    level, shape, count = MEAN / SD, (64, 64), 60
    x = torch.stack([lognormal(SIGNAL, shape, level, seed) for seed in range(count)])
    assert float(x.min()) > -level
    bins = radial_bins(shape, most=12)
    P = bins.sum(power(x.double()).mean(0)) / bins.k.weight
    S = bins.sum(SIGNAL.power(shape)[:, 0]) / bins.k.weight
    # Fourth moments of a lognormal are large: a few per cent after 60 fields.
    assert (P / S)[0, 2:].log().abs().max() < 0.25


def test_a_mock_takes_its_dust_from_the_test_block_on_the_training_scale(tmp_path):
    maps = np.arange(4, dtype=np.float32)[:, None, None, None] + np.zeros((4, 2, 64, 64), "f4")
    np.savez(tmp_path / "maps.npz", maps=maps)
    card = {"config": {"data": {"blocks": {"test": [2, 3]}}}, "maps": {"mean": MEAN, "sd": SD}}
    seen = set()
    for seed in range(12):
        x, source = dust_from_file(tmp_path / "maps.npz", 32, card, seed)
        assert x.shape == (1, 32, 32)
        value = float(x[0, 0, 0]) * SD + MEAN
        assert f"snapshot {value:.0f}" in source
        seen.add(round(value))
    assert seen == {2, 3}
