"""`gibbsdiff.restore`: a picture as it is at hand in, the clean one of the same kind out."""

from __future__ import annotations

import sys
from typing import Any

from gibbsdiff.ecosystem.arrays import restored_array
from gibbsdiff.ecosystem.dataarray import restored_dataarray
from gibbsdiff.ecosystem.nddata import restored_nddata


def restore(
    image: Any, channel_axis: int | str | None = None, *, return_sd: bool = False, **options: Any
) -> Any:
    """The clean picture, of the same kind, shape, type and units as the noisy one.

    Arguments:
        image: An array (H, W), or with a third axis for channels. Masked pixels and NaN count as
            not observed. uint8 and uint16 have their range; floats that are about [0, 1] are taken
            as they are, other numbers are scaled between their 0.1 and 99.9 % quantiles and back.
            An `astropy.nddata.NDData` (or `CCDData`) comes back as one, with its unit, WCS and
            meta, its mask (whose pixels have been filled), and the standard deviation as its
            uncertainty. An `xarray.DataArray` comes back as one, with its coordinates and
            attributes.
        channel_axis: Which axis holds the channels, as in `skimage.restoration`; the name of a
            dimension for a DataArray. None: the picture is grey. Three channels are one colour
            picture; of any other number each is a picture of its own.
        return_sd: Whether the standard deviation of every pixel is given, too: (image, sd) of
            arrays; of a DataArray a Dataset with a second variable, named after it and "_sd".
        options: Those of `gibbsdiff.denoise`.
    """
    if _is(image, "astropy.nddata", "NDData"):
        return restored_nddata(image, channel_axis, options)
    if _is(image, "xarray", "DataArray"):
        return restored_dataarray(image, channel_axis, options, with_sd=return_sd)
    found = restored_array(image, channel_axis, options)
    return (found.image, found.sd) if return_sd else found.image


def _is(image: Any, module: str, name: str) -> bool:
    """Whether it is of this class; a class that nobody has imported yet need not be."""
    loaded = sys.modules.get(module)
    kind = getattr(loaded, name, None)
    return kind is not None and isinstance(image, kind)
