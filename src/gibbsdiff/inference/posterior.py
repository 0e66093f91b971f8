"""The result: draws of φ, moments of x, what it cost, and whether it converged."""

from __future__ import annotations

import io
import json
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import torch
import xarray
from torch import Tensor

from gibbsdiff.errors import InputError
from gibbsdiff.io.atomic import write_atomically

with warnings.catch_warnings():
    # ArviZ announces its next major version once a day; users of ours need not act on it.
    warnings.simplefilter("ignore", FutureWarning)
    import arviz

RHAT, ESS = 1.05, 100.0
FORMAT = "gibbsdiff-posterior-1"
PLANE = ("channel", "row", "column")
MAPS = {
    "observed": PLANE,
    "mean": PLANE,
    "sd": PLANE,
    "average": PLANE,
    "samples": ("sample", *PLANE),
    "noise_power": ("ky", "kx"),
    "missing": ("row", "column"),
}
FACTS = ("names", "method", "calls", "seconds", "divergences", "truth", "raw_sd", "unit", "found")


@dataclass(frozen=True)
class Summary:
    """One parameter: moments, central 90 % interval and diagnostics."""

    name: str
    mean: float
    sd: float
    low: float
    high: float
    rhat: float
    ess_bulk: float
    ess_tail: float


@dataclass(frozen=True)
class Posterior:
    """p(x, φ | y) of one image.

    `phi` (chain, draw, d). `mean` is E[x | y] by Tweedie, the average of D(y, N_φ) over draws
    of φ; `average` the plain average of the draws of x; `sd` the standard deviation of x | y in
    every pixel; `samples` (n, C, H, W) the draws that were kept. Images are (C, H, W).
    `noise_power` (H, W//2+1) is the mean of N_φ over draws; `missing` (H, W) marks pixels that
    were not observed; `raw_sd` holds the sd of φ before the network's own error is added,
    eq. (12); `unit` is 1 in the units of the user's file; `found` says whether the search for
    the mode ended; `notes` are for the reader.
    """

    names: tuple[str, ...]
    phi: Tensor
    observed: Tensor
    mean: Tensor
    sd: Tensor
    average: Tensor | None = None
    samples: Tensor | None = None
    method: str = "gibbs"
    calls: int = 0
    seconds: float = 0.0
    divergences: int = 0
    truth: tuple[float, ...] | None = None
    noise_power: Tensor | None = None
    missing: Tensor | None = None
    raw_sd: tuple[float, ...] | None = None
    unit: float = 1.0
    found: bool = True
    notes: tuple[str, ...] = ()

    @property
    def rows(self) -> list[Summary]:
        """A summary of each parameter."""
        return summarise(self.phi, self.names)

    @property
    def converged(self) -> bool:
        """R-hat ≤ 1.05 and bulk and tail ESS ≥ 100 for every parameter, and the search ended.

        Parameters that were known, all draws equal, are not judged.
        """
        free = (self.phi.amax((0, 1)) > self.phi.amin((0, 1))).nonzero()[:, 0]
        drawn = len(free) > 0 or self.method == "known noise"
        return self.found and drawn and converged(self.phi[..., free])

    def summary(self) -> str:
        """A table as text; its first line says NOT CONVERGED when that is so."""
        verdict = "converged" if self.converged else "NOT CONVERGED"
        chains, draws = self.phi.shape[:2]
        lines = [
            f"{verdict}: {self.method}, {chains} chains × {draws} draws, {self.calls} network "
            f"calls, {self.divergences} divergences, {self.seconds:.1f} s",
            f"{'':>10} {'mean':>10} {'sd':>9} {'5 %':>10} {'95 %':>10} "
            f"{'R-hat':>6} {'bulk':>6} {'tail':>6}{'' if self.raw_sd is None else '  raw sd':>9}",
        ]
        raw = self.raw_sd or (None,) * len(self.names)
        lines += [
            f"{r.name:>10} {r.mean:10.5f} {r.sd:9.5f} {r.low:10.5f} {r.high:10.5f} "
            f"{r.rhat:6.3f} {r.ess_bulk:6.0f} {r.ess_tail:6.0f}"
            + ("" if own is None else f" {own:8.5f}")
            for r, own in zip(self.rows, raw, strict=True)
        ]
        return "\n".join([*lines, *self.notes])

    def plot(self, path: str | Path | None = None) -> Any:
        """A matplotlib figure: pictures, uncertainty, residual spectrum, traces and corner plot.

        Given a path, it is also written there.
        """
        from gibbsdiff.plots import figure, save

        made = figure(self)
        if path is not None:
            save(made, path)
        return made

    def inference_data(self) -> Any:
        """φ as ArviZ InferenceData: a variable per parameter, chain × draw."""
        values = {name: self.phi[..., i].numpy() for i, name in enumerate(self.names)}
        return arviz.from_dict(posterior=values)

    def save(self, path: str | Path) -> None:
        """Write NetCDF: the group `posterior` is ArviZ's, `images` holds the maps."""
        draws = {n: (("chain", "draw"), self.phi[..., i].numpy()) for i, n in enumerate(self.names)}
        maps = {name: getattr(self, name) for name in MAPS}
        images = {
            name: (MAPS[name], value.numpy()) for name, value in maps.items() if value is not None
        }
        facts = {name: getattr(self, name) for name in (*FACTS, "notes")}
        parts = {
            "/": xarray.Dataset(attrs={"format": FORMAT, "facts": json.dumps(facts)}),
            "posterior": xarray.Dataset(draws),
            "images": xarray.Dataset(images),
        }
        # Made in memory: HDF5 itself does not survive a disk that is full.
        content = xarray.DataTree.from_dict(parts).to_netcdf(engine="h5netcdf")
        write_atomically(path, bytes(content))

    @classmethod
    def load(cls, path: str | Path) -> Posterior:
        """Read what `save` wrote."""
        if not Path(path).is_file():
            raise InputError(f"{path}: no such file")
        try:
            # From memory and without NetCDF on top: a damaged file must not stay open.
            with h5py.File(io.BytesIO(Path(path).read_bytes()), "r") as file:
                if file.attrs.get("format") != FORMAT:
                    raise InputError(f"{path}: not a posterior of this program")
                facts = json.loads(file.attrs["facts"])
                names = tuple(facts.pop("names"))
                phi = np.stack([file["posterior"][name][()] for name in names], -1)
                held = file["images"]
                maps: dict[str, Any] = {
                    name: torch.from_numpy(held[name][()]) for name in MAPS if name in held
                }
            if "missing" in maps:
                maps["missing"] = maps["missing"].bool()
            facts = {k: tuple(v) if isinstance(v, list) else v for k, v in facts.items()}
            return cls(names, torch.from_numpy(phi), **maps, **facts)
        except InputError:
            raise
        except Exception as trouble:  # a damaged file makes the libraries raise whatever they meet
            reason = " ".join(str(trouble).split())[:120] or type(trouble).__name__
            raise InputError(f"{path}: cannot be read as a posterior ({reason})") from None

    def with_truth(self, truth: tuple[float, ...]) -> Posterior:
        """The same, with the true parameters for plots."""
        return replace(self, truth=truth)


