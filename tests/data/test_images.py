"""Image folders: reading, roles, crops."""

import numpy as np
import pytest
import torch
from PIL import Image

from gibbsdiff.data.images import (
    Folder,
    RandomCrops,
    image_files,
    protocol_crop,
    read_image,
    resized,
    split,
)
from gibbsdiff.errors import InputError


def picture(height, width, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


def folder_of(path, count, suffix=".png"):
    path.mkdir()
    for i in range(count):
        Image.fromarray(picture(8, 9, i)).save(path / f"{i:03d}{suffix}")
    return path


@pytest.mark.parametrize("suffix", [".png", ".tiff", ".TIF"])
def test_lossless_files_are_read_exactly(tmp_path, suffix):
    pixels = picture(7, 11)
    Image.fromarray(pixels).save(tmp_path / f"a{suffix}", format=None)
    image = read_image(tmp_path / f"a{suffix}")
    assert image.dtype == torch.uint8
    assert torch.equal(image, torch.from_numpy(pixels).permute(2, 0, 1))


def test_grey_of_8_and_16_bits_becomes_rgb(tmp_path):
    grey = picture(6, 5)[:, :, 0]
    Image.fromarray(grey).save(tmp_path / "8.png")
    Image.fromarray(grey.astype(np.uint16) * 256 + 77).save(tmp_path / "16.png")
    expected = torch.from_numpy(grey).expand(3, 6, 5)
    assert torch.equal(read_image(tmp_path / "8.png"), expected)
    assert torch.equal(read_image(tmp_path / "16.png"), expected)


def test_an_unreadable_file_is_named_in_one_line(tmp_path):
    bad = tmp_path / "bad.png"
    bad.write_bytes(b"not an image")
    with pytest.raises(InputError, match=r"bad\.png: not a readable image") as caught:
        read_image(bad)
    assert "\n" not in str(caught.value)


def test_a_truncated_file_is_refused(tmp_path):
    whole = tmp_path / "whole.jpg"
    Image.fromarray(picture(64, 64)).save(whole)
    cut = tmp_path / "cut.jpg"
    cut.write_bytes(whole.read_bytes()[:700])
    with pytest.raises(InputError, match=r"cut\.jpg"):
        read_image(cut)


def test_empty_and_missing_folders_are_named(tmp_path):
    with pytest.raises(InputError, match="holds no JPEG, PNG or TIFF"):
        image_files(tmp_path)
    with pytest.raises(InputError, match="nowhere: no such folder"):
        image_files(tmp_path / "nowhere")


def test_the_roles_share_no_file_and_have_the_right_sizes(tmp_path):
    folder_of(tmp_path / "a", 31)
    folder_of(tmp_path / "b", 21)
    roles = split(
        tmp_path,
        [Folder("a", 15, selection=2), Folder("b", 10, rest="calibration")],
    )
    assert [len(role) for role in roles] == [28 + 18, 2, 3, 1]
    everyone = [file for role in roles for file in role]
    assert len(set(everyone)) == len(everyone) == 52
    assert [file.stem for file in roles.selection] == ["000", "015"]
    assert [file.stem for file in roles.test] == ["030"]
    assert [file.stem for file in roles.calibration] == ["000", "010", "020"]


def test_the_design_split_has_its_counts():
    assert len(range(0, 910, 15)) == 10 + 51
    assert len(range(0, 432, 10)) == 44


@pytest.mark.parametrize("size", [(300, 400), (400, 300), (100, 130), (256, 256)])
def test_the_protocol_crop_is_256_and_centred(size):
    image = torch.full((3, *size), 51, dtype=torch.uint8)
    crop = protocol_crop(image)
    assert crop.shape == (3, 256, 256)
    assert crop.dtype == torch.float32
    assert torch.allclose(crop, torch.tensor(0.2))


def test_resizing_keeps_the_aspect_and_averages_when_shrinking():
    image = torch.from_numpy(picture(128, 256)).permute(2, 0, 1).contiguous()
    small = resized(image, 16)
    assert small.shape == (3, 16, 32)
    # Antialiased: 8×8 pixels or more are averaged, so that noise of sd 74 nearly goes.
    assert float(small.float().std()) < 74 / 5


def test_crops_are_pieces_of_the_image_up_to_symmetry():
    image = torch.arange(3 * 20 * 20).remainder(251).to(torch.uint8).reshape(3, 20, 20)
    crops = RandomCrops([image]).draw(6, 8, torch.Generator().manual_seed(0))
    windows = image.unfold(1, 8, 1).unfold(2, 8, 1).permute(1, 2, 0, 3, 4).reshape(-1, 3, 8, 8)
    every = torch.cat(
        [w.flip(f) for w in (windows, windows.transpose(2, 3)) for f in ([], [2], [3], [2, 3])]
    )
    for crop in (crops * 255).round().to(torch.uint8):
        assert (every == crop).flatten(1).all(1).any()


def test_images_are_chosen_by_the_root_of_their_area():
    crops = RandomCrops([torch.zeros(3, 16, 16), torch.zeros(3, 32, 32), torch.zeros(3, 8, 99)])
    assert torch.allclose(crops.weights(10), torch.tensor([16.0, 32.0, 0.0]))
    with pytest.raises(InputError, match="40 pixels"):
        crops.weights(40)


def test_crops_repeat_with_the_generator():
    crops = RandomCrops([torch.from_numpy(picture(30, 40)).permute(2, 0, 1)])
    one = crops.draw(4, 16, torch.Generator().manual_seed(3))
    assert torch.equal(one, crops.draw(4, 16, torch.Generator().manual_seed(3)))
