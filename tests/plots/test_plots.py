"""Figures of a posterior: the numbers in them, and that they can always be drawn and written."""

import math
from dataclasses import replace

import matplotlib
import numpy as np
import pytest
import torch
from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text
from skimage.io import imread

from gibbsdiff.errors import InputError
from gibbsdiff.inference.posterior import Posterior
from gibbsdiff.noise import BandedNoise, PowerLawNoise
from gibbsdiff.plots import figure, mass_levels, radial_power, report, save
from gibbsdiff.plots.arithmetic import block_mean, block_size, radial_average, spectrum_bins
from gibbsdiff.plots.density import MASSES, contours
from gibbsdiff.plots.parameters import corner, corner_key, with_model_error
from gibbsdiff.plots.spectrum import residual_spectrum
from gibbsdiff.plots.style import INK, VERMILION, label, plain
from gibbsdiff.streams import Streams


def make(shape=(3, 24, 32), names=("sigma", "phi"), chains=4, draws=60, **fields):
    """A picture of white noise around a ramp; φ from a Gaussian around 0.1."""
    rng = Streams.batch(0, chains)
    phi = 0.1 + 0.01 * rng.normal(draws, len(names))
    eps = 0.1 * Streams.batch(1, 1).normal(*shape)[0]
    x = torch.linspace(0.2, 0.8, shape[-1], dtype=torch.float64).expand(shape).clone()
    power = torch.full((1, shape[-2], shape[-1] // 2 + 1), 0.01, dtype=torch.float64)
    sd = eps.abs() / 3
    return replace(Posterior(names, phi, x + eps, x, sd, noise_power=power), **fields)


def drawn(posterior, tmp_path, **options):
    """The report as an array; matplotlib's global state stays as it was."""
    before = dict(matplotlib.rcParams)
    report(posterior, tmp_path / "report.png", title="a_$title$ 漢", **options)
    assert [p.name for p in tmp_path.iterdir()] == ["report.png"]
    assert dict(matplotlib.rcParams) == before
    assert not pyplot.get_fignums()
    return imread(tmp_path / "report.png")


def test_levels_of_a_gaussian_are_its_closed_form():
    # {p ≥ ℓ} of a standard normal in two dimensions is the disc of radius² -2 log(1 - mass).
    side = torch.linspace(-6, 6, 601, dtype=torch.float64)
    r2 = side[:, None] ** 2 + side**2
    p = torch.exp(-r2 / 2)
    for mass in (0.68, 0.95):
        (level,) = mass_levels(p, (mass,))
        assert level == pytest.approx(1 - mass, rel=0.01)  # p at that radius, p(0) = 1


def test_contours_enclose_their_share_of_draws():
    # Contours are fitted to some draws and counted on others of the same law.
    root = torch.tensor([[1.0, 0.0], [-0.9, 0.3]], dtype=torch.float64)
    points = (root @ Streams.batch(0, 2).normal(1500)).numpy()
    x, y, density, levels = contours(points * np.array([[1e-4], [1.0]]))
    fresh = (root @ Streams.batch(1, 2).normal(20000)).numpy() * np.array([[1e-4], [1.0]])
    column = np.searchsorted((x[1:] + x[:-1]) / 2, fresh[0])
    row = np.searchsorted((y[1:] + y[:-1]) / 2, fresh[1])
    for level, mass in zip(levels, MASSES, strict=True):
        share = (density[row, column] >= level).mean()
        # The level comes from 1500 draws; 0.01 is for the grid's cells and the kernel's shape.
        assert abs(share - mass) < 4 * math.sqrt(mass * (1 - mass) / 1500) + 0.01


@pytest.mark.parametrize("shape", [(64, 64), (45, 70)])
def test_radial_power_of_white_noise_is_its_variance(shape):
    sigma, channels = 0.3, 3
    eps = sigma * Streams.batch(2, 1).normal(channels, *shape)[0]
    bins = spectrum_bins(*shape)
    z = (radial_power(eps, bins) / sigma**2 - 1) / torch.sqrt(2 / (channels * bins.k.weight))
    assert z[1:].abs().max() < 5  # χ² has a heavier tail than a Gaussian
    assert (z[1:] ** 2).mean() == pytest.approx(1, abs=4 * math.sqrt(3 / len(z)))
    # Parseval: the bins hold all of the power.
    total = (radial_power(eps, bins) * bins.k.weight).sum()
    assert float(total) == pytest.approx(float(eps.square().sum() / channels), rel=1e-9)


def test_radial_average_follows_a_power_law():
    shape = (96, 128)
    bins = spectrum_bins(*shape)
    N = PowerLawNoise().power(shape, torch.tensor([[0.2, -1.0]], dtype=torch.float64))[0, 0]
    exact = torch.exp(PowerLawNoise().log_power(bins.k, torch.tensor([[0.2, -1.0]]).double()))[0]
    ratio = radial_average(N, bins) / exact
    assert (ratio[1:] - 1).abs().max() < 0.02  # second order in the bins' width


@pytest.mark.parametrize("shape", [(3, 64, 96), (1, 50, 131)])
def test_block_means_keep_the_mean(shape):
    image = Streams.batch(3, 1).normal(*shape)[0]
    small, block = block_mean(image, 20), block_size(*shape[1:], 20)
    assert max(small.shape[1:]) <= 20
    # Blocks at the edge are smaller: weigh each by its pixels.
    rows = [min(block, shape[1] - i) for i in range(0, shape[1], block)]
    columns = [min(block, shape[2] - i) for i in range(0, shape[2], block)]
    weight = torch.tensor(rows)[:, None] * torch.tensor(columns)
    assert torch.allclose(
        (small * weight).sum((1, 2)) / weight.sum(), image.mean((1, 2)).float(), atol=1e-6
    )
    assert torch.equal(block_mean(image, 131), image)


def test_spectrum_shows_the_noise_in_the_units_of_the_input():
    posterior = make((1, 48, 64), unit=255.0)
    posterior = replace(posterior, samples=posterior.mean[None])
    axis = Figure().subplots()
    residual_spectrum(axis, posterior)
    lines = {line.get_label(): line.get_ydata() for line in axis.get_lines()}
    expected = lines[r"$N_\varphi$, posterior mean"]
    assert np.allclose(expected, (0.1 * 255) ** 2)
    weight = spectrum_bins(48, 64).k.weight.numpy()[1:]
    sample = next(v for k, v in lines.items() if "sample" in str(k))
    z = (sample / expected - 1) / np.sqrt(2 / weight)
    assert np.abs(z.mean()) < 4 / math.sqrt(len(z))


def test_missing_pixels_take_no_part():
    whole = make((1, 48, 64))
    missing = Streams.batch(5, 1).uniform(48, 64)[0] < 0.3
    holed = replace(whole, observed=torch.where(missing, math.nan, whole.observed), missing=missing)
    powers = []
    for posterior in (whole, holed):
        axis = Figure().subplots()
        residual_spectrum(axis, posterior)
        powers.append(next(x for x in axis.get_lines() if "mean:" in str(x.get_label())))
    first, second = (line.get_ydata() for line in powers)
    weight = spectrum_bins(48, 64).k.weight.numpy()[1:]
    ratio = (second * weight).sum() / (first * weight).sum()
    assert ratio == pytest.approx(1, abs=4 * math.sqrt(2 * 0.3 / 0.7 / (48 * 64)))


def test_corner_marks_the_truth_and_all_draws():
    posterior = make(truth=(0.105, 0.09))
    axes = Figure().subplots(2, 2)
    corner(axes, posterior)
    points = [x for x in axes[1, 0].get_lines() if x.get_linestyle() == "None"]
    assert sum(len(x.get_xdata()) for x in points) == posterior.phi[..., 0].numel()
    assert len({x.get_color() for x in points}) == 4
    assert axes[0, 0].get_lines()[-1].get_xdata() == [0.105, 0.105]
    assert [axes[1, 0].get_xlabel(), axes[1, 0].get_ylabel()] == [r"$\sigma$", r"$\varphi$"]


CASES = {
    "colour": {"samples": torch.zeros(1, 3, 24, 32), "truth": (0.1, 0.12)},
    "grey, one parameter, one chain": {"shape": (1, 24, 40), "names": ("sigma",), "chains": 1},
    "eight parameters": {"names": BandedNoise().names, "chains": 8},
    "one draw": {"chains": 1, "draws": 1},
    "independent draws": {
        "method": "marginal",
        "model_error": 1e-4 * torch.eye(2, dtype=torch.float64),
    },
    "no map": {
        "method": "known noise",
        "sd": None,
        "phi": torch.full((1, 20, 2), 0.1, dtype=torch.float64),
        "notes": ("no uncertainty map: the denoiser says nothing of the error in a pixel",),
    },
    "odd names": {"names": ("my $x", "omega_b", "depth"), "chains": 7},
    "two channels, tall, holes": {"shape": (2, 80, 9), "missing": torch.eye(80)[:, :9] > 0},
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_figures_can_be_drawn(case, tmp_path):
    page = drawn(make(**case), tmp_path)
    assert page.shape[1] / page.shape[0] == pytest.approx(math.sqrt(2), abs=0.01)


@pytest.mark.parametrize("case", ["colour", "one draw", "independent draws", "no map"])
def test_the_whole_figure_can_be_written(case, tmp_path):
    page = make(**CASES[case]).plot(tmp_path / "figure.png", noise=PowerLawNoise())
    assert isinstance(page, Figure)
    assert [p.name for p in tmp_path.iterdir()] == ["figure.png"]
    assert imread(tmp_path / "figure.png").std() > 10


def texts(page):
    """All that is written in a figure."""
    return "\n".join(t.get_text() for t in page.findobj(Text))


@pytest.mark.parametrize("draw", [figure, report])
def test_chains_are_spoken_of_for_chains_alone(draw):
    chains = texts(draw(make(chains=2)))
    assert "chain 1" in chains
    assert "NOT CONVERGED" in texts(draw(make(chains=2, draws=4)))
    alone = texts(draw(make(**CASES["independent draws"])))
    assert "chain" not in alone
    assert "R-hat" not in alone
    assert "240 draws" in alone
    assert "the search ended" in alone


@pytest.mark.parametrize("draw", [figure, report])
@pytest.mark.parametrize("method", ["gibbs", "marginal"])
def test_an_interrupted_run_says_so_in_red(draw, method):
    for interrupted in (True, False):
        posterior = make(chains=2, draws=200, method=method, interrupted=interrupted)
        page = draw(posterior)
        found = [t for t in page.findobj(Text) if posterior.verdict in t.get_text()]
        assert len(found) == 1
        assert ("INTERRUPTED" in found[0].get_text()) == interrupted
        assert found[0].get_color() == (VERMILION if interrupted else INK)


@pytest.mark.parametrize("draw", [figure, report])
def test_without_a_map_there_is_no_panel_and_a_reason(draw):
    posterior = make(**CASES["no map"])
    page = draw(posterior)
    assert "uncertainty" not in {a.get_title() for a in page.findobj(Axes)}
    assert "no uncertainty map: the denoiser says nothing of the error in a pixel" in texts(page)
    with_map = draw(replace(posterior, sd=posterior.mean))
    assert "uncertainty" in {a.get_title() for a in with_map.findobj(Axes)}
    # Nothing was inferred of φ: no corner plot, but the values.
    assert "noise parameters" not in texts(page)
    assert "0.1" in texts(page)


def inside(found, points):
    """Shares of points (2, n) within the contours, the outer one first."""
    x, y, density, levels = found
    column = np.searchsorted((x[1:] + x[:-1]) / 2, points[0])
    row = np.searchsorted((y[1:] + y[:-1]) / 2, points[1])
    return [float((density[row, column] >= level).mean()) for level in levels]


@pytest.mark.parametrize("method", ["gibbs", "marginal"])
def test_outer_contours_have_the_networks_error_in_them(method):
    raw, extra = 1e-4, torch.tensor([[3e-4, 1e-4], [1e-4, 2e-4]], dtype=torch.float64)
    posterior = make(draws=100, method=method, model_error=extra)
    wide = with_model_error(posterior)
    total = raw * torch.eye(2, dtype=torch.float64) + extra
    # Copies of one draw have its error in common: 400 draws count.
    assert torch.allclose(
        torch.cov(wide.T), total, atol=5 * float(total.max()) * math.sqrt(2 / 400)
    )
    fresh = 0.1 + Streams.batch(9, 2).normal(20000).T @ torch.linalg.cholesky(total).T
    outer = inside(contours(wide.T.numpy()), fresh.T.numpy())
    inner = inside(contours(posterior.phi.flatten(0, 1).T.numpy()), fresh.T.numpy())
    for mass, share, less in zip(MASSES, outer, inner, strict=True):
        assert abs(share - mass) < 4 * math.sqrt(mass * (1 - mass) / 400) + 0.01
        # Contours of the raw draws are discs of radius² -2 raw log(1 - mass).
        r2 = (fresh - 0.1).square().sum(1)
        expected = float((r2 <= -2 * raw * math.log(1 - mass)).double().mean())
        assert abs(less - expected) < 4 * math.sqrt(mass * (1 - mass) / 400) + 0.01
        assert less < share - 0.15
    axes = Figure().subplots(2, 2)
    corner(axes, posterior)
    shown = texts(axes[0, 0].get_figure())
    for row in posterior.rows:
        assert f"± {row.sd:.3f}" in shown
        assert f"± {row.total_sd:.3f}" in shown
    assert any("network's" in h.get_label() for h in corner_key(posterior))
    assert not any("network's" in h.get_label() for h in corner_key(make()))


@pytest.mark.parametrize(("level", "noise"), [(0.0, PowerLawNoise()), (-3.0, None)])
def test_report_of_a_constant_and_a_known_parameter(level, noise, tmp_path):
    posterior = make((1, 16, 24), unit=255.0)
    flat = torch.full((1, 16, 24), level)
    phi = posterior.phi.clone()
    phi[..., 1] = level
    if noise is None:
        phi[..., 0] = 0.1
    posterior = replace(posterior, phi=phi, observed=flat, mean=flat, sd=0 * flat, noise_power=None)
    drawn(posterior, tmp_path, noise=noise)


def test_a_failed_write_leaves_nothing(tmp_path):
    (tmp_path / "taken.png").mkdir()  # a folder is in the way
    with pytest.raises(InputError, match="taken"):
        report(make(), tmp_path / "taken.png")
    assert [p.name for p in tmp_path.iterdir()] == ["taken.png"]
    with pytest.raises(InputError, match=r"figure\.xyz: .* \.xyz"):
        save(Figure(), tmp_path / "figure.xyz")
    assert [p.name for p in tmp_path.iterdir()] == ["taken.png"]


def test_names_and_titles():
    assert [label(n) for n in ("sigma", "phi", "a3", "omega_b", "H0", "depth")] == [
        r"$\sigma$",
        r"$\varphi$",
        "$a_{3}$",
        r"$\omega_{b}$",
        "$H_{0}$",
        "depth",
    ]
    assert plain("σ × 漢\nå") == "σ × ?\nå"
