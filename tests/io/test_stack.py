"""Stacks: page after page, in and out, with everything else of the file."""

import numpy as np
import pytest
import tifffile
from astropy.io import fits
from PIL import Image

from gibbsdiff.errors import InputError
from gibbsdiff.io.stack import open_stack

PAGES = np.random.default_rng(0).integers(0, 4000, (12, 24, 32)).astype(np.uint16)
OME = {"axes": "TZCYX", "PhysicalSizeX": 0.1, "PhysicalSizeXUnit": "µm"}


def pil(path, **options):
    first, *others = [Image.fromarray(page) for page in PAGES]
    first.save(path, save_all=True, append_images=others, **options)


TIFFS = {
    "plain": lambda p: tifffile.imwrite(p, PAGES),
    "zip": lambda p: tifffile.imwrite(p, PAGES, compression="zlib", predictor=True),
    "imagej": lambda p: tifffile.imwrite(
        p, PAGES, imagej=True, metadata={"axes": "TYX", "unit": "um"}, resolution=(3, 3)
    ),
    "ome": lambda p: tifffile.imwrite(p, PAGES.reshape(3, 2, 2, 24, 32), ome=True, metadata=OME),
    "ome-zip": lambda p: tifffile.imwrite(
        p, PAGES.reshape(3, 2, 2, 24, 32), ome=True, metadata=OME, compression="zlib"
    ),
    "big": lambda p: tifffile.imwrite(p, PAGES, bigtiff=True, byteorder=">"),
    "pillow": pil,
    "lzw": lambda p: pil(p, compression="tiff_lzw"),
}


def copied(source, target, maps=None):
    """Every page through the reader and the writer."""
    with open_stack(source) as stack:
        writer = stack.writer(target)
        for page in range(len(stack)):
            writer.add(stack.numbers(page))
        writer.close()
        if maps is not None:
            writer = stack.map_writer(maps)
            for page in range(len(stack)):
                writer.add(stack.numbers(page).astype(np.float32) / 7)
            writer.close()
        return stack


@pytest.mark.parametrize("kind", TIFFS)
def test_pages_axes_and_tags_of_a_tiff_come_back(tmp_path, kind):
    path, out, maps = (tmp_path / name for name in ("a.tif", "b.tif", "m.tif"))
    TIFFS[kind](path)
    stack = copied(path, out, maps)
    assert stack.whole
    assert len(stack) == 12
    with tifffile.TiffFile(path) as a, tifffile.TiffFile(out) as b, tifffile.TiffFile(maps) as m:
        assert b.series[0].axes == m.series[0].axes == a.series[0].axes
        assert b.is_bigtiff == a.is_bigtiff
        assert b.byteorder == a.byteorder
        assert np.array_equal(b.asarray().reshape(PAGES.shape), PAGES)
        written = m.asarray()
        assert written.dtype == np.float32
        assert np.array_equal(written.reshape(PAGES.shape), PAGES.astype(np.float32) / 7)
        for name in ("ImageDescription", "XResolution", "ResolutionUnit", "IJMetadata", "Software"):
            if (tag := a.pages[0].tags.get(name)) is not None:
                assert b.pages[0].tags[name].value == tag.value
        if kind.startswith("ome"):
            assert 'Type="float"' in m.ome_metadata
            assert 'PhysicalSizeX="0.1"' in b.ome_metadata


def test_channels_have_pages_of_their_own(tmp_path):
    TIFFS["ome"](tmp_path / "a.tif")
    with open_stack(tmp_path / "a.tif") as stack:
        assert stack.axes == "TZCYX"
        first, second = stack.channels()
        whole = PAGES.reshape(3, 2, 2, 24, 32)
        for c, pages in enumerate((first, second)):
            assert np.array_equal(
                [stack.numbers(i)[0] for i in pages], whole[:, :, c].reshape(-1, 24, 32)
            )
    with open_stack(tmp_path / "a.tif", "CTZYX") as stack:
        assert [len(pages) for pages in stack.channels()] == [4, 4, 4]


def test_a_colour_stack_keeps_its_alpha(tmp_path):
    rgba = np.random.default_rng(1).integers(0, 255, (3, 20, 20, 4)).astype(np.uint8)
    tifffile.imwrite(tmp_path / "a.tif", rgba, photometric="rgb", extrasamples=["unassalpha"])
    with open_stack(tmp_path / "a.tif") as stack:
        assert stack.picture(1, stack.scale(range(3))).values.shape == (3, 20, 20)
        back = stack.with_alpha(1, rgba[1].transpose(2, 0, 1)[:3])
    assert np.array_equal(back, rgba[1].transpose(2, 0, 1))


