"""The paper's algorithm on dust under the CMB, as `make paper` runs it: the preset, with the
package's small network of the paper's kind.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from gibbsdiff.cosmo.infer import DustModel, dust_model, infer
from gibbsdiff.cosmo.mock import SHIPPED_SIDE, Mixture, dust_like, mock
from gibbsdiff.cosmo.report import report
from gibbsdiff.evidence.paper import Length
from gibbsdiff.inference.posterior import Posterior
from gibbsdiff.inference.presets import with_preset
from gibbsdiff.inference.problem import Options
from gibbsdiff.inference.progress import Progress, silent
from gibbsdiff.noise.cmb import CMBNoise

MODEL = "paper-cosmo-small"
TRUTH = (0.2, 70.0, 0.032)  # σ, H0, ω_b


def mixture_with_model(model: str | Path = MODEL, seed: int = 0) -> tuple[Mixture, DustModel]:
    """Dust of the package, 128², under a CMB of the truth; and the paper's network, which starts
    where the package's moment network says if it has none of its own.
    """
    found = dust_model(SHIPPED_SIDE, model)
    if found.moments is None:
        found = replace(found, moments=dust_model(SHIPPED_SIDE).moments)
    dust, source = dust_like(found.signal, SHIPPED_SIDE, found.card, seed)
    return mock(TRUTH, dust, CMBNoise(), seed, source=f"mock: {source}"), found


def separated(
    mixture: Mixture,
    found: DustModel,
    *,
    length: Length = Length(),  # noqa: B008 - frozen
    seed: int = 0,
    progress: Progress = silent,
    device: str = "cpu",
    **options: Any,
) -> Posterior:
    """What the preset finds in the mixture; other `options` of inference win over the preset's."""
    chosen: dict[str, Any] = {
        "chains": length.chains,
        "draws": length.draws,
        "burn_in": length.burn_in,
        "seed": seed,
        **options,
    }
    settings = Options(**with_preset("paper", chosen, "sbc"))
    return infer(mixture, found, CMBNoise(), settings, progress, device)


def write_figure(mixture: Mixture, posterior: Posterior, folder: Path) -> Path:
    """Mixture, dust and CMB, true and found; their spectra; draws of (σ, H0, ω_b)."""
    file = folder / "dust.png"
    report(file, mixture, posterior, CMBNoise(), mixture.source)
    return file
