"""The short search, eq. (14): few calls, the same mode, and an honest covariance without more."""

import math

import pytest
import torch
from skimage import data

from gibbsdiff import Options, PowerLawNoise, Streams, infer, load_model
from gibbsdiff.diffusion.boundary import on_device
from gibbsdiff.inference.listening import listening
from gibbsdiff.inference.marginal import Marginal
from gibbsdiff.inference.search import climb, mode_at, mode_by_steps
from gibbsdiff.inference.setting import SURE, picture_problem

NOISE, PHI = PowerLawNoise(), (0.1, -0.3)


class Counting:
    """A denoiser that counts how often the network is called."""

    def __init__(self, inner):
        self.inner, self.calls, self.whole = inner, 0, inner.evaluate
        inner.evaluate = self

    def __call__(self, z, noise):
        self.calls += 1
        return self.whole(z, noise)


@pytest.fixture(scope="module")
def natural():
    return load_model("natural-fast")


def picture(seed=0):
    x = torch.from_numpy(data.astronaut()[30:126, 180:276] / 255.0).permute(2, 0, 1)[None].float()
    covariance = NOISE.covariance((96, 96), torch.tensor([PHI]).double(), torch.float32)
    return x + covariance.draw(Streams(seed, [(0,)]), 3)


def test_weights_and_check_take_what_the_search_has_seen(natural):
    """Beyond its steps and a replicate, two calls: the difference of a weighted score, and that of
    the check.
    """
    counted = Counting(natural)
    try:
        problem, _ = picture_problem(picture()[0], NOISE, {}, on_device(natural, "cpu"), "periodic")
        (found,) = infer(problem, Options("marginal", samples=0))
    finally:
        del natural.evaluate
    assert found.ended
    assert counted.calls == found.calls + 2 <= 10
    assert found.check is not None


def test_its_mode_and_covariance_are_those_of_the_thorough_way(natural):
    """Against scores with a derivative at every step, and H by differences."""
    plain = Marginal(picture(), NOISE, natural)
    start = torch.tensor([[0.11, -0.2]]).double()
    marginal = listening(plain, SURE, start)
    quick = mode_by_steps(marginal, climb(marginal, start, one_probe=True))
    thorough = mode_at(marginal, climb(marginal, start))
    sd = thorough.covariance.diagonal(dim1=1, dim2=2).sqrt()
    assert float(((quick.phi - thorough.phi) / sd).abs().max()) < 0.3
    ratio = quick.covariance.diagonal(dim1=1, dim2=2).sqrt() / sd
    assert float(ratio.log().abs().max()) < math.log(1.25)


def test_what_was_seen_is_not_called_again(natural):
    near, y = on_device(natural, "cpu"), picture()
    covariances = [
        NOISE.covariance((96, 96), torch.tensor([phi]).double(), torch.float32)
        for phi in (PHI, (0.2, 0.0), PHI)
    ]
    counted = Counting(natural)
    try:
        with torch.no_grad():
            first, other, again = (near(y, covariance) for covariance in covariances)
            assert counted.calls == 2
            assert again is first
            assert not torch.equal(first.mean, other.mean)
            near(y + 1e-6, covariances[0])
            assert counted.calls == 3
    finally:
        del natural.evaluate
