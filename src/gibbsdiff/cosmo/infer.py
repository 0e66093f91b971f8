"""p(dust, σ, H0, ω_b | y): what the pipeline is given for dust under the CMB."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gibbsdiff.cosmo.gaussian import fisher
from gibbsdiff.cosmo.mock import Mixture
from gibbsdiff.cosmo.moment_start import MomentStart, read_moments
from gibbsdiff.diffusion.boundary import on_device
from gibbsdiff.diffusion.denoiser import Denoiser
from gibbsdiff.diffusion.epsilon import EpsilonDenoiser
from gibbsdiff.diffusion.process import VariancePreserving
from gibbsdiff.diffusion.signal import Signal
from gibbsdiff.diffusion.spectral import SpectralDenoiser
from gibbsdiff.errors import InputError
from gibbsdiff.fourier import Shape, Wavevectors, power
from gibbsdiff.inference import pipeline
from gibbsdiff.inference.observation import ObservationModel
from gibbsdiff.inference.posterior import Posterior
from gibbsdiff.inference.presets import check_preset, denoiser_for, with_preset
from gibbsdiff.inference.problem import Options, Problem
from gibbsdiff.inference.progress import Progress, silent
from gibbsdiff.inference.search import Mode
from gibbsdiff.inference.weights import Sureness
from gibbsdiff.io.digest import file_digest
from gibbsdiff.noise.stationary import StationaryNoise
from gibbsdiff.pretrained import available, find, format_of, load_spectral, read_card, signal_of
from gibbsdiff.pretrained.epsilon import FORMAT as EPSILON
from gibbsdiff.pretrained.epsilon import load_epsilon
from gibbsdiff.streams import Key, Streams

CANDIDATES = 4096
SIDES = (128, 256)
#: The model where none is given, by the preset: a name for each side.
MODELS: dict[str | None, dict[int, str]] = {
    None: {side: f"dust{side}" for side in SIDES},
    "paper": {128: "paper-cosmo-small"},
}
#: β_max of the paper, 2, ends at 1.363, below the prior's 1.368; it is raised as little as need be.
BETA_MIN, BETA_MAX = 0.1, 2.02
MOMENTS = ".moments.npz"  # ending of a model's moment network
FLOOR = 0.02  # the least σ that networks were trained on: the last step starts there
#: Weights of eq. (14) on dust, if they are asked for: its errors are everywhere alike.
SURE = Sureness(0.01, 6.0, 3.0, 0.0)
TRIALS = 8  # draws that samples of dust are matched to the moments of one call by


@dataclass(frozen=True)
class DustModel:
    """A denoiser of dust maps of one side, its card, and the moment network that belongs to it.

    The denoiser is that of eq. (4) or one of the paper's ε-networks, which has no error model.
    """

    denoiser: SpectralDenoiser | EpsilonDenoiser
    card: dict[str, Any]
    moments: MomentStart | None = None

    @property
    def side(self) -> int:
        """Pixels of a side of the maps that it knows."""
        return int(self.card["maps"]["side"])

    @property
    def white(self) -> bool:
        """Whether it was trained under white noise, not under the CMB."""
        part = "model" if isinstance(self.denoiser, EpsilonDenoiser) else "noise"
        settings = self.card.get("config", {}).get(part, {})
        return bool(settings.get("family") == "white")

    @property
    def signal(self) -> Signal:
        """S_x of the training maps; for an ε-network its card has it."""
        if isinstance(self.denoiser, EpsilonDenoiser):
            return signal_of(self.card["maps"]["spectrum"])
        return self.denoiser.signal


def model_name(side: int, path: str | Path | None = None, preset: str | None = None) -> str | Path:
    """The model given, or the shipped one for maps of this side, by the preset."""
    if path is not None:
        return path
    if preset is not None:
        check_preset(preset)
    shipped = {s: name for s, name in MODELS[preset].items() if name in available()}
    if side in shipped:
        return shipped[side]
    known = " and ".join(f"{s} ({name})" for s, name in shipped.items())
    hint = f"there is one for maps of side {known}" if known else "give one"
    whose = "" if preset is None else f" for the preset {preset}"
    raise InputError(f"no model of dust of side {side}{whose} comes with the package: {hint}")


def moments_file(weights: Path, side: int) -> Path | None:
    """The moment network that belongs to a model, if there is one: NAME.moments.npz beside
    NAME.safetensors; shipped models of one side share one, having the same maps.
    """
    own, shared = weights.with_suffix(MOMENTS), weights.with_name(f"dust{side}{MOMENTS}")
    if own.is_file():
        return own
    shipped = weights.stem in available() and weights == find(weights.stem)
    return shared if shipped and shared.is_file() else None


def dust_model(side: int, path: str | Path | None = None) -> DustModel:
    """The model for maps of this side: a file, or the shipped one, with its moment network."""
    name = model_name(side, path)
    card = read_card(name)
    if "maps" not in card:
        raise InputError(f"{name}: not a model of dust maps")
    epsilon = format_of(find(name)) == EPSILON
    model = load_epsilon(name) if epsilon else load_spectral(name)
    beside = moments_file(find(name), side)
    moments = None if beside is None else read_moments(beside)
    found = DustModel(model, card, moments)
    if found.side != side:
        raise InputError(f"{name}: knows maps of side {found.side}, not {side}")
    if moments is not None and moments.side != side:
        raise InputError(f"{beside}: knows maps of side {moments.side}, not {side}")
    return found


def model_digest(side: int, path: str | Path | None = None) -> str:
    """Of the files that `dust_model` reads: the weights, and the moment network."""
    weights = find(model_name(side, path))
    files = (weights, moments_file(weights, side))
    return " ".join(file_digest(file) for file in files if file is not None)


def start_of(
    y: Tensor,
    signal: Signal,
    noise: StationaryNoise,
    moments: MomentStart | None = None,
    seed: int = 0,
) -> Tensor:
    """Where the search for the mode starts, (1, d): E[φ | y] by a moment network that was trained
    for this noise and its prior, or the best of many prior draws.
    """
    if moments is not None and moments.fits(noise):
        return moments.start(y)
    return gaussian_start(y, signal, noise, seed)


def gaussian_start(y: Tensor, signal: Signal, noise: StationaryNoise, seed: int = 0) -> Tensor:
    """The best of many prior draws by the evidence of Gaussian dust, y ~ N(0, S_x + N_φ),
    eq. (10), in bins of |k|: (1, d). No network is called.
    """
    shape = (y.shape[-2], y.shape[-1])
    grouping = noise.grouping(shape)
    k: Wavevectors = grouping.k
    P = grouping.sum(power(y.double() - signal.mean)[:, 0])
    S_x = grouping.sum(signal.power(shape)[:, 0]) / k.weight
    u = Streams(seed, [(0, 0)]).uniform(CANDIDATES, len(noise.parameters))[0]
    phi = noise.low + u * (noise.high - noise.low)
    T = S_x + torch.exp(noise.log_power(k, phi))
    evidence = -0.5 * (k.weight * torch.log(T) + P / T).sum(-1)
    return phi[evidence.argmax()][None]


def centre_of(
    y: Tensor, mode: Mode, noise: StationaryNoise, moments: MomentStart | None = None
) -> tuple[Tensor, Tensor]:
    """What chains start around: the mean (B, d) and the covariance (B, d, d) of the moment network,
    which knows the prior's walls, or those of the mode.
    """
    if moments is not None and moments.fits(noise):
        return moments.start(y), moments.covariance(y)
    return mode.phi, mode.covariance


def paper_starts(
    y: Tensor, rng: Streams, noise: StationaryNoise, moments: MomentStart | None = None
) -> Tensor:
    """As the paper starts chains on mixtures, (chains, d): all at E[φ | y] by the moment network,
    projected into the prior box; without one for this noise, from the prior.
    """
    drawn = noise.draw_prior(rng)
    if moments is not None and moments.fits(noise):
        return moments.start(y).expand_as(drawn).clone()
    return drawn


def process_for(noise: StationaryNoise, shape: Shape) -> VariancePreserving:
    """The paper's process for the CMB, whose levels cover the prior of the noise."""
    return VariancePreserving.reaching(noise.highest_level(shape), BETA_MIN, BETA_MAX)


