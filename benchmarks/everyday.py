"""Everyday files, blind: noise after JPEG and WebP, clean pictures, blocks and impulses, textures.

    python benchmarks/everyday.py [jpeg] [clean] [harm] [texture] [--size 256] [--noise auto]
                                  [--data FOLDER] [--only NAME]

Pictures are scikit-image's and some drawn here; `--data` is a folder of clean photographs that fill
up the twenty. Each is written as a file and denoised by `gibbsdiff.denoise` as it comes.

- jpeg: the astronaut under white noise of 20 levels. The level found in luma is within 5 % of the
  rms of (decoded - clean) there, within 15 % at quality 85; PSNR at quality 95 within 0.5 dB of the
  PNG's. Luma is (R+G+B)/√3.
- clean: the rms change is at most 0.5 levels, or the verdict says why in at most 2 of 20.
- harm: impulses in 0.1 % of the pixels, blocks of JPEG quality 30: at most 0.1 dB worse than given.
- texture: with and without white noise of 10 levels. No bar: what is found, and what is said.
"""

import argparse
import math
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageDraw, ImageFilter, ImageFont
from skimage import data

import gibbsdiff
from gibbsdiff.fourier import half_plane

JPEG = (
    ("png", "png", {}),
    *(
        (f"jpeg {q} {name}", "jpg", {"quality": q, "subsampling": sub})
        for q in (100, 95, 85)
        for name, sub in (("4:2:0", 2), ("4:4:4", 0))
    ),
    ("webp 95", "webp", {"quality": 95}),
)


def pixels(image):
    """(H, W, 3) or (H, W) of uint8 as floats in levels."""
    return np.asarray(image, dtype=np.float64)


def eight_bit(levels):
    return np.clip(np.round(levels), 0, 255).astype(np.uint8)


def psnr(x, clean):
    return -10 * math.log10(max(np.mean((x - clean) ** 2), 1e-6) / 255**2)


def luma_rms(eps):
    """Of (R+G+B)/√3, or of a grey picture."""
    grey = eps if eps.ndim == 2 else eps.sum(-1) / math.sqrt(3)
    return float(np.sqrt(np.mean(grey**2)))


def level_found(posterior):
    """rms of luma noise in levels."""
    N = posterior.noise_power[0].double().flatten()
    shape = (posterior.observed.shape[-2], posterior.observed.shape[-1])
    return 255 * math.sqrt(float(half_plane(shape).mean(N)))


