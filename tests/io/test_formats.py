"""PNG, JPEG and WebP come out as they went in: pixels, depth, alpha, EXIF, ICC, text."""

import struct
import zlib

import numpy as np
import pytest
from PIL import Image, ImageCms, PngImagePlugin
from skimage import data

from gibbsdiff.io.picture import read_picture, write_picture

ICC = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
CHELSEA = data.chelsea()[40:88, 100:164]  # 48×64, RGB
GREY = CHELSEA[..., 1]
WIDE = GREY.astype(np.uint16) * 256 + GREY[::-1]  # both bytes differ
WIDE_RGB = CHELSEA.astype(np.uint16) * 256 + CHELSEA[::-1]
ALPHA = np.arange(48 * 64, dtype=np.uint8).reshape(48, 64)
WIDE_ALPHA = np.arange(48 * 64, dtype=np.uint16).reshape(48, 64) * 21


def exif(orientation=6):
    tags = Image.Exif()
    tags[0x0112] = orientation
    tags[0x010F] = "Camera"
    return tags.tobytes()


def again(path):
    """The file read and written with the values it holds."""
    picture = read_picture(path)
    target = path.with_name(f"again{path.suffix}")
    write_picture(picture, picture.values, target)
    return picture, target


def png_chunk(name, content):
    body = name + content
    return struct.pack(">I", len(content)) + body + struct.pack(">I", zlib.crc32(body))


def png_16(array, colour, extra=b"", interlaced=False):
    """A 16-bit PNG without filters, made by hand: independent of the code under test."""
    height, width = array.shape[:2]
    raw = b"".join(b"\0" + row.astype(">u2").tobytes() for row in array)
    if interlaced:
        raw = b""
        for y, x, dy, dx in [
            (0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2),
            (1, 0, 2, 1),
        ]:  # fmt: skip
            raw += b"".join(b"\0" + row.astype(">u2").tobytes() for row in array[y::dy, x::dx])
    head = struct.pack(">IIBBBBB", width, height, 16, colour, 0, 0, int(interlaced))
    return (
        b"\x89PNG\r\n\x1a\n"
        + png_chunk(b"IHDR", head)
        + extra
        + png_chunk(b"IDAT", zlib.compress(raw))
        + png_chunk(b"IEND", b"")
    )


