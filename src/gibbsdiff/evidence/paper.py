"""The paper's algorithm on photographs, as `make paper` runs it: the preset, with the package's
small network of the paper's kind.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch

from gibbsdiff.diffusion.denoiser import Denoiser
from gibbsdiff.evidence.benchmark.examples import Example, examples_figure
from gibbsdiff.evidence.demo import photograph
from gibbsdiff.inference.denoise import denoise
from gibbsdiff.inference.posterior import Posterior
from gibbsdiff.inference.progress import Progress
from gibbsdiff.noise import PowerLawNoise
from gibbsdiff.plots import save
from gibbsdiff.streams import Streams

MODEL = "paper-natural-small"
SIDE = 64
#: Photographs of scikit-image, and the (σ, φ) of the noise that is added to them.
TASKS = {"astronaut": (0.1, 0.0), "coffee": (0.1, 0.4)}


@dataclass(frozen=True)
class Length:
    """How long chains are: far shorter than the paper's 16 × 40, of which 20 are discarded."""

    chains: int = 2
    iterations: int = 6

    @property
    def burn_in(self) -> int:
        """A third of the iterations, discarded."""
        return self.iterations // 3

    @property
    def draws(self) -> int:
        """The others."""
        return self.iterations - self.burn_in


def denoised(
    name: str,
    *,
    length: Length = Length(),  # noqa: B008 - frozen
    model: str | Path | Denoiser = MODEL,
    seed: int = 0,
    progress: bool | Progress = False,
    device: str = "cpu",
) -> Example:
    """A photograph under periodic noise, as the paper has it, and what the preset finds."""
    index = list(TASKS).index(name)
    truth, x = TASKS[name], photograph(name, SIDE)
    family = PowerLawNoise()
    streams = Streams(seed, [(index,)])
    y = x + family.draw((SIDE, SIDE), family.check(list(truth)), streams, 3, torch.float32)[0]
    found: Posterior = denoise(
        y,
        preset="paper",
        model=model,
        boundary="periodic",
        chains=length.chains,
        draws=length.draws,
        burn_in=length.burn_in,
        seed=seed,
        device=device,
        progress=progress,
    )
    return Example(index, x, found.with_truth(truth))


def found_lines(example: Example, name: str) -> list[str]:
    """What was found against the truth, and what it cost, in a few lines."""
    facts, p = example.facts, example.posterior
    lines = [
        f"{name}, {SIDE}²: PSNR {facts['noisy']:.2f} dB noisy, {facts['sample']:.2f} a sample, "
        f"{facts['mean']:.2f} the mean; {p.calls} network calls, {p.seconds:.0f} s"
    ]
    return lines + [
        f"  {row.name:>6} {row.mean:8.4f} ± {row.sd:.4f}, true {true:g}"
        for row, true in zip(p.rows, p.truth or (), strict=True)
    ]


def write_figure(examples: list[Example], folder: Path) -> Path:
    """Noisy, truth, sample, mean and draws of φ, a row for each picture."""
    file = folder / "pictures.png"
    save(examples_figure(examples), file)
    return file
