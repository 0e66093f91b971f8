"""Picture files that have one noise are on one scale."""

import numpy as np
import pytest
from PIL import Image

from gibbsdiff.errors import InputError
from gibbsdiff.inference.same_noise import pictures_alike


def test_the_scale_holds_the_range_of_all(tmp_path):
    rng = np.random.default_rng(0)
    made = [top * rng.random((20, 24)) for top in (900.0, 3000.0)]
    files = [tmp_path / "a.npy", tmp_path / "b.npy"]
    for file, values in zip(files, made, strict=True):
        np.save(file, values)
    frames = pictures_alike(files)
    for i, values in enumerate(made):
        one = frames.picture(i)
        assert (one.zero, one.unit) == frames.scale
        assert np.allclose(one.zero + one.unit * one.values[0], values, atol=1e-2)
    assert frames.scale.unit == pytest.approx(3000, rel=0.01)


def test_pictures_of_different_kinds_are_refused_by_name(tmp_path):
    grey = np.random.default_rng(0).integers(0, 255, (20, 24)).astype(np.uint8)
    Image.fromarray(grey).save(tmp_path / "grey.png")
    Image.fromarray(np.stack([grey, grey // 2, grey // 3], -1)).save(tmp_path / "colour.png")
    Image.fromarray(grey.astype(np.uint16) * 200).save(tmp_path / "deep.png")
    np.save(tmp_path / "grey.npy", grey)
    for other, kind in (
        ("colour.png", "colour PNG of uint8"),
        ("deep.png", "grey PNG of uint16"),
        ("grey.npy", "grey NPY of uint8"),
    ):
        with pytest.raises(InputError, match=kind) as trouble:
            pictures_alike([tmp_path / "grey.png", tmp_path / other])
        assert str(trouble.value).startswith(str(tmp_path / other))
        assert "grey.png is grey PNG of uint8" in str(trouble.value)
