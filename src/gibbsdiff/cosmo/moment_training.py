"""Training the moment network that searches on maps start from, and comparing starts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

import torch
from torch import Tensor, nn

from gibbsdiff.cosmo.infer import gaussian_start
from gibbsdiff.cosmo.moment_start import Kind, MomentStart, new_moments, views
from gibbsdiff.data.maps import Maps, ShiftedMaps
from gibbsdiff.diffusion.denoiser import Denoiser
from gibbsdiff.diffusion.signal import Signal
from gibbsdiff.errors import InputError
from gibbsdiff.fourier import REFERENCE, between_references, filtered
from gibbsdiff.inference.marginal import Marginal
from gibbsdiff.inference.progress import Progress, silent
from gibbsdiff.inference.search import find_mode
from gibbsdiff.noise.stationary import StationaryNoise
from gibbsdiff.streams import Streams
from gibbsdiff.training.optimizer import Schedule, optimizers
from gibbsdiff.training.torch_state import seeded

VARY = (0.15, 0.1)  # sd of what is added to the dust's log-power; maps differ by 0.3
FIRST = 256  # maps that the log-power is centred on
#: What trains each kind, and the rate. At 2e-3 the paper's learns next to nothing of spectral
#: slopes in 200 steps at 32², by either optimizer.
OPTIMIZERS: Mapping[Kind, tuple[Literal["muon", "adamw"], float]] = {
    "ours": ("adamw", 2e-3),
    "paper": ("muon", 5e-3),
}
HELD_OUT, MEASURED = 2, 1  # keys of the streams of held-out maps

Start = Callable[[Tensor], Tensor]


def train_moments(
    maps: Maps,
    noise: StationaryNoise,
    steps: int = 3000,
    batch: int = 32,
    seed: int = 0,
    *,
    kind: Kind = "ours",
    vary: tuple[float, float] = VARY,
    init: MomentStart | None = None,
    schedule: Schedule | None = None,
    device: torch.device | str = "cpu",
    progress: Progress = silent,
) -> MomentStart:
    """Train on φ drawn from its prior box, dust under random shifts, flips and transposes, and
    fresh noise. Ours is trained by the Gaussian likelihood of u: the loss is least where the
    network's mean and covariance are those of u | y. The paper's is trained by the mean squared
    error, which is least where its mean is that of u | y.

    There are few maps, and a network could learn to recognise them by their spectra, so each is
    filtered by a random smooth gain; `vary` has the sd of its log, common to all |k| and at each
    knot. In the end the spread is set so that L (u - mean) has the rms 1 on the selection maps.
    `init` gives weights to begin with.
    """
    if steps < 1 or batch < 2:
        raise InputError(f"steps {steps}, batch {batch}: at least 1 and 2 are needed")
    halved = (maps.finest.shape[-1] // maps.side).bit_length() - 1
    source, rng = ShiftedMaps(maps.finest, halved), torch.Generator().manual_seed(seed)
    with seeded(seed):
        start = new_moments(maps.side, noise, kind)
    optimizer_name, rate = OPTIMIZERS[kind]
    network, plan = start.network, schedule or Schedule(lr=rate, decay=0.6)

    def drawn(count: int, key: tuple[int, ...]) -> tuple[Tensor, Tensor]:
        x = varied(source.draw(count, rng), vary, rng)
        return mixtures(x, noise, Streams(seed, [(*key, i) for i in range(count)]))

    network.standardise(*views(network, drawn(FIRST, (0,))[0]))
    if init is not None:
        copy_fitting_weights(init.network, network)
    network.to(device)
    made = optimizers(network, plan.lr, optimizer_name)
    for step in range(steps):
        y, u = drawn(batch, (0, step))
        inputs = (view.to(device) for view in views(network, y))
        loss = network.loss(network(*inputs), u.to(device)).mean()
        for optimizer in made:
            optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        plan.set(made, step / steps)
        for optimizer in made:
            optimizer.step()
        progress("training", step + 1, steps)
    network.cpu().eval().requires_grad_(False)
    y, u = held_out(maps.selection, noise, seed, key=HELD_OUT)
    network.settle(start.moments(y), u)
    return start


def copy_fitting_weights(source: nn.Module, target: nn.Module) -> None:
    """Copy the weights that have the same name and shape in both; the target keeps the others."""
    own, given = target.state_dict(), source.state_dict()
    buffers = {name for name, _ in target.named_buffers()}
    same = {
        k: v for k, v in given.items() if k not in buffers and k in own and own[k].shape == v.shape
    }
    target.load_state_dict(own | same)


def varied(x: Tensor, sd: tuple[float, float], rng: torch.Generator) -> Tensor:
    """Maps filtered by a random gain, log-linear between the reference frequencies."""
    shape = (x.shape[-2], x.shape[-1])
    log_gain = sd[0] * torch.randn(len(x), 1, generator=rng)
    log_gain = log_gain + sd[1] * torch.randn(len(x), len(REFERENCE), generator=rng)
    gain = torch.exp(0.5 * log_gain @ between_references(shape).float())
    return filtered(x, gain.reshape(len(x), 1, shape[0], -1))


def mixtures(x: Tensor, noise: StationaryNoise, rng: Streams) -> tuple[Tensor, Tensor]:
    """y = x + ε with φ from its prior, and u = (φ - low)/(high - low)."""
    phi = noise.draw_prior(rng)
    shape = (x.shape[-2], x.shape[-1])
    y = x + noise.draw(shape, phi, rng, dtype=x.dtype)
    return y, ((phi - noise.low) / (noise.high - noise.low)).float()


def held_out(
    x: Tensor, noise: StationaryNoise, seed: int, repeats: int = 12, key: int = MEASURED
) -> tuple[Tensor, Tensor]:
    """Maps as they are, each `repeats` times with φ from the prior."""
    x = x.repeat(repeats, 1, 1, 1)
    return mixtures(x, noise, Streams(seed, [(key, i) for i in range(len(x))]))


def accuracy(
    starts: Mapping[str, Start],
    y: Tensor,
    u: Tensor,
    noise: StationaryNoise,
    progress: Progress = silent,
) -> dict[str, Tensor]:
    """rms error of each start, y (1, 1, H, W) -> φ (1, d), in prior widths: (d,)."""
    errors: dict[str, list[Tensor]] = {name: [] for name in starts}
    for i in range(len(y)):
        for name, start in starts.items():
            found = (start(y[i : i + 1]) - noise.low) / (noise.high - noise.low)
            errors[name].append(found - u[i])
        progress("comparing", i + 1, len(y))
    return {name: torch.cat(rows).square().mean(0).sqrt() for name, rows in errors.items()}


def compare_starts(
    moments: MomentStart,
    x: Tensor,
    noise: StationaryNoise,
    signal: Signal,
    denoiser: Denoiser | None = None,
    *,
    repeats: int = 12,
    seed: int = 0,
    progress: Progress = silent,
) -> str:
    """The errors of starts on held-out maps, as a table; with a denoiser, also those of the modes
    that the marginal method finds from them, and its calls. The last line checks the spread that
    the network predicts.
    """
    y, u = held_out(x, noise, seed, repeats)
    starts: dict[str, Start] = {
        "moment network": moments.start,
        "best of many prior draws": lambda row: gaussian_start(row, signal, noise, seed),
    }
    calls: dict[str, list[int]] = {}
    if denoiser is not None:
        for name, start in list(starts.items()):
            mode = f"mode from the {name}"
            calls[mode] = []
            starts[mode] = _mode_from(start, noise, denoiser, calls[mode])
    rms = accuracy(starts, y, u, noise, progress)
    lines = [f"{f'rms error / prior width, {len(y)} mixtures':>40}"]
    lines[0] += "".join(f"{name:>10}" for name in noise.names)
    for name, values in rms.items():
        lines.append(f"{name:>40}" + "".join(f"{v:10.4f}" for v in values.tolist()))
        if name in calls:
            lines[-1] += f"   {sum(calls[name]) / len(calls[name]):.1f} calls"
    z = moments.moments(y).z(u).square().mean(0).sqrt()
    lines.append(f"{'rms of L (u - mean), 1 if right':>40}" + "".join(f"{v:10.4f}" for v in z))
    return "\n".join(lines)


def _mode_from(start: Start, noise: StationaryNoise, denoiser: Denoiser, spent: list[int]) -> Start:
    def found(y: Tensor) -> Tensor:
        mode = find_mode(Marginal(y, noise, denoiser), start(y))
        spent.append(mode.calls)
        return mode.phi

    return found
