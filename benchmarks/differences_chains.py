"""Rows of `differences.py` that need chains: HMC on p(φ | ε), and Gibbs in the exact Gaussian case.

HMC: ε of 3×256², σ = 0.1, φ = -0.5, known exactly, so that nothing but HMC is judged. 24 chains
start like the paper's, σ near the truth, as a regression finds it (20 % off), φ from the prior; or
both from the prior. After a warm-up of 300 come 200 transitions: their mean acceptance, and the
effective draws per transition of the slower parameter, of every chain. Gibbs: a Gaussian x with the
spectrum of photographs, 32², x | y, φ drawn exactly.
"""

from dataclasses import replace
from functools import cache

import torch

from differences_exact import PHOTOGRAPHS
from gibbsdiff import GaussianDenoiser
from gibbsdiff.inference.starts import paper_starts
from gibbsdiff.inference.summary import load_arviz
from gibbsdiff.mcmc import OURS, PAPER, Tuning, run, warm_up
from gibbsdiff.mcmc.adaptation import DualAverage, sample_covariance, step_limit
from gibbsdiff.mcmc.hmc import Metric, chances, first_state, to_box, transition
from gibbsdiff.noise import PowerLawNoise
from gibbsdiff.streams import Streams

CHAINS, TRANSITIONS = 24, 200
NOISE = PowerLawNoise()
SHAPE = (32, 32)


@cache
def problem():
    """log p(φ | ε), the paper's starts (B, d), and starts from the prior."""
    eps = NOISE.draw((256, 256), (0.1, -0.5), Streams.batch(0, 1), 3)
    every = torch.zeros(CHAINS, dtype=torch.int64)
    rng = Streams.batch(1, CHAINS)
    prior = NOISE.draw_prior(rng)
    near = prior.clone()
    near[:, 0] = 0.1 * torch.exp(0.2 * rng.normal(1)[:, 0])
    return NOISE.log_posterior(NOISE.statistic(eps).rows(every)), near, prior


def effective(draws):
    """Bulk ESS of draws (chain, draw) by ArviZ."""
    return float(load_arviz().ess(draws.numpy()))


