"""What a picture may be given as, and what comes back: types, ranges, shapes, batches."""

import numpy as np
import pytest
import torch
from PIL import Image
from skimage import data

import gibbsdiff
from gibbsdiff import Denoiser, InputError, conjugate_amplitude

KNOWN = {"known": {"sigma": 0.1, "phi": 0.0}, "samples": 1, "calls": 1}
COLOUR = np.ascontiguousarray(data.astronaut()[20:148:4, 150:310:4])  # 32×40×3, uint8
GREY = np.ascontiguousarray(COLOUR[..., 1])
ALPHA = np.tile(np.arange(40, dtype=np.uint8), (32, 1))
METHODS = {
    "marginal": {"method": "marginal", "second_stage": False},
    "gibbs": {"method": "gibbs", "phi_step": conjugate_amplitude},
    "known": {"known": {"sigma": 0.5}},
}


class Watched(Denoiser):
    """The exact denoiser, for one floating-point type: it asserts that it is given nothing else."""

    error_model = True

    def __init__(self, exact, dtype, expected):
        self.exact, self.dtype, self.expected, self.calls = exact, dtype, expected, 0

    def __call__(self, z, noise):
        assert z.dtype == noise.power.dtype == noise.descriptor.dtype == self.expected
        assert z.device.type == noise.power.device.type == "cpu"
        self.calls += 1
        mean, error = self.exact(z, noise)
        assert mean.dtype == self.expected
        return gibbsdiff.Estimate(mean, error)


@pytest.fixture
def denoised(truth):
    return lambda picture, **options: gibbsdiff.denoise(
        picture, model=truth.GAUSSIAN, **(KNOWN | options)
    )


def forms(folder):
    """One colour picture of 8 bits in every form that it may have."""
    file = folder / "picture.png"
    Image.fromarray(COLOUR).save(file)
    planes = COLOUR.transpose(2, 0, 1)
    return {
        "(H, W, 3)": COLOUR,
        "(3, H, W)": planes,
        "tensor": torch.from_numpy(planes.copy()),
        "tensor (H, W, 3)": torch.from_numpy(COLOUR),
        "big-endian": (COLOUR.astype(">u2") * 257),
        "PIL": Image.fromarray(COLOUR),
        "path": file,
        "text": str(file),
        "float32": (COLOUR / 255).astype(np.float32),
        "float16": torch.from_numpy(planes.copy()).to(torch.float16) / 255,
    }


def test_every_form_of_a_picture_is_the_same_picture(denoised, tmp_path):
    results = {name: denoised(picture) for name, picture in forms(tmp_path).items()}
    first = results["(H, W, 3)"]
    for name, p in results.items():
        assert p.mean.shape == (3, 32, 40), name
        tolerance = 1e-3 if name == "float16" else 1e-6
        assert torch.allclose(p.mean, first.mean, atol=tolerance), name
        assert p.image.shape == (32, 40, 3), name


def test_integers_are_scaled_by_their_range_and_given_back_in_it(denoised):
    p = denoised(COLOUR)
    assert torch.equal(p.observed, torch.from_numpy(COLOUR.transpose(2, 0, 1)).float() / 255)
    assert p.image.dtype == np.uint8
    assert np.array_equal(p.image, np.asarray(p))
    levels = np.rint(p.mean.permute(1, 2, 0).double().numpy() * 255).clip(0, 255)
    assert np.array_equal(p.image, levels)
    assert p.unit == 255
    deep = denoised(GREY.astype(np.uint16) * 257)
    assert deep.image.dtype == np.uint16
    assert deep.image.shape == (32, 40)
    assert np.abs(deep.image.astype(float) - 65535 * deep.mean[0].double().numpy()).max() < 0.51
    assert float((deep.mean - denoised(GREY).mean).abs().max()) < 1e-6
    assert np.asarray(p, dtype=np.float32).dtype == np.float32


def test_what_leaves_the_range_is_clipped(truth):
    """D of noise that is not there: below 0 and above 1 there is no level."""
    y = np.where(np.arange(40) < 20, 0, 255)[None].repeat(32, 0).astype(np.uint8)
    p = gibbsdiff.denoise(y, model=lambda z, noise: 3 * z - 1, **KNOWN)
    assert (float(p.mean.min()), float(p.mean.max())) == (-1, 2)
    assert np.array_equal(p.image, y)


@pytest.mark.parametrize("form", ["(H, W, 4)", "(4, H, W)", "PIL", "path", "float"])
def test_alpha_is_kept_as_it_was(denoised, tmp_path, form):
    with_alpha = np.dstack([COLOUR, ALPHA])
    Image.fromarray(with_alpha).save(tmp_path / "a.png")
    picture = {
        "(H, W, 4)": with_alpha,
        "(4, H, W)": with_alpha.transpose(2, 0, 1),
        "PIL": Image.fromarray(with_alpha),
        "path": tmp_path / "a.png",
        "float": with_alpha / 255,
    }[form]
    p = denoised(picture)
    assert p.mean.shape == (3, 32, 40)
    assert p.image.shape == (32, 40, 4)
    unit = 255 if form == "float" else 1
    np.testing.assert_allclose(p.image[..., 3], ALPHA / unit, rtol=1e-12)
    opaque = denoised(COLOUR / 255 if form == "float" else COLOUR)
    np.testing.assert_allclose(p.mean, opaque.mean, atol=1e-6)
    np.testing.assert_allclose(p.image[..., :3], opaque.image, rtol=1e-12)


