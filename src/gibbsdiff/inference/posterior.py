"""The result: draws of φ, moments of x, what it cost, and what the method says of itself."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gibbsdiff import registry
from gibbsdiff.errors import InputError
from gibbsdiff.fourier import from_opponent, half_plane, to_opponent
from gibbsdiff.inference import netcdf
from gibbsdiff.inference.curves import Curves
from gibbsdiff.inference.encoding import Encoding
from gibbsdiff.inference.line import Line
from gibbsdiff.inference.model_check import ModelCheck
from gibbsdiff.inference.observation import ObservationModel
from gibbsdiff.inference.potential import reflected
from gibbsdiff.inference.summary import Summary, converged, load_arviz, summarise, table
from gibbsdiff.inference.words import FEW, level_in_words, spectra_in_words
from gibbsdiff.streams import Streams

PICKED = 16  # draws of φ that the mean of N_φ is taken over


@dataclass(frozen=True, repr=False, eq=False)
class Posterior:
    """p(x, φ | y) of one picture, by any method. Images are (C, H, W).

    Attributes:
        phi: Draws of φ, (chain, draw, d), given the network: what y says if D is right.
        mean: E[x | y]: D(y, N_φ) averaged over draws of φ or, for the marginal method, at φ's mode;
            `average`, if that was asked for.
        sd: Standard deviation of x | y in every pixel, φ's own uncertainty included (but where φ
            comes from windows of a large picture: it is tiny there).
        samples: Draws of x | y, (n, C, H, W), each at its own draw of φ.
        noise_power: N_φ averaged over draws of φ, or at the mode where a search of the whole
            posterior found it, (R, H, W//2+1): R = 1 where all channels have one
            spectrum, R = C where each opponent channel has its own.
        curves: The same against |k| with error bars, of a search of the whole posterior.
        average: The plain mean of all draws of x, of chains alone: the paper's estimate.
        model_error: Covariance (d, d) of φ that the network's own error adds, eq. (12).
        box: The prior box (2, d) of φ: lower and upper corner.
        missing: (H, W), True where a pixel was not observed.
        method: "gibbs", "marginal" or "known noise"; `how` has the particulars.
        calls: Of the denoiser, by the inference; the check makes one more of every picture.
        ended: Whether the marginal method's search ended.
        check: Whether the model of the noise fits: another question than whether a search ended.
        unit: What 1 is in the units of the user's file.
        encoding: How the picture was given, and is given back by `image`.
        truth: True parameters, for plots.
        notes: Sentences for the reader.
        keep: The shares of luma and chroma noise that stay in the picture that is written.
        returned: Whether the picture is given back as it is: its noise is weaker than any that the
            network knows.
        mode: φ at the mode of the marginal method, which `mean` is at.
        family: The noise by its name, "" for a model of your own.
        line: Of noise "poisson-gaussian": gain and c, in the units of the user's file.
        simpler: The posterior by a simpler family that fits as well, of noise "auto".
    """

    names: tuple[str, ...]
    phi: Tensor
    observed: Tensor
    mean: Tensor
    sd: Tensor | None = None
    average: Tensor | None = None
    samples: Tensor | None = None
    noise_power: Tensor | None = None
    curves: Curves | None = None
    model_error: Tensor | None = None
    box: Tensor | None = None
    missing: Tensor | None = None
    method: str = "gibbs"
    how: tuple[str, ...] = ()
    calls: int = 0
    seconds: float = 0.0
    divergences: int = 0
    ended: bool = True
    interrupted: bool = False
    unit: float = 1.0
    encoding: Encoding | None = None
    truth: tuple[float, ...] | None = None
    check: ModelCheck | None = None
    notes: tuple[str, ...] = ()
    keep: tuple[float, float] = (0.0, 0.0)
    returned: bool = False
    mode: tuple[float, ...] | None = None
    family: str = ""
    line: Line | None = None
    simpler: Posterior | None = None

    @property
    def is_chains(self) -> bool:
        """Whether draws of φ are those of Markov chains, not independent ones."""
        return self.method == "gibbs"

    @property
    def noise_is_known(self) -> bool:
        """Whether φ was given, and nothing was inferred but x."""
        return self.method == "known noise"

    @property
    def rows(self) -> list[Summary]:
        """A summary of each parameter."""
        chains, error = self.is_chains, self.model_error
        return summarise(self.phi, self.names, chains=chains, model_error=error, box=self.box)

    @property
    def converged(self) -> bool:
        """Of chains: R-hat ≤ 1.05 and bulk and tail ESS ≥ 100 for every parameter."""
        return self.is_chains and converged(self.phi)

    @property
    def good(self) -> bool:
        """Whether the chains converged, or the search ended, and nothing was interrupted."""
        well = self.converged if self.is_chains else self.ended
        return well and not self.interrupted

    @property
    def verdict(self) -> str:
        """Success or failure in a phrase: of chains whether they converged, of a search whether it
        ended; and whether the model of the noise fits, if that was checked.
        """
        return self.outcome if self.check is None else f"{self.outcome}; {self.check.short}"

    @property
    def outcome(self) -> str:
        """What became of chains or search, whatever the model of the noise is worth."""
        if self.is_chains:
            found = "converged" if self.converged else "NOT CONVERGED"
        elif self.method == "marginal":
            found = "the search ended" if self.ended else "the search did NOT end"
        else:
            found = "the noise was given"
        return f"INTERRUPTED, {found}" if self.interrupted else found

    def summary(self) -> str:
        """A table as text; its first line is the outcome and what it cost, the second whether the
        model of the noise fits.
        """
        chains, draws = self.phi.shape[:2]
        parts = [self.method + (f" ({', '.join(self.how)})" if self.how else "")]
        if self.is_chains:
            parts.append(f"{chains} chains × {draws} draws, {self.divergences} divergences")
        elif not self.noise_is_known:
            parts.append(f"{chains * draws} draws")
        parts += [f"{self.calls} network calls", f"{self.seconds:.1f} s"]
        if self.noise_is_known:
            lines = [f"{r.name:>10} {r.mean:10.5f}" for r in self.rows]
        else:
            lines = table(self.rows, chains=self.is_chains, total=self.model_error is not None)
        checked = [] if self.check is None else [self.check.verdict]
        head = f"{self.outcome}: {', '.join(parts)}"
        text = [head, *checked, *self.words, *lines, *self.notes]
        if self.simpler is not None:
            text += ["a simpler noise fits as well:", *self.simpler.summary().splitlines()]
        return "\n".join(text)

    @property
    def words(self) -> list[str]:
        """The noise in words, where its parameters are those of a shape."""
        by_counts = [] if self.line is None else [str(self.line)]
        if self.noise_power is None or len(self.names) <= FEW:
            return by_counts
        spectra = spectra_in_words(self.noise_power, self.observed.shape[-1], self.unit)
        level = level_in_words(self.widened().phi.flatten(0, 1), self.names)
        return [*spectra, *level, *by_counts]

    def __repr__(self) -> str:
        channels, height, width = self.mean.shape
        lines = [f"Posterior of {channels} × {height} × {width} pixels: {self.verdict}"]
        rows = [f"  {r.name} = {r.mean:.4g} ± {r.total_sd:.2g}" for r in self.rows]
        kept = rows if len(rows) <= 6 else [*rows[:5], f"  … and {len(rows) - 5} more parameters"]
        held = [n for n in ("mean", "sd", "samples", "noise_power") if getattr(self, n) is not None]
        return "\n".join([*lines, *kept, f"  maps: {', '.join(held)}"])

    def widened(self, seed: int = 0) -> Posterior:
        """The same with the network's own error, eq. (12), in the draws of φ: Gaussian noise of the
        covariance `model_error`, reflected at the walls of the prior box.
        """
        if self.model_error is None:
            return self
        error = self.model_error.double()
        values, vectors = torch.linalg.eigh((error + error.mT) / 2)
        factor = vectors * values.clamp(min=0).sqrt()
        phi = self.phi.double()
        # A key of its own: no image or chain has it, so that no noise comes twice.
        z = Streams(seed, [(12, 12, 12)]).normal(*phi.shape)[0]
        phi = phi + z @ factor.mT
        if self.box is not None:
            phi = reflected(phi, *self.box.double())
        return replace(self, phi=phi, model_error=None, how=(*self.how, "with model error"))

    @property
    def picture(self) -> Tensor:
        """The mean with the share of the noise that is to be kept, (C, H, W)."""
        if not any(self.keep):
            return self.mean
        removed = to_opponent((self.observed - self.mean)[None])
        share = removed.new_tensor([self.keep[0], self.keep[1], self.keep[1]])[: removed.shape[1]]
        return self.mean + from_opponent(share.view(1, -1, 1, 1) * removed)[0]

    @property
    def image(self) -> np.ndarray:
        """The denoised picture as NumPy, (H, W, C) or (H, W), in the type and range it came in; a
        share of the noise stays in it if that was asked for.
        """
        return (self.encoding or Encoding()).decoded(self.picture)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(self.image, dtype=dtype)

    @property
    def level(self) -> float:
        """The noise's standard deviation in a pixel: √ of the mean of N(k) over all modes."""
        if self.noise_power is None:
            return math.nan
        height, width = self.observed.shape[-2:]
        mean = half_plane((height, width)).mean(self.noise_power.double().flatten(-2))
        return float(mean.mean()) ** 0.5

    def plot(self, path: str | Path | None = None, kind: str = "page", **options: Any) -> Any:
        """A matplotlib figure. "page": pictures, uncertainty, residual spectrum, traces and corner
        plot; "report": one page with the summary. Given a path, it is also written there.
        """
        return registry.find("gibbsdiff.drawers", kind)(self, path, **options)

    def inference_data(self) -> Any:
        """φ as ArviZ InferenceData: a variable per parameter, chain × draw."""
        values = {name: self.phi[..., i].numpy() for i, name in enumerate(self.names)}
        return load_arviz().from_dict(posterior=values)

    def save(self, path: str | Path) -> None:
        """Write NetCDF: the group `posterior` is ArviZ's, `images` holds the maps, compressed. A
        `simpler` posterior is not in it: it can be saved by itself.
        """
        held = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "simpler"}
        netcdf.write(path, held)

    @classmethod
    def load(cls, path: str | Path) -> Posterior:
        """Read what `save` wrote."""
        try:
            return cls(**netcdf.read(path))
        except TypeError as trouble:
            raise InputError(f"{path}: cannot be read as a posterior ({trouble})") from None

    def with_truth(self, truth: tuple[float, ...]) -> Posterior:
        """The same, with the true parameters for plots."""
        return replace(self, truth=truth)


def mean_noise_power(
    observation: ObservationModel, phi: Tensor, dtype: torch.dtype
) -> Tensor | None:
    """N_φ averaged over some of the draws (chain, draw, d): (R, H, W//2+1); None if it has none."""
    if not observation.noise.stationary:
        return None
    flat = phi.flatten(0, 1)
    total: Tensor | None = None
    picked = flat[:: max(1, len(flat) // PICKED)]
    if bool((picked == picked[0]).all()):
        picked = picked[:1]
    # One after the other: a large picture has many modes.
    for one in picked:
        N = observation.noise_covariance(one[None], torch.float64).spectrum()
        assert N is not None
        total = N[0] if total is None else total + N[0]
    assert total is not None
    return (total / len(picked)).to(dtype)
