"""`restore` of xarray's DataArray: dimensions, coordinates and attributes stay."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gibbsdiff.ecosystem.arrays import restored_array
from gibbsdiff.errors import InputError


def restored_dataarray(
    given: Any, channel_axis: int | str | None, options: Mapping[str, Any], with_sd: bool = False
) -> Any:
    """A DataArray; or a Dataset of it and of its standard deviation, which has the same units."""
    if isinstance(channel_axis, str):
        if channel_axis not in given.dims:
            there = ", ".join(map(str, given.dims))
            raise InputError(f"channel_axis: no dimension {channel_axis!r}; there are {there}")
        channel_axis = given.get_axis_num(channel_axis)
    found = restored_array(given.to_numpy(), channel_axis, options)
    clean = given.copy(data=found.image)
    if not with_sd:
        return clean
    name = "image" if given.name is None else str(given.name)
    units = {key: given.attrs[key] for key in ("units", "unit") if key in given.attrs}
    sd = given.copy(data=found.sd)
    sd.attrs = {"long_name": f"posterior standard deviation of {name}", **units}
    return clean.to_dataset(name=name).assign({f"{name}_sd": sd})
