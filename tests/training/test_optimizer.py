"""Muon and the schedule."""

import math

import pytest
import torch

from gibbsdiff.networks.unet import UNet
from gibbsdiff.training.optimizer import (
    NEWTON_SCHULZ,
    Muon,
    Schedule,
    optimizers,
    orthogonalise,
)


@pytest.mark.parametrize("shape", [(24, 24), (16, 144), (144, 16), (192, 1728)])
def test_singular_values_are_driven_to_1(shape):
    matrix = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    values = torch.linalg.svdvals(orthogonalise(matrix))
    # A square random matrix has singular values near 0, which five steps do not lift to 1.
    if shape[0] == shape[1]:
        values = values[: len(values) * 4 // 5]
    assert values.min() > 0.6
    assert values.max() < 1.3


def test_the_gram_form_is_newton_schulz():
    rng = torch.Generator().manual_seed(1)
    u, _ = torch.linalg.qr(torch.randn(32, 32, generator=rng))
    v, _ = torch.linalg.qr(torch.randn(96, 32, generator=rng))
    matrix = u @ torch.diag(torch.logspace(0, -6, 32)) @ v.T
    a, b, c = NEWTON_SCHULZ
    X = matrix / matrix.norm()
    for _ in range(5):
        A = X @ X.T
        X = a * X + (b * A + c * A @ A) @ X
    assert torch.allclose(orthogonalise(matrix), X, atol=2e-4)
    assert torch.allclose(orthogonalise(matrix.T), X.T, atol=2e-4)


def test_an_orthogonal_gradient_gives_a_multiple_of_itself():
    # All singular values are 1/√8 after normalising: the polynomial acts on that number.
    q, _ = torch.linalg.qr(torch.randn(32, 8, generator=torch.Generator().manual_seed(2)))
    weight = torch.nn.Parameter(torch.zeros(8, 8, 2, 2))
    weight.grad = 5 * q.T.reshape(8, 8, 2, 2)
    Muon([weight], lr=0.1).step()
    s = 1 / math.sqrt(8)
    a, b, c = NEWTON_SCHULZ
    for _ in range(5):
        s = a * s + b * s**3 + c * s**5
    expected = -0.1 * 0.2 * math.sqrt(32) * s * q.T.reshape(8, 8, 2, 2)
    assert torch.allclose(weight.detach(), expected, atol=1e-5)


def test_muon_has_the_trunk_and_adamw_the_rest():
    network = UNet(1, (8, 8), (1, 1), embedding=8)
    muon, adamw = optimizers(network, 1e-3)
    of_muon = {id(p) for p in muon.param_groups[0]["params"]}
    of_adamw = {id(p) for p in adamw.param_groups[0]["params"]}
    assert of_muon.isdisjoint(of_adamw)
    assert of_muon | of_adamw == {id(p) for p in network.parameters()}
    names = {name for name, p in network.named_parameters() if id(p) in of_muon}
    assert "bottom.0.conv1.weight" in names
    assert "down.0.weight" in names
    assert not any(name.startswith(("inputs", "outputs", "embed", "band")) for name in names)


def test_the_schedule_rises_stays_and_falls():
    schedule = Schedule(lr=2.0, warm_up=0.02, decay=0.4, least=0.01)
    assert schedule.rate(0.0) == pytest.approx(0.02)
    assert schedule.rate(0.01) == pytest.approx(1.0)
    assert schedule.rate(0.02) == schedule.rate(0.3) == schedule.rate(0.6) == 2.0
    assert schedule.rate(0.8) == pytest.approx(1.0)
    assert schedule.rate(1.0) == pytest.approx(0.02)
    assert not schedule.decays(0.59)
    assert schedule.decays(0.6)


def test_a_constant_rate_stays_and_never_decays():
    schedule = Schedule(kind="constant", lr=2.0)
    assert {schedule.rate(done) for done in (0.0, 0.01, 0.5, 1.0)} == {2.0}
    assert not schedule.decays(0.99)


def test_the_inverse_square_root_falls_after_its_warm_up():
    schedule = Schedule(kind="inverse-sqrt", lr=2.0, warm_up=0.04)
    assert schedule.rate(0.0) == 0
    assert schedule.rate(0.01) == pytest.approx(0.5)
    assert schedule.rate(0.04) == pytest.approx(2.0)
    assert schedule.rate(0.16) == pytest.approx(1.0)
    assert schedule.rate(1.0) == pytest.approx(0.4)
    assert not schedule.decays(0.99)


def test_adamw_alone_has_everything_and_no_weight_decay():
    network = UNet(1, (8, 8), (1, 1), embedding=8)
    (adamw,) = optimizers(network, 1e-3, "adamw")
    assert isinstance(adamw, torch.optim.AdamW)
    (group,) = adamw.param_groups
    assert len(group["params"]) == len(list(network.parameters()))
    assert group["weight_decay"] == 0