def judged(position, tuning):
    """Of the transitions after a warm-up: the middle chain's acceptance and its range, the middle
    and the worst chain's effective draws per transition, and chains that are not at the mode.
    """
    density, _, _ = problem()
    draws, info = run(
        density,
        position,
        tuning,
        Streams.batch(3, CHAINS),
        transitions=TRANSITIONS,
        keep=TRANSITIONS,
    )
    accept = info.accept.mean(0)
    ess = torch.tensor(
        [min(effective(draws[None, :, b, i]) for i in range(2)) for b in range(CHAINS)]
    )
    middle = draws[-1].median(0).values
    sd = draws[-TRANSITIONS // 2 :].std(0).median(0).values
    lost = ((draws[-1] - middle).abs() > 6 * sd).any(1)
    return {
        "accept": round(float(accept.median()), 2),
        "low": round(float(accept.min()), 2),
        "high": round(float(accept.max()), 2),
        "ess": round(float(ess.median()) / TRANSITIONS, 2),
        "worst": round(float(ess.min()) / TRANSITIONS, 3),
        "lost": int(lost.sum()),
    }


@cache
def after(adaptation, from_prior=False):
    """How HMC does after a warm-up of this kind."""
    density, near, prior = problem()
    start = prior if from_prior else near
    rng = Streams.batch(2, CHAINS)
    return judged(*warm_up(density, start, NOISE.low, NOISE.high, rng, adaptation=adaptation))


def addition(name, from_prior=False):
    """The paper's warm-up, the paper's with one thing of ours, ours, and ours without that."""

    def measure():
        kinds = {
            "paper": PAPER,
            "with": replace(PAPER, **{name: True}),
            "ours": OURS,
            "without": replace(OURS, **{name: False}),
        }
        found = {kind: after(adaptation, from_prior) for kind, adaptation in kinds.items()}
        return {f"{kind}_{key}": v for kind, figures in found.items() for key, v in figures.items()}

    return measure


def one_average(first_step, restart):
    """The paper's warm-up, P = 300, from a first step; dual averaging starts again at the new
    metric, or goes on.
    """
    density, start, _ = problem()
    rng = Streams.batch(2, CHAINS)
    evaluate, state = first_state(density, start, NOISE.low, NOISE.high, rng)
    inverse = torch.eye(2, dtype=torch.float64).expand(CHAINS, 2, 2).contiguous()
    step = torch.full((CHAINS,), first_step, dtype=torch.float64)
    average = DualAverage.start(step, step_limit(inverse))
    metric, positions = Metric.of(inverse), []
    for i, chance in enumerate(chances(rng, 300, 2)):
        if i == 225:
            inverse = sample_covariance(torch.stack(positions[75:], -1), inverse)
            metric, limit = Metric.of(inverse), step_limit(inverse)
            if restart:
                average = DualAverage.start(step, limit)
            else:
                average = replace(average, limit=limit.log())
        state, info = transition(evaluate, state, average.log_step.exp(), metric, chance)
        average = average.update(info.accept)
        positions.append(state.position)
    tuning = Tuning(average.log_mean.exp(), inverse, NOISE.low, NOISE.high)
    return judged(to_box(state.position, NOISE.low, NOISE.high), tuning)


def first_step():
    """A reasonable first step against 10⁻⁶, as the authors' code has it; restarts in both."""
    small, ours = one_average(1e-6, restart=True), after(PAPER)
    return {
        **{f"small_{k}": v for k, v in small.items()},
        **{f"ours_{k}": v for k, v in ours.items()},
    }


def restart():
    """Dual averaging that starts again at the new metric, against one that goes on."""
    on, again = one_average(1e-3, restart=False), one_average(1e-3, restart=True)
    return {**{f"on_{k}": v for k, v in on.items()}, **{f"again_{k}": v for k, v in again.items()}}


def observation(sigma, seed=5):
    """y (1, 1, H, W) and the exact posterior's mean and covariance of (σ, φ), on a grid."""
    denoiser = GaussianDenoiser(PHOTOGRAPHS)
    x = denoiser.prior(SHAPE, Streams(seed, [(0,)]))
    y = x + NOISE.draw(SHAPE, (sigma, 0.0), Streams(seed, [(1,)]))
    levels = sigma * torch.linspace(0.5, 1.5, 81).double()
    grid = torch.cartesian_prod(levels, torch.linspace(-1, 1, 81).double())
    log_p = [
        denoiser.log_evidence(y.expand(len(g), -1, -1, -1), NOISE.covariance(SHAPE, g))
        for g in grid.split(256)
    ]
    p = torch.softmax(torch.cat(log_p), 0)
    mean = p @ grid
    return y, mean, ((grid - mean) * p[:, None]).T @ (grid - mean)


def gibbs(
    y, start, iterations, *, adaptation=PAPER, transitions=10, scale=None, again=None, seed=7
):
    """Algorithm 1 with exact draws of x: φ (iteration, chain, d) and HMC's mean acceptance.

    `scale` multiplies what the denoiser is shown, by the chain's φ; `again` is the iteration at
    which HMC is adapted a second time.
    """
    denoiser, chains = GaussianDenoiser(PHOTOGRAPHS), len(start)
    phi, tuning, found, accepted = start.clone(), None, [], []
    shown = y.expand(chains, -1, -1, -1)
    for i in range(iterations):
        rng = Streams(seed, [(c, i) for c in range(chains)])
        z = shown if scale is None else shown * scale(phi).view(-1, 1, 1, 1)
        x = denoiser.draw(z, NOISE.covariance(SHAPE, phi), rng)
        density = NOISE.log_posterior(NOISE.statistic(shown - x))
        if tuning is None or i == again:
            phi, tuning = warm_up(
                density, phi, NOISE.low, NOISE.high, rng, tuning=tuning, adaptation=adaptation
            )
        draws, info = run(density, phi, tuning, rng, transitions=transitions)
        phi = draws[-1]
        found.append(phi)
        accepted.append(info.accept.mean(0))
    return torch.stack(found), torch.stack(accepted)


def slowest(draws):
    """Effective draws of the slower parameter, of chains (iteration, chain, d)."""
    return min(effective(draws[..., i].T) for i in range(draws.shape[-1]))


def transitions():
    """Effective draws of (σ, φ) per Gibbs iteration, by the transitions of HMC in each."""
    found = {}
    for sigma, name in ((0.3, "strong"), (0.1, "weak")):
        y, mean, covariance = observation(sigma)
        root = torch.linalg.cholesky(covariance)
        start = (mean + Streams.batch(8, 24).normal(2) @ root.T).clamp(NOISE.low, NOISE.high)
        for count in (1, 3, 10):
            draws, _ = gibbs(y, start, 100, transitions=count, adaptation=OURS)
            found[f"{name}_{count}"] = round(slowest(draws) / (100 * 24), 3)
    return found


def starts():
    """How far the mean of 64 chains is from the exact one after 20 iterations, by their starts."""
    found = {}
    for sigma, name in ((0.3, "strong"), (0.1, "weak")):
        y, mean, covariance = observation(sigma)
        sd = covariance.diagonal().sqrt()
        rng = Streams.batch(9, 64)
        around = mean + 2 * rng.normal(2) @ torch.linalg.cholesky(covariance).T
        kinds = {
            "paper": paper_starts(y, NOISE, rng),
            "marginal": around.clamp(NOISE.low, NOISE.high),
        }
        for kind, start in kinds.items():
            draws, _ = gibbs(y, start, 20, adaptation=OURS)
            off = ((draws[-1].mean(0) - mean) / sd).abs().amax()
            found[f"{kind}_{name}"] = round(float(off), 2)
    return found


def second_warm_up():
    """Acceptance and effective draws of 60 iterations after 20 of burn-in, by the tuning of the
    first iteration and by one made anew after the burn-in; chains start as the paper's.
    """
    y, _, _ = observation(0.1)
    start = paper_starts(y, NOISE, Streams.batch(9, 24))
    found = {}
    for kind, again in (("once", None), ("twice", 20)):
        draws, accepted = gibbs(y, start, 80, adaptation=OURS, again=again)
        kept = accepted[20:].mean(0)
        found |= {
            f"{kind}_accept": round(float(kept.median()), 2),
            f"{kind}_low": round(float(kept.min()), 2),
            f"{kind}_high": round(float(kept.max()), 2),
            f"{kind}_ess": round(slowest(draws[20:]) / (60 * 24), 3),
        }
    return found


def leak():
    """The authors' code shows the denoiser a(t) y with the t of the true σ, at the level of the
    chain's: bias and sd of σ, over the exact ones.
    """
    found = {}
    for sigma, name in ((0.3, "strong"), (0.1, "weak")):
        y, mean, covariance = observation(sigma)
        root = torch.linalg.cholesky(covariance)
        start = (mean + Streams.batch(8, 32).normal(2) @ root.T).clamp(NOISE.low, NOISE.high)

        def true_over_own(phi, sigma=sigma):  # a(t) = (1 + σ²)^-½
            return ((1 + phi[:, 0] ** 2) / (1 + sigma**2)).sqrt()

        for kind, scale in (("own", None), ("true", true_over_own)):
            draws, _ = gibbs(y, start, 100, adaptation=OURS, scale=scale)
            kept, sd = draws[20:, :, 0], covariance[0, 0].sqrt()
            found[f"{kind}_bias_{name}"] = round(float((kept.mean() - mean[0]) / sd), 2)
            found[f"{kind}_sd_{name}"] = round(float(kept.std() / sd), 2)
    return found


MEASURES = {
    "climb": addition("climb", from_prior=True),
    "provisional-metric": addition("provisional"),
    "fine-gamma": addition("fine"),
    "shrunk-covariance": addition("shrink"),
    "second-warm-up": second_warm_up,
    "first-step": first_step,
    "restart": restart,
    "transitions": transitions,
    "starts": starts,
    "leak": leak,
}
