"""What a denoiser leaves of camera noise: nothing, if it is exact."""

import math

import torch

from gibbsdiff.noise import PhotoNoise
from gibbsdiff.streams import Streams
from gibbsdiff.training.camera_error import LEVELS, camera_error, draw_photo


def test_levels_are_as_asked():
    noise = PhotoNoise()
    phi = draw_photo(noise, (32, 32), Streams.batch(0, 400))
    log_level = torch.log(noise.covariance((32, 32), phi).level)
    ends = [math.log(level) for level in LEVELS]
    assert log_level.min() > ends[0] - 1e-3
    assert log_level.max() < ends[1] + 1e-3
    assert abs(float(log_level.mean()) - sum(ends) / 2) < 0.2
    assert bool(((phi >= noise.low) & (phi <= noise.high)).all())


def test_the_exact_filter_errs_by_nothing_on_camera_noise(silent, gaussian_images):
    bias, scatter = camera_error(silent(told=3), gaussian_images, draws=2, levelled=False)
    # The lowest knots have few modes in so small an image.
    assert bias.reshape(3, 8)[:, 5:].abs().max() < 0.06
    assert scatter.diagonal().reshape(3, 8)[:, 5:].max() < 0.03
    assert torch.linalg.eigvalsh(scatter).min() > -1e-10
