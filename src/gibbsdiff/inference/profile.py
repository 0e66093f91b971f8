"""Noise profiles: the noise of one picture, kept for others of the same camera or detector."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from copy import copy
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.func import jacrev

from gibbsdiff.errors import InputError
from gibbsdiff.fourier import Shape
from gibbsdiff.inference.encoding import Encoding
from gibbsdiff.inference.observation import on_grid
from gibbsdiff.inference.posterior import Posterior
from gibbsdiff.inference.setting import FAMILIES, Told, depth_of, light_of, seen
from gibbsdiff.io.atomic import write_atomically
from gibbsdiff.io.facts import differing, facts_of
from gibbsdiff.io.file_format import Picture
from gibbsdiff.noise.base import NoiseModel
from gibbsdiff.noise.level import Light
from gibbsdiff.noise.level_curves import Move
from gibbsdiff.noise.priors import GaussianPrior
from gibbsdiff.noise.stationary import StationaryNoise

FORMAT = "gibbsdiff-noise-1"
QUANTILES = 64  # of the brightness, that a profile keeps
LEAST = 1e-4  # sd of a prior, in widths of the box: covariances may be singular


@dataclass(frozen=True)
class NoiseProfile:
    """The noise that was found on a picture: φ of a family by its name, with its covariance, the
    network's own error included, and what is needed to say the same of another picture.

    Attributes:
        family: As in `gibbsdiff.denoise(noise=...)`.
        names, phi, covariance: Of the parameters, on the picture it was found on.
        zero, unit, dtype: The picture's scale, original = zero + unit · values, and its numbers.
        shape: Of the picture: families normalise over their grid.
        brightness: Quantiles of the picture's brightness.
        found_on: What is known of the picture: file, camera, ISO, exposure.
    """

    family: str
    names: tuple[str, ...]
    phi: tuple[float, ...]
    covariance: tuple[tuple[float, ...], ...]
    shape: Shape
    brightness: tuple[float, ...]
    zero: float = 0.0
    unit: float = 1.0
    dtype: str = "float32"
    found_on: Mapping[str, Any] = field(default_factory=dict)
    source: str = "noise profile"

    @classmethod
    def of(cls, posterior: Posterior, **found_on: Any) -> NoiseProfile:
        """That of a posterior; what it was found on is yours to say."""
        if not posterior.family:
            raise InputError("noise profile: none of your own noise, and none under a level map")
        if posterior.noise_is_known or posterior.returned:
            raise InputError("noise profile: there is none, as no noise was found")
        own = posterior.widened().phi.flatten(0, 1).double()
        given = posterior.encoding or Encoding()
        values = posterior.observed.clone()
        if posterior.missing is not None:
            values[:, posterior.missing] = torch.nan
        y, _, hidden = seen(values, depth_of(given.dtype))
        whole = light_of(y, hidden).whole
        at = (torch.arange(QUANTILES, dtype=torch.float64) + 0.5) / QUANTILES
        height, width = posterior.observed.shape[-2:]
        return cls(
            posterior.family,
            posterior.names,
            tuple(posterior.phi.flatten(0, 1).double().mean(0).tolist()),
            tuple(tuple(row) for row in torch.cov(own.T).reshape(own.shape[1], -1).tolist()),
            (height, width),
            tuple(torch.quantile(whole, at).tolist()),
            given.zero,
            given.unit,
            given.dtype,
            found_on,
        )

    def save(self, path: str | Path) -> None:
        """Write JSON."""
        held = {k: v for k, v in asdict(self).items() if k != "source"}
        text = json.dumps({"format": FORMAT, **held}, indent=1, ensure_ascii=False, default=str)
        write_atomically(path, f"{text}\n")

    @classmethod
    def load(cls, path: str | Path) -> NoiseProfile:
        """Read what `save` wrote."""
        try:
            held = json.loads(Path(path).read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise InputError(f"{path}: no such file") from None
        except OSError as trouble:
            raise InputError(f"{path}: cannot be read ({trouble.strerror})") from None
        except ValueError:
            raise InputError(f"{path}: not a noise profile") from None
        if not isinstance(held, dict) or held.pop("format", None) != FORMAT:
            raise InputError(f"{path}: not a noise profile")
        known = {f.name for f in fields(cls)}
        try:
            rows = tuple(tuple(map(float, row)) for row in held["covariance"])
            whole: dict[str, Any] = {
                k: tuple(v) if isinstance(v, list) else v for k, v in held.items() if k in known
            }
            made = cls(**whole | {"covariance": rows, "source": str(path)})
            numbers = [*made.phi, *made.brightness, made.zero, made.unit, *sum(rows, ())]
            finite = all(math.isfinite(number) for number in numbers)
        except (KeyError, TypeError, ValueError) as trouble:
            raise InputError(f"{path}: not a noise profile ({trouble})") from None
        d = len(made.names)
        if not (finite and made.unit > 0 and len(made.phi) == d == len(rows)):
            raise InputError(f"{path}: not a noise profile (numbers are missing, or not finite)")
        if len(made.shape) != 2 or any(len(row) != d for row in rows) or not made.brightness:
            raise InputError(f"{path}: not a noise profile (of no picture)")
        return made

    def doubt(self, facts: Mapping[str, Any]) -> str | None:
        """A sentence, if a picture of these facts was taken in another way than the profile's."""
        other = differing(dict(self.found_on), dict(facts))
        if not other:
            return None
        own, here = (
            ", ".join(f"{name} {told[name]:g}" if isinstance(told[name], float)
                      else f"{name} {told[name]}" for name in other)
            for told in (self.found_on, facts)
        )  # fmt: skip
        return f"{self.source}: found with {own}, and this picture has {here}"

    def carried(
        self, noise: NoiseModel, encoding: Encoding, shape: Shape, light: Light | None
    ) -> tuple[Tensor, Tensor]:
        """φ (d,) and its covariance (d, d) of the same noise on another picture, of that noise
        model: in its units, at its brightness and on its grid.
        """
        if not isinstance(noise, StationaryNoise) or noise.names != self.names:
            colour = "colour" if getattr(noise, "spectra", 1) > 1 else "grey"
            raise InputError(
                f"{self.source}: {self.family!r} noise of {len(self.names)} parameters, but this "
                f"{colour} picture's has {len(noise.names)}"
            )
        phi = torch.tensor([self.phi], dtype=torch.float64)
        move = self._move(encoding, light)
        grid = torch.zeros(1, dtype=torch.float64)
        if noise.amplitude in noise.names and shape != self.shape:
            plain = noise.lit(None)
            there = on_grid(plain, shape, phi, self.shape, torch.float64).level
            grid = torch.log(there / plain.covariance(shape, phi).level)

        def change(at: Tensor) -> Tensor:
            return noise.louder(noise.carried(at, move), grid)[0]

        slopes = jacrev(change)(phi)[:, 0]
        covariance = torch.tensor(self.covariance, dtype=torch.float64)
        return change(phi), slopes @ covariance @ slopes.T

    def told(self, encoding: Encoding, known: bool) -> Told:
        """What it says of a picture's noise: all parameters, or a Gaussian prior inside the box."""

        def told(
            noise: NoiseModel, shape: Shape, light: Light | None
        ) -> tuple[NoiseModel, dict[str, float]]:
            phi, covariance = self.carried(noise, encoding, shape, light)
            for p, value in zip(noise.parameters, phi.tolist(), strict=True):
                if known and not p.low <= value <= p.high:
                    raise InputError(
                        f"{self.source}: {p.name} would be {value:.3g} on this picture, outside "
                        f"[{p.low:.3g}, {p.high:.3g}]"
                    )
            if known:
                return noise, dict(zip(noise.names, phi.tolist(), strict=True))
            least = (LEAST * (noise.high - noise.low)).square()
            mean = phi.clamp(noise.low, noise.high)
            made = copy(noise)
            made.prior = GaussianPrior(mean, torch.linalg.inv(covariance + torch.diag(least)))
            return made, {}

        return told

    def _move(self, encoding: Encoding, light: Light | None) -> Move:
        before = torch.tensor(self.brightness, dtype=torch.float64)
        after = None if light is None else light.whole
        own = Encoding(self.zero, self.unit, self.dtype)
        floats = all(e.dtype.startswith("float") for e in (own, encoding))
        if own.dtype == encoding.dtype or floats:
            shift = (encoding.zero - self.zero) / self.unit
            return Move(encoding.unit / self.unit, shift, before, after)
        if _is_full(own) and _is_full(encoding):  # depths differ: both are parts of a full range
            return Move(before=before, after=after)
        raise InputError(
            f"{self.source}: found on numbers of type {own.dtype}, and this picture has "
            f"{encoding.dtype}"
        )