def run(image, noise, kind="png", **how):
    """The file as it is decoded and as it is denoised, in levels, the posterior, and seconds."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"picture.{kind}"
        Image.fromarray(image).save(path, **how)
        decoded = pixels(Image.open(path))
        begun = time.perf_counter()
        posterior = gibbsdiff.denoise(path, noise=noise)
        seconds = time.perf_counter() - begun
    written = posterior.mean.double().clamp(0, 1) * 255
    out = written[0] if image.ndim == 2 else written.movedim(0, -1)
    return decoded, eight_bit(out.numpy()).astype(float), posterior, seconds


def words(posterior):
    """What the user is told beside the picture."""
    fits = posterior.check is None or posterior.check.fits
    said = list(posterior.notes) if fits else [posterior.check.verdict, *posterior.notes]
    return "; ".join(said)


def verdict(name, holds, detail=""):
    print(f"{name}: {'holds' if holds else 'DOES NOT HOLD'}{detail and ' · '}{detail}", flush=True)


def crop(image, size, at=None):
    top, left = at or ((image.shape[0] - size) // 2, (image.shape[1] - size) // 2)
    return image[max(top, 0) :, max(left, 0) :][:size, :size]


def jpeg(args):
    clean = crop(data.astronaut(), args.size, None if args.size == 512 else (40, 120))
    rng = np.random.default_rng(0)
    noisy = eight_bit(clean + 20 * rng.standard_normal(clean.shape))
    rows = {}
    print(f"{'file':>16} {'rms':>7} {'found':>7} {'ratio':>6} {'PSNR':>6} {'given':>6} {'s':>5}")
    for name, kind, how in JPEG:
        if args.only and args.only not in name:
            continue
        decoded, out, posterior, seconds = run(noisy, args.noise, kind, **how)
        true, found = luma_rms(decoded - clean), level_found(posterior)
        rows[name] = (found / true, psnr(out, clean))
        print(
            f"{name:>16} {true:7.2f} {found:7.2f} {found / true:6.3f} {psnr(out, clean):6.2f} "
            f"{psnr(decoded, clean):6.2f} {seconds:5.0f}  {words(posterior)}",
            flush=True,
        )
    for name, (ratio, value) in rows.items():
        bar = 0.15 if "85" in name else 0.05
        verdict(f"level, {name}", abs(ratio - 1) <= bar, f"{100 * (ratio - 1):+.1f} %")
        if "95" in name and "png" in rows:
            off = value - rows["png"][1]
            verdict(f"PSNR, {name}", off >= -0.5, f"{off:+.2f} dB of the PNG's")


def font(size):
    return ImageFont.load_default(size)


def drawn(size):
    """Pictures by code, (H, W, 3) or (H, W), without any noise."""
    at = np.linspace(0, 1, size)
    ramp = at[:, None] + 0 * at
    sky = np.stack([90 + 90 * ramp, 140 + 70 * ramp, 230 - 10 * ramp], -1)
    yield "sky", eight_bit(sky)
    yield "grey ramp", eight_bit(40 + 170 * (ramp + ramp.T) / 2)
    sun = np.exp(-8 * ((ramp - 0.3) ** 2 + (ramp.T - 0.6) ** 2))
    yield "sunset", eight_bit(sky * 0.7 + 70 * sun[..., None] * np.array([1.0, 0.6, 0.1]))
    page = Image.new("RGB", (size, size), "white")
    pen = ImageDraw.Draw(page)
    for i in range(size // 16):
        pen.text((8, 16 * i), "The quick brown fox jumps over the lazy dog", "black", font(12))
    yield "text", np.asarray(page)
    yield "grey text", np.asarray(page.convert("L"))
    flat = Image.new("RGB", (size, size), (250, 240, 220))
    pen = ImageDraw.Draw(flat)
    pen.ellipse((20, 30, size // 2, size // 2), (200, 60, 50), (20, 20, 20), 3)
    pen.rectangle((size // 2, size // 3, size - 20, size - 40), (60, 110, 170))
    pen.polygon([(30, size - 20), (size // 3, size // 2), (size // 2, size - 10)], (80, 150, 80))
    yield "drawing", np.asarray(flat)
    screen = Image.new("RGB", (size, size), (236, 239, 244))
    pen = ImageDraw.Draw(screen)
    pen.rectangle((0, 0, size, 28), (46, 52, 64))
    pen.text((10, 6), "File  Edit  View  Help", (229, 233, 240), font(13))
    for i in range(5):
        pen.rounded_rectangle((12, 40 + 42 * i, size - 12, 74 + 42 * i), 6, (255, 255, 255))
        pen.text((24, 48 + 42 * i), f"Entry {i}: saved at 1{i}:30", (59, 66, 82), font(13))
    yield "screen", np.asarray(screen)
    dark = Image.new("RGB", (size, size), (30, 32, 40))
    pen = ImageDraw.Draw(dark)
    for i in range(size // 18):
        colour = ((130, 170, 255), (195, 232, 141), (240, 113, 120))[i % 3]
        pen.text((10 + 12 * (i % 4), 4 + 18 * i), f"value[{i}] = f(x, {i})", colour, font(13))
    yield "dark screen", np.asarray(dark)
    yield "soft drawing", np.asarray(flat.filter(ImageFilter.GaussianBlur(2)))


def clean_pictures(size, folder):
    """Twenty, by name."""
    yield from drawn(size)
    yield "page", crop(data.page(), min(size, 191))
    yield "text photo", crop(data.text(), min(size, 172))
    yield "logo", crop(data.logo()[..., :3], size)
    yield "horse", eight_bit(255.0 * crop(data.horse(), size))
    yield "phantom", eight_bit(255.0 * crop(data.shepp_logan_phantom(), size))
    yield "camera", crop(data.camera(), size)
    yield "coffee", crop(data.coffee(), size)
    yield "astronaut", crop(data.astronaut(), size, (40, 120))
    yield "chelsea", crop(data.chelsea(), size)
    yield "moon", crop(data.moon(), size)
    yield "rocket", crop(data.rocket(), size)
    for path in sorted(Path(folder).iterdir())[::40] if folder else ():
        photo = Image.open(path).convert("RGB")
        yield path.stem[:12], crop(np.asarray(photo.resize([n // 4 for n in photo.size])), size)


def clean(args):
    print(f"{'picture':>14} {'change':>7} {'level':>6} {'s':>5}")
    changed, said, count = [], [], 0
    for name, image in list(clean_pictures(args.size, args.data))[:20]:
        if args.only and args.only not in name:
            continue
        given, out, posterior, seconds = run(image, args.noise)
        change, count = float(np.sqrt(np.mean((out - given) ** 2))), count + 1
        print(
            f"{name:>14} {change:7.2f} {level_found(posterior):6.2f} {seconds:5.0f}  "
            f"{words(posterior)}",
            flush=True,
        )
        if change > 0.5:
            (said if words(posterior) else changed).append(name)
    detail = f"{count} pictures; changed: {', '.join(changed) or 'none'}; changed, and it is said: "
    verdict("clean pictures", not changed and len(said) <= 2, detail + (", ".join(said) or "none"))


def harm(args):
    rng, worst = np.random.default_rng(1), math.inf
    print(f"{'picture':>14} {'what':>9} {'given':>6} {'result':>6} {'s':>5}")
    for name, image in (
        ("astronaut", crop(data.astronaut(), args.size, (40, 120))),
        ("coffee", crop(data.coffee(), args.size)),
        *((n, i) for n, i in drawn(args.size) if n in ("sunset", "drawing")),
    ):
        if args.only and args.only not in name:
            continue
        spoilt = image.copy()
        hit = rng.random(image.shape[:2]) < 0.001
        spoilt[hit] = eight_bit(image[hit] + 127.0 * np.where(image[hit] < 128, 1, -1))
        for what, given, kind, how in (
            ("impulses", spoilt, "png", {}),
            ("jpeg 30", image, "jpg", {"quality": 30}),
        ):
            decoded, out, posterior, seconds = run(given, args.noise, kind, **how)
            before, after = psnr(decoded, image), psnr(out, image)
            worst = min(worst, after - before)
            print(
                f"{name:>14} {what:>9} {before:6.2f} {after:6.2f} {seconds:5.0f}  "
                f"{words(posterior)}",
                flush=True,
            )
    verdict("no harm", worst >= -0.1, f"worst {worst:+.2f} dB")


def texture(args):
    rng = np.random.default_rng(2)
    print(f"{'picture':>10} {'noise':>6} {'found':>6} {'given':>6} {'result':>6} {'s':>5}")
    for name in ("grass", "gravel", "brick"):
        image = crop(getattr(data, name)(), args.size)
        for level in (0, 10):
            noisy = eight_bit(image + level * rng.standard_normal(image.shape))
            decoded, out, posterior, seconds = run(noisy, args.noise)
            print(
                f"{name:>10} {level:6d} {level_found(posterior):6.2f} {psnr(decoded, image):6.2f} "
                f"{psnr(out, image):6.2f} {seconds:5.0f}  {words(posterior)}",
                flush=True,
            )


if __name__ == "__main__":
    parts = {"jpeg": jpeg, "clean": clean, "harm": harm, "texture": texture}
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("what", nargs="*", help="of " + ", ".join(parts))
    parser.add_argument("--size", type=int, default=256)
    parser.add_argument("--noise", default="auto")
    parser.add_argument("--data", help="a folder of clean photographs")
    parser.add_argument("--only", help="pictures or files whose name has this in it")
    args = parser.parse_args()
    torch.set_num_threads(1)
    for what in args.what or parts:
        print(f"\n{what}, {args.size}², noise {args.noise}")
        parts[what](args)
