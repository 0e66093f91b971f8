"""Rows of `differences.py` that need no chains: closed forms, grids, and draws of noise."""

import math
import time

import torch

from gibbsdiff import GaussianDenoiser, PowerLawSignal
from gibbsdiff.diffusion.process import DiscreteVariancePreserving, VariancePreserving
from gibbsdiff.diffusion.solvers import geometric, uniform_in_time
from gibbsdiff.fourier import half_plane
from gibbsdiff.inference.observation import ObservationModel, taper
from gibbsdiff.noise import PowerLawNoise
from gibbsdiff.noise.cmb import CMBNoise
from gibbsdiff.streams import Streams

PHOTOGRAPHS = PowerLawSignal((5e-4,), (2.6,), 0.45)
LEVELS = (0.06, 0.1, 0.2)


def grid_moments(log_density, centre, width, points=61):
    """Mean and sd of (σ, φ) on a grid of ± width around a centre."""
    axes = [
        c + w * torch.linspace(-1, 1, points).double() for c, w in zip(centre, width, strict=True)
    ]
    grid = torch.cartesian_prod(*axes)
    p = torch.softmax(torch.cat([log_density(g) for g in grid.split(128)]), 0)
    mean = p @ grid
    return mean, (p @ (grid - mean) ** 2).sqrt()


def normalisation():
    """√(mean |k|^φ): the standard deviation of a pixel over the σ of the printed S = |k|^φ."""
    found = {}
    for side in (64, 256):
        k = half_plane((side, side))
        for phi in (-1, 0, 1):
            factor = float(k.mean(torch.exp(phi * k.log_k)).sqrt())
            found[f"f{side}_{phi}".replace("-", "m")] = round(factor, 4)
            # The same by the family itself: N/σ² = |k|^φ / factor² in every mode.
            noise = PowerLawNoise().log_power(k, torch.tensor([1.0, phi]).double())
            assert torch.allclose(noise, phi * k.log_k - 2 * math.log(factor))
    return found


def binned_likelihood():
    """Shift of the posterior of (σ, φ) given ε by binning, and the cost of a gradient."""
    found, noise, truth = {}, PowerLawNoise(), (0.1, -0.5)
    for side in (64, 256):
        eps = noise.draw((side, side), truth, Streams.batch(0, 1), 3)
        statistics = {exact: noise.statistic(eps, exact=exact) for exact in (True, False)}
        sd = (2 * 3 * side**2) ** -0.5
        area = (truth[0] * 6 * sd, 12 * sd)
        (mean, width), (other, _) = (
            grid_moments(lambda p, s=statistics[exact]: noise.log_likelihood(p, s), truth, area)
            for exact in (True, False)
        )
        shift = ((other - mean) / width).abs()
        found |= {
            f"sigma{side}": round(float(shift[0]), 4),
            f"phi{side}": round(float(shift[1]), 4),
        }
        found[f"groups{side}"] = len(statistics[False].k.weight)
    plane = half_plane((256, 256))
    P = torch.fft.rfft2(eps, norm="ortho").abs().square().sum(1).flatten(1) * plane.weight

    def all_modes(phi):
        log_n = noise.log_power(plane, phi)
        return -0.5 * (3 * plane.weight * log_n + P / torch.exp(log_n)).sum(-1)

    def seconds(log_density, repeats):
        phi = torch.tensor([truth] * 16).double().requires_grad_()
        start = time.process_time()
        for _ in range(repeats):
            torch.autograd.grad(log_density(phi).sum(), phi)
        return (time.process_time() - start) / repeats

    binned = seconds(lambda phi: noise.log_likelihood(phi, statistics[False]), 200)
    return found | {"ratio": round(seconds(all_modes, 10) / binned)}


