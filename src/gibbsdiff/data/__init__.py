"""Images from files."""

from gibbsdiff.data.images import (
    Folder,
    RandomCrops,
    Split,
    image_files,
    protocol_crop,
    protocol_images,
    read_image,
    read_images,
    resized,
    split,
)

__all__ = [
    "Folder",
    "RandomCrops",
    "Split",
    "image_files",
    "protocol_crop",
    "protocol_images",
    "read_image",
    "read_images",
    "resized",
    "split",
]
