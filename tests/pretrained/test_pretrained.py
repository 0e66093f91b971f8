"""Models in files."""

import json
from dataclasses import replace

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from gibbsdiff.diffusion.calibration import Calibration
from gibbsdiff.diffusion.denoiser import NoiseError
from gibbsdiff.diffusion.signal import NATURAL, FixedSignal
from gibbsdiff.diffusion.spectral import SpectralDenoiser
from gibbsdiff.errors import InputError
from gibbsdiff.networks.unet import UNet
from gibbsdiff.pretrained import architecture, load_model, read_card, save_model

ARGUMENTS = {
    "channels": 1,
    "widths": [8, 16, 24],
    "blocks": [1, 2, 1],
    "embedding": 12,
    "descriptor": 8,
    "told": 1,
    "level_plane": False,
    "padding": "circular",
}


@pytest.fixture
def denoiser():
    torch.manual_seed(0)
    table = Calibration(torch.rand(1, 8, 10).double(), torch.eye(8).double())
    return SpectralDenoiser(UNet(**ARGUMENTS), NATURAL, table)


@pytest.fixture
def file(denoiser, tmp_path):
    path = tmp_path / "model.safetensors"
    save_model(denoiser, path, {"minutes": 3})
    return path


def test_a_model_comes_back_within_half_precision(denoiser, file):
    back = load_model(file)
    assert architecture(back.network) == ARGUMENTS
    assert back.signal == NATURAL
    assert read_card(file) == {"minutes": 3}
    for key, value in denoiser.network.state_dict().items():
        given = back.network.state_dict()[key]
        assert given.dtype == torch.float32
        assert torch.equal(given, value.half().float())
    assert torch.allclose(back.calibration.log_c, denoiser.calibration.log_c, atol=1e-7)
    assert torch.equal(back.calibration.scatter, denoiser.calibration.scatter)
    assert back.calibration.gain is None


def test_a_gain_and_the_noise_s_own_scatter_come_back(denoiser, tmp_path):
    table = torch.full((1, 8, 10), 0.25).double()
    full = Calibration(table, 2 * torch.eye(8).double(), 3 * table)
    path = tmp_path / "gain.safetensors"
    save_model(SpectralDenoiser(denoiser.network, NATURAL, full), path)
    back = load_model(path).calibration
    assert torch.equal(back.gain, full.gain)
    assert torch.equal(back.scatter, full.scatter)


def test_what_was_measured_on_camera_noise_comes_back(denoiser, tmp_path):
    """It serves noise like that alone; power laws keep their own, and so do files without it."""
    rows = [NoiseError(torch.full((8,), b).double(), b * torch.eye(8).double()) for b in (1, 2, 3)]
    plain = denoiser.calibration
    full = replace(plain, weighted=rows[0], camera=rows[1], camera_weighted=rows[2])
    path = tmp_path / "camera.safetensors"
    save_model(SpectralDenoiser(denoiser.network, NATURAL, full), path)
    back = load_model(path)
    cases = {(True, False): 1, (False, True): 2, (True, True): 3}
    for (weighted, camera), expected in cases.items():
        found = back.noise_error(weighted=weighted, camera=camera)
        assert torch.equal(found.bias, torch.full((8,), expected).double())
        assert torch.equal(found.scatter, expected * torch.eye(8).double())
    assert torch.equal(back.noise_error().scatter, plain.scatter)
    older = replace(plain, weighted=rows[0]).noise_error(weighted=True, camera=True)
    assert torch.equal(older.scatter, rows[0].scatter)


def test_full_precision_is_exact(denoiser, tmp_path):
    save_model(denoiser, tmp_path / "m.safetensors", dtype=torch.float32)
    back = load_model(str(tmp_path / "m.safetensors"))
    for key, value in denoiser.network.state_dict().items():
        assert torch.equal(back.network.state_dict()[key], value)


def test_nothing_is_left_beside_the_file(file):
    assert [p.name for p in file.parent.iterdir()] == [file.name]


def test_an_unknown_name_is_one_line():
    with pytest.raises(InputError, match="martian: neither a file nor a model"):
        load_model("martian")


def test_a_foreign_file_is_named(tmp_path):
    text = tmp_path / "text.safetensors"
    text.write_text("hello")
    with pytest.raises(InputError, match=r"text\.safetensors: not a safetensors file"):
        load_model(text)
    foreign = tmp_path / "foreign.safetensors"
    save_file({"weight": torch.zeros(3)}, foreign)
    with pytest.raises(InputError, match=r"foreign\.safetensors: .*not a model of this package"):
        load_model(foreign)


def rewritten(file, change, **metadata):
    from safetensors import safe_open

    with safe_open(file, framework="pt") as opened:
        kept = dict(opened.metadata())
    tensors = load_file(file)
    change(tensors)
    save_file(tensors, file, {**kept, **metadata})


def test_a_wrong_shape_is_named(file):
    rewritten(file, lambda t: t.update({"network.inputs.bias": torch.zeros(3)}))
    with pytest.raises(InputError, match=r"inputs\.bias has shape \(3,\).* needs \(8,\)"):
        load_model(file)


def test_a_missing_weight_is_named(file):
    rewritten(file, lambda t: t.pop("network.inputs.bias"))
    with pytest.raises(InputError, match=r"inputs\.bias is missing"):
        load_model(file)


def test_a_damaged_description_is_one_line(file):
    rewritten(file, lambda t: None, architecture=json.dumps({"depth": 3}))
    with pytest.raises(InputError, match="description is damaged"):
        load_model(file)


def test_only_power_law_signals_are_saved(denoiser, tmp_path):
    denoiser.signal = FixedSignal(torch.ones(1, 16, 9))
    with pytest.raises(InputError, match="power-law"):
        save_model(denoiser, tmp_path / "m.safetensors")


def test_a_calibration_of_an_older_kind_is_refused(file, tmp_path):
    tensors = load_file(file)
    tensors["calibration.scatter"] = tensors.pop("calibration.correlation")
    with safe_open(file, "pt") as known:
        metadata = known.metadata()
    save_file(tensors, tmp_path / "old.safetensors", metadata)
    with pytest.raises(InputError, match="calibrated by an older version"):
        load_model(tmp_path / "old.safetensors")
