"""A checkpoint goes on as if it had not stopped, and only as the run that it is of."""

from functools import partial

import pytest
import torch
from skimage import data

import gibbsdiff
from gibbsdiff import (
    Denoiser,
    Estimate,
    GaussianDenoiser,
    InputError,
    PixelNoise,
    PowerLawNoise,
    PowerLawSignal,
    SpectralNoise,
    VariancePreserving,
    WhiteNoise,
    conjugate_amplitude,
    ddpm,
    few_step,
)
from gibbsdiff.diffusion.process import AnySDE
from gibbsdiff.inference.fingerprint import callable_digest

BASE = {
    "noise": WhiteNoise(),
    "method": "gibbs",
    "phi_step": conjugate_amplitude,
    "boundary": "periodic",
    "chains": 2,
    "draws": 6,
    "burn_in": 2,
    "samples": 3,
}
POWER_LAW = {"noise": PowerLawNoise(), "known": {"phi": 0.0}}
FIELDS = ("phi", "mean", "sd", "average", "samples", "noise_power")


def stop_at(step):
    def progress(stage, now, of):
        if stage == "Gibbs chains" and now == step:
            raise KeyboardInterrupt

    return progress


def same(one, other):
    assert all(torch.equal(getattr(one, f), getattr(other, f)) for f in FIELDS)
    assert one.calls == other.calls
    assert other.interrupted == one.interrupted


@pytest.fixture(scope="module")
def y(truth):
    return truth.observe((16, 20), 0.5, 0.0)[1]


@pytest.fixture
def resumed(truth, y, tmp_path):
    """Stop a run of BASE and `first`, and go on with `then`."""

    def go(first, then, step=5):
        file = tmp_path / "chains"
        options = {"model": truth.GAUSSIAN, **BASE}
        gibbsdiff.denoise(y, **(options | first), checkpoint=file, progress=stop_at(step))
        before = file.read_bytes()
        try:
            return gibbsdiff.denoise(**({"picture": y} | options | first | then), checkpoint=file)
        except InputError:
            assert file.read_bytes() == before
            raise

    return go


@pytest.mark.parametrize("step", [1, 5])
@pytest.mark.parametrize(
    "first",
    [{}, POWER_LAW, {"boundary": "open"}, {"sampler": partial(few_step, calls=3, floor=0.01)}],
    ids=["base", "known", "open", "sampler"],
)
def test_the_same_run_goes_on_bit_by_bit(truth, y, resumed, first, step):
    whole = gibbsdiff.denoise(y, model=truth.GAUSSIAN, **(BASE | first))
    same(whole, resumed(first, {}, step))


def test_a_run_may_be_made_longer(truth, y, resumed):
    whole = gibbsdiff.denoise(y, model=truth.GAUSSIAN, **(BASE | {"draws": 12}))
    same(whole, resumed({}, {"draws": 12}))


def with_prior(name):
    return WhiteNoise(prior=lambda phi: -phi[..., 0], digest=name)


def stand(noise, statistic, phi, rng):
    """Any φ-step does where only names matter, and HMC takes its time."""
    return phi


def named(step, name):
    def own(noise, statistic, phi, rng):
        return step(noise, statistic, phi, rng)

    own.digest = name
    return own


OTHER = GaussianDenoiser(PowerLawSignal((3e-3,), (2.0,), 0.4))
PROCESS = partial(ddpm, process=VariancePreserving(), steps=20)
NAMED = {"phi_step": named(conjugate_amplitude, "v1")}
STAND = {"phi_step": named(stand, "stand")}
CHANGES = {
    "denoiser": ({}, {"model": OTHER}),
    "calls": ({"calls": 2}, {"calls": 3}),
    "sampler": ({}, {"sampler": PROCESS}),
    "process": (
        {"sampler": PROCESS},
        {"sampler": partial(ddpm, process=VariancePreserving(beta_max=10.0), steps=20)},
    ),
    "boundary": ({}, {"boundary": "open"}),
    "known value": (POWER_LAW, {"known": {"phi": 0.1}}),
    "known or not": (POWER_LAW, {"known": {}, "phi_step": None}),
    "family": ({}, POWER_LAW),
    "prior box": ({}, {"noise": WhiteNoise((0.01, 2.0))}),
    "prior": (STAND | {"noise": with_prior("v1")}, {"noise": with_prior("v2")}),
    "φ-step": ({}, {"phi_step": None}),
    "own φ-step": (NAMED, {"phi_step": named(conjugate_amplitude, "v2")}),
    "seed": ({}, {"seed": 1}),
    "chains": ({}, {"chains": 3}),
    "burn-in": ({}, {"burn_in": 3}),
}