def patch_problem(
    y: Tensor,
    denoiser: Denoiser,
    signal: Signal,
    noise: StationaryNoise,
    moments: MomentStart | None = None,
    keys: Sequence[Key] = (),
    seed: int = 0,
    listening: Sureness | None = None,
) -> Problem:
    """Periodic patches y (B, 1, H, W): both methods see all of y - x.

    The search, and the chains around its mode, start where `moments` says, if it is given. The mode
    is given at least a quarter of the information that Gaussian dust leaves. Of all dust with one
    spectrum the Gaussian hides the CMB best, so that less information is a mistake of the network's
    scores, and a step along H⁻¹ could then go anywhere. Single maps may have somewhat less than the
    average: hence a quarter.
    """
    shape = (y.shape[-2], y.shape[-1])

    def start(some: Tensor) -> Tensor:
        return torch.cat([start_of(row[None], signal, noise, moments, seed) for row in some])

    def least_information(phi: Tensor) -> Tensor:
        return torch.stack([fisher(one, signal, noise, shape) for one in phi]) / 4

    return Problem(
        y,
        noise,
        denoiser,
        ObservationModel(noise, shape),
        start=start,
        centre=partial(centre_of, noise=noise, moments=moments),
        paper_starts=partial(paper_starts, noise=noise, moments=moments),
        process=process_for(noise, shape),
        least_information=least_information,
        listening=listening,
        keys=tuple(keys),
    )