def profile_given(
    known: NoiseProfile | str | Path | None,
    prior: NoiseProfile | str | Path | None,
    noise: str | NoiseModel | None,
    others: Mapping[str, float] | None,
) -> NoiseProfile | None:
    """The profile, or that in a file, if it can be used with what else was said of the noise."""
    if known is not None and prior is not None:
        raise InputError("noise profile: is the noise known or is it a prior? Give one of them")
    given = prior if known is None else known
    if given is None:
        return None
    profile = NoiseProfile.load(given) if isinstance(given, str | Path) else given
    if profile.family not in FAMILIES:
        raise InputError(f"{profile.source}: of {profile.family!r} noise, which is not known here")
    if noise is not None and noise != profile.family:
        raise InputError(f"{profile.source}: a profile of {profile.family!r} noise, not of {noise}")
    if others:
        raise InputError(f"{profile.source}: tells all parameters, {next(iter(others))} as well")
    return profile


def found_on(picture: Picture) -> dict[str, Any]:
    """What a profile says of the picture that it was found on."""
    return {"file": picture.path.name, **facts_of(picture.path)}


def _is_full(encoding: Encoding) -> bool:
    """Whether values are parts of a full range: integers by their depth, and floats on [0, 1]."""
    whole = encoding.dtype.startswith("uint") or encoding.unit == 1
    return whole and encoding.zero == 0
