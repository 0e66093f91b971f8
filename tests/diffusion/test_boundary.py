"""Device and type change at one place: what crosses it is converted, and nothing else lives there.

There is no second device here. Types stand in for it: a denoiser that computes in another type
than its caller must be given all of its arguments in its own. The meta device, which refuses to
meet a tensor of the CPU, finds tensors that would have stayed behind.
"""

from copy import deepcopy
from functools import partial

import pytest
import torch

from gibbsdiff.diffusion.analytic import GaussianDenoiser, MixtureDenoiser
from gibbsdiff.diffusion.boundary import on_device
from gibbsdiff.diffusion.calibration import Calibration
from gibbsdiff.diffusion.denoiser import Denoiser, Estimate, without_error
from gibbsdiff.diffusion.losses import losses
from gibbsdiff.diffusion.process import VariancePreserving
from gibbsdiff.diffusion.signal import NATURAL
from gibbsdiff.diffusion.solvers import ddpm, few_step
from gibbsdiff.diffusion.spectral import SpectralDenoiser
from gibbsdiff.diffusion.tweedie import derivative
from gibbsdiff.errors import InputError
from gibbsdiff.networks import precision as precision_room
from gibbsdiff.noise import PixelNoise, PowerLawNoise
from gibbsdiff.streams import Streams

SHAPE = (32, 24)


@pytest.fixture
def network(small):
    """A small network with a calibration of everything: c, gain and scatter."""
    table = torch.linspace(-0.3, 0.3, 240, dtype=torch.float64).reshape(3, 8, 10)
    calibration = Calibration(table, torch.eye(24, dtype=torch.float64), 0.1 * table)
    return SpectralDenoiser(small(), NATURAL, calibration)


def given(dtype=torch.float64):
    phi = torch.tensor([[0.1, -0.5], [0.3, 0.6]], dtype=torch.float64)
    noise = PowerLawNoise().covariance(SHAPE, phi, dtype)
    x = GaussianDenoiser(NATURAL).prior(SHAPE, Streams.batch(0, 2), 3).to(dtype)
    return x + noise.draw(Streams.batch(1, 2), 3), noise


def same(one, other):
    """Means and errors, bit by bit."""
    return all(
        a.dtype == b.dtype and torch.equal(a, b)
        for a, b in zip(parts(one), parts(other), strict=True)
    )


def parts(estimate):
    return estimate.mean, estimate.error.G, estimate.error.log_variance


#: What may be done to a denoiser before it is called.
CHANGES = [
    lambda d, _z, _n: d,
    lambda d, _z, _n: d.with_derivative_error(3),
    lambda d, _z, _n: d.tiled(16),
    lambda d, z, n: d.adapted(z[:1], n.rows([0])),
    lambda d, z, n: d.adapted(z[:1], n.rows([0])).tiled(16).with_derivative_error(2),
]


@pytest.mark.parametrize("change", CHANGES)
def test_computing_in_double_is_the_network_in_double(network, change):
    z, noise = given()
    direct = change(deepcopy(network).double(), z, noise)(z, noise)
    assert same(change(on_device(network, "cpu", torch.float64), z, noise)(z, noise), direct)
    assert network.dtype == torch.float32  # the one given stays as it is


@pytest.mark.parametrize("change", CHANGES)
def test_double_in_and_out_of_a_network_in_single(network, change):
    z, noise = given()
    z32, noise32 = z.float(), noise.to(dtype=torch.float32)
    direct = change(network, z32, noise32)(z32, noise32)
    through = change(on_device(network, "cpu"), z, noise)(z, noise)
    expected = Estimate(direct.mean.double(), direct.error.to(dtype=torch.float64))
    assert same(through, expected)


def test_single_through_the_boundary_is_the_network_itself(network):
    z, noise = given(torch.float32)
    assert same(on_device(network, "cpu")(z, noise), network(z, noise))


class Strict(Denoiser):
    """The Wiener filter in one type, which takes nothing in any other."""

    error_model = True

    def __init__(self, dtype):
        self.dtype = dtype
        self.calls = 0

    def __call__(self, z, noise):
        self.calls += 1
        for tensor in (z, noise.power, noise.descriptor, noise.shape_parameters):
            assert tensor.dtype == self.dtype
            assert tensor.device.type == "cpu"
        return GaussianDenoiser(NATURAL)(z, noise)


@pytest.mark.parametrize("sampler", [few_step, partial(ddpm, process=VariancePreserving())])
def test_samplers_hand_over_everything_in_the_denoisers_type(sampler):
    z, noise = given()
    strict = Strict(torch.float32)
    draw = sampler(on_device(strict, "cpu"), z, noise, Streams.batch(2, 2))
    assert strict.calls > 1
    assert draw.x.dtype == draw.mean.dtype == torch.float64
    exact = sampler(GaussianDenoiser(NATURAL), z, noise, Streams.batch(2, 2))
    # The noise is drawn by the caller, in its own type: only the call is rounded.
    assert torch.allclose(draw.x, exact.x, atol=1e-4)


def test_capabilities_cross_the_boundary(network):
    for inner in (network, network.with_derivative_error(), GaussianDenoiser(NATURAL)):
        outer = on_device(inner, "cpu", torch.float64)
        for name in ("channels", "error_model", "adaptable", "precision", "turnable"):
            assert getattr(outer, name) == getattr(inner, name)
        assert (outer.scatter is None) == (inner.scatter is None)
        assert outer.scatter is None or torch.equal(outer.scatter, inner.scatter)
        assert outer.digest() == inner.digest()
        assert outer.dtype == torch.float64
    assert network.with_derivative_error().digest() != network.digest()
    outer = on_device(network, "cpu")
    assert outer.with_derivative_error().digest() == network.with_derivative_error().digest()


