"""Chains on disk: a run that was stopped goes on as if it had not been."""

from functools import partial

import pytest
import torch

from gibbsdiff.diffusion.analytic import GaussianDenoiser
from gibbsdiff.diffusion.signal import PowerLawSignal
from gibbsdiff.diffusion.solvers import few_step
from gibbsdiff.errors import InputError
from gibbsdiff.inference.chains import Chains
from gibbsdiff.inference.gibbs import Gibbs, Settings, gibbs
from gibbsdiff.noise import WhiteNoise
from gibbsdiff.streams import Streams

NOISE = WhiteNoise()
DENOISER = GaussianDenoiser(PowerLawSignal((2e-3,), (2.0,), 0.4))
ONE_CALL = partial(few_step, calls=1)
LONG = Settings(
    chains=2, iterations=12, burn_in=4, keep_samples=3, warm_up=40, stop_when_converged=False
)


@pytest.fixture
def y():
    x = DENOISER.prior((16, 16), Streams.batch(0, 1))
    return x + NOISE.draw((16, 16), (0.3,), Streams.batch(1, 1))


@pytest.mark.parametrize("stop", [2, 7])
def test_a_stopped_run_goes_on_bit_by_bit(y, tmp_path, stop):
    (whole,) = gibbs(y, NOISE, DENOISER, settings=LONG, sampler=ONE_CALL)
    file = tmp_path / "chains.safetensors"
    first = Gibbs(y, NOISE, DENOISER, LONG, ONE_CALL)
    chains = first.begin()
    for _ in range(stop):
        first.step(chains)
    chains.save(file, first.name())
    (resumed,) = gibbs(y, NOISE, DENOISER, settings=LONG, sampler=ONE_CALL, checkpoint=file)
    assert torch.equal(resumed.phi, whole.phi)
    assert torch.equal(resumed.mean, whole.mean)
    assert torch.equal(resumed.samples, whole.samples)
    assert resumed.calls == whole.calls


def test_a_longer_run_continues_a_shorter_one(y, tmp_path):
    file = tmp_path / "chains.safetensors"
    short = Settings(
        chains=2, iterations=8, burn_in=4, keep_samples=3, warm_up=40, stop_when_converged=False
    )
    gibbs(y, NOISE, DENOISER, settings=short, sampler=ONE_CALL, checkpoint=file)
    (longer,) = gibbs(y, NOISE, DENOISER, settings=LONG, sampler=ONE_CALL, checkpoint=file)
    (whole,) = gibbs(y, NOISE, DENOISER, settings=LONG, sampler=ONE_CALL)
    assert torch.equal(longer.phi, whole.phi)


def test_other_chains_and_damaged_files_are_refused_and_kept(y, tmp_path):
    file = tmp_path / "chains.safetensors"
    gibbs(y, NOISE, DENOISER, settings=LONG, sampler=ONE_CALL, checkpoint=file)
    before = file.read_bytes()
    with pytest.raises(InputError, match="chains of another run"):
        gibbs(y + 0.1, NOISE, DENOISER, settings=LONG, sampler=ONE_CALL, checkpoint=file)
    assert file.read_bytes() == before
    file.write_bytes(before[:100])
    with pytest.raises(InputError, match="cannot be read as chains"):
        Chains.load(file, "")
