"""One D with its error model on a 12-megapixel colour picture, by tiles: memory and time.

Prints the peak memory of the process, the seconds and megapixels per second on one thread, and
the time of tiles against the whole picture at 1024², measured in the same run.
"""

import argparse
import resource
import sys
import time

import torch

from gibbsdiff import PowerLawNoise, load_model

TRUTH = (0.1, -0.5)


def peak_gigabytes():
    """The most memory that the process has held, 10⁹ bytes."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e9


def timed(work):
    """What `work` returns, its seconds by the clock, and those of the processor."""
    clock, processor = time.perf_counter(), time.process_time()
    result = work()
    return result, time.perf_counter() - clock, time.process_time() - processor


def observed(denoiser, shape):
    """A Gaussian picture with the spectrum of natural images, under noise of known law."""
    phi = torch.tensor([TRUTH], dtype=torch.float64)
    noise = PowerLawNoise().covariance(shape, phi, torch.float32)
    white = torch.Generator().manual_seed(0)
    y = torch.randn(1, 3, *shape, generator=white)
    spectrum = torch.fft.rfft2(y).mul_((denoiser.signal.power(shape) + noise.power).sqrt().float())
    return torch.fft.irfft2(spectrum, s=shape).add_(denoiser.signal.mean), noise


def moments(denoiser, y, noise):
    """What the marginal method and the uncertainty map want of one call."""
    mean, error = denoiser(y, noise)
    return mean, error.spectrum(), error.pixel_variance()


@torch.no_grad()
def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--size", type=int, nargs=2, default=(3000, 4000), metavar=("H", "W"))
    arguments.add_argument("--tile", type=int, default=1024)
    given = arguments.parse_args()
    torch.set_num_threads(1)
    whole = load_model("natural")
    tiled = whole.tiled(given.tile)

    shape = tuple(given.size)
    y, noise = observed(whole, shape)
    before = peak_gigabytes()
    _, seconds, processor = timed(lambda: moments(tiled, y, noise))
    pixels = shape[0] * shape[1] / 1e6
    print(f"{shape[0]}×{shape[1]} RGB, tiles of {given.tile}: D, error power and pixel variance")
    print(f"peak memory {peak_gigabytes():.2f} GB ({before:.2f} GB before the call)")
    print(f"{seconds:.0f} s by the clock, {processor:.0f} s of one core")
    print(f"{pixels / seconds:.3f} megapixels/s by the clock, {pixels / processor:.3f} of one core")

    y, noise = observed(whole, (1024, 1024))
    rows = []
    for tile in (None, 256, 512, 1024):
        denoiser = whole if tile is None else whole.tiled(tile)
        (mean, _, _), _, processor = timed(lambda d=denoiser: moments(d, y, noise))
        rows.append((tile, processor, mean))
    for tile, processor, mean in rows[1:]:
        apart = float((mean - rows[0][2]).abs().max())
        print(
            f"1024², tiles of {tile}: {processor:.1f} s of one core against {rows[0][1]:.1f} s "
            f"whole, ratio {processor / rows[0][1]:.2f}, D apart by {apart:.1e}"
        )


if __name__ == "__main__":
    main()
