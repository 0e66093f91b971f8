"""The paper's image U-Net: its authors' layout of weights, its output, and safe loading."""

import math
import os
import pickle
from pathlib import Path

import pytest
import torch
from torch import Tensor

from gibbsdiff.networks.doubleconv import sinusoidal
from gibbsdiff.networks.original import FIRST_KEY, OriginalUNet, load_lightning

AFFINE = ("weight", "bias")


def double_conv(name, inputs, outputs) -> dict[str, tuple[int, ...]]:
    layer = f"{name}.double_conv"
    shapes = {f"{layer}.0.weight": (outputs, inputs, 3, 3)}
    shapes |= {f"{layer}.3.weight": (outputs, outputs, 3, 3)}
    return shapes | {f"{layer}.{i}.{what}": (outputs,) for i in (1, 4) for what in AFFINE}


def linear(name, inputs, outputs) -> dict[str, tuple[int, ...]]:
    return {f"{name}.weight": (outputs, inputs), f"{name}.bias": (outputs,)}


def attention(name, width) -> dict[str, tuple[int, ...]]:
    layer = f"{name}.sa.0"
    shapes = {f"{layer}.mha.in_proj_weight": (3 * width, width)}
    shapes |= {f"{layer}.mha.in_proj_bias": (3 * width,)}
    shapes |= {
        f"{layer}.{norm}.{what}": (width,) for norm in ("ln", "ff_self.0") for what in AFFINE
    }
    for part in ("mha.out_proj", "ff_self.1", "ff_self.3"):
        shapes |= linear(f"{layer}.{part}", width, width)
    return shapes


def layout() -> dict[str, tuple[int, ...]]:
    """Name and shape of every tensor in a checkpoint of the authors."""
    widths = (64, 128, 256, 512, 1024)
    shapes = double_conv("inc", 3, 64)
    for i in range(1, 5):
        fine, coarse = widths[i - 1], widths[i]
        shapes |= double_conv(f"down{i}.maxpool_conv.1", fine, fine)
        shapes |= double_conv(f"down{i}.maxpool_conv.2", fine, coarse)
        shapes |= {f"up{5 - i}.up.weight": (coarse, fine, 2, 2), f"up{5 - i}.up.bias": (fine,)}
        shapes |= double_conv(f"up{5 - i}.conv", coarse, fine)
    for i, width in enumerate((*widths[1:], *widths[-2::-1]), start=1):
        shapes |= linear(f"alpha_embed{i}.mlp.0", 1, 100)
        shapes |= linear(f"alpha_embed{i}.mlp.2", 100, 100)
        shapes |= linear(f"alpha_embed{i}.mlp.4", 100, width)
    shapes |= attention("sa3", 512) | attention("sa4", 1024) | attention("att_bottleneck", 1024)
    shapes |= double_conv("bottleneck", 1024, 1024)
    return shapes | {"outc.conv.weight": (3, 64, 1, 1), "outc.conv.bias": (3,)}


def synthetic_weights() -> dict[str, Tensor]:
    rng = torch.Generator().manual_seed(0)
    weights = {}
    for key, shape in sorted(layout().items()):
        draw = torch.randn(shape, generator=rng)
        centre = 1.0 if key.endswith("weight") else 0.0
        weights[key] = draw * draw[0].numel() ** -0.5 if len(shape) > 1 else centre + 0.1 * draw
    return weights


def save(path: Path, weights: dict[str, Tensor], prefix="", **hyper_parameters) -> Path:
    """Write what a Lightning trainer writes."""
    checkpoint = {
        "epoch": 99,
        "global_step": 125_000,
        "pytorch-lightning_version": "2.0.1",
        "state_dict": {prefix + key: weight for key, weight in weights.items()},
        "loops": {"fit_loop": {"state_dict": {}, "epoch_progress": {"total": {"ready": 100}}}},
        "optimizer_states": [{"state": {}, "param_groups": [{"lr": 2e-4, "betas": (0.9, 0.999)}]}],
        "lr_schedulers": [],
        "hparams_name": "kwargs",
        "hyper_parameters": hyper_parameters,
    }
    torch.save(checkpoint, path)
    return path


