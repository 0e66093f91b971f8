"""Every method gives what it gave before: φ̂, its covariance and the mean picture, fixed seeds."""

from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from skimage import data

import gibbsdiff
from gibbsdiff import GaussianDenoiser, PowerLawNoise, Streams
from gibbsdiff.cosmo.infer import dust_model, infer
from gibbsdiff.cosmo.mock import dust_like, mock
from gibbsdiff.diffusion.signal import PowerLawSignal
from gibbsdiff.diffusion.solvers import few_step
from gibbsdiff.inference import pipeline
from gibbsdiff.inference.gibbs import Settings, gibbs
from gibbsdiff.inference.marginal import Marginal
from gibbsdiff.inference.problem import Options
from gibbsdiff.inference.search import find_mode
from gibbsdiff.noise.cmb import CMBNoise

VALUES = Path(__file__).with_name("values.npz")
SEED = 3
TOLERANCE = 1e-3  # processors round differently, and networks make more of it
HOW = {
    "first": {"method": "marginal", "second_stage": False},
    "both": {"method": "marginal", "second_stage": True, "calls": 4},
    "gibbs": {"method": "gibbs", "chains": 2, "draws": 6, "calls": 3, "turned": False},
}


def photograph(name, height, width, grey=False):
    x = torch.from_numpy(getattr(data, name)()[::2, ::2].copy()).permute(2, 0, 1).float() / 255
    x = x[:, 20 : 20 + height, 40 : 40 + width]
    return x.mean(0, keepdim=True) if grey else x


def noisy(x, phi, seed):
    height, width = x.shape[-2:]
    rng = Streams.batch(seed, 1)
    field = PowerLawNoise().draw((2 * height, 2 * width), phi, rng, len(x), torch.float32)
    return x + field[0, :, :height, :width]


def picture(name):
    if name == "astronaut":
        return noisy(photograph(name, 64, 64), (0.1, -0.5), 1)
    if name == "coffee":
        return noisy(photograph(name, 64, 64, grey=True), (0.08, 0.3), 2)
    y = noisy(photograph("chelsea", 48, 72), (0.15, 0.0), 4)
    y[:, 10:13, 20:25] = float("nan")
    return y


def blocks(mean):
    """Means over blocks of 4×4 or, of a large picture, 16×16."""
    channels, height, width = mean.shape
    side = 16 if height > 200 else 4
    rows, columns = height // side, width // side
    cut = mean[:, : rows * side, : columns * side].double().numpy()
    return cut.reshape(channels, rows, side, columns, side).mean((2, 4))


@pytest.fixture
def modes(monkeypatch):
    """The modes that the pipeline finds."""
    seen = []
    find = pipeline.model_error

    def spy(marginal, mode):
        seen.append(mode)
        return find(marginal, mode)

    monkeypatch.setattr(pipeline, "model_error", spy)
    return seen


def near(found, golden, size, part=TOLERANCE):
    """Within a part of the size that each number is compared by."""
    assert (np.abs(np.asarray(found) - golden) <= part * size).all(), (found, golden)


def same(name, posterior, modes, scale=1.0):
    """`scale` states the amplitude of windows for the whole picture."""
    with np.load(VALUES) as file:
        golden = {k.split("/")[1]: file[k] for k in file.files if k.startswith(f"{name}/")}
    if posterior.is_chains:
        same_chains(posterior, golden)
    else:
        np.testing.assert_allclose(blocks(posterior.mean), golden["mean"], atol=TOLERANCE)
    by = np.array([scale] + [1.0] * (posterior.phi.shape[-1] - 1))
    # An index may be near 0, and a rounding error is not: by the largest draw of each parameter.
    size = np.abs(golden["draws"]).max((0, 1))
    if modes:
        (mode,) = modes
        near(mode.phi[0], golden["phi_hat"], size)
        for found, matrix in (
            (mode.covariance[0], golden["covariance"]),
            (posterior.model_error, golden["model_error"] * by[:, None] * by),
        ):
            sd = np.sqrt(matrix.diagonal())
            near(found, matrix, sd[:, None] * sd, 10 * TOLERANCE)
    if not posterior.is_chains:
        near(posterior.phi, golden["draws"] * by, size * by)