def test_a_cube_keeps_header_and_what_follows(tmp_path):
    header = fits.Header({"CRVAL1": 83.6, "CTYPE1": "RA---TAN", "BUNIT": "Jy", "BZERO": 32768})
    cube = fits.PrimaryHDU(PAGES.astype(np.uint16), header)
    table = fits.BinTableHDU.from_columns([fits.Column("t", "D", array=np.arange(12.0))])
    fits.HDUList([cube, table]).writeto(tmp_path / "a.fits")
    stack = copied(tmp_path / "a.fits", tmp_path / "b.fits", tmp_path / "m.fits")
    assert stack.format.unit_name == "Jy"
    with fits.open(tmp_path / "b.fits") as b:
        assert np.array_equal(b[0].data, PAGES)
        assert b[0].header["CRVAL1"] == 83.6
        assert np.array_equal(b[1].data["t"], np.arange(12.0))
    with fits.open(tmp_path / "m.fits") as m:
        assert m[0].data.dtype == np.dtype(">f4")
        assert m[0].header["CTYPE1"] == "RA---TAN"


def test_an_array_is_a_stack_unless_it_is_a_picture(tmp_path):
    for shape, axes, pages in (
        ((12, 24, 32), None, 12),
        ((3, 24, 32), None, None),
        ((3, 24, 32), "TYX", 3),
        ((5, 24, 32, 3), None, 5),
        ((2, 3, 24, 32), "TZYX", 6),
    ):
        np.save(tmp_path / "a.npy", np.ones(shape, np.float32))
        with open_stack(tmp_path / "a.npy", axes) as stack:
            assert (None if stack is None else len(stack)) == pages
    np.save(tmp_path / "a.npy", PAGES.astype(">f4"))
    copied(tmp_path / "a.npy", tmp_path / "b.npy")
    again = np.load(tmp_path / "b.npy")
    assert again.dtype == np.dtype(">f4")
    assert np.array_equal(again, PAGES)


@pytest.mark.parametrize(
    ("axes", "says"),
    [
        ("TZYX", "axes TZYX are 4, but the file has 3 \\(12×24×32\\)"),
        ("YXT", "do not fit|come last"),
        ("TTX", "different letters|come last"),
        ("T,X", "different letters|come last"),
    ],
)
@pytest.mark.parametrize("name", ["a.tif", "a.npy", "a.fits"])
def test_axes_that_do_not_fit_are_one_line(tmp_path, name, axes, says):
    path = tmp_path / name
    if name == "a.tif":
        tifffile.imwrite(path, PAGES)
    elif name == "a.npy":
        np.save(path, PAGES)
    else:
        fits.PrimaryHDU(PAGES).writeto(path)
    with pytest.raises(InputError, match=says) as trouble, open_stack(path, axes):
        pass
    assert str(trouble.value).startswith(f"{path}: ")


def test_one_picture_has_no_axes(tmp_path):
    tifffile.imwrite(tmp_path / "a.tif", PAGES[0])
    Image.fromarray(PAGES[0].astype(np.uint8)).save(tmp_path / "a.png")
    for name in ("a.tif", "a.png"):
        with open_stack(tmp_path / name) as stack:
            assert stack is None
        with pytest.raises(InputError, match="one p"), open_stack(tmp_path / name, "TYX"):
            pass


@pytest.mark.parametrize("kind", [*TIFFS, "npy", "fits"])
def test_a_stack_that_is_cut_off_has_the_pages_before_it(tmp_path, kind):
    path, out = tmp_path / "a.tif", tmp_path / "b.tif"
    if kind == "npy":
        np.save(tmp_path / "a.npy", PAGES)
        (tmp_path / "a.npy").rename(path)
    elif kind == "fits":
        fits.PrimaryHDU(PAGES.reshape(3, 4, 24, 32).astype(np.int16)).writeto(tmp_path / "a.fits")
        (tmp_path / "a.fits").rename(path)
    else:
        TIFFS[kind](path)
    content = path.read_bytes()
    path.write_bytes(content[: int(0.6 * len(content))])
    stack = copied(path, out)
    assert not stack.whole
    assert stack.expected in (None, 12)
    assert 5 <= len(stack) <= 8
    with open_stack(out) as again:
        assert again.whole
        assert len(again) == len(stack)
        numbers = [again.numbers(i)[0] for i in range(len(again))]
    assert np.array_equal(numbers, PAGES[: len(stack)])
    told = {"plain": 12, "zip": 12, "imagej": 12, "big": 12, "npy": 12, "fits": 12}
    assert kind not in told or stack.expected == 12