def hollow(shapes: dict[str, tuple[int, ...]]) -> dict[str, Tensor]:
    """Weights of these shapes that take no room in a file."""
    return {key: torch.zeros(()).expand(shape) for key, shape in shapes.items()}


@pytest.fixture(scope="module")
def loaded(tmp_path_factory) -> OriginalUNet:
    path = tmp_path_factory.mktemp("lightning") / "GDiff_10000steps.ckpt"
    hyper_parameters = {"in_size": 65536, "diffusion_steps": 10_000, "img_depth": 3, "lr": 2e-4}
    network = load_lightning(save(path, synthetic_weights(), **hyper_parameters))
    path.unlink()
    # float64, because rounding alone makes 1e-5 of a random network this deep.
    return network.requires_grad_(False).double()


def data() -> tuple[Tensor, Tensor, Tensor]:
    z = torch.randn(2, 3, 64, 64, generator=torch.Generator().manual_seed(1))
    return z.double(), torch.tensor([40.0, 3210.5]), torch.tensor([[-0.7], [0.4]]).double()


def test_weights_are_laid_out_as_in_the_checkpoints():
    with torch.device("meta"):
        state = OriginalUNet().state_dict()
    assert {key: tuple(weight.shape) for key, weight in state.items()} == layout()
    count = sum(math.prod(shape) for shape in layout().values())
    assert count == 70_741_603  # the paper: about 70 M


def test_synthetic_checkpoint_reproduces_its_stored_output(loaded):
    """The numbers are those of the authors' forward pass, with these weights, in float64."""
    out = loaded(*data())
    pixels = [[1.16622655, -0.15671596, -0.61440305], [1.30663825, 0.70907018, 0.64249384]]
    means = [[-0.00924452, 0.34377574, 0.32763655], [0.88294666, 0.67893585, -0.52057063]]
    stds = [[0.92595344, 0.89270840, 0.92094265], [0.95967694, 0.91749908, 0.84434757]]
    found = torch.stack([out[:, :, 5, 60], out.mean((2, 3)), out.std((2, 3))])
    stored = torch.tensor([pixels, means, stds], dtype=torch.float64)
    torch.testing.assert_close(found, stored, atol=1e-5, rtol=0)
    assert loaded.steps == 10_000


def test_an_image_alone_and_in_a_batch_agree(loaded):
    z, t, phi = data()
    z = z[..., :33, :50]
    together = loaded(z, t, phi)
    for i in range(2):
        alone = loaded(z[i : i + 1], t[i : i + 1], phi[i : i + 1])
        torch.testing.assert_close(alone[0], together[i], atol=1e-5, rtol=0)


def test_steps_may_be_integers(loaded):
    z, _, phi = data()
    out = [loaded(z[..., :16, :16], torch.tensor([7, 4000]).to(d), phi) for d in (int, float)]
    torch.testing.assert_close(*out, atol=0, rtol=0)


def test_time_embedding_is_a_rotation():
    """sin and cos of ω t: t + s turns every pair by ω s, with ω from 1 to 10⁻⁴."""
    t, s, width = torch.tensor([3.0, 50.0]), 0.25, 64
    omega = 10_000 ** (-torch.arange(0, width, 2) / width)
    sin, cos = sinusoidal(t, width).chunk(2, dim=1)
    turned = torch.complex(cos, sin) * torch.exp(1j * omega * s)
    expected = torch.cat([turned.imag, turned.real], dim=1)
    torch.testing.assert_close(sinusoidal(t + s, width), expected, atol=1e-5, rtol=0)
    assert omega[0] == 1


