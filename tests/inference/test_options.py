"""What cannot be done as asked is refused in one line, before any work."""

from functools import partial

import pytest
import torch

from gibbsdiff import (
    GaussianDenoiser,
    InputError,
    Options,
    PowerLawSignal,
    conjugate_amplitude,
    denoise,
    few_step,
)

GAUSSIAN = GaussianDenoiser(PowerLawSignal((2e-3,), (2.0,), 0.4))
PICTURE = torch.rand(1, 16, 16, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"density": "gaussian"}, "density 'gaussian': there are laplace, polynomial"),
        ({"starts": "anywhere"}, "starts 'anywhere': there are marginal, prior, paper"),
        ({"method": "vb"}, "method 'vb': there are marginal, gibbs"),
        ({"calls": 0}, "calls must be at least 1"),
        ({"calls": 4, "sampler": partial(few_step, calls=4)}, "sampler of your own"),
        ({"density": "polynomial"}, "density is for the marginal method"),
        ({"method": "marginal", "burn_in": 3}, "burn_in is for Gibbs chains"),
    ],
)
def test_options_that_do_not_fit(options, words):
    with pytest.raises(InputError, match=words):
        Options(**options)


def test_a_tile_for_a_denoiser_that_has_none():
    with pytest.raises(InputError, match="tile: this denoiser sees whole pictures only"):
        denoise(PICTURE, model=GAUSSIAN, tile=64)


def test_burn_in_is_counted_in_calls_and_left_out_of_the_draws():
    settings = {
        "model": GAUSSIAN,
        "method": "gibbs",
        "boundary": "periodic",
        "noise": "white",
        "phi_step": conjugate_amplitude,
        "chains": 2,
        "calls": 1,
    }
    short = denoise(PICTURE, draws=6, burn_in=1, **settings)
    assert short.phi.shape == (2, 6, 1)
    assert short.calls == 2 * (1 + 1 + 6) + calls_of_the_search()


def calls_of_the_search():
    """What the search before the chains took."""
    options = {"model": GAUSSIAN, "method": "marginal", "boundary": "periodic", "samples": 0}
    return denoise(PICTURE, noise="white", second_stage=False, **options).calls
