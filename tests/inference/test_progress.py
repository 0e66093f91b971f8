"""Progress is told, and may cancel: what is there then, and that nothing is printed."""

import _thread

import numpy as np
import pytest
import torch

import gibbsdiff
from gibbsdiff import conjugate_amplitude

SEARCH, REFINE, WHOLE = (
    "searching for the noise",
    "searching for the noise by draws of x",
    "denoising the whole picture",
)
GIVEN, SAMPLES, CHAINS = "denoising with the given noise", "drawing pictures", "Gibbs chains"
SIZES = {"chains": 2, "draws": 4, "calls": 2, "noise": "white", "samples": 3}
CHECK = "checking the noise model"
MARGINAL = {"method": "marginal", "second_stage": True, **SIZES}
GIBBS = {"method": "gibbs", "phi_step": conjugate_amplitude, **SIZES}
KNOWN = {"known": {"sigma": 0.5}, **SIZES}


class Log:
    """A callback that keeps what it is told, and may raise at one step of one stage."""

    def __init__(self, stage="", step=0, trouble=KeyboardInterrupt):
        self.told, self.stage, self.step, self.trouble = [], stage, step, trouble

    def __call__(self, stage, step, of):
        self.told.append((stage, step, of))
        if (stage, step) == (self.stage, self.step):
            raise self.trouble

    @property
    def stages(self):
        return list(dict.fromkeys(stage for stage, _, _ in self.told))


@pytest.fixture(scope="module")
def y(truth):
    return truth.observe((16, 20), 0.5, 0.0)[1]


@pytest.fixture
def denoised(truth, y):
    return lambda log, **options: gibbsdiff.denoise(
        y, model=truth.GAUSSIAN, progress=log, **options
    )


@pytest.mark.parametrize(
    ("options", "stages"),
    [
        (MARGINAL, [SEARCH, REFINE, SAMPLES]),
        ({**MARGINAL, "second_stage": False, "samples": 0}, [SEARCH]),
        (GIBBS, [SEARCH, CHAINS]),
        ({**GIBBS, "starts": "prior"}, [CHAINS]),
        (KNOWN, [GIVEN, SAMPLES]),
    ],
    ids=["both stages", "first stage", "gibbs", "gibbs from the prior", "known"],
)
def test_every_stage_is_told_and_steps_only_grow(denoised, options, stages):
    log = Log()
    result = denoised(log, **options)
    stages = [*stages, CHECK]
    assert log.stages == stages
    for stage in stages:
        steps = [(step, of) for name, step, of in log.told if name == stage]
        assert steps[0][0] == 0
        assert steps == sorted(steps)
        assert len({of for _, of in steps}) == 1
        assert all(step <= of for step, of in steps)
    assert [name for name, _, _ in log.told] == sorted(
        (name for name, _, _ in log.told), key=stages.index
    )
    # Being told changes nothing.
    assert torch.equal(result.mean, denoised(False, **options).mean)


def test_windows_are_told_too(truth):
    _, y = truth.observe((2000, 132), 0.5, -0.5)
    log = Log()
    gibbsdiff.denoise(y, model=truth.GAUSSIAN, samples=1, calls=1, progress=log)
    assert log.stages == [SEARCH, WHOLE, SAMPLES, CHECK]


class CancelledError(Exception):
    pass


@pytest.mark.parametrize(
    ("options", "stage"),
    [
        (MARGINAL, SEARCH),
        (MARGINAL, REFINE),
        (MARGINAL, SAMPLES),
        (GIBBS, SEARCH),
        (GIBBS, CHAINS),
        (KNOWN, GIVEN),
        (KNOWN, SAMPLES),
    ],
)
def test_any_other_exception_leaves_at_once(denoised, options, stage):
    log = Log(stage, 0, CancelledError)
    with pytest.raises(CancelledError):
        denoised(log, **options)
    assert log.told[-1][0] == stage


@pytest.mark.parametrize(
    ("options", "stage"), [(MARGINAL, SEARCH), (GIBBS, SEARCH), (KNOWN, GIVEN)]
)
def test_with_nothing_there_an_interruption_is_raised(denoised, options, stage):
    with pytest.raises(KeyboardInterrupt):
        denoised(Log(stage), **options)


