"""What one draw of x costs: the paper's sampler with its U-Net and with our network, and ours."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor

from gibbsdiff.diffusion.denoiser import Denoiser
from gibbsdiff.diffusion.epsilon import EpsilonDenoiser
from gibbsdiff.diffusion.process import DiscreteVariancePreserving
from gibbsdiff.diffusion.solvers import Sampler, ddpm, few_step, uniform_in_time
from gibbsdiff.mcmc.climb import climb
from gibbsdiff.mcmc.hmc import first_state, to_box
from gibbsdiff.networks.original import OriginalUNet
from gibbsdiff.noise import PowerLawNoise
from gibbsdiff.noise.covariance import SpectralCovariance
from gibbsdiff.pretrained import channels_last
from gibbsdiff.streams import Streams
from gibbsdiff.training.evaluation import observed
from gibbsdiff.training.torch_state import seeded

STEPS = 5000  # of the paper's process to the unit of time


@dataclass(frozen=True)
class Cost:
    """Processor seconds of one draw at σ, from `timed` calls out of `calls`."""

    name: str
    sigma: float
    calls: int
    timed: int
    seconds: float


@dataclass(frozen=True)
class Accuracy:
    """Errors (σ̂/σ - 1, φ̂ - φ), per image, of what the residual y - x of one draw says of φ."""

    name: str
    sigma: float
    phi: float
    errors: Tensor


def paper_network(width: int = 64) -> EpsilonDenoiser:
    """The paper's U-Net with random weights: as slow as with learned ones."""
    with seeded(0):
        network = OriginalUNet(width=width)
    denoiser = EpsilonDenoiser(network, DiscreteVariancePreserving(STEPS))
    return channels_last(denoiser).eval().requires_grad_(False)


def paper_calls(sigma: float) -> int:
    """Steps of the paper's sampler from t*(σ) to 0."""
    level = torch.tensor([sigma], dtype=torch.float64)
    levels = uniform_in_time(level, DiscreteVariancePreserving(STEPS), STEPS, "beta")
    return int((levels.u[0] > 0).sum())


def costs(
    ours: Denoiser,
    x: Tensor,
    sigmas: Sequence[float],
    *,
    theirs: Denoiser | None = None,
    timed: int = 3,
    calls: int = 12,
    phi: float = 0.0,
) -> list[Cost]:
    """For an image (1, C, H, W): (a), (b) from `timed` calls, extrapolated, and (c) in full."""
    theirs = paper_network() if theirs is None else theirs
    out = []
    for sigma in sigmas:
        y, noise = observed(x, sigma, phi, 1)
        n = paper_calls(sigma)
        for name, denoiser in (("paper's U-Net, DDPM", theirs), ("our network, DDPM", ours)):
            few = min(timed, n)
            out.append(Cost(name, sigma, n, few, n * _seconds_per_call(denoiser, y, noise, few)))
        begun = time.process_time()
        draw = few_step(ours, y, noise, Streams(0, [(0,)]), calls=calls)
        seconds = time.process_time() - begun
        made = int(draw.calls[0])
        out.append(Cost("our network, our kernel", sigma, made, made, seconds))
    return out


@torch.no_grad()
def _seconds_per_call(
    denoiser: Denoiser, y: Tensor, noise: SpectralCovariance, count: int
) -> float:
    denoiser(y, noise)  # the first call also sets up
    begun = time.process_time()
    for _ in range(count):
        denoiser(y, noise)
    return (time.process_time() - begun) / count


def accuracies(
    ours: Denoiser, x: Tensor, sigmas: Sequence[float], *, calls: int = 12, phi: float = 0.0
) -> list[Accuracy]:
    """φ by maximum likelihood from y - x, for x drawn at the true φ, images (B, C, H, W).

    A sampler of the true posterior leaves noise that tells the true φ up to its scatter.
    """
    chain = DiscreteVariancePreserving(STEPS)
    samplers: dict[str, Sampler] = {
        "our network, DDPM": lambda d, y, n, rng: ddpm(d, y, n, rng, process=chain, steps=STEPS),
        "our network, our kernel": partial(few_step, calls=calls),
    }
    out = []
    for sigma in sigmas:
        for name, sampler in samplers.items():
            rows = []
            for i in range(len(x)):
                y, noise = observed(x[i : i + 1], sigma, phi, 1, i)
                drawn = sampler(ours, y, noise, Streams(2, [(i,)])).x
                rows.append(errors_of_phi(y - drawn, sigma, phi))
            out.append(Accuracy(name, sigma, phi, torch.cat(rows)))
    return out


def errors_of_phi(noise: Tensor, sigma: float, phi: float) -> Tensor:
    """(σ̂/σ - 1, φ̂ - φ) with (σ̂, φ̂) of noise (1, C, H, W) by maximum likelihood: (1, 2)."""
    family = PowerLawNoise(phi=(-3.0, 3.0))
    density = family.log_posterior(family.statistic(noise))
    start = torch.tensor([[sigma, phi]], dtype=torch.float64)
    evaluate, state = first_state(density, start, family.low, family.high, Streams(0, [(0,)]))
    best, _ = climb(evaluate, state)
    found = to_box(best.position, family.low, family.high)
    return torch.stack([found[:, 0] / sigma - 1, found[:, 1] - phi], -1)


def markdown(found: Sequence[Cost], accuracy: Sequence[Accuracy] = ()) -> str:
    """Seconds, and how many times our kernel's they are; errors of φ if measured."""
    lines = [
        "| σ | draw of x | network calls | processor seconds | times ours |",
        "| --- | --- | --- | --- | --- |",
    ]
    for c in found:
        ours = next(o for o in found if o.sigma == c.sigma and o.name.endswith("our kernel"))
        note = "" if c.timed == c.calls else f" (from {c.timed} calls)"
        lines.append(
            f"| {c.sigma:g} | {c.name} | {c.calls} | {c.seconds:.1f}{note} "
            f"| {c.seconds / ours.seconds:.1f} |"
        )
    if accuracy:
        lines += [
            "",
            "φ by maximum likelihood from y - x, one draw of x per image at the true φ:",
            "",
            "| σ | φ | draw of x | n | σ̂/σ - 1, % | φ̂ - φ |",
            "| --- | --- | --- | --- | --- | --- |",
        ]
    for a in accuracy:
        e = a.errors.numpy()
        se = e.std(0, ddof=1) / np.sqrt(len(e)) if len(e) > 1 else np.full(2, np.nan)
        lines.append(
            f"| {a.sigma:g} | {a.phi:g} | {a.name} | {len(e)} "
            f"| {100 * e[:, 0].mean():+.2f} ± {100 * se[0]:.2f} "
            f"| {e[:, 1].mean():+.3f} ± {se[1]:.3f} |"
        )
    return "\n".join(lines) + "\n"
