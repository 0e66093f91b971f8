"""A posterior in a NetCDF file: draws of φ as ArviZ reads them, and the maps, compressed."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from gibbsdiff.errors import InputError
from gibbsdiff.inference.curves import Curves
from gibbsdiff.inference.encoding import Encoding
from gibbsdiff.inference.line import Line
from gibbsdiff.inference.model_check import ModelCheck
from gibbsdiff.io.atomic import write_atomically

FORMAT = "gibbsdiff-posterior-2"
PLANE = ("channel", "row", "column")
MAPS = {
    "observed": PLANE,
    "mean": PLANE,
    "sd": PLANE,
    "average": PLANE,
    "samples": ("sample", *PLANE),
    "noise_power": ("spectrum", "ky", "kx"),
    "missing": ("row", "column"),
    "model_error": ("parameter", "parameter_too"),
    "box": ("corner", "parameter"),
}
FACTS = (
    "names",
    "method",
    "how",
    "calls",
    "seconds",
    "divergences",
    "ended",
    "interrupted",
    "unit",
    "truth",
    "notes",
    "keep",
    "returned",
    "mode",
    "family",
)
SMALL = 64  # numbers that are not worth compressing


def write(path: str | Path, fields: Mapping[str, Any]) -> None:
    """Write the fields of a posterior; a reader never sees half a file."""
    import xarray

    names, phi = fields["names"], fields["phi"]
    draws = {n: (("chain", "draw"), phi[..., i].numpy()) for i, n in enumerate(names)}
    maps = {name: value for name in MAPS if (value := fields[name]) is not None}
    images = {name: (MAPS[name], value.numpy()) for name, value in maps.items()}
    facts = {name: fields[name] for name in FACTS}
    facts["line"] = None if fields["line"] is None else list(fields["line"])
    facts["curves"] = None if (curves := fields["curves"]) is None else curves.as_dict()
    facts["check"] = None if (check := fields["check"]) is None else check.as_dict()
    given = fields["encoding"]
    if given is not None:
        names = ("zero", "unit", "dtype", "linear")
        facts["encoding"] = {name: getattr(given, name) for name in names}
        if given.alpha is not None:
            images["alpha"] = (("row", "column"), np.asarray(given.alpha))
    parts = {
        "/": xarray.Dataset(attrs={"format": FORMAT, "facts": json.dumps(facts)}),
        "posterior": xarray.Dataset(draws),
        "images": xarray.Dataset(images),
    }
    packed = {
        name: {"zlib": True, "complevel": 4, "shuffle": True}
        for name, (_, value) in images.items()
        if value.size > SMALL
    }
    # Made in memory: HDF5 itself does not survive a disk that is full.
    tree = xarray.DataTree.from_dict(parts)
    content = tree.to_netcdf(engine="h5netcdf", encoding={"/images": packed})
    write_atomically(path, bytes(content))


def read(path: str | Path) -> dict[str, Any]:
    """The fields that `write` wrote."""
    import h5py

    if not Path(path).is_file():
        raise InputError(f"{path}: no such file")
    try:
        # From memory and without NetCDF on top: a damaged file must not stay open.
        with h5py.File(io.BytesIO(Path(path).read_bytes()), "r") as file:
            if file.attrs.get("format") != FORMAT:
                raise InputError(f"{path}: not a posterior of this version of the program")
            facts = json.loads(file.attrs["facts"])
            phi = np.stack([file["posterior"][name][()] for name in facts["names"]], -1)
            held = {name: values[()] for name, values in file["images"].items()}
        maps: dict[str, Any] = {n: torch.from_numpy(held[n]) for n in MAPS if n in held}
        if "noise_power" in maps and maps["noise_power"].dim() == 2:  # of version 0.1
            maps["noise_power"] = maps["noise_power"][None]
        if "missing" in maps:
            maps["missing"] = maps["missing"].bool()
        given = facts.pop("encoding", None)
        encoding = None if given is None else Encoding(**given, alpha=held.get("alpha"))
        line = facts.pop("line", None)
        line = None if line is None else Line(*line)
        curves = facts.pop("curves", None)
        curves = None if curves is None else Curves.from_dict(curves)
        check = facts.pop("check", None)
        check = None if check is None else ModelCheck.from_dict(check)
        facts = {k: tuple(v) if isinstance(v, list) else v for k, v in facts.items()}
        whole = {
            "encoding": encoding,
            "check": check,
            "line": line,
            "curves": curves,
            **maps,
            **facts,
        }
        return {"phi": torch.from_numpy(phi), **whole}
    except InputError:
        raise
    except Exception as trouble:  # a damaged file makes the libraries raise whatever they meet
        reason = " ".join(str(trouble).split())[:120] or type(trouble).__name__
        raise InputError(f"{path}: cannot be read as a posterior ({reason})") from None
