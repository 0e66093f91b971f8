import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from skimage import data

import gibbsdiff
from gibbsdiff.ecosystem import napari

MANIFEST = Path(napari.__file__).with_name("napari.yaml")
VALIDATE = """
import sys
from npe2 import PluginManifest

manifest = PluginManifest.from_file(sys.argv[1])
manifest.validate_imports()
print(manifest.name, *(command.id for command in manifest.contributions.commands))
"""


@pytest.fixture(scope="module")
def noisy():
    crop = data.astronaut()[:48, 200:248]
    noise = np.random.default_rng(0).normal(0, 20, crop.shape)
    return np.clip(crop + noise, 0, 255).astype(np.uint8)


@pytest.mark.skipif(find_spec("npe2") is None, reason="npe2, of the extra dev, is not installed")
def test_the_manifest_is_valid_and_its_functions_can_be_imported():
    """In a process of its own: npe2's use of pydantic is deprecated there, and warns."""
    done = subprocess.run(
        [sys.executable, "-c", VALIDATE, str(MANIFEST)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["gibbsdiff", "gibbsdiff.denoise", "gibbsdiff.read_posterior"]


def test_the_widget_gives_picture_and_uncertainty_as_denoise_does(noisy):
    clean, unsure = napari.denoised_layers(noisy, "white", "natural-fast", rgb=True)
    want = gibbsdiff.denoise(noisy, noise="white", model="natural-fast")
    assert np.array_equal(clean[0], want.image)
    assert clean[1]["rgb"]
    assert "sigma" in clean[1]["metadata"]["summary"]
    assert np.allclose(unsure[0], 255 * want.sd.mean(0), rtol=1e-5)
    assert clean[2] == unsure[2] == "image"


def test_posteriors_are_opened_and_other_files_left_alone(noisy, tmp_path):
    known = {"sigma": 0.08, "phi": 0.0}
    want = gibbsdiff.denoise(noisy, known=known, model="natural-fast", check=False)
    place = tmp_path / "picture.posterior.nc"
    want.save(place)
    layers = napari.posterior_reader(str(place))(str(place))
    names = [layer[1]["name"] for layer in layers]
    assert names == ["picture noisy", "picture denoised", "picture uncertainty"]
    assert np.allclose(layers[1][0], want.mean.permute(1, 2, 0).clamp(0, 1))
    assert np.allclose(layers[2][0], 255 * want.sd.mean(0), rtol=1e-5)
    other = tmp_path / "other.nc"
    other.write_bytes(b"no posterior")
    assert napari.posterior_reader(str(other)) is None
    assert napari.posterior_reader("picture.tif") is None