@pytest.mark.parametrize("what", CHANGES)
def test_another_run_is_refused_in_one_line(resumed, what):
    first, then = CHANGES[what]
    with pytest.raises(InputError, match=r"chains: chains of another run") as trouble:
        resumed(first, then)
    assert "\n" not in str(trouble.value)


def test_another_picture_or_other_missing_pixels_are_refused(y, resumed):
    hole = y.copy()
    hole[0, 3, 3] = float("nan")
    for picture in (y + 1e-6, hole):
        with pytest.raises(InputError, match="another run"):
            resumed({}, {"picture": picture})


def bare(z, noise):
    return z / 2


def own_spectrum(kx, ky, sigma):
    return 2 * sigma.log() + 0 * kx


UNNAMED = {
    "denoiser": {"model": bare},
    "noise": {"noise": SpectralNoise(own_spectrum, {"sigma": (0.01, 1)}), "phi_step": None},
    "noise's prior": {"noise": WhiteNoise(prior=lambda phi: phi[..., 0]), "phi_step": None},
    "sampler": {"sampler": lambda *arguments: few_step(*arguments, calls=2)},
    "process": {"sampler": partial(ddpm, process=AnySDE(torch.zeros_like, torch.ones_like))},
    "φ-step": {"phi_step": stand},
}


@pytest.mark.parametrize("what", UNNAMED)
def test_what_has_no_digest_is_refused_before_the_run(truth, y, tmp_path, what):
    options = {"model": truth.GAUSSIAN, **BASE} | UNNAMED[what]
    part = {"noise's prior": "noise", "process": "sampler"}.get(what, what)
    with pytest.raises(InputError, match=f"checkpoint: the {part} has no digest"):
        gibbsdiff.denoise(y, **options, checkpoint=tmp_path / "chains")
    assert not list(tmp_path.iterdir())


class Half(Denoiser):
    def __init__(self, version):
        self.version = version

    def __call__(self, z, noise):
        return Estimate(z / 2)

    def digest(self):
        return self.version


def test_a_digest_of_ones_own_is_enough_and_counts(resumed):
    def own(version):
        def function(z, noise):
            return z / 2

        function.digest = version
        return function

    for kind in (own, Half):
        assert resumed({"model": kind("v1")}, {}).phi.shape[1] == 6
        with pytest.raises(InputError, match="another run"):
            resumed({"model": kind("v1")}, {"model": kind("v2")})


def test_pixel_noise_of_the_package_has_a_digest(resumed):
    def noise(scale):
        return {"noise": PixelNoise.weighted(scale * torch.ones(16, 20)), **STAND}

    resumed(noise(1.0), {})
    with pytest.raises(InputError, match="another run"):
        resumed(noise(1.0), noise(1.1))


def test_a_network_adapted_to_its_picture_goes_on(natural, tmp_path):
    """The search is made again, and gives the same denoiser to go on with."""
    y = torch.tensor(data.astronaut()[20:148:4, 150:278:4] / 255).permute(2, 0, 1).float()
    y = y + 0.1 * torch.randn(y.shape, generator=torch.Generator().manual_seed(0))
    options = {**BASE, "model": natural, "calls": 2, "draws": 3}
    whole = gibbsdiff.denoise(y, **options)
    file = tmp_path / "chains"
    gibbsdiff.denoise(y, **options, checkpoint=file, progress=stop_at(4))
    same(whole, gibbsdiff.denoise(y, **options, checkpoint=file))
    gibbsdiff.denoise(y, **options, checkpoint=file)  # nothing is left to do


def test_digests_of_functions():
    assert callable_digest(few_step) != callable_digest(ddpm)
    assert callable_digest(partial(few_step, calls=3)) != callable_digest(few_step)
    two = (partial(few_step, calls=3, floor=0.01), partial(few_step, floor=0.01, calls=3))
    assert callable_digest(two[0]) == callable_digest(two[1])
    assert callable_digest(partial(bare, 1)) is None
    assert callable_digest(partial(few_step, floor=bare)) is None
