"""Blind denoising of picture files: what `gibbsdiff denoise` does with each of them."""

from __future__ import annotations

import os
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from gibbsdiff.errors import InputError
from gibbsdiff.inference.counts import is_counted
from gibbsdiff.inference.denoise import denoise
from gibbsdiff.inference.given_level import GivenLevel
from gibbsdiff.inference.posterior import Posterior
from gibbsdiff.inference.profile import profile_given
from gibbsdiff.io.atomic import move_together
from gibbsdiff.io.facts import facts_of
from gibbsdiff.io.file_format import Picture
from gibbsdiff.io.fits_parts import plain_name
from gibbsdiff.io.picture import check_output, read_picture, write_picture, write_uncertainty
from gibbsdiff.io.raw import RAW
from gibbsdiff.io.transfer import Transfer


class Results(NamedTuple):
    """The names of the files to be written for a picture; None: it is not wanted."""

    picture: Path
    uncertainty: Path
    posterior: Path | None
    report: Path | None
    page: Path | None = None

    def wanted(self) -> list[Path]:
        """All of them that are to be written."""
        return [file for file in self if file is not None]

    def existing(self) -> list[Path]:
        """Those that are there already."""
        return [file for file in self.wanted() if os.path.lexists(file)]


class Denoised(NamedTuple):
    """A posterior, the picture it is of, and the files written."""

    picture: Picture
    posterior: Posterior
    files: list[Path]

    @property
    def summary(self) -> str:
        """The posterior's, and the noise level in the units of the file."""
        text = self.posterior.summary()
        if self.picture.linear:
            return f"{text}\nlinear light: noise is told in sRGB values on [0, 1]"
        unit, name = self.picture.unit, self.picture.unit_name or "in the file's units"
        row = next((row for row in self.posterior.rows if row.name == "sigma"), None)
        if row is not None:
            if unit == 1:
                return text
            spread = f" ± {unit * row.total_sd:.2g}" if not self.posterior.noise_is_known else ""
            return f"{text}\nsigma = {unit * row.mean:.4g}{spread} {name}"
        level = unit * self.posterior.level
        return f"{text}\nstandard deviation of the noise = {level:.4g} {name}"


def target(picture: Path, out: Path | None, many: bool) -> Path:
    """Where the denoised picture goes: beside the input, into a folder, or to the file named."""
    plain = plain_name(picture)
    suffix = ".tif" if plain.suffix.lower() in RAW else plain.suffix
    own = plain.with_name(f"{plain.stem}.denoised{suffix}")
    if out is None:
        return own
    if many or out.is_dir() or not out.suffix:
        return out / own.name
    return out


def stem_of(place: Path) -> Path:
    """What the names of all files written beside this one begin with."""
    return place.with_name(place.stem.removesuffix(".denoised"))


def results_for(
    picture: Picture,
    place: Path,
    *,
    figure: bool = True,
    posterior: bool = True,
    html: bool = False,
) -> Results:
    """What will be written for a picture; refused here, before the work, if it cannot be."""
    check_output(picture, place)
    stem = stem_of(place).name
    results = Results(
        place,
        place.with_name(f"{stem}.uncertainty{picture.format.map_suffix}"),
        place.with_name(f"{stem}.posterior.nc") if posterior else None,
        place.with_name(f"{stem}.report.png") if figure else None,
        place.with_name(f"{stem}.report.html") if html else None,
    )
    for file in results.existing():
        if file.is_dir():
            raise InputError(f"{file}: is a folder, but the result needs this name")
        if picture.path.exists() and file.exists() and os.path.samefile(file, picture.path):
            raise InputError(f"{file}: the output would overwrite the input")
    return results