def test_what_has_nothing_to_change_is_returned():
    exact = GaussianDenoiser(NATURAL)
    assert on_device(exact, "cpu") is exact


def test_a_mean_without_error_and_noise_without_a_spectrum_cross_too():
    noise = PixelNoise.weighted(torch.ones(SHAPE)).covariance(SHAPE, torch.ones(2, 1).double())
    z = torch.ones(2, 1, *SHAPE, dtype=torch.float64)

    def half(z, noise):
        assert z.dtype == noise.variance.dtype == torch.float32
        return z / 2

    half.dtype = torch.float32
    mean, error = on_device(half, "cpu")(z, noise)
    assert error is None
    assert torch.equal(mean, z / 2)


def test_a_device_that_is_not_there_is_one_line(network):
    for device in ("cuda:99", "nonsense"):
        with pytest.raises(InputError, match=rf"device '{device}': not available") as trouble:
            on_device(network, device)
        assert "\n" not in str(trouble.value)


def test_nothing_stays_on_the_cpu(network):
    """All that a network's denoiser does on a device, but for the float64 algebra of eq. (13)."""
    z, noise = (t.to("meta") for t in given(torch.float32))
    rng = Streams.batch(0, 2)
    denoiser = network.to("meta")
    mixture = MixtureDenoiser(
        [1.0, 2.0], [torch.tensor(0.4), torch.tensor(0.5)], [NATURAL.power(SHAPE)[0]] * 2
    )
    found = [
        losses(denoiser, z, z, noise).relative,
        derivative(lambda at: denoiser(at, noise).mean, denoiser(z, noise).mean, z, noise),
        noise.draw(rng, 3),
        noise.scaled(torch.ones(2)).rows(torch.tensor([0])).level,
        denoiser(z, noise).error.times(torch.zeros(2, 3, 8, dtype=torch.float64)).G,
    ]
    for each in (denoiser, denoiser.tiled(16), GaussianDenoiser(NATURAL), mixture):
        mean, error = each(z, noise)
        found += [mean, error.draw(rng, 3), error.spectrum(), error.pixel_variance()]
    assert {tensor.device.type for tensor in found} == {"meta"}


def off(rough, exact):
    return float((rough - exact).norm() / exact.norm())


@pytest.mark.parametrize("change", [lambda d: d, lambda d: d.tiled(16)])
def test_bfloat16_rounds_the_networks_correction_and_no_more(network, change):
    """2⁻⁸ of the correction F_θ, not of D: filters and what comes out are in single precision."""
    z, noise = given(torch.float32)
    exact = change(network)(z, noise)
    rough = change(on_device(network, "cpu", precision="bfloat16"))(z, noise)
    for part in parts(rough):
        assert part.dtype == torch.float32
    silent = deepcopy(network)
    for p in silent.parameters():
        p.zero_()
    correction = exact.mean - silent(z, noise).mean
    assert 1e-4 < float((rough.mean - exact.mean).norm() / correction.norm()) < 2**-5
    assert off(rough.error.log_variance.exp(), exact.error.log_variance.exp()) < 2**-5
    assert off(rough.error.G, exact.error.G) < 2**-5


def test_derivatives_are_in_single_precision_bit_for_bit(network):
    """∂D/∂z by a probe, c of one image by it, and D that comes with them."""
    z, noise = given(torch.float32)
    rough = on_device(network, "cpu", precision="bfloat16")
    assert same(
        rough.with_derivative_error(3)(z, noise), network.with_derivative_error(3)(z, noise)
    )
    one = (z[:1], noise.rows([0]))
    own, ours = network.adapted(*one), rough.adapted(*one)
    assert torch.equal(ours.inner.calibration.log_c, own.calibration.log_c)
    assert ours.precision == "bfloat16"  # draws with the adapted denoiser are rounded again
    assert not same(ours(z, noise), own(z, noise))
    assert same(ours.with_precision("float32")(z, noise), own(z, noise))


@pytest.mark.parametrize("able", [True, False])
def test_auto_is_single_precision_on_a_processor_without_bfloat16(network, monkeypatch, able):
    monkeypatch.setattr(precision_room, "has_bfloat16", lambda: able)
    z, noise = given(torch.float32)
    assert same(on_device(network, "cpu", precision="auto")(z, noise), network(z, noise)) != able
    assert same(on_device(network, "cpu", precision="float32")(z, noise), network(z, noise))


def test_precision_changes_rounding_alone_and_no_name(network):
    rough = on_device(network, "cpu", precision="bfloat16")
    assert rough.digest() == network.digest()
    assert on_device(rough, "cpu").precision == "bfloat16"
    assert on_device(rough, "cpu", precision="float32").precision == "float32"
    bare = without_error(rough)
    assert (bare.precision, bare.with_precision("float32").precision) == ("bfloat16", "float32")
    assert network.precision == "float32"  # the one given stays as it is
    assert rough.inner.network is network.network


def test_a_precision_that_cannot_be_had_is_one_line(network):
    exact = GaussianDenoiser(NATURAL)
    assert on_device(exact, "cpu", precision="auto") is exact
    with pytest.raises(InputError, match="computes in its own type, not in bfloat16"):
        on_device(exact, "cpu", precision="bfloat16")
    with pytest.raises(InputError, match="precision 'half': there are float32, bfloat16, auto"):
        on_device(network, "cpu", precision="half")
