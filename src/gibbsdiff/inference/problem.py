"""What is inferred, and how: the two things that the pipeline is given."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Literal

from torch import Tensor

from gibbsdiff.diffusion.denoiser import Denoiser, as_denoiser
from gibbsdiff.diffusion.process import Process
from gibbsdiff.diffusion.solvers import Sampler, ddpm_of, few_step
from gibbsdiff.errors import InputError
from gibbsdiff.inference.laplace import Density
from gibbsdiff.inference.observation import ObservationModel
from gibbsdiff.inference.phi_steps import PhiStep
from gibbsdiff.inference.quiet_powers import Quiet
from gibbsdiff.inference.search import Mode
from gibbsdiff.inference.weights import Sureness
from gibbsdiff.noise.base import NoiseModel
from gibbsdiff.streams import Key, Streams

Method = Literal["marginal", "gibbs"]
Starts = Literal["marginal", "prior", "paper"]
Mean = Literal["tweedie", "average"]
WarmUp = Literal["ours", "paper"]
SamplerName = Literal["few-step", "ddpm"]

CALLS = 12  # of the denoiser for a draw of x
CHOICES = {
    "method": ("marginal", "gibbs"),
    "density": ("laplace", "polynomial"),
    "starts": (None, "marginal", "prior", "paper"),
    "mean": ("tweedie", "average"),
    "adaptation": ("ours", "paper"),
}
SAMPLERS = ("few-step", "ddpm")
GIBBS_ONLY = {
    "preset": None,
    "starts": None,
    "phi_step": None,
    "checkpoint": None,
    "burn_in": None,
    "chain_calls": None,
    "weighted_chains": False,
    "mean": "tweedie",
    "adaptation": "ours",
}
MARGINAL_ONLY = {"second_stage": False, "density": "laplace"}
IDLE = GIBBS_ONLY | MARGINAL_ONLY  # where the noise is known


@dataclass(frozen=True)
class Problem:
    """What is inferred: φ and x of every image y (B, C, H, W), from its noise and a denoiser.

    Arguments:
        known: φ (1, d): nothing is inferred but x.
        start: φ (B, d) from y alone, where the search begins; by default the middle of the box.
        centre: The mean (B, d) and covariance (B, d, d) that chains start around, from y and the
            mode; by default the mode's own.
        paper_starts: Where chains on y (1, C, H, W) start as the paper's, a row for each stream; by
            default σ by a regression on y, the rest from the prior.
        process: What the sampler "ddpm" runs on with a denoiser that has no process of its own; by
            default the paper's chain for pictures.
        least_information: A lower bound on the information at the mode, φ (B, d) -> (B, d, d).
        listening: The rule by which the score is weighted, eq. (14); None: not at all.
        most_steps: Steps of the search, at most.
        picture: y is a picture of the world, which may have quiet places.
        quiet: What these tell of the noise.
        told: φ (1, d) and its covariance (1, d, d) from y alone, where that is better than any
            search.
        raised: Mean and sd of how much more the whole picture has than quiet places, in log power.
        correlated: Noise of luma and of green chroma go together, as cameras make it, eq. (17).
        least_level: The weakest noise that the denoiser knows; a picture with less is given back as
            it is.
        noiseless: Most neighbours in y are equal: it is given back at once, without a search.
        whole: The search is for the mode of the whole posterior: score, quiet places and prior.
        by_windows: φ of one large picture comes from windows of it.
        pages: y is so many pictures of one height under each other, which have one φ.
        keys: Names of the images' random streams; by default (i,).
    """

    y: Tensor
    noise: NoiseModel
    denoiser: Denoiser
    observation: ObservationModel
    known: Tensor | None = None
    start: Callable[[Tensor], Tensor] | None = None
    centre: Callable[[Tensor, Mode], tuple[Tensor, Tensor]] | None = None
    paper_starts: Callable[[Tensor, Streams], Tensor] | None = None
    process: Process | None = None
    least_information: Callable[[Tensor], Tensor] | None = None
    listening: Sureness | None = None
    most_steps: int = 20
    picture: bool = False
    quiet: Quiet | None = None
    told: tuple[Tensor, Tensor] | None = None
    raised: tuple[float, float] = (0.0, 0.0)
    correlated: bool = False
    whole: bool = False
    least_level: float = 0.0
    noiseless: bool = False
    by_windows: bool = False
    pages: int = 1
    keys: tuple[Key, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "denoiser", as_denoiser(self.denoiser))
        if not self.keys:
            object.__setattr__(self, "keys", tuple((i,) for i in range(len(self.y))))

    @property
    def searchable(self) -> bool:
        """Whether the marginal method can be used: spectra of the noise and of the error."""
        return self.noise.stationary and self.denoiser.error_model

    def rows(self, images: Sequence[int]) -> Problem:
        """Some of its images."""
        picked = list(images)
        window = self.observation.window
        if window is not None and len(window) > 1:
            window = window[picked]
        observation = replace(self.observation, window=window)
        keys = tuple(self.keys[i] for i in picked)
        return replace(self, y=self.y[picked], observation=observation, keys=keys)


@dataclass(frozen=True)
class Options:
    """How it is inferred; see `gibbsdiff.denoise` for what they mean.

    `burn_in` None is a fifth of `draws`, at least 2. `sampler` None is the few-step kernel with
    `calls`, by default 12, and a last step from `floor`, if it is given. `chain_calls` are those of
    draws inside Gibbs chains, by default the same; with others, samples are drawn again at the
    chains' φ. `trials` is the number of draws by which samples are matched to the moments of one
    call; 0 leaves them as they are. `starts` None is "marginal" where there is a search, "prior"
    elsewhere. `warm_up` is the number of HMC's adapting iterations, `adaptation` their kind.
    `weights` of places in the score of φ: "sure" is the problem's own rule, None is none, or a map
    (H, W). `weighted_chains`: the likelihood of φ in Gibbs chains has them too. `preset` is where
    the options are from, for the report. `best`: the mean is that over the symmetries of the
    square. `check`: the model of the noise is checked on the picture. `turned`: draws of x show the
    picture to the network by a random symmetry of the square at each call; None: those of Gibbs
    chains do, with a network that was loaded as one of pictures.
    """

    method: Method = "gibbs"
    chains: int = 4
    draws: int = 50
    calls: int | None = None
    chain_calls: int | None = None
    floor: float | None = None
    trials: int = 0
    second_stage: bool = False
    density: Density = "laplace"
    samples: int = 1
    burn_in: int | None = None
    starts: Starts | None = None
    sampler: Sampler | SamplerName | None = None
    phi_step: PhiStep | None = None
    transitions: int = 10
    warm_up: int = 300
    stop_when_converged: bool = True
    checkpoint: Path | None = None
    seed: int = 0
    mean: Mean = "tweedie"
    adaptation: WarmUp = "ours"
    weights: Tensor | Literal["sure"] | None = "sure"
    weighted_chains: bool = False
    preset: str | None = None
    best: bool = False
    check: bool = True
    turned: bool | None = None

    def __post_init__(self) -> None:
        if self.best and self.method == "gibbs":
            raise InputError("best: for the marginal method and known noise, not for Gibbs chains")
        counts = (self.chains, self.draws, self.calls, self.chain_calls)
        if min(1 if n is None else n for n in counts) < 1 or min(self.samples, self.trials) < 0:
            raise InputError("chains, draws and calls must be at least 1, samples at least 0")
        for name, known in CHOICES.items():
            if getattr(self, name) not in known:
                there = ", ".join(str(choice) for choice in known if choice)
                raise InputError(f"{name} {getattr(self, name)!r}: there are {there}")
        if isinstance(self.weights, str) and self.weights != "sure":
            raise InputError(f"weights {self.weights!r}: there are sure, None, or a map")
        if self.weighted_chains and self.weights is None:
            raise InputError("weighted_chains: there are no weights")
        if isinstance(self.sampler, str) and self.sampler not in SAMPLERS:
            raise InputError(
                f"sampler {self.sampler!r}: there are {', '.join(SAMPLERS)}, or a function"
            )
        counted = (self.calls, self.chain_calls) != (None, None)
        if self.sampler not in (None, "few-step") and counted:
            whose = "ddpm" if self.sampler == "ddpm" else "a sampler of your own"
            raise InputError(f"calls: {whose} has its own number of them")
        if self.turned and self.sampler not in (None, "few-step"):
            raise InputError("turned: only the few-step sampler turns pictures")
        other = MARGINAL_ONLY if self.method == "gibbs" else GIBBS_ONLY
        if given := self.given(other):
            whose = "the marginal method, not for Gibbs chains"
            if self.method == "marginal":
                whose = "Gibbs chains, not for the marginal method"
            raise InputError(f"{given[0]} is for {whose}")

    def given(self, names: Mapping[str, object]) -> list[str]:
        """Which of the named options are not what they are when nobody asks for them."""
        return [name for name, usual in names.items() if getattr(self, name) != usual]

    def draw_x(self, denoiser: Denoiser, process: Process | None = None) -> Sampler:
        """How x is drawn with this denoiser; the process is that of `Problem`."""
        if self.sampler == "ddpm":
            return ddpm_of(denoiser, process)
        if self.sampler is None or isinstance(self.sampler, str):
            return self._few_step(self.calls, denoiser)
        return self.sampler

    def draw_in_chains(self, denoiser: Denoiser, process: Process | None = None) -> Sampler:
        """How x is drawn inside Gibbs chains."""
        if self.draws_again:
            return self._few_step(self.chain_calls, denoiser)
        return self.draw_x(denoiser, process)

    @property
    def draws_again(self) -> bool:
        """Whether samples are not those of the chains, but drawn by another sampler at their φ."""
        few = self.sampler in (None, "few-step")
        return few and self.chain_calls not in (None, self.calls or CALLS)

    def _few_step(self, calls: int | None, denoiser: Denoiser) -> Sampler:
        sampler = partial(few_step, calls=calls or CALLS)
        if self._turns(denoiser):
            sampler = partial(sampler, turned=True)
        return sampler if self.floor is None else partial(sampler, floor=self.floor)

    def _turns(self, denoiser: Denoiser) -> bool:
        """Whether draws of x turn the picture: where it was not said, as in `turned`."""
        if self.turned is None:
            return self.method == "gibbs" and denoiser.turnable and denoiser.pictures
        if self.turned and not denoiser.turnable:
            raise InputError("turned: this denoiser is not one for pictures turned and mirrored")
        return self.turned


def how_chains(options: Options, starts: Starts) -> tuple[str, ...]:
    """What is not as usual about chains, the preset first."""
    words = {
        f"preset {options.preset}": options.preset is not None,
        "starts from the prior": starts == "prior",
        "starts as the paper": starts == "paper",
        "ddpm": options.sampler == "ddpm",
        "warm-up as the paper": options.adaptation == "paper",
        "weighted likelihood": options.weighted_chains,
        "mean of the draws of x": options.mean == "average",
        "pictures upright": options.turned is False and options.preset is None,
    }
    return tuple(word for word, true in words.items() if true)
