"""Half a run is no evidence: what `infer` would give after Ctrl-C is not used."""

import pytest
import torch

from gibbsdiff import GaussianDenoiser, Options, PowerLawSignal, Problem, WhiteNoise, infer
from gibbsdiff.diffusion.denoiser import Denoiser
from gibbsdiff.evidence.complete import infer_completely
from gibbsdiff.inference.observation import ObservationModel

EXACT = GaussianDenoiser(PowerLawSignal((5e-3,), (2.0,)))


class Interrupted(Denoiser):
    """Exact, until its user loses patience."""

    error_model = True

    def __init__(self, after):
        self.left = after

    def __call__(self, z, noise):
        self.left -= 1
        if self.left < 0:
            raise KeyboardInterrupt
        return EXACT(z, noise)


def test_an_interrupted_run_is_stopped_and_a_whole_one_is_the_pipelines():
    noise = WhiteNoise((0.1, 1.0))
    y = noise.draw((16, 16), (0.4,), seed=1)
    options = Options("gibbs", 2, 6, 1, burn_in=2, starts="prior", warm_up=20, samples=0)

    def problem(denoiser):
        return Problem(y, noise, denoiser, ObservationModel(noise, (16, 16)))

    (some,) = infer(problem(Interrupted(6)), options)
    assert some.interrupted
    with pytest.raises(KeyboardInterrupt):
        infer_completely(problem(Interrupted(6)), options)
    (whole,), (again,) = infer(problem(EXACT), options), infer_completely(problem(EXACT), options)
    assert torch.equal(whole.phi, again.phi)
    assert not whole.interrupted
