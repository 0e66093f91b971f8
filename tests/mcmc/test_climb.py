"""The climb before warm-up: it finds the top, and its metric is the covariance there."""

import torch

from gibbsdiff.mcmc.climb import climb
from gibbsdiff.mcmc.hmc import first_state
from gibbsdiff.streams import Streams


def climbed(density, d, rows=16, seed=0):
    rng = Streams.batch(seed, rows)
    box = torch.zeros(d).double(), torch.ones(d).double()
    evaluate, state = first_state(density, rng.uniform(d), *box, rng)
    return climb(evaluate, state)


def test_a_narrow_correlated_gaussian_is_found_with_its_covariance():
    sd = torch.tensor([1e-3, 0.02, 5e-3]).double()
    correlation = torch.full((3, 3), 0.8).double().fill_diagonal_(1.0)
    covariance = sd[:, None] * correlation * sd
    precision = torch.linalg.inv(covariance)
    mean = torch.tensor([0.3, 0.6, 0.9]).double()

    def density(x):
        return -0.5 * (((x - mean) @ precision) * (x - mean)).sum(1)

    state, inverse_mass = climbed(density, 3)
    assert float(((state.position - mean) / sd).abs().max()) < 0.1
    # In the coordinates that whiten the target, the metric is near the identity.
    factor = torch.linalg.cholesky(precision)
    white = factor.mT @ inverse_mass @ factor
    values = torch.linalg.eigvalsh(white)
    assert float(values.log().abs().median()) < 0.5


def test_a_top_beyond_the_wall_is_reached_at_the_wall():
    state, _ = climbed(lambda x: -50 * (x[:, 0] + 0.2) ** 2 - 500 * (x[:, 1] - 0.5) ** 2, 2)
    assert float(state.position[:, 0].max()) == 0.0
    assert float((state.position[:, 1] - 0.5).abs().max()) < 0.01


def test_a_flat_density_keeps_its_start_and_the_boxs_scale():
    rng = Streams.batch(3, 4)
    state, inverse_mass = climbed(lambda x: 0 * x.sum(1), 2, 4, seed=3)
    assert torch.equal(state.position, rng.uniform(2))
    assert torch.equal(inverse_mass, torch.eye(2).double().expand(4, 2, 2))


def test_undefined_regions_are_not_entered():
    def density(x):
        return torch.where(x[:, 0] < 0.7, 10 * x[:, 0], torch.nan)

    rng = Streams.batch(1, 8)
    box = torch.zeros(1).double(), torch.ones(1).double()
    evaluate, state = first_state(density, 0.6 * rng.uniform(1), *box, rng)
    top, inverse_mass = climb(evaluate, state)
    assert float(top.position.max()) < 0.7
    assert float(top.position.min()) > 0.6
    assert bool(torch.isfinite(inverse_mass).all())
