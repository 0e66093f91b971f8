"""`restore` of astropy's NDData: unit, WCS and meta stay, the uncertainty is the posterior's."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import numpy as np

from gibbsdiff.ecosystem.arrays import restored_array


def restored_nddata(given: Any, channel_axis: int | str | None, options: Mapping[str, Any]) -> Any:
    """An object of the same class, with a StdDevUncertainty in its own unit.

    Masked pixels are not observed: they are filled, and the mask stays to tell them. What the input
    held as its uncertainty is not used, and replaced.
    """
    from astropy.nddata import StdDevUncertainty

    data = np.asarray(given.data)
    mask = None if given.mask is None else np.broadcast_to(np.asarray(given.mask, bool), data.shape)
    found = restored_array(
        data if mask is None else np.ma.MaskedArray(data, mask), channel_axis, options
    )
    return type(given)(
        found.image,
        uncertainty=StdDevUncertainty(found.sd),
        mask=copy.copy(given.mask),
        wcs=given.wcs,
        meta=copy.deepcopy(given.meta),
        unit=given.unit,
    )
