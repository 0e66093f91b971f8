"""BM3D, DnCNN and non-local means: conventions, known outputs, refusals."""

import pickle

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from skimage import data

from gibbsdiff.errors import InputError
from gibbsdiff.evidence.baselines import (
    DnCNN,
    bm3d_as_used,
    bm3d_with_spectrum,
    load_dncnn,
    non_local_means,
)
from gibbsdiff.evidence.baselines.bm3d import psd
from gibbsdiff.metrics import psnr
from gibbsdiff.noise import PowerLawNoise, SpectralNoise
from gibbsdiff.streams import Streams


def stripes(kx, ky, sigma):
    """Depends on direction: a wrong mirror of the half-plane would show."""
    return 2 * torch.log(sigma) + 3 * torch.sin(20 * (kx + 2 * ky)) ** 2 + 2 * kx - ky


@pytest.mark.parametrize("shape", [(8, 10), (9, 7), (7, 8)], ids=str)
def test_psd_is_the_mean_square_of_the_unnormalised_transform(shape):
    noise = SpectralNoise(stripes, {"sigma": (0.01, 1)})
    phi = torch.tensor([[0.1]]).double()
    expected = psd(noise.covariance(shape, phi))
    n = 6000
    eps = noise.draw(shape, phi, Streams.batch(0, n))[:, 0].numpy()
    P = np.abs(np.fft.fft2(eps)) ** 2
    z = (P.mean(0) / expected - 1) / (P.std(0) / expected / np.sqrt(n))
    assert np.abs(z).max() < 4.5
    assert expected.sum() == pytest.approx(np.prod(shape) * (eps**2).sum() / n, rel=0.05)


def noisy_crop(slope, side=64, grey=True):
    picture = data.camera()[None] if grey else np.moveaxis(data.astronaut(), -1, 0)
    x = torch.from_numpy(picture[:, 100 : 100 + side, 200 : 200 + side] / 255)
    noise, phi = PowerLawNoise(), torch.tensor([[0.1, slope]]).double()
    y = x + noise.draw((side, side), phi, Streams.batch(1, 1), len(x))[0]
    return x, y, noise.covariance((side, side), phi)


@pytest.mark.parametrize(
    "grey", [True, pytest.param(False, marks=pytest.mark.slow)], ids=["grey", "colour"]
)
def test_bm3d_gains_from_being_told_the_colour_of_the_noise(grey):
    pytest.importorskip("bm3d")
    x, y, noise = noisy_crop(-1.0, 48, grey)
    informed, used = bm3d_with_spectrum(y, noise), bm3d_as_used(y)
    assert informed.dtype == y.dtype
    assert float(psnr(informed, x)) > float(psnr(used, x)) + 0.8
    assert float(psnr(used, x)) > float(psnr(y, x)) + 1
    assert torch.equal(informed, bm3d_with_spectrum(y, noise))
    assert hasattr(np, "trapz") == (np.lib.NumpyVersion(np.__version__) < "2.4.0")


def test_bm3d_refuses_what_it_cannot_be_told():
    _, y, noise = noisy_crop(0.0, 16)
    with pytest.raises(InputError, match="needs its covariance"):
        bm3d_with_spectrum(y, None)
    with pytest.raises(InputError, match="16×16 pixels, the observation has 15×16"):
        bm3d_with_spectrum(y[:, 1:], noise)
    with pytest.raises(InputError, match="one image"):
        psd(noise.rows(torch.tensor([0, 0])))
    with pytest.raises(InputError, match="1 or 3 channels"):
        bm3d_with_spectrum(y.expand(2, -1, -1), noise)


def test_an_absent_package_is_named_with_its_cure(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "bm3d", None)
    _, y, noise = noisy_crop(0.0, 16)
    with pytest.raises(InputError, match=r"bm3d.*pip install 'gibbsdiff\[bench\]'"):
        bm3d_with_spectrum(y, noise)