def summarise(phi: Tensor, names: Sequence[str]) -> list[Summary]:
    """Summaries of draws (chain, draw, d), one per parameter."""
    return [_summarise(name, phi[..., i]) for i, name in enumerate(names)]


def converged(phi: Tensor) -> bool:
    """Whether draws (chain, draw, d) pass R-hat ≤ 1.05 and ESS ≥ 100 in every parameter."""
    rows = summarise(phi, [""] * phi.shape[-1])
    # Written so that NaN, from chains that never moved, fails.
    return all(r.rhat <= RHAT and r.ess_bulk >= ESS and r.ess_tail >= ESS for r in rows)


def worst_rhat(phi: Tensor) -> float:
    """The largest R-hat over parameters of draws (chain, draw, d); NaN for too few draws."""
    if phi.shape[1] < 4:
        return float("nan")
    return max(float(arviz.rhat(phi[..., i].numpy())) for i in range(phi.shape[-1]))


def _summarise(name: str, draws: Tensor) -> Summary:
    values = draws.double().numpy()
    low, high = np.quantile(values, [0.05, 0.95])
    enough = values.shape[1] >= 4 and np.ptp(values) > 0  # ArviZ divides by the spread
    return Summary(
        name,
        float(values.mean()),
        float(values.std(ddof=1)) if values.size > 1 else float("nan"),
        float(low),
        float(high),
        float(arviz.rhat(values)) if enough and len(values) > 1 else float("nan"),
        float(arviz.ess(values, method="bulk")) if enough else float("nan"),
        float(arviz.ess(values, method="tail")) if enough else float("nan"),
    )
