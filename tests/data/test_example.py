import numpy as np
from PIL import Image

from gibbsdiff.data.example import PICTURE, TRUTH
from gibbsdiff.evidence.demo import observe


def test_the_packaged_picture_is_that_of_the_demo_with_its_noise():
    _, y = observe("astronaut", *TRUTH, size=128, seed=0)
    bits = np.rint(np.clip(y.permute(1, 2, 0).numpy(), 0, 1) * 255)
    with Image.open(PICTURE) as picture:
        pixels = np.asarray(picture)
    assert pixels.dtype == np.uint8
    assert np.abs(pixels - bits).max() <= 1  # a rounding of another processor