def test_non_local_means_helps_and_leaves_a_clean_image_alone():
    pytest.importorskip("pywt")
    x, y, _ = noisy_crop(0.0, 64, grey=False)
    assert float(psnr(non_local_means(y, None), x)) > float(psnr(y, x)) + 4
    grey_x, grey_y, _ = noisy_crop(0.0, 48)
    assert float(psnr(non_local_means(grey_y), grey_x)) > float(psnr(grey_y, grey_x)) + 3
    flat = torch.full((3, 16, 16), 0.3).double()
    assert torch.equal(non_local_means(flat), flat)


def known_weights():
    """R(y) = max(y - 0.25, 0) shifted one pixel to the left, then 0.1 added."""
    state = {key: torch.zeros_like(value) for key, value in DnCNN().state_dict().items()}
    for colour in range(3):
        state["model.0.weight"][colour, colour, 1, 2] = 1
        for layer in range(2, 38, 2):
            state[f"model.{layer}.weight"][colour, colour, 1, 1] = 1
        state["model.38.weight"][colour, colour, 1, 1] = 1
    state["model.0.bias"][:3] = -0.25
    state["model.38.bias"][:] = 0.1
    return state


@pytest.mark.parametrize("suffix", ["safetensors", "pth"])
def test_dncnn_with_known_weights_has_the_known_output(tmp_path, suffix):
    path = tmp_path / f"dncnn.{suffix}"
    save_file(known_weights(), path) if suffix == "safetensors" else torch.save(
        known_weights(), path
    )
    y = Streams.batch(2, 1).uniform(3, 12, 9)[0]
    shifted = torch.cat([y[:, :, 1:], torch.zeros(3, 12, 1)], 2)
    expected = y - (shifted - 0.25).clamp(min=0) - 0.1
    assert torch.allclose(load_dncnn(path)(y, None), expected, atol=1e-6)


class Bomb:
    def __reduce__(self):
        return (print, ("this must never run",))


def test_dncnn_refuses_code_other_architectures_and_grey(tmp_path, capsys):
    path = tmp_path / "weights.pth"
    path.write_bytes(pickle.dumps({"model.0.weight": Bomb()}))
    with pytest.raises(InputError, match=r"weights\.pth: refused"):
        load_dncnn(path)
    torch.save({"model.0.weight": Bomb()}, path)
    with pytest.raises(InputError, match=r"weights\.pth: refused"):
        load_dncnn(path)
    assert "never" not in capsys.readouterr().out
    path.write_bytes(b"no weights at all")
    with pytest.raises(InputError, match=r"weights\.pth: (refused|not readable)"):
        load_dncnn(path)
    torch.save([torch.zeros(1)], path)
    with pytest.raises(InputError, match="not a dictionary of weights"):
        load_dncnn(path)
    state = known_weights()
    torch.save({**state, "model.40.weight": torch.zeros(1)}, path)
    with pytest.raises(InputError, match=r"not DnCNN's colour-blind model.*model\.40\.weight"):
        load_dncnn(path)
    torch.save({k: v for k, v in state.items() if k != "model.38.bias"}, path)
    with pytest.raises(InputError, match=r"model\.38\.bias is missing"):
        load_dncnn(path)
    torch.save({**state, "model.0.weight": torch.zeros(64, 1, 3, 3)}, path)
    with pytest.raises(InputError, match=r"model\.0\.weight has shape \(64, 1, 3, 3\)"):
        load_dncnn(path)
    (tmp_path / "bad.safetensors").write_bytes(b"123")
    with pytest.raises(InputError, match=r"bad\.safetensors: not readable"):
        load_dncnn(tmp_path / "bad.safetensors")
    with pytest.raises(InputError, match="no such file"):
        load_dncnn(tmp_path / "absent.pth")
    with pytest.raises(InputError, match="takes RGB"):
        DnCNN()(torch.zeros(1, 8, 8))
