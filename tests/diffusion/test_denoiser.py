"""What a denoiser may be able to do: defaults, and callables made into denoisers."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from gibbsdiff.diffusion.analytic import GaussianDenoiser, MixtureDenoiser
from gibbsdiff.diffusion.calibration import Calibration
from gibbsdiff.diffusion.denoiser import Denoiser, Estimate, as_denoiser
from gibbsdiff.diffusion.epsilon import EpsilonDenoiser
from gibbsdiff.diffusion.process import AnySDE, DiscreteVariancePreserving, VariancePreserving
from gibbsdiff.diffusion.signal import NATURAL, FixedSignal, PowerLawSignal
from gibbsdiff.diffusion.solvers import few_step
from gibbsdiff.diffusion.spectral import SpectralDenoiser
from gibbsdiff.errors import InputError
from gibbsdiff.networks.resunet import ResUNet
from gibbsdiff.noise import PixelNoise, WhiteNoise
from gibbsdiff.streams import Streams

SHAPE = (16, 16)
GREY = PowerLawSignal((0.02,), (2.0,), 0.4)


class Half(Denoiser):
    """The least that a denoiser can be."""

    def __call__(self, z, noise):
        return Estimate(z / 2)


def white(sigma=0.3, rows=1):
    return WhiteNoise().covariance(SHAPE, torch.full((rows, 1), sigma, dtype=torch.float64))


def test_a_denoiser_without_capabilities_says_so():
    half = Half()
    assert half.channels is half.scatter is half.dtype is half.digest() is None
    assert not half.error_model
    assert not half.adaptable
    z = torch.ones(1, 1, *SHAPE)
    assert half.with_derivative_error() is half.adapted(z, white()) is half.tiled(8) is half
    assert as_denoiser(half) is half
    with pytest.raises(TypeError, match="abstract"):
        Denoiser()


def test_a_function_becomes_a_denoiser_with_the_attributes_that_it_has():
    def third(z, noise):
        return z / 3

    third.channels, third.digest, third.dtype = 1, "third, version 2", torch.float32
    made = as_denoiser(third)
    z = torch.ones(1, 1, *SHAPE)
    mean, error = made(z, white())
    assert torch.equal(mean, z / 3)
    assert error is None
    assert (made.channels, made.digest(), made.dtype) == (1, "third, version 2", torch.float32)
    assert not made.error_model
    assert made.adapted(z, white()) is made


def test_an_object_keeps_its_own_methods():
    class Duck:
        error_model = adaptable = True

        def __init__(self, exact, seed=None):
            self.exact, self.seed = exact, seed

        def __call__(self, z, noise):
            return self.exact(z, noise)

        def with_derivative_error(self, seed=0):
            return Duck(self.exact, seed)

        def digest(self):
            return f"duck {self.seed}"

    made = as_denoiser(Duck(GaussianDenoiser(GREY)))
    assert made.error_model
    assert made.adaptable
    assert made.digest() == "duck None"
    assert made.with_derivative_error(5).digest() == "duck 5"
    assert isinstance(made.with_derivative_error(5), Denoiser)


def test_a_module_computes_in_the_type_of_its_weights():
    class Scale(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.tensor([0.5]))

        def forward(self, z, noise):
            return self.weight * z

    made = as_denoiser(Scale())
    assert made.dtype == torch.float32
    assert made.double().dtype == torch.float64
    assert as_denoiser(nn.Identity()).dtype is None


def test_what_is_no_denoiser_is_refused_in_one_line():
    with pytest.raises(InputError, match=r"a callable .* is needed, not a str"):
        as_denoiser("natural")
    with pytest.raises(InputError, match="must return an Estimate or a Tensor, not a list"):
        as_denoiser(lambda z, noise: [z])(torch.ones(1, 1, *SHAPE), white())


def test_a_function_without_error_model_draws_as_ancestral_sampling():
    """E = 0 in eq. (7), by `error=None` as by `error=False`: bit for bit."""
    exact = GaussianDenoiser(GREY)
    y, noise = exact.prior(SHAPE, Streams.batch(0, 2)), white(rows=2)
    draw = few_step(lambda z, n: exact(z, n).mean, y, noise, Streams.batch(1, 2), calls=5)
    same = few_step(exact, y, noise, Streams.batch(1, 2), calls=5, error=False)
    assert torch.equal(draw.x, same.x)
    assert torch.equal(draw.mean, same.mean)


def test_a_network_says_what_it_can_do(small):
    bare = SpectralDenoiser(small(1), GREY)
    assert (bare.channels, bare.dtype, bare.scatter) == (1, torch.float32, None)
    assert bare.error_model
    assert bare.adaptable
    scatter = torch.eye(8, dtype=torch.float64)
    table = Calibration(torch.zeros(1, 8, 10, dtype=torch.float64), scatter)
    assert SpectralDenoiser(small(1), GREY, table).scatter is scatter
    assert bare.double().dtype == torch.float64
    kept = bare.tiled(16).with_derivative_error(4)
    assert (kept.tile, kept.probe) == (16, 4)
    assert (kept.tiled(32).tile, kept.tiled(32).probe) == (32, 4)
    pixel = PixelNoise.weighted(torch.ones(SHAPE)).covariance(SHAPE, torch.ones(1, 1).double())
    with pytest.raises(InputError, match="needs stationary noise, not PixelCovariance"):
        bare(torch.ones(1, 1, *SHAPE).double(), pixel)


def test_digests_name_what_changes_the_results(small):
    table = Calibration(torch.zeros(3, 8, 10), torch.eye(24))
    plain = SpectralDenoiser(small(), NATURAL)
    others = [
        plain,
        SpectralDenoiser(small(seed=1), NATURAL),
        SpectralDenoiser(small(padding="circular"), NATURAL),
        SpectralDenoiser(small(), PowerLawSignal((5e-4,) * 3, (2.0,) * 3)),
        SpectralDenoiser(small(), NATURAL, table),
        SpectralDenoiser(small(), NATURAL, replace(table, log_c=table.log_c + 0.1)),
        SpectralDenoiser(small(), NATURAL, replace(table, scatter=2 * table.scatter)),
        SpectralDenoiser(small(), NATURAL, replace(table, gain=table.log_c)),
        plain.with_derivative_error(1),
        GaussianDenoiser(NATURAL),
        GaussianDenoiser(GREY),
        GaussianDenoiser(FixedSignal(GREY.power(SHAPE)[0])),
        MixtureDenoiser([1.0], [torch.tensor(0.4)], [GREY.power(SHAPE)[0]]),
        MixtureDenoiser([1.0, 1.0], [torch.tensor(0.4)] * 2, [GREY.power(SHAPE)[0]] * 2),
        epsilon(VariancePreserving()),
        epsilon(VariancePreserving(0.1, 2)),
        epsilon(DiscreteVariancePreserving()),
    ]
    names = [d.digest() for d in others]
    assert None not in names
    assert len(set(names)) == len(names)
    for again in (SpectralDenoiser(small(), NATURAL), plain.tiled(16), plain.double()):
        assert again.digest() == names[0]
    assert epsilon(VariancePreserving(0.1, 2.0)).digest() == names[15]


def test_without_identity_there_is_no_digest(small):
    class OwnSignal:
        mean = 0.4

        def power(self, shape):
            return GREY.power(shape)

    assert GaussianDenoiser(OwnSignal()).digest() is None
    assert SpectralDenoiser(small(1), OwnSignal()).digest() is None
    assert epsilon(AnySDE(lambda t: 0 * t + 1, lambda t: 0 * t + 1)).digest() is None


def epsilon(process):
    torch.manual_seed(0)
    return EpsilonDenoiser(ResUNet(1, 1, (8,), blocks=1), process)