def same_chains(posterior, golden):
    """Chains make much of a rounding error, and processors round differently: of a few draws the
    means are the same within their spread, and the picture within a part of its sd.
    """
    draws = golden["draws"]
    near(posterior.phi.mean((0, 1)), draws.mean((0, 1)), draws.std((0, 1)), 4)
    off = blocks(posterior.mean) - golden["mean"]
    assert np.sqrt(np.mean(off**2)) < 0.2 * float(posterior.sd.mean())


@pytest.fixture(scope="module")
def natural():
    return gibbsdiff.load_model("natural-fast")


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("name", ["astronaut", "coffee", "chelsea"])
def test_photographs(natural, modes, name, how):
    posterior = gibbsdiff.denoise(picture(name), model=natural, seed=SEED, **HOW[how])
    same(f"{name}-{how}", posterior, modes)


def test_known_noise(natural, modes):
    known = {"sigma": 0.1, "phi": -0.5}
    posterior = gibbsdiff.denoise(picture("astronaut"), model=natural, seed=SEED, known=known)
    same("astronaut-known", posterior, modes)


def large():
    x = torch.from_numpy(data.rocket().copy()).permute(2, 0, 1).float() / 255
    return noisy(x, (0.1, -0.3), 5)


def test_windows_of_a_large_picture(natural, modes):
    posterior = gibbsdiff.denoise(large(), model=natural, seed=SEED)
    with np.load(VALUES) as file:
        level, sigma = float(file["rocket-windows/noise_level"]), modes[0].phi[0, 0]
    assert posterior.level == pytest.approx(level, rel=TOLERANCE)
    same("rocket-windows", posterior, modes, scale=level / float(sigma))


@pytest.mark.parametrize("method", ["marginal", "gibbs"])
def test_dust(modes, method):
    found, noise = dust_model(128), CMBNoise()
    x, _ = dust_like(found.denoiser.signal, 128, found.card, SEED)
    options = Options(method, 2, 6, 1, samples=1, seed=SEED)
    mixture = mock((0.5, 70.0, 0.032), x, noise, SEED)
    posterior = infer(mixture, found, noise, options)
    same(f"dust-{method}", posterior, modes)


GAUSSIAN = GaussianDenoiser(PowerLawSignal((2e-3,), (2.0,), 0.4))


def gaussian():
    x = GAUSSIAN.prior((32, 32), Streams.batch(7, 1))
    return x + PowerLawNoise().draw((32, 32), (0.2, -0.4), Streams.batch(8, 1))


def test_exact_chains():
    settings = Settings(chains=2, iterations=12, burn_in=4, keep_samples=1, seed=SEED)
    sampler = partial(few_step, calls=1)
    (posterior,) = gibbs(gaussian(), PowerLawNoise(), GAUSSIAN, settings=settings, sampler=sampler)
    with np.load(VALUES) as file:
        same_chains(posterior, {k: file[f"gaussian-gibbs/{k}"] for k in ("draws", "mean")})


def test_exact_marginal_in_double_precision():
    marginal = Marginal(gaussian(), PowerLawNoise(), GAUSSIAN, seed=SEED)
    mode = find_mode(marginal)
    with np.load(VALUES) as file:
        golden = {k.split("/")[1]: file[k] for k in file.files if k.startswith("gaussian-marg")}
    np.testing.assert_allclose(mode.phi[0], golden["phi_hat"], rtol=1e-5)
    np.testing.assert_allclose(mode.covariance[0], golden["covariance"], rtol=1e-5)
    np.testing.assert_allclose(blocks(mode.mean[0]), golden["mean"], rtol=1e-5)