def sigma_bounds():
    """p(σ < 0.01 | y) under the paper's prior, U[0, 1], in the exact Gaussian case at 64²."""
    denoiser, wide, shape = GaussianDenoiser(PHOTOGRAPHS), PowerLawNoise((1e-6, 1.0)), (64, 64)
    found = {}
    x = denoiser.prior(shape, Streams(0, [(0,)]))
    sigma = torch.logspace(-6, 0, 400).double()
    slope = torch.linspace(-1, 1, 41).double()
    grid = torch.cartesian_prod(sigma, slope)
    for name, true in (("at01", 0.01), ("at02", 0.02), ("at05", 0.05)):
        y = x + wide.draw(shape, (true, 0.0), Streams(0, [(1,)]))
        log_p = torch.cat(
            [
                denoiser.log_evidence(y.expand(len(g), -1, -1, -1), wide.covariance(shape, g))
                for g in grid.split(128)
            ]
        )
        p = torch.softmax(log_p + torch.log(grid[:, 0]), 0)  # the grid is even in log σ
        found[name] = float(f"{float(p[grid[:, 0] < 0.01].sum()):.2g}")
    return found


def gaussian_draw(levels, sigma, side=64, with_error=False):
    """Of draws by eq. (7) in the exact Gaussian case, white noise of level σ: E|y - x|² and Var x
    for each mode, by recursion over the levels of one draw.
    """
    S, N = PHOTOGRAPHS.power((side, side))[0, 0].flatten(), sigma**2
    gain, variance = torch.ones_like(S), torch.zeros_like(S)
    u, v = levels.u[0], levels.ancestral[0]
    for t, s, ancestral in zip(u[:-1], u[1:], v, strict=True):
        if t == 0:
            break
        r, here = (s / t) ** 2, N * t**2
        skip = S / (S + here)
        step = skip + r * (1 - skip)
        error = S * here / (S + here) if with_error else 0.0
        gain = step * gain
        variance = step**2 * variance + (1 - r) * ancestral * here + (1 - r) ** 2 * error
    exact = S * N / (S + N)
    residual = (1 - gain) ** 2 * (S + N) + variance
    mean = half_plane((side, side)).mean
    return {
        "sigma": float((mean(residual) / N).sqrt()) - 1,
        "variance": float(mean(variance) / mean(exact)) - 1,
    }


def reverse_variance():
    """Bias of σ by the chain's variance β and by β̃; and in 12 calls without an error model."""
    chain, found = DiscreteVariancePreserving(), {}
    for sigma in LEVELS:
        name = f"{sigma:g}".replace("0.", "at")
        level = torch.tensor([sigma]).double()
        for kind in ("beta", "posterior"):
            levels = uniform_in_time(level, chain, chain.steps, kind)
            bias = gaussian_draw(levels, sigma)
            found[f"{kind}_{name}"] = round(100 * bias["sigma"], 3)
            found[f"{kind}_variance_{name}"] = round(100 * bias["variance"], 2)
        few = gaussian_draw(geometric(level, 12), sigma)
        found[f"few_{name}"] = round(100 * few["sigma"], 2)
        right = gaussian_draw(geometric(level, 12), sigma, with_error=True)
        assert abs(right["sigma"]) < 1e-9, "eq. (7) with E = V is exact"
    return found


def snapping():
    """σ by which x is drawn when it is snapped to a step, and the σ that y - x then tells."""
    chain, found = DiscreteVariancePreserving(), {}
    S = PHOTOGRAPHS.power((256, 256))[0, 0].flatten()
    mean = half_plane((256, 256)).mean
    of_steps = chain.level(torch.arange(1, 5001).double() / 5000)
    for sigma in LEVELS:
        above = int((of_steps < sigma).sum())
        low, high = float(of_steps[above - 1]), float(of_steps[above])
        middle, half = (low + high) / 2, (high - low) / 2  # the worst σ: between two steps
        N, wrong = middle**2, (middle + half) ** 2
        residual = (wrong / (S + wrong)) ** 2 * (S + N) + S * wrong / (S + wrong)
        bias = float((mean(residual) / N).sqrt()) - 1
        name = f"{sigma:g}".replace("0.", "at")
        sd = (2 * 3 * 256**2) ** -0.5
        found |= {f"level_{name}": round(100 * half / middle, 2), f"sd_{name}": round(bias / sd, 2)}
    return found