@pytest.mark.parametrize("step", [0, 3])
def test_in_the_second_stage_the_first_ones_result_is_there(denoised, step):
    p = denoised(Log(REFINE, step), **MARGINAL)
    first = denoised(False, **{**MARGINAL, "second_stage": False, "samples": 0})
    assert torch.equal(p.phi, first.phi)
    assert torch.equal(p.mean, first.mean)
    assert p.samples is None
    assert p.how[0] == "first stage"
    _is_marked(p)
    assert "the search ended" in p.summary()


@pytest.mark.parametrize("options", [MARGINAL, KNOWN], ids=["marginal", "known"])
@pytest.mark.parametrize("step", [0, 2])
def test_in_sampling_the_draws_so_far_are_there(denoised, options, step):
    whole, p = denoised(False, **options), denoised(Log(SAMPLES, step), **options)
    assert torch.equal(p.phi, whole.phi)
    assert torch.equal(p.mean, whole.mean)
    assert (0 if p.samples is None else len(p.samples)) == step
    if step:
        assert torch.equal(p.samples, whole.samples[:step])
    _is_marked(p)


def test_before_the_chains_have_draws_the_modes_result_is_there(denoised):
    p = denoised(Log(CHAINS, 1), **GIBBS)
    first = denoised(False, **{**MARGINAL, "second_stage": False, "samples": 0})
    assert p.method == "marginal"
    assert torch.equal(p.mean, first.mean)
    assert "before the chains had draws" in p.summary()
    _is_marked(p)
    with pytest.raises(KeyboardInterrupt):
        denoised(Log(CHAINS, 1), **GIBBS, starts="prior")


def test_in_the_chains_the_draws_so_far_are_there(denoised):
    whole, p = denoised(False, **GIBBS), denoised(Log(CHAINS, 4), **GIBBS)
    assert p.phi.shape[1] == 2  # two of burn-in
    assert torch.equal(p.phi, whole.phi[:, :2])
    assert (p.method, p.converged, p.good) == ("gibbs", False, False)
    _is_marked(p)


def _is_marked(p):
    assert p.interrupted
    assert not p.good
    assert p.summary().startswith("INTERRUPTED")
    assert "INTERRUPTED" in repr(p)


def test_of_several_pictures_those_that_were_begun_are_there(truth, y):
    class Second(Log):
        """Interrupts when the stage begins for the second time."""

        def __call__(self, stage, step, of):
            super().__call__(stage, step, of)
            if self.told.count((stage, 0, of)) == 2 and stage == self.stage:
                raise KeyboardInterrupt

    options = {"model": truth.GAUSSIAN, **MARGINAL}
    whole = gibbsdiff.denoise([y, y + 0.1, y], **options)
    (only,) = gibbsdiff.denoise([y, y + 0.1, y], progress=Second(SEARCH, -1), **options)
    assert torch.equal(only.mean, whole[0].mean)
    assert not only.interrupted
    found = gibbsdiff.denoise([y, y + 0.1, y], progress=Second(REFINE, -1), **options)
    assert [p.interrupted for p in found] == [False, True]
    with pytest.raises(KeyboardInterrupt):
        gibbsdiff.denoise([y, y], progress=Log(SEARCH), **options)


@pytest.mark.parametrize("options", [MARGINAL, GIBBS, KNOWN], ids=["marginal", "gibbs", "known"])
def test_the_library_prints_nothing(denoised, capfd, tmp_path, options):
    p = denoised(False, **options)
    denoised(Log(), **options)
    repr(p)
    p.summary()
    p.save(tmp_path / "p.nc")
    assert capfd.readouterr() == ("", "")


def test_the_bar_is_on_stderr_alone(denoised, capfd):
    denoised(True, **MARGINAL)
    assert capfd.readouterr().out == ""


def test_a_real_signal_is_an_interruption(truth, y):
    """Ctrl-C from outside, in the middle of a draw of x."""
    calls = []

    def sampler(denoiser, z, noise, rng):
        calls.append(1)
        if len(calls) == 20:
            _thread.interrupt_main()
        return gibbsdiff.few_step(denoiser, z, noise, rng, calls=1)

    options = {**GIBBS, "draws": 60, "calls": None, "sampler": sampler}
    p = gibbsdiff.denoise(y, model=truth.GAUSSIAN, **options)
    assert p.interrupted
    assert 1 <= p.phi.shape[1] < 10
    assert np.isfinite(p.image).all()
