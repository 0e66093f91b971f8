"""A folder of small photographs."""

import pytest
from PIL import Image
from skimage import data


@pytest.fixture(scope="session")
def photographs(tmp_path_factory):
    """Three crops of 48², named so that their order is known."""
    folder = tmp_path_factory.mktemp("photographs")
    pictures = (data.astronaut(), data.coffee(), data.chelsea())
    for name, picture in zip("abc", pictures, strict=True):
        Image.fromarray(picture[80:176:2, 160:256:2]).save(folder / f"{name}.png")
    return folder