def beta_at_zero():
    """Steps from t*(σ), and the bias of σ in the exact Gaussian case, for β(0) = 0 and 0.1."""
    found = {}
    for sigma in LEVELS:
        name, level = f"{sigma:g}".replace("0.", "at"), torch.tensor([sigma]).double()
        for kind, start in (("text", 0.0), ("appendix", 0.1)):
            process = VariancePreserving(start, 20.0)
            levels = uniform_in_time(level, process, 5000, "beta")
            found[f"{kind}_{name}"] = levels.u.shape[1] - 1
            found[f"{kind}_bias_{name}"] = round(100 * gaussian_draw(levels, sigma)["sigma"], 3)
    return found


def last_step():
    """The level that one step of the paper's chain takes away."""
    level = float(DiscreteVariancePreserving().level(torch.tensor(1 / 5000).double()))
    return {"level": round(level, 5), "limit": round(-20 * math.log10(level), 1)}


def beta_max():
    """b(1)/a(1) for β up to 2 and 2.02, and the highest level of the CMB's prior box."""
    found = {
        f"end{name}": round(VariancePreserving(0.1, high).highest, 4)
        for name, high in (("2", 2.0), ("202", 2.02))
    }
    noise = CMBNoise()
    return found | {f"at{n}": round(noise.highest_level((n, n)), 4) for n in (128, 256)}


def pinsker():
    """TV/√KL of two Gaussians of one width, for a small shift, and the largest of some."""
    x = torch.linspace(-12, 12, 24001).double()
    ratios = {}
    for shift in (0.1, 0.5, 1.0, 2.0):
        p, q = (torch.exp(-0.5 * (x - m) ** 2) for m in (0.0, shift))
        ratios[shift] = total(p, q) / math.sqrt(shift**2 / 2)
    return {
        "small": round(ratios[0.1], 4),
        "limit": round(math.pi**-0.5, 4),
        "one": round(ratios[1.0], 4),
    }


def total(p, q):
    """Total variation of two densities on one grid."""
    return 0.5 * float((p / p.sum() - q / q.sum()).abs().sum())


def open_border():
    """Bias and sd of φ by maximum likelihood from noise cut out of a field twice as wide: as if it
    were periodic, and with the taper.
    """
    noise, side, runs, found = PowerLawNoise(phi=(-2.0, 2.0)), 64, 200, {}
    for name, phi in (("pink", -0.7), ("blue", 0.7)):
        wide = noise.draw((2 * side, 2 * side), (0.1, phi), Streams.batch(3, runs), 3)
        eps = wide[:, :, :side, :side]
        for kind, window in (("periodic", None), ("taper", taper((side, side)))):
            statistic = ObservationModel(noise, (side, side), window=window).statistic(eps)
            fit = maximum(noise, statistic, torch.tensor([0.1, phi]).double().expand(runs, -1))
            found[f"{kind}_{name}"] = round(float(fit[:, 1].mean()) - phi, 3) + 0.0
            found[f"{kind}_sd_{name}"] = round(float(fit[:, 1].std()), 3)
    return found


def maximum(noise, statistic, start):
    """Newton's method on log p(ε | φ), every row for itself."""
    phi = start.clone()
    for _ in range(8):
        phi = phi.detach().requires_grad_()
        (slope,) = torch.autograd.grad(
            noise.log_likelihood(phi, statistic).sum(), phi, create_graph=True
        )
        rows = [torch.autograd.grad(slope[:, i].sum(), phi, retain_graph=True)[0] for i in range(2)]
        step = torch.linalg.solve(torch.stack(rows, 1), -slope[..., None])[..., 0]
        phi = phi.detach() + step.detach()
    return phi.detach()


MEASURES = {
    "normalisation": normalisation,
    "binned-likelihood": binned_likelihood,
    "sigma-bounds": sigma_bounds,
    "reverse-variance": reverse_variance,
    "snapping": snapping,
    "beta-at-zero": beta_at_zero,
    "last-step": last_step,
    "beta-max": beta_max,
    "pinsker": pinsker,
    "open-border": open_border,
}
