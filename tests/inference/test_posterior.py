"""The result as numbers and as text: one meaning, whichever method it came from."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.stats import kstest

import gibbsdiff
from gibbsdiff.inference.posterior import Posterior
from gibbsdiff.inference.summary import converged, summarise
from gibbsdiff.noise import PowerLawNoise
from gibbsdiff.streams import Streams

ERROR = torch.tensor([[4e-4, -1e-3], [-1e-3, 9e-3]], dtype=torch.float64)
BOX = torch.tensor([[0.01, -1.0], [1.0, 1.0]], dtype=torch.float64)


def make(draws=400, drift=0.0, **others):
    rng = Streams.batch(0, 4)
    phi = torch.stack([0.1 + 0.01 * rng.normal(draws), rng.uniform(draws)], -1)
    phi[:, :, 0] += drift * torch.arange(4)[:, None]
    image = Streams.batch(1, 1).normal(3, 9, 11)[0]
    facts = {"sd": image.abs(), "calls": 77, "seconds": 1.5, "divergences": 3}
    return Posterior(("sigma", "phi"), phi, image, image / 2, **(facts | others))


def test_summary_is_that_of_the_law():
    """Normal and uniform draws: moments, quantiles and ESS are known."""
    sigma, phi = make(4000).rows
    assert sigma.mean == pytest.approx(0.1, abs=4 * 0.01 / math.sqrt(16000))
    assert sigma.sd == pytest.approx(0.01, rel=0.03)
    assert (phi.low, phi.high) == pytest.approx((0.05, 0.95), abs=0.01)
    assert phi.ess_bulk == pytest.approx(16000, rel=0.15)
    first = make().summary().splitlines()[0]
    assert first.startswith("converged: gibbs, 4 chains × 400 draws")
    assert "3 divergences" in first
    assert "77 network calls, 1.5 s" in first
    data = make().inference_data()
    assert dict(data.posterior.sizes) == {"chain": 4, "draw": 400}


def test_chains_that_disagree_or_stand_still_have_not_converged():
    assert make().converged
    assert not make(drift=0.1).converged
    assert make(drift=0.1).summary().startswith("NOT CONVERGED")
    assert not make(draws=20).converged
    assert not converged(torch.ones(4, 400, 1).double())
    (short,) = summarise(torch.ones(4, 2, 1), ("sigma",))
    assert math.isnan(short.rhat)


@pytest.mark.parametrize("method", ["gibbs", "marginal"])
def test_both_standard_deviations_are_shown_whichever_method_ran(method):
    raw, wide = make(method=method), make(method=method, model_error=ERROR)
    for i, (a, b) in enumerate(zip(raw.rows, wide.rows, strict=True)):
        assert b.sd == a.sd == a.total_sd
        assert b.total_sd == pytest.approx(math.sqrt(a.sd**2 + float(ERROR[i, i])))
        assert (b.mean, b.low, b.high) == (a.mean, a.low, a.high)  # the draws are raw
        line = wide.summary().splitlines()[2 + i].split()
        assert line[2:4] == [f"{b.sd:.5f}", f"{b.total_sd:.5f}"]
    assert "with model error" in wide.summary()
    assert "with model error" not in raw.summary()


def test_each_method_has_its_own_word():
    """R-hat and ESS are of chains, "ended" is of a search."""
    chains, marginal = make(), make(method="marginal", how=("first stage", "laplace density"))
    assert "R-hat" in chains.summary()
    assert all(math.isfinite(r.rhat) for r in chains.rows)
    assert "R-hat" not in marginal.summary()
    assert all(math.isnan(r.rhat) and math.isnan(r.ess_bulk) for r in marginal.rows)
    first = marginal.summary().splitlines()[0]
    assert first.startswith("the search ended: marginal (first stage, laplace density), 1600 draws")
    assert "converged" not in marginal.summary().lower()
    assert "divergences" not in marginal.summary()
    assert not marginal.converged
    assert marginal.good
    lost = replace(marginal, ended=False)
    assert lost.verdict == "the search did NOT end"
    assert not lost.good
    stopped = replace(marginal, interrupted=True)
    assert stopped.verdict == "INTERRUPTED, the search ended"
    assert not stopped.good
    assert replace(marginal, method="known noise").verdict == "the noise was given"


@pytest.mark.parametrize("count", [1, 2, 8, 12])
@pytest.mark.parametrize("method", ["gibbs", "marginal", "known noise"])
def test_repr_fits_on_ten_lines(count, method):
    image = torch.zeros(3, 9, 11)
    phi = Streams.batch(0, 2).normal(20, count)
    names = tuple(f"parameter_{i}" for i in range(count))
    error = 1e-3 * torch.eye(count)
    p = Posterior(names, phi, image, image, image, model_error=error, method=method)
    lines = repr(p).splitlines()
    assert len(lines) <= 10
    assert max(map(len, lines)) <= 100
    assert f"parameter_0 = {p.rows[0].mean:.4g} ± {p.rows[0].total_sd:.2g}" in repr(p)
    if count > 6:
        assert f"and {count - 5} more parameters" in repr(p)
    else:
        assert f"parameter_{count - 1} =" in repr(p)


def test_widened_draws_have_the_sum_of_both_covariances():
    """Far from the walls: Cov = raw + eq. (12), each entry within 4 Monte-Carlo errors."""
    rng = Streams.batch(5, 1)
    raw = torch.tensor([[1e-4, 2e-4], [2e-4, 2e-3]], dtype=torch.float64)
    draws = rng.normal(40000, 2) @ torch.linalg.cholesky(raw).mT
    p = replace(make(), phi=draws + 0.4, model_error=ERROR, box=BOX)
    wide = p.widened(3)
    found, expected = torch.cov(wide.phi[0].T), raw + ERROR
    scale = expected.diagonal().sqrt()
    error = (expected.square() + scale[:, None].square() * scale.square()).sqrt() / 200
    assert bool(((found - expected).abs() < 4 * error).all())
    assert torch.allclose(wide.phi.mean((0, 1)), p.phi.mean((0, 1)), atol=4 * 0.11 / 200)
    assert wide.model_error is None
    assert wide.how == (*p.how, "with model error")
    assert [r.sd for r in wide.rows] == pytest.approx([r.total_sd for r in p.rows], rel=0.03)
    assert torch.equal(wide.phi, p.widened(3).phi)
    assert not torch.equal(wide.phi, p.widened(4).phi)
    assert torch.equal(p.phi, draws + 0.4)
    bare = make()
    assert bare.widened() is bare


def test_reflection_stays_in_the_box_and_keeps_a_uniform_density_uniform():
    u = Streams.batch(6, 1).uniform(20000, 2)
    p = replace(make(), phi=BOX[0] + u * (BOX[1] - BOX[0]), box=BOX, model_error=200 * ERROR)
    wide = p.widened().phi[0]
    assert bool(((wide >= BOX[0]) & (wide <= BOX[1])).all())
    for column, low, high in zip(wide.T, *BOX, strict=True):
        assert kstest(((column - low) / (high - low)).numpy(), "uniform").pvalue > 1e-3
    # A wall reflects: what stands at it spreads to one side, by the half-normal law.
    at_wall = replace(p, phi=BOX[1].expand(1, 20000, 2), model_error=ERROR).widened().phi[0]
    sd = ERROR.diagonal().sqrt()
    depth = ((BOX[1] - at_wall).mean(0) / sd).numpy()
    np.testing.assert_allclose(depth, math.sqrt(2 / math.pi), atol=4 * 0.6 / math.sqrt(20000))


@pytest.mark.parametrize("method", ["marginal", "gibbs"])
def test_a_networks_model_error_is_a_covariance_of_both_methods(fast, truth, method):
    """Eq. (12) at the same mode, whatever draws φ; draws are raw, and in the box."""
    shape = (32, 32)
    y = (0.45 + truth.coloured(shape, 0.1, 0.0, 1, 3)).astype(np.float32)
    options = {"chains": 2, "draws": 4, "calls": 2, "samples": 0, "noise": "white"}
    if method == "marginal":
        options["second_stage"] = False
    else:
        options["phi_step"] = gibbsdiff.conjugate_amplitude
    p = gibbsdiff.denoise(y, model=fast, method=method, **options)
    other = gibbsdiff.denoise(
        y,
        model=fast,
        method="marginal",
        weights=None,
        **(options | {"phi_step": None, "second_stage": False}),
    )
    weighted = gibbsdiff.denoise(
        y, model=fast, method="marginal", **(options | {"phi_step": None, "second_stage": False})
    )
    # Chains hear all of y - x, the marginal method what the network is sure of.
    same = weighted if method == "marginal" else other
    assert torch.allclose(p.model_error, same.model_error, rtol=0.5 if same is other else 1e-9)
    assert p.model_error.shape == (1, 1)
    (row,) = p.rows
    assert row.total_sd == pytest.approx(math.hypot(row.sd, math.sqrt(float(p.model_error))))
    assert p.box.tolist() == [[0.01], [1.0]]


def test_the_error_of_the_network_cannot_make_a_parameter_less_known_than_the_prior():
    """A mode on a wall has a huge response to first order; a box has no room for it."""
    p = make(model_error=1e4 * ERROR, box=BOX)
    most = ((BOX[1] - BOX[0]) / math.sqrt(12)).tolist()
    assert [r.total_sd for r in p.rows] == pytest.approx(most)
    assert [r.sd for r in p.widened().rows] == pytest.approx(most, rel=0.05)


def test_level_is_the_pixel_standard_deviation():
    noise = PowerLawNoise()
    power = noise.power((9, 11), torch.tensor([[0.3, -0.7]], dtype=torch.float64))[0, 0]
    assert make(noise_power=power).level == pytest.approx(0.3)
    assert math.isnan(make().level)
