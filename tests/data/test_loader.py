"""Images by workers: the same batches whoever reads them."""

import numpy as np
import pytest
import torch
from PIL import Image

from gibbsdiff.data.images import RandomCrops, centre, image_files, read_image
from gibbsdiff.data.loader import CropSamples, LoadedCrops
from gibbsdiff.errors import InputError

RNG = torch.Generator()


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("images")
    rng = np.random.default_rng(0)
    for i, shape in enumerate([(20, 30), (40, 18), (12, 12), (25, 25), (33, 17)]):
        pixels = rng.integers(0, 256, (*shape, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / f"{i}.png")
    return image_files(folder)


def batches(source, steps, count=4, rows=range(4)):
    return [source.batch(step, count, 16, rows, RNG) for step in steps]


def test_batches_do_not_depend_on_the_number_of_workers(files):
    samples = CropSamples(files, 16, seed=3)
    alone, helped = LoadedCrops(samples), LoadedCrops(samples, workers=2)
    for one, two in zip(batches(alone, range(3)), batches(helped, range(3)), strict=True):
        assert one.shape == (4, 3, 16, 16)
        assert torch.equal(one, two)
    helped.close()


def test_a_run_resumes_at_any_step_and_a_process_reads_its_rows(files):
    samples = CropSamples(files, 16, seed=3)
    whole = batches(LoadedCrops(samples), range(6))
    assert torch.equal(batches(LoadedCrops(samples), [4])[0], whole[4])
    back = LoadedCrops(samples)
    assert all(map(torch.equal, batches(back, [4, 5, 0, 1]), [whole[i] for i in (4, 5, 0, 1)]))
    mine = batches(LoadedCrops(samples), range(6), rows=[1, 3])
    assert all(torch.equal(part, batch[[1, 3]]) for part, batch in zip(mine, whole, strict=True))
    assert not torch.equal(whole[0], batches(LoadedCrops(CropSamples(files, 16, seed=4)), [0])[0])


def test_an_epoch_has_every_image_once(files):
    crops = {name: centre(read_image(name), 16) for name in files}
    samples = CropSamples(files, 16, crops="protocol", symmetries="none")
    for epoch in range(3):
        read = [samples[5 * epoch + i] for i in range(5)]
        assert all(sum(torch.equal(crop, r) for r in read) == 1 for crop in crops.values())


def test_horizontal_flips_are_the_only_ones(files):
    image = centre(read_image(files[0]), 16)
    samples = CropSamples(files[:1], 16, crops="protocol", symmetries="horizontal")
    flipped = [torch.equal(samples[n], image.flip(2)) for n in range(40)]
    same = [torch.equal(samples[n], image) for n in range(40)]
    assert all(a != b for a, b in zip(flipped, same, strict=True))
    assert 8 < sum(flipped) < 32
    in_memory = RandomCrops([image], "horizontal").draw(40, 16, torch.Generator().manual_seed(0))
    seen = [
        torch.equal(x, image / 255) + 2 * torch.equal(x, image.flip(2) / 255) for x in in_memory
    ]
    assert set(seen) == {1, 2}


def test_the_crop_stays_as_it_is(files):
    with pytest.raises(InputError, match="later_crop = crop"):
        LoadedCrops(CropSamples(files, 24)).batch(0, 4, 16, range(4), RNG)
    with pytest.raises(InputError, match="no image to train on"):
        CropSamples([], 16)