def png_16_samples(content):
    """Samples (H, W, S) of a non-interlaced 16-bit PNG by the standard's own recurrences."""
    place, packed, head = 8, b"", b""
    while place < len(content):
        length, name = struct.unpack(">I4s", content[place : place + 8])
        body = content[place + 8 : place + 8 + length]
        head, packed = (body, packed) if name == b"IHDR" else (head, packed)
        packed += body if name == b"IDAT" else b""
        place += length + 12
    width, height, depth, colour = struct.unpack(">IIBB", head[:10])
    assert depth == 16
    count = {0: 1, 2: 3, 4: 2, 6: 4}[colour]
    step = 2 * count
    raw, above, rows = zlib.decompress(packed), bytes(width * step), []
    for y in range(height):
        line = raw[y * (width * step + 1) :][: width * step + 1]
        row = bytearray()
        for i, byte in enumerate(line[1:]):
            a = row[i - step] if i >= step else 0
            b, c = above[i], above[i - step] if i >= step else 0
            nearest = min((abs(b - c), 0, a), (abs(a - c), 1, b), (abs(a + b - 2 * c), 2, c))[2]
            row.append((byte + [0, a, b, (a + b) // 2, nearest][line[0]]) % 256)
        above = bytes(row)
        rows.append(np.frombuffer(above, ">u2").reshape(width, count))
    return np.stack(rows)


EIGHT = {
    "grey": GREY,
    "rgb": CHELSEA,
    "grey and alpha": np.dstack([GREY, ALPHA]),
    "rgba": np.dstack([CHELSEA, ALPHA]),
    "equal channels": np.dstack([GREY] * 3),
}


@pytest.mark.parametrize("kind", EIGHT)
def test_png_of_8_bits(tmp_path, kind):
    notes = PngImagePlugin.PngInfo()
    notes.add_text("Title", "a cat")
    notes.add_itxt("Comment", "grün", zip=True)
    path = tmp_path / "a.png"
    Image.fromarray(EIGHT[kind]).save(
        path, pnginfo=notes, exif=exif(), icc_profile=ICC, dpi=(300, 300)
    )
    picture, target = again(path)
    with Image.open(path) as old, Image.open(target) as new:
        np.testing.assert_array_equal(np.array(new), EIGHT[kind])
        assert new.mode == old.mode
        assert new.info == old.info
        assert new.getexif()[0x0112] == 6
        assert new.text == old.text == {"Title": "a cat", "Comment": "grün"}
    assert (picture.zero, picture.unit, picture.unit_name) == (0, 255, "levels")
    assert len(picture.values) == (3 if kind in ("rgb", "rgba") else 1)
    first = EIGHT[kind][..., 0] if EIGHT[kind].ndim == 3 else GREY
    np.testing.assert_array_equal(picture.values[0], (first / 255).astype(np.float32))


@pytest.mark.parametrize("interlaced", [False, True])
@pytest.mark.parametrize(
    ("colour", "array"),
    [
        (0, WIDE[..., None]),
        (2, WIDE_RGB),
        (4, np.dstack([WIDE, WIDE_ALPHA])),
        (6, np.dstack([WIDE_RGB, WIDE_ALPHA])),
    ],
)
def test_png_of_16_bits(tmp_path, colour, array, interlaced):
    path = tmp_path / "a.png"
    path.write_bytes(png_16(array, colour, png_chunk(b"tEXt", b"A\0b"), interlaced))
    picture, target = again(path)
    content = target.read_bytes()
    np.testing.assert_array_equal(png_16_samples(content), array)
    assert png_chunk(b"tEXt", b"A\0b") in content
    assert picture.unit == 65535
    original = array[..., 0].astype(np.float64)
    np.testing.assert_allclose(picture.unit * picture.values[0].astype(float), original, atol=0.01)


def test_png_of_one_transparent_colour_keeps_it_as_alpha(tmp_path):
    path = tmp_path / "a.png"
    key = png_chunk(b"tRNS", struct.pack(">H", WIDE[3, 5]))
    path.write_bytes(png_16(WIDE[..., None], 0, key))
    out = png_16_samples(again(path)[1].read_bytes())
    np.testing.assert_array_equal(out[..., 0], WIDE)
    np.testing.assert_array_equal(out[..., 1] == 0, WIDE[3, 5] == WIDE)


def test_palettes_and_single_bits_come_out_as_8_bits(tmp_path):
    few = Image.fromarray(CHELSEA).quantize(7)
    few.save(tmp_path / "p.png", transparency=bytes([255, 0, 9]))
    with Image.open(again(tmp_path / "p.png")[1]) as new, Image.open(tmp_path / "p.png") as old:
        assert new.mode == "RGBA"
        np.testing.assert_array_equal(np.array(new), np.array(old.convert("RGBA")))
    Image.fromarray(GREY > 120).save(tmp_path / "b.png")
    with Image.open(again(tmp_path / "b.png")[1]) as new:
        assert new.mode == "L"
        np.testing.assert_array_equal(np.array(new), 255 * (GREY > 120))


@pytest.mark.parametrize("subsampling", [0, 1, 2])
@pytest.mark.parametrize("quality", [60, 98])
def test_jpeg_is_never_coarser_than_it_was(tmp_path, quality, subsampling):
    path = tmp_path / "a.jpg"
    Image.fromarray(CHELSEA).save(
        path,
        quality=quality,
        subsampling=subsampling,
        exif=exif(),
        icc_profile=ICC,
        comment=b"cat",
        dpi=(72, 72),
        progressive=True,
    )
    _, target = again(path)
    with Image.open(path) as old, Image.open(target) as new:
        for key in ("exif", "icc_profile", "comment", "dpi", "progressive"):
            assert new.info[key] == old.info[key]
        assert new.getexif()[0x0112] == 6  # kept, and the pixels not turned by it
        assert new.size == old.size
        for table, before in old.quantization.items():
            assert all(a <= b for a, b in zip(new.quantization[table], before, strict=True))
            if quality == 98:
                assert new.quantization[table] == before
        error = np.array(new).astype(float) - np.array(old)
        assert np.sqrt(np.mean(error**2)) < 2.0
        layers = [[entry[1:3] for entry in image.layer] for image in (old, new)]
        assert layers[0] == layers[1]


def test_grey_jpeg_stays_grey(tmp_path):
    Image.fromarray(GREY).save(tmp_path / "a.jpeg", quality=90)
    picture, target = again(tmp_path / "a.jpeg")
    with Image.open(target) as new:
        assert new.mode == "L"
        assert np.abs(np.array(new) / 255 - picture.values[0]).max() < 3 / 255


@pytest.mark.parametrize("alpha", [False, True])
def test_webp(tmp_path, alpha):
    array = np.dstack([CHELSEA, ALPHA]) if alpha else CHELSEA
    options = {"exif": exif(), "icc_profile": ICC, "xmp": b"<x/>"}
    Image.fromarray(array).save(tmp_path / "a.webp", lossless=True, exact=True, **options)
    Image.fromarray(array).save(tmp_path / "b.webp", quality=80, **options)
    for name in ("a", "b"):
        path = tmp_path / f"{name}.webp"
        with Image.open(again(path)[1]) as new, Image.open(path) as old:
            assert new.mode == old.mode
            assert {k: new.info[k] for k in options} == {k: old.info[k] for k in options}
            if name == "a":
                np.testing.assert_array_equal(np.array(new), array)
            elif alpha:
                np.testing.assert_array_equal(np.array(new)[..., 3], np.array(old)[..., 3])
