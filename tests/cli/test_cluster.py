"""A folder on a cluster: the same files, and one failed file does not stop the others."""

import numpy as np
from PIL import Image

RNG = np.random.default_rng(0)
KNOWN = (
    "--precision",
    "float32",
    "--model",
    "natural-fast",
    "--noise",
    "white",
    "--sigma",
    0.1,
    "--no-figure",
)


def pictures(folder):
    folder.mkdir()
    for name in "abc":
        noisy = np.clip(128 + 25.5 * RNG.standard_normal((32, 32)), 0, 255).astype(np.uint8)
        Image.fromarray(noisy).save(folder / f"{name}.png")
    (folder / "bad.png").write_bytes(b"\x89PNG\r\n\x1a\n nothing")
    return folder


def test_files_are_those_without_a_cluster_and_trouble_is_told_at_the_end(command, tmp_path):
    folder = pictures(tmp_path / "in")
    here, there = tmp_path / "here", tmp_path / "there"
    assert command("denoise", folder, "-o", here, *KNOWN).code == 2
    result = command("denoise", folder, "-o", there, "--cluster", "local:1", *KNOWN)
    assert result.code == 1
    lines = result.stderr.splitlines()
    assert lines[-2] == "gibbsdiff: failed: 1 of 4"
    assert f"{folder}/bad.png: " in lines[-1]
    for name in "abc":
        for end in ("denoised.png", "uncertainty.tiff"):
            file = f"{name}.{end}"
            assert (there / file).read_bytes() == (here / file).read_bytes()
        assert f"{folder}/{name}.png" in result.stdout
    # The same command goes on from there: nothing is left to do.
    (folder / "bad.png").unlink()
    again = command("denoise", folder, "-o", there, "--no-clobber", "--cluster", "local:1", *KNOWN)
    assert again.code == 0
    assert "3 of 3: skipped, their results exist already" in again.stderr


def test_what_is_no_task_is_refused(command, tmp_path):
    folder = pictures(tmp_path / "in")
    result = command("denoise", folder, "--same-noise", "--cluster", "local:1", *KNOWN)
    assert result.code == 2
    assert "--same-noise: not on a cluster" in result.stderr
    result = command("denoise", folder, "--cluster", "local:none", *KNOWN)
    assert result.code == 2
    assert "write local:N" in result.stderr
    assert len(list(folder.iterdir())) == 4