def options_of(preset: str | None = None, **given: Any) -> Options:
    """What is given, not None, over the preset's options or, without a preset, over 4 chains of at
    most 400 draws.
    """
    usual: dict[str, Any] = {} if preset else {"method": "gibbs", "chains": 4, "draws": 400}
    return Options(**usual | with_preset(preset, given, "sbc"))


def options_for(found: DustModel, noise: StationaryNoise, options: Options) -> Options:
    """Options whose draws of dust end at `FLOOR`, and have the moments of one call.

    Without an error model there is no search, and no such moments: chains start where the moment
    network says, if there is one, and one call is no draw. The check of the noise model knows
    photographs, and maps have one of their own: `gibbsdiff cmb check`.
    """
    options = replace(options, check=False)
    few = options.sampler in (None, "few-step")
    bare = not denoiser_for(options.preset, found.denoiser).error_model
    if bare:
        known = found.moments is not None and found.moments.fits(noise)
        if options.method == "gibbs" and options.starts is None and known:
            options = replace(options, starts="paper")
        if few and 1 in (options.calls, options.chain_calls):
            raise InputError("calls 1: a network without an error model needs more for a draw")
        return replace(options, floor=FLOOR) if few else options
    return replace(options, floor=FLOOR, trials=TRIALS) if few else options


def infer(
    mixture: Mixture,
    found: DustModel,
    noise: StationaryNoise,
    options: Options,
    progress: Progress = silent,
    device: str = "cpu",
    listening: Sureness | None = None,
) -> Posterior:
    """The joint posterior p(dust, σ, H0, ω_b | y) of one mixture.

    Inside Gibbs chains a draw of dust takes one call, if nothing else is asked for: of dust (σ, H0,
    ω_b) see second moments alone. Samples that are kept take `calls`.
    """
    denoiser = denoiser_for(options.preset, on_device(found.denoiser, device))
    few = options.method == "gibbs" and options.sampler in (None, "few-step")
    if few and options.chain_calls is None and denoiser.error_model:
        options = replace(options, chain_calls=1)
    y = mixture.y[None]
    known = (denoiser, found.signal, noise, found.moments)
    problem = patch_problem(y, *known, seed=options.seed, listening=listening)
    (posterior,) = pipeline.infer(problem, options_for(found, noise, options), progress)
    return replace(posterior, unit=mixture.unit, truth=mixture.truth)
