"""Noise that the check refuses is looked at again where the network is sure."""

import math
from dataclasses import replace

import pytest
import torch
from skimage import data

from gibbsdiff import Options, load_model
from gibbsdiff.inference.first_stage import search, search_where_sure
from gibbsdiff.inference.model_check import Finding, ModelCheck
from gibbsdiff.inference.posterior import Posterior
from gibbsdiff.inference.second_look import better, refused
from gibbsdiff.inference.setting import picture_problem
from gibbsdiff.noise import PhotoNoise
from gibbsdiff.streams import Streams

LEVEL = 0.05


def judged(*z, interrupted=False):
    """A posterior whose check has misfits of these z, or, without any, fits."""
    misfits = tuple(Finding("band", "luma", "", 2.0, 0.1, value) for value in z)
    y = torch.zeros(3, 32, 32)
    check = ModelCheck(not misfits, "", misfits)
    phi = torch.zeros(1, 1, 1)
    return Posterior(("a",), phi, y, y, check=check, interrupted=interrupted)


@pytest.fixture(scope="module")
def searched():
    """A search of photographs' noise that is known, in a picture with quiet places."""
    noise, options = PhotoNoise(), Options("marginal", samples=0)
    truth = noise.prior.mean[None].clone()
    truth[0, 0] = math.log(LEVEL)
    x = torch.from_numpy(data.rocket()[40:168, 200:328] / 255.0).permute(2, 0, 1).float()
    y = x + noise.draw((128, 128), truth, Streams.batch(1, 1), 3)[0].float()
    problem, _ = picture_problem(y, noise, {}, load_model("natural"))
    return problem, options, search(problem, options), truth


def test_what_fits_is_better_than_what_does_not():
    good, bad, worse = judged(), judged(7.0), judged(7.0, -12.0)
    assert better(bad, good) is good
    assert better(good, bad) is good
    assert better(bad, worse) is bad
    assert better(worse, bad) is bad
    stopped = better(bad, replace(good, interrupted=True))
    assert stopped.interrupted
    assert stopped.check is bad.check


def test_only_unprocessed_noise_of_many_parameters_is_looked_at_again(searched):
    problem, options, found, _ = searched
    no = [judged(9.0)]
    assert refused(problem, options, found, no)
    assert not refused(problem, options, found, [judged()])
    assert not refused(problem, options, found, [judged(9.0, interrupted=True)])
    assert not refused(replace(problem, raised=(0.45, 0.2)), options, found, no)
    assert not refused(problem, replace(options, weights=None), found, no)
    assert not refused(problem, options, replace(found, shares=None), no)


def test_where_the_network_is_sure_the_same_noise_is_heard(searched):
    problem, _, found, truth = searched
    again = search_where_sure(problem, found)
    assert again.marginal.observation.weights is not None
    assert again.calls > found.calls
    log_n = [
        problem.noise.covariance((128, 128), phi).power.double().log()
        for phi in (truth, found.mode.phi, again.mode.phi)
    ]
    fine = torch.fft.rfftfreq(128) > 0.15
    for found_log_n in log_n[1:]:
        off = (found_log_n - log_n[0])[..., fine]
        assert float(off.square().mean().sqrt()) < 0.35
