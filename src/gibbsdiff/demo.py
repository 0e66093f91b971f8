"""The demonstration: noise parameters inferred from a known noise map, next to the exact answer."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from gibbsdiff.checks import InputError, as_images
from gibbsdiff.diffusion.analytic import GaussianDenoiser
from gibbsdiff.diffusion.signal import NATURAL
from gibbsdiff.diffusion.solvers import few_step
from gibbsdiff.fourier import Shape
from gibbsdiff.mcmc import run, warm_up
from gibbsdiff.noise import PowerLawNoise, Statistic
from gibbsdiff.posterior import Summary, summarise
from gibbsdiff.streams import Streams

CHAINS, DRAWS = 4, 500


@dataclass(frozen=True)
class Demo:
    """What the demonstration shows. `truth` is unknown for a noise map from a file."""

    shape: Shape
    truth: tuple[float, float] | None
    draws: Tensor
    summary: list[Summary]
    acceptance: float
    divergences: int
    grid: tuple[Tensor, Tensor, Tensor]
    pictures: dict[str, Tensor]


def synthetic(sigma: float, phi: float, size: int, seed: int) -> Demo:
    """A Gaussian signal with the spectrum of photographs, under power-law noise."""
    noise = PowerLawNoise()
    value = noise.check([sigma, phi])
    shape = (size, size)
    if size < 8:
        raise InputError(f"size: {size} pixels; each side needs at least 8")
    covariance = noise.covariance(shape, value)
    denoiser = GaussianDenoiser(NATURAL)
    x = denoiser.prior(shape, Streams(seed, [(0,)]), 3)
    eps = noise.draw(shape, value, Streams(seed, [(1,)]), 3)
    draw = few_step(denoiser, x + eps, covariance, Streams(seed, [(2,)]), calls=1)
    pictures = {"signal x": x, "observed y": x + eps, "mean of x | y": draw.mean, "draw": draw.x}
    return _infer(noise, eps, (sigma, phi), seed, pictures)


def from_file(path: Path, seed: int) -> Demo:
    """A noise map ε of one's own, a NumPy array (H, W) or (C, H, W)."""
    array = _load(path)
    eps = as_images(array, str(path))
    if len(eps) > 1 or eps.shape[1] > 4:
        raise InputError(f"{path}: need (H, W) or (C, H, W) with C ≤ 4, not {array.shape}")
    return _infer(PowerLawNoise(), eps, None, seed, {"noise ε": eps})


def _load(path: Path) -> np.ndarray:
    try:
        array = np.load(path, allow_pickle=False)
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except (ValueError, EOFError, OSError) as trouble:
        reason = str(trouble).splitlines()[0] if str(trouble) else "empty file"
        raise InputError(f"{path}: not a NumPy array that can be read ({reason})") from None
    if not isinstance(array, np.ndarray):
        array.close()
        raise InputError(f"{path}: holds several arrays (.npz); one .npy array is needed")
    return array


def _infer(
    noise: PowerLawNoise,
    eps: Tensor,
    truth: tuple[float, float] | None,
    seed: int,
    pictures: dict[str, Tensor],
) -> Demo:
    """p(φ | ε) by HMC, over-dispersed starts, and on a grid."""
    statistic = noise.statistic(eps)
    repeated = statistic.rows(torch.zeros(CHAINS, dtype=torch.int64))
    log_posterior = noise.log_posterior(repeated)
    rng = Streams(seed, [(3, chain) for chain in range(CHAINS)])
    position, tuning = warm_up(log_posterior, noise.draw_prior(rng), noise.low, noise.high, rng)
    draws, info = run(log_posterior, position, tuning, rng, transitions=DRAWS, keep=DRAWS)
    chains = draws.transpose(0, 1)
    return Demo(
        (eps.shape[-2], eps.shape[-1]),
        truth,
        chains,
        summarise(chains, noise.names),
        float(info.accept.mean()),
        int(info.diverged.sum()),
        _grid(noise, statistic, chains),
        pictures,
    )


def _grid(
    noise: PowerLawNoise, statistic: Statistic, draws: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The exact density on a grid of ± 4 posterior standard deviations."""
    flat = draws.flatten(0, 1)
    centre, sd = flat.mean(0), flat.std(0)
    offsets = torch.linspace(-4, 4, 81, dtype=torch.float64)
    axes = [(centre[i] + sd[i] * offsets).clamp(noise.low[i], noise.high[i]) for i in range(2)]
    points = torch.cartesian_prod(*axes)
    log_p = torch.cat([noise.log_likelihood(part, statistic) for part in points.split(512)])
    return axes[0], axes[1], torch.softmax(log_p, 0).reshape(81, 81)


def figure(demo: Demo, path: Path) -> None:
    """Pictures on the left, p(φ | ε) on the right: draws over the exact contours."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    columns = len(demo.pictures) + 1
    fig, axes = pyplot.subplots(1, columns, figsize=(3.0 * columns, 3.2), layout="constrained")
    for axis, (title, image) in zip(axes, demo.pictures.items(), strict=False):
        plane = image[0].permute(1, 2, 0)[..., : 3 if image.shape[1] >= 3 else 1]
        if "ε" in title:
            plane = (plane - plane.min()) / (plane.max() - plane.min()).clamp(min=1e-12)
        axis.imshow(plane.clamp(0, 1).squeeze(-1).numpy(), cmap="gray", interpolation="nearest")
        axis.set_title(title, fontsize=10)
        axis.set_axis_off()
    sigma, phi, p = demo.grid
    levels = _mass_levels(p, (0.95, 0.68))
    last = axes[-1]
    flat = demo.draws.flatten(0, 1)
    last.plot(flat[:, 0], flat[:, 1], ".", ms=2, alpha=0.4, color="tab:blue", label="HMC")
    last.contour(sigma, phi, p.T, levels=levels, colors="k", linewidths=1)
    if demo.truth is not None:
        last.plot(*demo.truth, "+", color="tab:red", ms=12, mew=2, label="truth")
    last.set(xlabel=r"$\sigma$", ylabel=r"$\varphi$")
    last.set_title("noise parameters (contours: exact)", fontsize=10)
    last.legend(fontsize=8)
    last.tick_params(labelsize=8)
    temporary = path.with_name(f".{path.name}.part")
    fig.savefig(temporary, dpi=120, format="png")
    pyplot.close(fig)
    temporary.replace(path)


def _mass_levels(p: Tensor, masses: tuple[float, ...]) -> list[float]:
    """Density levels that enclose the given masses."""
    ordered = p.flatten().sort(descending=True).values
    total = ordered.cumsum(0)
    return [float(ordered[int((total < mass).sum())]) for mass in masses]
