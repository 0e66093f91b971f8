"""`gibbsdiff denoise` on good files: what comes out, where it goes, and in which units."""

import math
import re
import shutil

import numpy as np
import pytest
import tifffile
from astropy.io import fits
from PIL import Image, ImageCms
from skimage import data

from gibbsdiff.inference.posterior import Posterior
from gibbsdiff.io.picture import read_picture

QUICK = ("--quick", "--samples", 0, "--no-figure")
KNOWN = ("--sigma", 0.08, "--phi", 0, "--samples", 0, "--no-figure")
SIGMA = 0.08
CLEAN = 0.25 + 0.5 * data.astronaut()[20:148:2, 150:310:2] / 255  # 64×80, far from 0 and 1
NOISY = CLEAN + SIGMA * np.random.default_rng(0).normal(size=CLEAN.shape)
ALPHA = np.tile(np.arange(80, dtype=np.uint8), (64, 1))
ICC = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
EXIF = Image.Exif()
EXIF[0x010F] = "Camera"


def levels(array, top=255, kind=np.uint8):
    return np.clip(np.rint(array * top), 0, top).astype(kind)


def save_image(path, array, **options):
    Image.fromarray(array).save(path, **options)


def save_fits(path, array):
    header = fits.Header({"BUNIT": "adu", "OBJECT": "astronaut"})
    fits.PrimaryHDU(array, header).writeto(path)


GREY, COLOUR = (..., 1), ...
LOSSLESS = {"lossless": True}
NOTES = {"exif": EXIF.tobytes(), "icc_profile": ICC}

#: name -> (how the picture is written, channels, [0, 1] in the file's units, zero, unit's name)
FORMATS = {
    "rgb.png": (lambda f, y: save_image(f, levels(y), **NOTES), COLOUR, 255, 0, "levels"),
    "alpha.png": (
        lambda f, y: save_image(f, np.dstack([levels(y), ALPHA])), COLOUR, 255, 0, "levels",
    ),
    "deep.png": (
        lambda f, y: save_image(f, levels(y, 65535, np.uint16)), GREY, 65535, 0, "levels",
    ),
    "grey.jpg": (lambda f, y: save_image(f, levels(y), quality=100), GREY, 255, 0, "levels"),
    "rgb.webp": (
        lambda f, y: save_image(f, levels(y), **LOSSLESS, **NOTES), COLOUR, 255, 0, "levels",
    ),
    "deep.tif": (
        lambda f, y: tifffile.imwrite(f, levels(y, 65535, np.uint16), photometric="rgb"),
        COLOUR, 65535, 0, "levels",
    ),
    "float.tiff": (
        lambda f, y: tifffile.imwrite(f, (y * 50 - 30).astype(np.float32)),
        GREY, 50, -30, "in the file's units",
    ),
    "sky.fits": (
        lambda f, y: save_fits(f, (1000 + 3000 * y).astype(np.float32)), GREY, 3000, 1000, "adu",
    ),
    "count.fits": (
        lambda f, y: save_fits(f, np.rint(1000 + 3000 * y).astype(np.int16)),
        GREY, 3000, 1000, "adu",
    ),
    "a.npy": (lambda f, y: np.save(f, y.astype(np.float32)), COLOUR, 1, 0, ""),
    "b.npy": (lambda f, y: np.save(f, levels(y, 4095, np.uint16)), GREY, 4095, 0, "levels"),
}  # fmt: skip


def physical(path):
    """Values of a file in its own units, (C, H, W)."""
    picture = read_picture(path)
    return picture.zero + picture.unit * picture.values.astype(float)


def kind_of(path):
    """Format and depth, as other programs see them."""
    if path.suffix == ".npy":
        array = np.load(path)
        return array.dtype, array.shape
    if path.suffix == ".fits":
        with fits.open(path) as file:
            return file[0].header["BITPIX"], file[0].shape, file[0].header["OBJECT"]
    with Image.open(path) as image:
        return image.format, image.mode, image.size


