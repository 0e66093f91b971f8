"""What `gibbsdiff cmb infer` does: a map or a mock in, files out."""

from __future__ import annotations

from pathlib import Path

from gibbsdiff.checks import InputError
from gibbsdiff.cosmo.getdist import write_getdist
from gibbsdiff.cosmo.infer import SIDES, dust_model, infer
from gibbsdiff.cosmo.mock import Mixture, dust_from_file, dust_like, mock
from gibbsdiff.cosmo.report import report
from gibbsdiff.cosmo.sky import read_mixture, write_maps
from gibbsdiff.inference.pipeline import Options
from gibbsdiff.inference.posterior import Posterior
from gibbsdiff.noise.cmb import CMBNoise


def separate(
    path: Path | None,
    truth: tuple[float, float, float] | None,
    out: str | Path,
    options: Options,
    *,
    size: int = 128,
    dust: Path | None = None,
    dust_rms: float | None = None,
    model: Path | None = None,
) -> Posterior:
    """Infer from the map in `path`, or from a mock of the truth (H0, ω_b, σ), and write it all."""
    noise = CMBNoise()
    if path is not None:
        mixture = read_mixture(path, dust_rms)
        found = dust_model(mixture.shape[-1], model)
    else:
        assert truth is not None
        if size not in SIDES and model is None:
            raise InputError(f"--size {size}: there are {' and '.join(map(str, SIDES))}")
        h0, omega_b, sigma = truth
        noise.check([[sigma, h0, omega_b]])
        found = dust_model(size, model)
        signal, card = found.denoiser.signal, found.card
        x, source = (
            dust_like(signal, size, card, options.seed)
            if dust is None
            else dust_from_file(dust, size, card, options.seed)
        )
        mixture = mock(
            (sigma, h0, omega_b), x, noise, options.seed, unit=dust_rms, source=f"mock: {source}"
        )
    posterior = infer(mixture, found.denoiser, noise, options, found.moments)
    write(out, mixture, posterior, noise)
    return posterior


def found_again(posterior: Posterior) -> str:
    """The truth beside the posterior, as a table."""
    assert posterior.truth is not None
    lines = [f"{'':>10} {'true':>9} {'mean':>9} {'sd':>9} {'(true - mean)/sd':>17}"]
    lines += [
        f"{r.name:>10} {t:9.4f} {r.mean:9.4f} {r.sd:9.4f} {(t - r.mean) / r.sd:17.2f}"
        for r, t in zip(posterior.rows, posterior.truth, strict=True)
    ]
    return "\n".join(lines)


def write(out: str | Path, mixture: Mixture, posterior: Posterior, noise: CMBNoise) -> None:
    """All files of a result, into a folder."""
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    y, x = mixture.y, posterior.samples
    dust = {"mean": posterior.mean, "sd": posterior.sd}
    cmb = {"mean": y - posterior.mean, "sd": posterior.sd}
    if x is not None:
        dust["samples"], cmb["samples"] = x, y - x
    if mixture.dust is not None and mixture.cmb is not None:
        dust["truth"], cmb["truth"] = mixture.dust, mixture.cmb
    write_maps(folder / "mixture.fits", mixture, {"mixture": y})
    write_maps(folder / "dust.fits", mixture, dust)
    write_maps(folder / "cmb.fits", mixture, cmb)
    posterior.save(folder / "posterior.nc")
    write_getdist(folder / "chains", posterior, noise)
    report(folder / "report.png", mixture, posterior, noise, mixture.source)
