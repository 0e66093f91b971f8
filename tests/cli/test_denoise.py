"""The options of `gibbsdiff denoise`: each does what it says, none is silently ignored."""

import io
import sys

import numpy as np
import pytest
from PIL import Image
from skimage import data

from gibbsdiff.inference.posterior import Posterior
from gibbsdiff.io.picture import picture_from_bytes

KNOWN = ("--sigma", 0.1, "--phi", 0, "--samples", 0, "--no-figure")
NOISE = 25.5 * np.random.default_rng(0).normal(size=(64, 64, 3))
ALPHA = np.tile(np.arange(48, dtype=np.uint8), (48, 1))


def noisy(side):
    clean = data.astronaut()[:side, 150 : 150 + side]
    return np.clip(clean + NOISE[:side, :side], 0, 255).astype(np.uint8)


def save(path, side=48):
    Image.fromarray(noisy(side)).save(path)


def names(folder):
    return sorted(p.name for p in folder.iterdir())


def test_no_clobber_skips_what_has_results_and_does_the_rest(command, tmp_path):
    for name in ("a.png", "b.png", "c.png"):
        save(tmp_path / name)
    (tmp_path / "a.denoised.png").write_bytes(b"of an earlier run")
    (tmp_path / "b.posterior.nc").write_bytes(b"of an earlier run")
    result = command("denoise", tmp_path, "--no-clobber", *KNOWN)
    assert result.code == 0, result.stderr
    for name, old in (("a", "a.denoised.png"), ("b", "b.posterior.nc")):
        line = f"gibbsdiff: {tmp_path}/{name}.png: skipped, {tmp_path}/{old} exists already"
        assert line in result.stderr.splitlines()
        assert (tmp_path / old).read_bytes() == b"of an earlier run"
    written = ["c.denoised.png", "c.png", "c.posterior.nc", "c.uncertainty.tiff"]
    assert names(tmp_path) == ["a.denoised.png", "a.png", "b.png", "b.posterior.nc", *written]
    # What would not be written is in nobody's way.
    result = command("denoise", tmp_path / "b.png", "--no-clobber", "--no-posterior", *KNOWN)
    assert result.code == 0
    assert (tmp_path / "b.denoised.png").exists()
    assert (tmp_path / "b.posterior.nc").read_bytes() == b"of an earlier run"
    assert command("denoise", tmp_path / "a.png", *KNOWN).code == 0  # by default they are replaced
    assert (tmp_path / "a.denoised.png").read_bytes() != b"of an earlier run"


def test_no_posterior_leaves_it_out(command, tmp_path):
    save(tmp_path / "a.png")
    result = command("denoise", tmp_path / "a.png", "--no-posterior", *KNOWN)
    assert result.code == 0
    assert names(tmp_path) == ["a.denoised.png", "a.png", "a.uncertainty.tiff"]
    assert "posterior.nc" not in result.stdout


def test_a_folder_names_what_it_skips(command, tmp_path):
    save(tmp_path / "a.png")
    for name in ("notes.txt", "z.gif", "a.report.png"):
        (tmp_path / name).write_bytes(b"")
    (tmp_path / "sub").mkdir()
    result = command("denoise", tmp_path, *KNOWN)
    assert result.code == 0
    assert result.stderr.splitlines() == [
        f"gibbsdiff: {tmp_path}: skipped notes.txt, sub, z.gif (not a picture by its name)",
        "gibbsdiff: skipped a.report.png (written by an earlier run)",
    ]


@pytest.mark.parametrize(
    ("sigma", "words"),
    [
        (20, "units of the range [0, 1]: 20 levels of 255 are 0.078"),
        (1000, "units of the range [0, 1]: 1000 levels of 65535 are 0.015"),
    ],
)
def test_sigma_in_levels_gets_a_hint(command, tmp_path, sigma, words):
    save(tmp_path / "a.png")
    line = command("denoise", tmp_path / "a.png", "--sigma", sigma).refusal()
    assert f"sigma = {sigma} is outside its prior range [0.001, 1]; σ is in {words}" in line
    plain = command("denoise", tmp_path / "a.png", "--sigma", 0.0001).refusal()
    assert "levels" not in plain


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--quick", "--second-stage"], "--quick leaves out the second stage"),
        (["--quick", "--starts", "prior"], "--starts is for Gibbs chains"),
        (["--method", "marginal", "--checkpoint", "c"], "--checkpoint is for Gibbs chains"),
        (["--quick", "--burn-in", 5], "--burn-in is for Gibbs chains"),
        (["--method", "gibbs", "--no-second-stage"], "--second-stage is for the marginal method"),
        (["--method", "gibbs", "--density", "laplace"], "--density is for the marginal method"),
        (["--density", "spline"], "'laplace', 'polynomial'"),
        (["--starts", "here"], "'marginal', 'prior', 'paper'"),
        (["--device", "abacus"], "device 'abacus': not available"),
        (["--turned", "--sampler", "ddpm"], "turned: only the few-step sampler turns pictures"),
        ([*KNOWN, "--method", "gibbs"], "--method: the noise is given"),
        ([*KNOWN, "--quick"], "--quick: the noise is given"),
        ([*KNOWN, "--draws", 9], "--draws: the noise is given"),
        ([*KNOWN, "--checkpoint", "c"], "--checkpoint: the noise is given"),
        (["b.png", "--checkpoint", "c"], "--checkpoint: a file is for the chains of one picture"),
        (["-"], "-: standard input is one picture"),
    ],
    ids=str,
)
def test_options_that_cannot_be_heeded_are_refused(command, tmp_path, monkeypatch, options, words):
    monkeypatch.chdir(tmp_path)
    for name in ("a.png", "b.png"):
        save(tmp_path / name)
    assert words in command("denoise", "a.png", *options).refusal()
    assert names(tmp_path) == ["a.png", "b.png"]


