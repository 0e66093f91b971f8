"""Which pictures a pattern names, and what is passed over."""

import pytest

from gibbsdiff.errors import InputError
from gibbsdiff.io.find import find_pictures, is_result


def test_pictures_of_a_file_a_folder_and_a_glob(tmp_path):
    for name in ("b.png", "a.TIF", "c.fits", "notes.txt", "b.denoised.png", "sub/d.png"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    for name in ("b.uncertainty.tiff", "b.report.png", "b.posterior.nc", "e[1].png"):
        (tmp_path / name).write_bytes(b"")

    def names(pattern, which="pictures"):
        found = getattr(find_pictures(pattern), which)
        return [str(p.relative_to(tmp_path)) for p in found]

    assert names(tmp_path) == ["a.TIF", "b.png", "c.fits", "e[1].png"]
    results = ["b.denoised.png", "b.posterior.nc", "b.report.png", "b.uncertainty.tiff"]
    assert names(tmp_path, "results") == results
    assert all(is_result(tmp_path / name) for name in results)
    assert names(tmp_path, "others") == ["notes.txt", "sub"]
    assert names(str(tmp_path / "*.png")) == ["b.png", "e[1].png"]
    assert names(str(tmp_path / "*.png"), "results") == ["b.denoised.png", "b.report.png"]
    assert names(tmp_path / "**" / "d.png") == ["sub/d.png"]
    assert names(tmp_path / "e[1].png") == ["e[1].png"]
    assert names(tmp_path / "b.denoised.png") == ["b.denoised.png"]  # asked for by name
    (tmp_path / "empty").mkdir()
    for nothing in ("none", "none/*.png", "empty", "*.txt", "none.png"):
        with pytest.raises(InputError, match=r"no such|no picture"):
            find_pictures(tmp_path / nothing)
