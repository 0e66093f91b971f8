"""Files that cannot be denoised: the command and the page say the same of them."""

import pickle

import numpy as np
from astropy.io import fits
from PIL import Image
from skimage import data

PICTURE = data.chelsea()[:48, :64]


def save_png(path, array=PICTURE):
    Image.fromarray(array).save(path, format="PNG")


class Payload:
    """Unpickling this makes a file."""

    def __reduce__(self):
        return open, ("it ran", "w")


def trap():
    array = np.empty((48, 64), dtype=object)
    array[0, 0] = Payload()
    return array


def cut(path, part=2 / 3):
    content = path.read_bytes()
    path.write_bytes(content[: int(part * len(content))])


def truncated(path):
    save_png(path)
    cut(path)


def save_fits(path, array):
    fits.PrimaryHDU(array).writeto(path)


BAD = {
    "truncated.png": (truncated, "cannot be read"),
    "empty.png": (lambda f: f.write_bytes(b""), "the file is empty"),
    "text.png": (lambda f: f.write_text("words, not pixels"), "not a PNG picture"),
    "cmyk.jpg": (lambda f: Image.fromarray(PICTURE).convert("CMYK").save(f), "a CMYK picture"),
    "object.npy": (lambda f: np.save(f, trap(), allow_pickle=True), "dtype object"),
    "pickle.npy": (lambda f: f.write_bytes(pickle.dumps(Payload())), "not an NPY file"),
    "nan.fits": (lambda f: save_fits(f, np.full((48, 64), np.nan)), "no pixel has a value"),
    "small.png": (lambda f: save_png(f, PICTURE[:10, :10]), "10×10 pixels"),
    "flat.png": (lambda f: save_png(f, np.full((48, 64), 9, np.uint8)), "the same value"),
    "narrow.png": (lambda f: save_png(f, PICTURE[:, :1]), "48×1 pixels"),
}