def test_pil_pictures_that_are_not_pixels_are_converted_or_refused(denoised):
    indexed = Image.fromarray(COLOUR).quantize(64)
    plain = np.asarray(indexed.convert("RGB"))
    assert torch.equal(denoised(indexed).mean, denoised(plain).mean)
    indexed.info["transparency"] = 3
    assert denoised(indexed).image.shape == (32, 40, 4)
    deep = GREY.astype(np.uint16) * 257
    assert torch.equal(denoised(Image.fromarray(deep)).mean, denoised(deep).mean)
    for mode in ("CMYK", "LA", "1", "I", "HSV"):
        image = Image.fromarray(GREY if mode in ("LA", "1", "I") else COLOUR).convert(mode)
        with pytest.raises(InputError, match=f"mode {mode}; convert it to RGB or grey"):
            denoised(image)


@pytest.mark.parametrize("given", [torch.float32, torch.float64])
@pytest.mark.parametrize("computes", [torch.float32, torch.float64, None])
@pytest.mark.parametrize("method", METHODS)
def test_the_denoiser_computes_in_its_type_and_the_result_has_that_of_the_picture(
    truth, given, computes, method
):
    _, y = truth.observe((16, 20), 0.5, 0.0)
    watched = Watched(truth.GAUSSIAN, computes, computes or given)
    options = {"chains": 2, "draws": 3, "calls": 2, "noise": "white", "samples": 1}
    options |= METHODS[method]
    p = gibbsdiff.denoise(torch.tensor(y, dtype=given), model=watched, **options)
    assert watched.calls > 0
    for name in ("mean", "sd", "samples", "noise_power", "observed"):
        assert getattr(p, name).dtype == given, name
    assert p.phi.dtype == torch.float64
    assert p.image.dtype == str(given).removeprefix("torch.")
    exact = gibbsdiff.denoise(y, model=truth.GAUSSIAN, **options)
    if method != "gibbs":  # other numbers are drawn in single precision
        np.testing.assert_allclose(p.mean, exact.mean, atol=1e-4)
    if given == torch.float64 and computes != torch.float32:
        assert torch.equal(p.mean, exact.mean)
        assert torch.equal(p.samples, exact.samples)


def test_numbers_far_from_the_models_range_get_a_hint(truth):
    y = COLOUR.astype(np.float32)
    with pytest.raises(InputError, match=r"divide by the range, or give uint8") as trouble:
        gibbsdiff.denoise(y, **KNOWN)
    assert "\n" not in str(trouble.value)
    noisy = COLOUR / 255 + np.random.default_rng(0).standard_normal(COLOUR.shape)
    assert gibbsdiff.denoise(noisy, **(KNOWN | {"known": {"sigma": 1, "phi": 0}})).good
    # A denoiser of one's own may know any range.
    gibbsdiff.denoise(y, model=truth.GAUSSIAN, **KNOWN)


@pytest.mark.parametrize("method", ["marginal", "gibbs"])
def test_several_pictures_are_as_one_by_one(truth, method):
    options = {"model": truth.GAUSSIAN, "noise": "white", "method": method, "seed": 3}
    options |= {"chains": 2, "draws": 4, "calls": 2, "samples": 1}
    if method == "gibbs":
        options["phi_step"] = conjugate_amplitude
    shapes = [(16, 20), (16, 20), (20, 24)]
    ys = [truth.observe(s, 0.5, 0.0, seed=i)[1] for i, s in enumerate(shapes)]
    alone = [gibbsdiff.denoise(y, **options) for y in ys]
    together = {
        "list": gibbsdiff.denoise(ys, **options),
        "tuple": gibbsdiff.denoise(tuple(ys), **options),
        "(B, C, H, W)": gibbsdiff.denoise(np.stack(ys[:2]), **options),
        "tensor": gibbsdiff.denoise(torch.tensor(np.stack(ys[:2])), **options),
    }
    for name, results in together.items():
        assert len(results) == (3 if name in ("list", "tuple") else 2)
        for one, same in zip(alone, results, strict=False):
            for field in ("phi", "mean", "sd", "samples"):
                assert torch.equal(getattr(one, field), getattr(same, field)), (name, field)
    assert not torch.equal(alone[0].phi, alone[1].phi)


def test_a_list_of_files_and_a_picture_as_nested_lists(denoised, tmp_path):
    for name in ("a.png", "b.png"):
        Image.fromarray(COLOUR).save(tmp_path / name)
    files = denoised([tmp_path / "a.png", str(tmp_path / "b.png")])
    assert len(files) == 2
    assert torch.equal(files[0].mean, files[1].mean)
    nested = denoised((GREY / 255).tolist())
    assert torch.equal(nested.mean, denoised(GREY / 255).mean)


def test_the_device_by_name_is_the_default(natural):
    default, named = (
        gibbsdiff.denoise(COLOUR, model=natural, **KNOWN, **device)
        for device in ({}, {"device": "cpu"})
    )
    assert torch.equal(default.mean, named.mean)
    assert torch.equal(default.samples, named.samples)


def test_a_pixel_that_lacks_one_channel_is_missing(denoised):
    y = COLOUR / 255
    y[3, 4, 1] = np.nan
    y[5, 6] = np.inf
    p = denoised(y)
    assert p.missing.nonzero().tolist() == [[3, 4], [5, 6]]
    assert bool(torch.isfinite(p.mean).all())
    assert bool(torch.isfinite(p.observed).all())