def error(estimate, truth):
    return float(np.sqrt(np.mean((estimate - truth) ** 2)))


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_comes_out_as_it_went_in_and_denoised(command, tmp_path, name):
    """σ is found in the file's own units; the map of uncertainty is as large as the error."""
    make, channels, scale, zero, unit_name = FORMATS[name]
    path = tmp_path / name
    make(path, NOISY[channels])
    before = path.read_bytes()
    result = command("denoise", path, *QUICK)
    assert result.code == 0, result.stderr
    stem = tmp_path / path.stem
    out = stem.with_name(f"{path.stem}.denoised{path.suffix}")
    map_suffix = path.suffix if path.suffix in (".fits", ".npy") else ".tiff"
    sd_file = stem.with_name(f"{path.stem}.uncertainty{map_suffix}")
    posterior = stem.with_name(f"{path.stem}.posterior.nc")
    assert {p.name for p in tmp_path.iterdir()} == {p.name for p in (path, out, sd_file, posterior)}
    assert all(str(p) in result.stdout for p in (out, sd_file, posterior))
    assert path.read_bytes() == before

    if unit_name:
        told = re.search(r"^sigma = (\S+) ± (\S+) (.*)$", result.stdout, re.MULTILINE)
        assert told[3] == unit_name
        found, sd = float(told[1]), float(told[2])
    else:
        row = Posterior.load(posterior).rows[0]
        found, sd = row.mean, row.sd
    assert abs(found - SIGMA * scale) < 3 * sd + 0.05 * SIGMA * scale

    assert kind_of(out) == kind_of(path)
    truth = zero + scale * np.atleast_3d(CLEAN[channels]).transpose(2, 0, 1)
    left = error(physical(out), truth)
    assert left < 0.55 * error(physical(path), truth)
    assert np.sqrt(np.mean(physical(sd_file) ** 2)) == pytest.approx(left, rel=0.35)
    read, again = read_picture(path), Posterior.load(posterior)
    rounding = 6 if path.suffix == ".jpg" else 0.5 if read.format.integer else 0
    values = read.zero + again.unit * again.mean.numpy()
    assert np.abs(physical(out) - values).max() < rounding + 1e-6 * scale


def test_alpha_exif_and_profile_are_kept(command, tmp_path):
    for name in ("rgb.png", "alpha.png", "rgb.webp"):
        FORMATS[name][0](tmp_path / name, NOISY)
    result = command("denoise", tmp_path, "-o", tmp_path / "out", *KNOWN)
    assert result.code == 2  # rgb.png and rgb.webp have one name for their posteriors
    assert "rgb.webp: its results would overwrite those of" in result.stderr
    result = command("denoise", tmp_path / "rgb.webp", "-o", tmp_path / "out", *KNOWN)
    assert result.code == 0
    for name in ("rgb.denoised.png", "rgb.denoised.webp"):
        with Image.open(tmp_path / "out" / name) as image:
            assert image.info["icc_profile"] == ICC
            assert image.getexif()[0x010F] == "Camera"
    with Image.open(tmp_path / "out" / "alpha.denoised.png") as image:
        np.testing.assert_array_equal(np.array(image)[..., 3], ALPHA)


def test_pixels_without_a_value_are_filled_and_marked(command, tmp_path):
    array = (1000 + 3000 * NOISY[..., 0]).astype(np.float32)
    hole = np.zeros(array.shape, dtype=bool)
    hole[20:24, 30:36] = hole[50, 7] = True
    array[hole] = np.nan
    save_fits(tmp_path / "a.fits", array)
    assert command("denoise", tmp_path / "a.fits", *QUICK).code == 0
    out, sd = (fits.getdata(tmp_path / f"a.{name}.fits") for name in ("denoised", "uncertainty"))
    assert np.isfinite(out).all()
    np.testing.assert_array_equal(np.isnan(sd), hole)
    np.testing.assert_array_equal(Posterior.load(tmp_path / "a.posterior.nc").missing, hole)
    assert error(out[hole], 1000 + 3000 * CLEAN[..., 0][hole]) < 3000 * 0.1


def test_the_names_of_outputs(command, tmp_path):
    """Beside, into a folder that is made, to a file; a second run passes over the results."""
    folder = tmp_path / "été [1]"
    folder.mkdir()
    for name in ("a b.png", "c.PNG", "d.Jpg"):
        save_image(folder / name, levels(NOISY), format="JPEG" if name == "d.Jpg" else "PNG")
    (folder / "notes.txt").write_text("no picture")
    result = command("denoise", folder, "-o", tmp_path / "new" / "out", *KNOWN)
    assert result.code == 0, result.stderr
    names = {p.name for p in (tmp_path / "new" / "out").iterdir()}
    pictures = {"a b.denoised.png", "c.denoised.PNG", "d.denoised.Jpg"}
    assert pictures < names
    assert len(names) == 9
    result = command("denoise", folder / "c.PNG", "-o", tmp_path / "x.png", *KNOWN)
    assert result.code == 0, result.stderr
    assert {p.name for p in tmp_path.glob("x.*")} == {
        "x.png", "x.uncertainty.tiff", "x.posterior.nc",
    }  # fmt: skip
    for _ in range(2):
        result = command("denoise", *folder.iterdir(), folder / "c.PNG", *KNOWN)
        assert "notes.txt: unknown suffix" in result.stderr
    line = next(line for line in result.stderr.splitlines() if "earlier run" in line)
    assert line.startswith("gibbsdiff: skipped ")
    assert line.endswith(" and 1 more (written by an earlier run)")  # 9 of them
    assert len(list(folder.iterdir())) == 4 + 9
    result = command("denoise", f"{tmp_path}/*/out/c.*.PNG", *KNOWN)
    assert "no picture there" in result.refusal()
    one = tmp_path / "new" / "out" / "c.denoised.PNG"
    assert command("denoise", one, *KNOWN).code == 0  # by name it is meant
    assert one.with_name("c.denoised.denoised.PNG").exists()


