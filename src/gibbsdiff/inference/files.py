"""Blind denoising of picture files: what `gibbsdiff denoise` does with each of them."""

from __future__ import annotations

import os
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from gibbsdiff.errors import InputError
from gibbsdiff.inference.denoise import denoise
from gibbsdiff.inference.posterior import Posterior
from gibbsdiff.io.picture import Picture, check_output, read_picture, write_picture
from gibbsdiff.io.picture import write_uncertainty as write_map


class Denoised(NamedTuple):
    """A posterior, the picture it is of, and the files written."""

    picture: Picture
    posterior: Posterior
    files: list[Path]

    @property
    def summary(self) -> str:
        """The posterior's, and the noise level in the units of the file."""
        text = self.posterior.summary()
        unit, name = self.picture.unit, self.picture.unit_name or "in the file's units"
        row = next((row for row in self.posterior.rows if row.name == "sigma"), None)
        if row is not None:
            if unit == 1:
                return text
            return f"{text}\nsigma = {unit * row.mean:.4g} ± {unit * row.total_sd:.2g} {name}"
        level = unit * self.posterior.level
        return f"{text}\nstandard deviation of the noise = {level:.4g} {name}"


def target(picture: Path, out: Path | None, many: bool) -> Path:
    """Where the denoised picture goes: beside the input, into a folder, or to the file named."""
    own = picture.with_name(f"{picture.stem}.denoised{picture.suffix}")
    if out is None:
        return own
    if many or out.is_dir() or not out.suffix:
        return out / own.name
    return out


def stem_of(place: Path) -> Path:
    """What the names of all files written beside this one begin with."""
    return place.with_name(place.stem.removesuffix(".denoised"))


def denoise_file(
    path: str | Path, out: str | Path | None = None, *, figure: bool = True, **options: Any
) -> Denoised:
    """Denoise a file; write the picture, its uncertainty, the posterior and a report.

    Options are those of `gibbsdiff.denoise`. All files appear together at the end, or none.
    """
    source = Path(path)
    place = Path(out) if out is not None else target(source, None, many=False)
    picture = read_picture(source)
    check_output(picture, place)
    for file in _files(picture, place, figure):
        if file.is_dir():
            raise InputError(f"{file}: is a folder, but the result needs this name")
        if file.exists() and os.path.samefile(file, source):
            raise InputError(f"{file}: the output would overwrite the input")
    if picture.values.min() == picture.values.max():
        raise InputError(f"{source}: every pixel has the same value; there is no noise to find")
    values = picture.values.copy()
    values[:, picture.missing] = float("nan")
    try:
        posterior = replace(denoise(values, **options), unit=picture.unit)
    except InputError as trouble:
        raise InputError(f"{source}: {trouble}") from None
    except (MemoryError, RuntimeError) as trouble:
        if not isinstance(trouble, MemoryError) and "allocate memory" not in str(trouble):
            raise
        raise InputError(f"{source}: not enough memory; smaller tiles need less") from None
    return Denoised(picture, posterior, _write(picture, posterior, place, figure))


def _files(picture: Picture, place: Path, figure: bool) -> list[Path]:
    """The denoised picture, its uncertainty, the posterior and the report."""
    stem, suffix = stem_of(place).name, picture.container.map_suffix
    names = [place.name, f"{stem}.uncertainty{suffix}", f"{stem}.posterior.nc"]
    return [place.with_name(name) for name in [*names, *[f"{stem}.report.png"] * figure]]


def _write(picture: Picture, posterior: Posterior, place: Path, figure: bool) -> list[Path]:
    """Everything into a hidden folder beside the target, then all of it in place."""
    files = _files(picture, place, figure)
    assert posterior.sd is not None
    try:
        with tempfile.TemporaryDirectory(prefix=".gibbsdiff-", dir=place.parent) as name:
            folder = Path(name)
            try:
                write_picture(picture, posterior.mean.numpy(), folder / place.name)
                write_map(picture, posterior.sd.numpy(), folder / stem_of(place).name)
                posterior.save(folder / files[2].name)
                if figure:
                    title = picture.path.name
                    posterior.plot(folder / files[3].name, kind="report", title=title)
            except InputError as trouble:  # it names the hidden folder
                raise InputError(
                    str(trouble).replace(f"{folder}{os.sep}", f"{place.parent}{os.sep}")
                ) from None
            for file in files:
                os.replace(folder / file.name, file)
    except OSError as trouble:
        raise InputError(f"{place}: cannot be written ({trouble.strerror or trouble})") from None
    return files
