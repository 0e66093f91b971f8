"""What `gibbsdiff cmb infer` reads and writes: a map or a mock in, files out."""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path

from gibbsdiff.cosmo.getdist import write_getdist
from gibbsdiff.cosmo.infer import SIDES, DustModel, dust_model, model_name
from gibbsdiff.cosmo.mock import Mixture, dust_from_file, dust_like, mock
from gibbsdiff.cosmo.report import report
from gibbsdiff.cosmo.skies import Sky
from gibbsdiff.cosmo.sky import read_mixture, write_maps
from gibbsdiff.errors import InputError
from gibbsdiff.inference.posterior import Posterior
from gibbsdiff.io.atomic import move_together
from gibbsdiff.noise.cmb import CMBNoise


def map_with_model(
    path: Path,
    dust_rms: float | None = None,
    model: str | Path | None = None,
    preset: str | None = None,
) -> tuple[Mixture, DustModel]:
    """The map in a file, and the model of dust maps of its side."""
    mixture = read_mixture(path, dust_rms)
    return mixture, _under_cmb(mixture.shape[-1], model, preset)


def mock_with_model(
    truth: tuple[float, float, float],
    size: int = 128,
    dust: Path | None = None,
    dust_rms: float | None = None,
    model: str | Path | None = None,
    seed: int = 0,
    preset: str | None = None,
    sky: Sky = "flat",
) -> tuple[Mixture, DustModel]:
    """A mixture of the truth (H0, ω_b, σ), and the model of dust maps of its side.

    Its dust is a map of the file `dust` that the model was not trained on, or the package's own.
    """
    if size not in SIDES and model is None and preset is None:
        raise InputError(f"--size {size}: there are {' and '.join(map(str, SIDES))}")
    noise = CMBNoise()
    h0, omega_b, sigma = truth
    noise.check([[sigma, h0, omega_b]])
    found = _under_cmb(size, model, preset)
    x, source = (
        dust_like(found.signal, size, found.card, seed)
        if dust is None
        else dust_from_file(dust, size, found.card, seed)
    )
    whole = (sigma, h0, omega_b)
    kind = "" if sky == "flat" else f"{sky} sky, "
    source = f"mock: {kind}{source}"
    return mock(whole, x, noise, seed, unit=dust_rms, source=source, sky=sky), found


def _under_cmb(side: int, model: str | Path | None, preset: str | None) -> DustModel:
    found = dust_model(side, model_name(side, model, preset))
    if found.white:
        raise InputError(f"{model}: trained under white noise, it does not know the CMB")
    return found


def truth_table(posterior: Posterior) -> str:
    """The truth beside the posterior: both standard deviations, and the error by the larger."""
    if posterior.truth is None:
        raise InputError("truth: not known of this posterior")
    wide = posterior.model_error is not None
    added = f" {'with model error':>16}" if wide else ""
    lines = [f"{'':>10} {'true':>9} {'mean':>9} {'sd':>9}{added} {'(true - mean)/sd':>17}"]
    for r, t in zip(posterior.rows, posterior.truth, strict=True):
        both = f" {r.total_sd:16.4f}" if wide else ""
        z = (t - r.mean) / r.total_sd
        lines.append(f"{r.name:>10} {t:9.4f} {r.mean:9.4f} {r.sd:9.4f}{both} {z:17.2f}")
    return "\n".join(lines)


def write(
    out: str | Path, mixture: Mixture, posterior: Posterior, noise: CMBNoise, seed: int = 0
) -> list[Path]:
    """All files of a result into a folder: together at the end, or none of them.

    The seed is that of the model's error in the chains for GetDist.
    """
    folder = Path(out)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".gibbsdiff-", dir=folder) as name:
            hidden = Path(name)
            try:
                _write_into(hidden, mixture, posterior, noise, seed)
            except InputError as trouble:  # it names the hidden folder
                message = str(trouble).replace(f"{hidden}{os.sep}", f"{folder}{os.sep}")
                raise InputError(message) from None
            files = sorted(folder / file.name for file in hidden.iterdir())
            move_together(files, hidden)
    except OSError as trouble:
        raise InputError(f"{folder}: cannot be written ({trouble.strerror or trouble})") from None
    for file in folder.glob("chains_*.txt"):
        # GetDist would take the further chains of an earlier result for chains of this one.
        if re.fullmatch(r"chains_\d+", file.stem) and file not in files:
            file.unlink()
    return files


def _write_into(
    folder: Path, mixture: Mixture, posterior: Posterior, noise: CMBNoise, seed: int
) -> None:
    y, x = mixture.y, posterior.samples
    dust, cmb = {"mean": posterior.mean}, {"mean": y - posterior.mean}
    if posterior.sd is not None:
        dust["sd"] = cmb["sd"] = posterior.sd
    if x is not None:
        dust["samples"], cmb["samples"] = x, y - x
    if mixture.dust is not None and mixture.cmb is not None:
        dust["truth"], cmb["truth"] = mixture.dust, mixture.cmb
    write_maps(folder / "mixture.fits", mixture, {"mixture": y})
    write_maps(folder / "dust.fits", mixture, dust)
    write_maps(folder / "cmb.fits", mixture, cmb)
    posterior.save(folder / "posterior.nc")
    write_getdist(folder / "chains", posterior, noise, seed)
    report(folder / "report.png", mixture, posterior, noise, mixture.source)