def level_of_file(picture: Picture, options: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """The level map that a file brings along, as options, unless it cannot be used or a map was
    given; `level_map` False is none at all. And a note on it, "" if there is nothing to say.
    """
    if options.get("level_map") is False:
        return {"level_map": None}, ""
    model, noise = options.get("model"), options.get("noise")
    knows = getattr(model, "camera", model in (None, "natural"))
    told = any(options.get(n) is not None for n in ("level_map", "noise_from", "noise_prior"))
    level = picture.level
    if level is None or told or not knows or options.get("preset"):
        return {}, ""
    if (noise is not None and not isinstance(noise, str)) or (noise and is_counted(noise)):
        return {}, ""
    try:
        own = GivenLevel.of(level.values, level.kind, name=level.source)  # type: ignore[arg-type]
        own.must_fit(picture.missing.shape)
    except InputError as trouble:
        return {}, f"{trouble}; this level map is left aside"
    return {"level_map": own}, f"the level of the noise goes with the map {level.source}"


def denoise_picture(picture: Picture, **options: Any) -> Posterior:
    """`gibbsdiff.denoise` of a picture that was read; trouble is one line that names its file."""
    source = picture.path
    if picture.values.min() == picture.values.max():
        raise InputError(f"{source}: every pixel has the same value; there is no noise to find")
    found, note = level_of_file(picture, options)
    told = [options.get(n) for n in ("noise_from", "noise_prior", "noise", "known")]
    profile = profile_given(*told)
    try:
        posterior: Posterior = denoise(picture, **options | found)
    except InputError as trouble:
        raise InputError(f"{source}: {trouble}") from None
    except (MemoryError, RuntimeError) as trouble:
        if not isinstance(trouble, MemoryError) and "allocate memory" not in str(trouble):
            raise
        raise InputError(f"{source}: not enough memory; smaller tiles need less") from None
    if note:
        posterior = replace(posterior, notes=(*posterior.notes, note))
    if profile is not None and (doubt := profile.doubt(facts_of(source))):
        posterior = replace(posterior, notes=(*posterior.notes, doubt))
    if posterior.sd is None and not any("uncertainty map" in note for note in posterior.notes):
        note = "no uncertainty map: a single draw of x has no spread"
        posterior = replace(posterior, notes=(*posterior.notes, note))
    return posterior


def write_results(
    picture: Picture, posterior: Posterior, results: Results, *, clobber: bool = True
) -> list[Path]:
    """Write the picture, its uncertainty if there is a map, the posterior and the report.

    Everything is first written to a hidden folder beside, then put in place: all files or none.
    """
    place = results.picture
    if not clobber and results.existing():
        raise InputError(f"{results.existing()[0]}: exists already")
    files = [f for f in results.wanted() if posterior.sd is not None or f != results.uncertainty]
    try:
        with tempfile.TemporaryDirectory(prefix=".gibbsdiff-", dir=place.parent) as name:
            folder = Path(name)
            try:
                write_picture(picture, posterior.picture.numpy(), folder / place.name)
                if posterior.sd is not None:
                    sd, mean = posterior.sd.numpy(), posterior.mean.numpy()
                    write_uncertainty(picture, sd, folder / stem_of(place).name, mean)
                if results.posterior is not None:
                    posterior.save(folder / results.posterior.name)
                if results.report is not None:
                    title = picture.path.name
                    posterior.plot(folder / results.report.name, kind="report", title=title)
                if results.page is not None:
                    page, title = folder / results.page.name, picture.path.name
                    posterior.plot(page, kind="html", title=title, profile=picture.profile)
            except InputError as trouble:  # it names the hidden folder
                raise InputError(
                    str(trouble).replace(f"{folder}{os.sep}", f"{place.parent}{os.sep}")
                ) from None
            move_together(files, folder)
    except OSError as trouble:
        raise InputError(f"{place}: cannot be written ({trouble.strerror or trouble})") from None
    return files


def denoise_file(
    path: str | Path,
    out: str | Path | None = None,
    *,
    figure: bool = True,
    posterior: bool = True,
    html: bool = False,
    clobber: bool = True,
    transfer: Transfer = "auto",
    **options: Any,
) -> Denoised:
    """Denoise a file; write the picture, its uncertainty, the posterior and a report.

    Arguments:
        out: The denoised picture's file. By default it lies beside the input.
        figure, posterior: Whether the report, and the posterior as NetCDF, are written.
        html: Whether a report with a slider is written, as one HTML file.
        clobber: False refuses to write where there are files already, before the work.
        transfer: Whether the file's numbers are "linear" light, "srgb", or what it says: "auto".
        options: Those of `gibbsdiff.denoise`.

    All files appear together at the end, or none. Without an uncertainty map there is no file of
    it, and a note in the posterior says why.
    """
    picture = read_picture(path, transfer)
    place = Path(out) if out is not None else target(picture.path, None, many=False)
    results = results_for(picture, place, figure=figure, posterior=posterior, html=html)
    if not clobber and results.existing():
        raise InputError(f"{results.existing()[0]}: exists already")
    found = denoise_picture(picture, **options)
    return Denoised(picture, found, write_results(picture, found, results, clobber=clobber))