def test_nothing_overwrites_the_input(command, tmp_path):
    save_image(tmp_path / "a.png", levels(NOISY))
    shutil.copy(tmp_path / "a.png", tmp_path / "b.report.png")
    (tmp_path / "link.png").symlink_to("a.png")
    before = (tmp_path / "a.png").read_bytes()
    for source, out in (("a", "a"), ("a", "link"), ("link", "a"), ("b.report", "b")):
        arguments = (tmp_path / f"{source}.png", "-o", tmp_path / f"{out}.png")
        line = command("denoise", *arguments, "--sigma", 0.08, "--phi", 0, "--samples", 0).refusal()
        assert "would overwrite the input" in line
    assert (tmp_path / "a.png").read_bytes() == before
    assert (tmp_path / "b.report.png").read_bytes() == before
    assert len(list(tmp_path.iterdir())) == 3


def denoised(command, tmp_path, *options, name="a", picture=NOISY):
    np.save(tmp_path / f"{name}.npy", picture.astype(np.float32))
    result = command("denoise", tmp_path / f"{name}.npy", "--no-figure", *options)
    assert result.code == 0, result.stderr
    return Posterior.load(tmp_path / f"{name}.posterior.nc"), result.stdout


def test_tiles_equal_the_whole(command, tmp_path):
    wide = np.concatenate([NOISY, NOISY[:, ::-1], NOISY], axis=1)  # 64×240
    whole, _ = denoised(command, tmp_path, *KNOWN, picture=wide)
    tiles, _ = denoised(command, tmp_path, *KNOWN, "--tile", 64, picture=wide)
    assert float((whole.mean - tiles.mean).abs().max()) < 1e-4
    assert float((whole.sd / tiles.sd).log().abs().max()) < 1e-3


def test_what_is_known_is_not_inferred(command, tmp_path):
    told, text = denoised(command, tmp_path, *KNOWN)
    assert told.method == "known noise"
    assert told.calls == 1
    assert float(told.phi[..., 0].max()) == SIGMA
    assert text.splitlines()[1].startswith("the noise was given: known noise")
    half, text = denoised(command, tmp_path, *QUICK, "--sigma", SIGMA)
    assert half.names == ("phi",)
    assert abs(half.rows[0].mean) < 3 * half.rows[0].sd + 0.05
    assert "standard deviation of the noise = 0.08 in" in text
    white, _ = denoised(command, tmp_path, *QUICK, "--noise", "white")
    assert white.names == ("sigma",)
    assert white.rows[0].mean == pytest.approx(SIGMA, abs=3 * white.rows[0].sd)


def test_bands_tell_the_level_of_the_noise(command, tmp_path):
    p, text = denoised(command, tmp_path, *QUICK, "--noise", "banded")
    assert len(p.names) > 2
    # The largest scales of so small a picture tell next to nothing, and widen the level.
    fine = [row.mean for row in p.rows[len(p.rows) // 2 :]]
    assert fine == pytest.approx([math.log(SIGMA)] * len(fine), abs=0.08)
    level = float(re.search(r"standard deviation of the noise = (\S+) in", text)[1])
    assert level == pytest.approx(SIGMA, rel=0.4)


def test_periodic_and_open_boundaries_differ_and_both_find_the_noise(command, tmp_path):
    found = []
    for boundary in ("open", "periodic"):
        p, _ = denoised(command, tmp_path, *QUICK, "--boundary", boundary)
        found.append(p.rows[0])
        assert p.rows[0].mean == pytest.approx(SIGMA, abs=3 * p.rows[0].sd + 0.004)
    assert found[0].mean != found[1].mean


def test_the_same_seed_gives_the_same_files(command, tmp_path):
    made = []
    for seed in (3, 3, 4):
        few = ("--quick", "--calls", 1, "--samples", 1, "--seed", seed)
        p, _ = denoised(command, tmp_path, *few)
        picture = (tmp_path / "a.denoised.npy").read_bytes()
        made.append((p.phi.numpy(), p.samples.numpy(), picture))
    for one, other in zip(made[0], made[1], strict=True):
        assert np.array_equal(one, other)
    assert not np.array_equal(made[0][1], made[2][1])


def test_a_small_picture_by_gibbs_gets_a_report(command, tmp_path):
    save_image(tmp_path / "a.png", levels(NOISY[:48, :48]))
    few = ("--method", "gibbs", "--chains", 2, "--draws", 4, "--calls", 1)
    result = command("denoise", tmp_path / "a.png", *few)
    assert result.code == 0, result.stderr
    assert "NOT CONVERGED: gibbs, 2 chains × 4 draws" in result.stdout
    p = Posterior.load(tmp_path / "a.posterior.nc")
    assert p.samples.shape == (1, 3, 48, 48)
    with Image.open(tmp_path / "a.report.png") as image:
        assert np.array(image).std() > 10