def summary(command, tmp_path, *options):
    save(tmp_path / "a.png", 32)
    result = command("denoise", tmp_path / "a.png", "--no-figure", *options)
    assert result.code == 0, result.stderr
    return result.stdout.splitlines()[1]


def test_stages_and_density_choose_the_marginal_method_and_are_named(command, tmp_path):
    few = ("--calls", 1, "--samples", 0)
    first = summary(command, tmp_path, "--no-second-stage", *few)
    assert "marginal (first stage, laplace density, where the network is sure)" in first
    assert first.split(",")[:3] == summary(command, tmp_path, "--quick", *few).split(",")[:3]
    both = summary(command, tmp_path, "--second-stage", "--density", "polynomial", *few)
    assert "marginal (two stages, polynomial density, where the network is sure)" in both


FEW = ("--chains", 2, "--draws", 4, "--calls", 1)


def test_starts_choose_gibbs_and_are_named(command, tmp_path):
    assert "gibbs (starts from the prior)" in summary(command, tmp_path, "--starts", "prior", *FEW)
    assert "gibbs (starts as the paper)" in summary(command, tmp_path, "--starts", "paper", *FEW)


def test_a_checkpoint_is_gone_on_from_and_belongs_to_one_run(command, tmp_path):
    kept = tmp_path / "chains"
    made = []
    burn_in = ("--burn-in", 3, "--checkpoint", kept)
    for draws in (4, 20):
        summary(command, tmp_path, *FEW[:3], draws, *FEW[4:], *burn_in)
        made.append(Posterior.load(tmp_path / "a.posterior.nc").phi)
    assert made[0].shape[1] == 4
    assert made[1].shape[1] == 20
    assert bool((made[1][:, :4] == made[0]).all())
    other = ("--checkpoint", kept, "--seed", 1, *FEW)
    line = command("denoise", tmp_path / "a.png", "--no-figure", *other).refusal()
    assert str(kept) in line


def test_large_pictures_say_how_much_memory_they_need(command, tmp_path):
    Image.new("L", (2500, 2000), 9).save(tmp_path / "flat.png")  # refused before the work
    result = command("denoise", tmp_path / "flat.png", *KNOWN)
    memory, refusal = result.stderr.splitlines()
    line = f"gibbsdiff: {tmp_path}/flat.png: 5.0 megapixels: about 2.9 GB of memory and "
    assert memory.startswith(line)
    assert "the same value" in refusal


class Binary:
    """A stream of bytes under a name such as sys.stdin."""

    def __init__(self, content=b""):
        self.buffer = io.BytesIO(content)

    def isatty(self):
        return False


def piped(command, monkeypatch, content, *options):
    """Bytes that the command writes to standard output, and its result."""
    out = Binary()
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdin", Binary(content))
        patch.setattr(sys, "stdout", out)
        result = command("denoise", "-", *options)
    return out.buffer.getvalue(), result


def file_of(array, kind):
    buffer = io.BytesIO()
    np.save(buffer, array) if kind == "NPY" else Image.fromarray(array).save(buffer, format=kind)
    return buffer.getvalue()


@pytest.mark.parametrize("kind", ["PNG", "TIFF", "JPEG", "NPY"])
def test_stdin_is_answered_in_its_own_format(command, monkeypatch, tmp_path, kind):
    monkeypatch.chdir(tmp_path)
    given = noisy(48) if kind in ("JPEG", "NPY") else np.dstack([noisy(48), ALPHA])
    out, result = piped(command, monkeypatch, file_of(given, kind), *KNOWN)
    assert result.code == 0, result.stderr
    picture = picture_from_bytes(out, "out")
    assert picture.format.name == kind
    assert picture.values.shape == (3, 48, 48)
    if kind in ("PNG", "TIFF"):
        np.testing.assert_array_equal(picture.format.alpha[0], ALPHA)
    assert "the noise was given" in result.stderr
    assert names(tmp_path) == []


def test_stdin_writes_files_where_it_is_told(command, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    content = file_of(noisy(48), "PNG")
    out, result = piped(command, monkeypatch, content, "-o", "new", *KNOWN)
    assert result.code == 0, result.stderr
    files = ["stdin.denoised.png", "stdin.posterior.nc", "stdin.uncertainty.tiff"]
    assert names(tmp_path / "new") == files
    assert (tmp_path / "new" / "stdin.denoised.png").read_bytes() == out
    out, result = piped(command, monkeypatch, content, "-o", "new", "--no-clobber", *KNOWN)
    assert out == b""
    assert "new/stdin.denoised.png: exists already" in result.refusal()
    out, result = piped(command, monkeypatch, b"GIF89a", *KNOWN)
    assert out == b""
    assert "stdin: neither PNG" in result.refusal()


def test_memory_chooses_tiles_and_is_told(command, tmp_path):
    save(tmp_path / "a.png")
    result = command("denoise", tmp_path / "a.png", "--memory", "4G", *KNOWN)
    assert result.code == 0
    assert "0.0 megapixels: about 0.5 GB of memory and " in result.stderr
    for given, says in (
        (("--memory", "100M"), "a.png: needs 0.5 GB of memory with the smallest tiles"),
        (("--memory", "much"), "memory 'much': a size such as 4G or 500M is needed"),
        (("--memory", "4G", "--tile", 128), "give --memory or --tile"),
    ):
        result = command("denoise", tmp_path / "a.png", *given, *KNOWN)
        assert result.code == 2
        assert says in result.stderr