@pytest.mark.parametrize("prefix", ["", "model.", "net.unet."])
def test_the_trainers_name_is_stripped(tmp_path, prefix):
    network = load_lightning(save(tmp_path / "a.ckpt", hollow(layout()), prefix))
    assert network.channels == 3
    assert network.steps == 5000  # the paper's, when the file does not say


def test_grey_images_and_longer_phi_are_read_from_the_weights(tmp_path):
    with torch.device("meta"):
        shapes = {k: tuple(v.shape) for k, v in OriginalUNet(1, 3).state_dict().items()}
    network = load_lightning(save(tmp_path / "grey.ckpt", hollow(shapes)))
    z = torch.randn(1, 1, 16, 16)
    assert network(z, torch.zeros(1), torch.zeros(1, 3)).shape == z.shape


class Payload:
    """Runs a command when unpickled by a careless reader."""

    def __init__(self, witness: Path) -> None:
        self.witness = witness

    def __reduce__(self):
        return os.mkdir, (str(self.witness),)


@pytest.mark.parametrize("plain", [True, False], ids=["pickle", "torch"])
def test_code_is_refused_and_not_run(tmp_path, plain):
    path, witness = tmp_path / "trap.ckpt", tmp_path / "witness"
    trap = {"state_dict": hollow(layout()) if not plain else {}, "callbacks": Payload(witness)}
    if plain:
        path.write_bytes(pickle.dumps(trap, protocol=2))
    else:
        torch.save(trap, path)
    with pytest.raises(ValueError, match=r"trap\.ckpt: asks to run \w+\.mkdir, refused") as error:
        load_lightning(path)
    assert "\n" not in str(error.value)
    assert not witness.exists()


def wrong_shape(path: Path) -> None:
    save(path, hollow(layout() | {"up3.up.weight": (256, 100, 2, 2)}))


def missing_layer(path: Path) -> None:
    save(path, hollow({k: v for k, v in layout().items() if k != "sa4.sa.0.ln.bias"}))


def extra_layer(path: Path) -> None:
    save(path, hollow(layout() | {"down5.weight": (2, 2)}))


def scalar_first_layer(path: Path) -> None:
    save(path, hollow(layout() | {FIRST_KEY: ()}))


def other_network(path: Path) -> None:
    save(path, {"conv.weight": torch.zeros(3, 3)})


TROUBLES = {
    "wrong shape": (wrong_shape, r"up3.up.weight has shape \(256, 100, 2, 2\), in the paper's U-"),
    "missing layer": (missing_layer, r"sa4.sa.0.ln.bias has shape none, in .* \(1024,\)"),
    "extra layer": (extra_layer, r"down5.weight has shape \(2, 2\), in the paper's U-Net none"),
    "scalar": (scalar_first_layer, r"inc.double_conv.0.weight has shape \(\), in"),
    "other network": (other_network, "not a checkpoint of the paper's U-Net"),
    "state is a number": (lambda p: torch.save({"state_dict": 3}, p), "not a checkpoint of the"),
    "list": (lambda p: torch.save([1, 2], p), "holds a list"),
    "text": (lambda p: p.write_text("hello world"), "not a PyTorch checkpoint"),
    "image": (lambda p: p.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(99)), "not a PyTorch checkpoi"),
    "empty": (lambda p: p.touch(), "not a PyTorch checkpoint"),
    "truncated": (lambda p: p.write_bytes(b"PK\x03\x04" + bytes(60)), "not a PyTorch checkpoint"),
}


@pytest.mark.parametrize(("write", "trouble"), TROUBLES.values(), ids=TROUBLES.keys())
def test_a_foreign_file_is_one_clear_line(tmp_path, write, trouble):
    path = tmp_path / "foreign.ckpt"
    write(path)
    with pytest.raises(ValueError, match=trouble) as error:
        load_lightning(path)
    assert str(error.value).startswith(str(path))
    assert "\n" not in str(error.value)


def test_a_missing_file_is_missing(tmp_path):
    with pytest.raises(FileNotFoundError):
        load_lightning(tmp_path / "none.ckpt")
