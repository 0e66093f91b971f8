"""ρ_M of Gibbs chains: the exact kernel on a grid, its fixed point and rate, TV to p(σ | y)."""

import math
import re
import runpy
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from scipy import stats

from gibbsdiff.diffusion.analytic import GaussianDenoiser
from gibbsdiff.diffusion.signal import PowerLawSignal
from gibbsdiff.diffusion.solvers import few_step
from gibbsdiff.evidence.calibration.convergence import converge, residual_power, transition
from gibbsdiff.evidence.calibration.stationary import (
    Conditional,
    exact,
    theorem,
    total_variation,
)
from gibbsdiff.noise import WhiteNoise
from gibbsdiff.streams import Streams

TRUE = PowerLawSignal((5e-3,), (2.0,))
NOISE = WhiteNoise((0.2, 0.8))
STRONG = Conditional(PowerLawSignal((1e-2,), (2.0,)))
BIASED = Conditional(TRUE, bias=0.1)


def observed(shape, seed=3):
    x = GaussianDenoiser(TRUE).prior(shape, Streams(seed, [(0,)]))
    return x + NOISE.draw(shape, (0.45,), Streams(seed, [(1,)]))


def at_the_top(p):
    return torch.eye(len(p.sigma), dtype=torch.float64)[-1]


def test_the_law_of_the_residual_is_a_non_central_chi_square_for_a_white_signal():
    y = observed((8, 8))
    q = Conditional(PowerLawSignal((0.3,), (0.0,)), bias=0.2)
    sigma = torch.tensor([0.25, 0.7], dtype=torch.float64)
    T, probability = residual_power(y, q, sigma)
    assert torch.allclose(probability.sum(-1), torch.ones(2, dtype=torch.float64))
    for t, found, s in zip(T, probability, sigma.tolist(), strict=True):
        v = 0.3 * s**2 / (0.3 + s**2)
        mean = y * s**2 / (0.3 + s**2) - 0.2
        shift = float(mean.square().sum()) / v
        expected = torch.as_tensor(stats.ncx2.pdf(t / v, 64, shift)) * float(t[1] - t[0]) / v
        assert torch.allclose(found, expected, atol=1e-11)


@pytest.mark.parametrize("q", [Conditional(TRUE), STRONG], ids=["exact", "strong"])
def test_the_fixed_point_is_the_posterior_of_the_spectrum_that_the_chain_believes_in(q):
    y = observed((16, 16))
    p, pi = exact(y, NOISE, TRUE), exact(y, NOISE, q.signal)
    found = converge(transition(y, q, p.sigma), p, at_the_top(p), (60,))
    assert total_variation(pi, found.stationary.density) < 1e-11
    assert found.to_stationary[0] < 1e-11
    assert found.kl == pytest.approx(theorem(y, p, Conditional(TRUE), q)[0], abs=1e-9)
    assert found.limit == pytest.approx(total_variation(p, pi.density), abs=1e-11)
    assert found.to_posterior[0] == pytest.approx(found.limit, abs=1e-11)


def test_a_kernel_of_compatible_conditionals_is_reversible_and_others_are_not():
    """π(σ) K(σ' | σ) is symmetric for the conditionals of one joint: Gibbs on (σ, x)."""
    y = observed((16, 16))
    p = exact(y, NOISE, TRUE)

    def asymmetry(q):
        kernel = transition(y, q, p.sigma)
        pi = converge(kernel, p, at_the_top(p), (0,)).stationary.density * p.spacing
        flow = pi[:, None] * kernel
        return float((flow - flow.T).abs().sum())

    assert asymmetry(STRONG) < 1e-11
    assert asymmetry(BIASED) > 1e-3


@pytest.mark.parametrize("q", [STRONG, BIASED], ids=["strong", "biased"])
def test_the_law_after_a_few_iterations_is_that_of_simulated_chains(q):
    y = observed((16, 16))
    p = exact(y, NOISE, TRUE)
    kernel = transition(y, q, p.sigma)
    chains = 1500
    rng = Streams.batch(5, chains)
    many = y.expand(chains, -1, -1, -1)
    phi = torch.full((chains, 1), float(p.sigma[-1]), dtype=torch.float64)
    rho = at_the_top(p)
    for _ in range(3):
        x = few_step(q, many, NOISE.covariance((16, 16), phi), rng, calls=1).x
        phi = NOISE.redraw_amplitude(phi, NOISE.statistic(many - x), rng)
        rho = rho @ kernel
        moments = [float((rho * p.sigma**j).sum()) for j in (1, 2)]
        variance = moments[1] - moments[0] ** 2
        assert abs(float(phi.mean()) - moments[0]) < 4 * math.sqrt(variance / chains)
        near = int((p.sigma < moments[0]).sum())
        middle = float(p.sigma[near]) + 0.5 * p.spacing  # between two values of the grid
        share = float((phi <= middle).double().mean())
        assert abs(share - float(rho[: near + 1].sum())) < 4 * math.sqrt(0.25 / chains)


@pytest.mark.parametrize("q", [Conditional(TRUE), STRONG, BIASED], ids=["exact", "strong", "bias"])
def test_total_variation_falls_geometrically_to_a_floor_that_the_divergence_bounds(q):
    y = observed((16, 16))
    p = exact(y, NOISE, TRUE)
    found = converge(transition(y, q, p.sigma), p, at_the_top(p), range(21))
    near, far = found.to_stationary, found.to_posterior
    assert all(b <= a for a, b in pairwise(near))
    assert near[14] / near[13] == pytest.approx(found.rate, rel=0.02)
    for M in range(21):
        assert far[M] <= near[M] + found.bound + 1e-12
        assert abs(far[M] - far[20]) <= near[M] + near[20] + 1e-12
    assert found.limit <= found.bound + 1e-12
    assert abs(far[20] - found.limit) <= near[20] + 1e-12


def test_a_chain_may_pass_the_posterior_on_its_way_elsewhere():
    """From the upper wall a wrong chain is nearest to p(σ | y) after two iterations."""
    y = observed((16, 16))
    p = exact(y, NOISE, TRUE)
    far = converge(transition(y, STRONG, p.sigma), p, at_the_top(p), range(11)).to_posterior
    assert far.index(min(far)) == 2
    assert min(far) < far[10] / 3


def test_the_table_in_the_documentation_is_what_the_example_prints(monkeypatch):
    root = Path(__file__).parents[2]
    monkeypatch.syspath_prepend(str(root / "examples"))
    example = runpy.run_path(str(root / "examples" / "convergence.py"))
    head, rule, *rows = example["law_table"](example["laws"]())
    written = (root / "docs" / "math.md").read_text()
    lines = written[written.index(f"{head}\n{rule}\n") :].splitlines()[2 : 2 + len(rows)]
    number = re.compile(r"\d\.\d{4}")
    for row, line in zip(rows, lines, strict=True):
        assert number.sub("", row) == number.sub("", line)
        found, said = ([float(v) for v in number.findall(r)] for r in (row, line))
        assert found == pytest.approx(said, abs=1.01e-4)
