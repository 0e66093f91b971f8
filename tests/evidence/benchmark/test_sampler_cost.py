"""What a draw of x costs, and what its residual tells of φ."""

import torch

from gibbsdiff import GaussianDenoiser, PowerLawNoise, Streams
from gibbsdiff.diffusion.signal import NATURAL
from gibbsdiff.evidence.benchmark.sampler_cost import (
    Cost,
    accuracies,
    costs,
    errors_of_phi,
    markdown,
    paper_calls,
    paper_network,
)


def test_the_papers_sampler_takes_as_many_steps_as_it_says():
    for sigma, calls in ((0.06, 73), (0.1, 135), (0.2, 290)):
        assert abs(paper_calls(sigma) - calls) <= 1


def test_costs_are_extrapolated_from_calls_of_one_network():
    ours = GaussianDenoiser(NATURAL)
    x = ours.prior((32, 32), Streams(0, [(0,)]), 3).float()
    seed = torch.get_rng_state()
    found = costs(ours, x, [0.06], theirs=paper_network(width=4), timed=2, calls=5)
    assert torch.equal(torch.get_rng_state(), seed)  # random weights, but not from our stream
    assert [(c.calls, c.timed) for c in found] == [(74, 2), (74, 2), (5, 5)]
    assert all(c.seconds > 0 for c in found)
    text = markdown(
        [Cost("a", 0.1, 135, 3, 30.0), Cost("our network, our kernel", 0.1, 12, 12, 2.0)]
    )
    assert "| 0.1 | a | 135 | 30.0 (from 3 calls) | 15.0 |" in text
    assert "| 12 | 2.0 | 1.0 |" in text


def test_noise_itself_tells_its_parameters():
    """Within 4 of the standard deviations that the Fisher information gives: σ/√(2n) for σ."""
    noise = PowerLawNoise()
    eps = noise.draw((64, 64), (0.2, 0.5), Streams(3, [(0,)]), 3)
    error = errors_of_phi(eps, 0.2, 0.5)[0]
    assert abs(float(error[0])) < 4 / (2 * eps.numel()) ** 0.5
    assert abs(float(error[1])) < 4 * 0.03
    assert float(error.abs().max()) > 0


def test_exact_draws_leave_noise_that_tells_the_truth():
    """With a Gaussian signal both samplers have the exact D; one call is an exact draw."""
    ours = GaussianDenoiser(NATURAL)
    x = ours.prior((24, 24), Streams(0, [(i,) for i in range(8)]), 3)
    ddpm, kernel = accuracies(ours, x, [0.06], calls=1)
    assert (ddpm.name, kernel.name) == ("our network, DDPM", "our network, our kernel")
    for found in (ddpm, kernel):
        e = found.errors
        z = e.mean(0) / (e.std(0) / len(e) ** 0.5)
        assert float(z.abs().max()) < 4, found.name
    assert "| 0.06 | 0 | our network, DDPM | 8 |" in markdown([], [ddpm])
    assert float(kernel.errors.abs().max()) < 0.5
