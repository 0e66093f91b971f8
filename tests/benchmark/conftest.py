"""A folder of small photographs, and the command."""

import sys
from typing import NamedTuple

import pytest
from PIL import Image
from skimage import data

from gibbsdiff.cli import main


class Result(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def command(monkeypatch, capsys):
    """Run `gibbsdiff …` in this process: exit code and what it printed."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["gibbsdiff", *map(str, arguments)])
        with pytest.raises(SystemExit) as stop:
            main()
        return Result(stop.value.code or 0, *capsys.readouterr())

    return run


@pytest.fixture(scope="session")
def photographs(tmp_path_factory):
    """Three crops of 48², named so that their order is known."""
    folder = tmp_path_factory.mktemp("photographs")
    pictures = (data.astronaut(), data.coffee(), data.chelsea())
    for name, picture in zip("abc", pictures, strict=True):
        Image.fromarray(picture[80:176:2, 160:256:2]).save(folder / f"{name}.png")
    return folder
