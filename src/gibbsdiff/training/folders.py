"""Folders of pictures as training reads them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from torch import Tensor

from gibbsdiff.data.images import (
    RandomCrops,
    Split,
    centre,
    protocol_images,
    read_image,
    resized,
    split,
)
from gibbsdiff.data.loader import CropSamples, LoadedCrops
from gibbsdiff.errors import InputError
from gibbsdiff.training.config import TrainingConfig


def picture_files(config: TrainingConfig, data: Path) -> Split:
    """The files of the configuration's folders by role."""
    if config.data.maps:
        raise InputError(
            '[data] maps: a file of maps needs [model] kind = "dust", "original" or "resunet"'
        )
    return split(data, config.data.folders)


def picture_crops(config: TrainingConfig, files: Sequence[Path]) -> RandomCrops | LoadedCrops:
    """Crops of images in memory, or of images that workers read as they are needed."""
    d, side = config.data, config.step.crop
    if d.loading == "workers":
        if d.also_at:
            raise InputError(
                'also_at keeps images in memory: it cannot go with loading = "workers"'
            )
        samples = CropSamples(files, side, crops=d.crops, symmetries=d.symmetries, seed=config.seed)
        return LoadedCrops(samples, d.workers)
    if d.crops == "protocol":
        return RandomCrops([centre(read_image(file), side) for file in files], d.symmetries)
    images = [read_image(file) for file in files]
    smaller = [resized(i, s) for s in d.also_at for i in images if min(i.shape[1:]) > s]
    return RandomCrops(images + smaller, d.symmetries)


def scored_pictures(config: TrainingConfig, files: Sequence[Path]) -> Tensor:
    """The centres of files by the paper's protocol, grey if the network is: (B, C, side, side)."""
    images = protocol_images(files, config.evaluation.side)
    return images.mean(1, keepdim=True) if config.network.channels == 1 else images
