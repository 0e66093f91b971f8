"""Calibration on photographs: the crops, both posteriors of a run, and the command."""

from dataclasses import replace

import pytest
import torch
from PIL import Image
from skimage import data
from typer.testing import CliRunner

from gibbsdiff import denoise
from gibbsdiff.cli import app
from gibbsdiff.data.images import protocol_images
from gibbsdiff.errors import InputError
from gibbsdiff.evidence.calibration import RankRecord, calibrate, one
from gibbsdiff.evidence.calibration.box import bias_lines, box_figure
from gibbsdiff.evidence.calibration.images import (
    PARAMETERS,
    crops,
    photographs,
    photographs_run,
)
from gibbsdiff.evidence.calibration.paired import PairedParameters, halves
from gibbsdiff.noise import PowerLawNoise
from gibbsdiff.streams import Streams


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("photographs")
    for name, picture in zip("ab", (data.astronaut(), data.coffee()), strict=True):
        Image.fromarray(picture[:300, :300]).save(place / f"{name}.png")
    return place


def test_crops_are_cut_from_the_protocols_images_and_keyed_by_run(folder):
    runs = Streams(5, [(i,) for i in range(6)])
    cut = crops(str(folder), 64, 0, 0, runs)
    alone = crops(str(folder), 64, 0, 0, Streams(5, [(4,)]))
    assert torch.equal(cut[4], alone[0])
    images = protocol_images(sorted(folder.iterdir()))
    windows = images.unfold(2, 64, 1).unfold(3, 64, 1)[..., 0, 0]  # top left pixels
    for crop in cut:
        places = (windows == crop[None, :, :1, :1]).all(1).nonzero().tolist()
        assert any(torch.equal(images[i, :, r : r + 64, c : c + 64], crop) for i, r, c in places)
    assert len({float(c.sum()) for c in cut}) == 6


def test_a_parameter_and_its_copy_are_one_noise():
    single = PowerLawNoise((0.1, 0.5))
    both, rng = PairedParameters(single), [(0,), (1,)]
    phi = both.draw_prior(Streams(1, rng))
    assert torch.equal(phi[:, :2], single.draw_prior(Streams(1, rng)))
    assert torch.equal(phi[:, :2], phi[:, 2:])
    eps = both.draw((8, 8), phi, Streams(2, rng), 3)
    assert torch.equal(eps, single.draw((8, 8), phi[:, :2], Streams(2, rng), 3))
    s = both.statistic(eps)
    assert torch.equal(both.log_likelihood(phi, s), single.log_likelihood(phi[:, :2], s))


def test_a_run_does_not_depend_on_its_batch(folder):
    configuration = photographs_run(
        folder, 0, 3, method="marginal", size=32, sigma=(0.1, 0.3), stages=1
    )
    records = calibrate(configuration, 3)
    assert one(configuration, 1) == records[1]
    raw, wide = halves(records)
    assert [r.truth for r in raw] == [r.truth for r in wide]
    for a, b in zip(raw, wide, strict=True):
        assert a.settled
        assert all(0.1 <= t <= 0.3 for t in a.truth[:1])
        assert b.sd != a.sd
        assert a.mean[0] == pytest.approx(a.truth[0], rel=0.25)


def test_the_halves_of_a_run_differ_by_eq_12_alone(folder):
    """The first is the posterior's own draws; the second has Gaussian noise of the covariance that
    the posterior states, drawn anew for every run. Weights would be drawn anew as well.
    """
    noise = PowerLawNoise()
    problem = photographs(str(folder), 32, method="marginal", stages=1, weights="none")
    rng = Streams(3, [(0,), (1,)])
    x = problem.signal(rng.fold(0))
    y = x + noise.draw((32, 32), [[0.2, 0.1]] * 2, rng.fold(1), 3).to(x)
    found = problem.method(y, rng.fold(2))
    own = [
        denoise(row, model="natural", noise=noise, method="marginal", boundary="periodic",
                second_stage=False, samples=0, draws=100, weights=None) for row in y
    ]  # fmt: skip
    added = []
    for run, posterior in zip(found, own, strict=True):
        raw, wide = run.draws[..., :2], run.draws[..., 2:]
        assert run.independent
        assert run.calls == posterior.calls
        # Other draws of the same density: means within 4 standard errors.
        apart = (raw.mean((0, 1)) - posterior.phi.mean((0, 1))).abs()
        assert (apart < 4 * posterior.phi.flatten(0, 1).std(0) * (2 / 400) ** 0.5).all()
        # Far from the walls, where draws would be reflected.
        for row, low, high in zip(posterior.rows, noise.low, noise.high, strict=True):
            assert low < row.mean - 4 * row.total_sd < row.mean + 4 * row.total_sd < high
        error = posterior.model_error
        added.append((wide - raw).flatten(0, 1) @ torch.linalg.inv(torch.linalg.cholesky(error)).T)
    for z in added:
        # 400 draws of N(0, 1): a covariance is known to √(2/400) on, 1/√400 off the diagonal.
        assert float((torch.cov(z.T) - torch.eye(2)).abs().max()) < 4 * (2 / 400) ** 0.5
    assert float((added[0] * added[1]).mean().abs()) < 4 / 800**0.5


def test_bias_is_relative_for_the_level_and_plain_for_the_slope():
    def made(run, sigma, phi):
        return RankRecord(run, [0.2, 0.5], [sigma, phi], [0.1] * 2, [0.5] * 2, 9, [1.0] * 2,
                      [50.0] * 2, 12, True)  # fmt: skip

    records = [made(0, 0.22, 0.4), made(1, 0.22, 0.5), made(2, 0.19, 0.3)]
    first, second = bias_lines(records, PARAMETERS)
    assert first.startswith("bias of sigma: +5.00 ± 5.00%, median +10.00%")
    assert second.startswith("bias of phi: -0.1000 ± 0.0577, median -0.1000")
    page = box_figure(records, PARAMETERS)
    scatter = page.axes[2].collections[0]
    assert scatter.get_offsets().tolist() == [[0.2, 0.5]] * 3
    assert scatter.get_array().tolist() == pytest.approx([0.1, 0.1, -0.05])
    independent = box_figure([replace(r, rhat=None, ess=None) for r in records], PARAMETERS)
    errors = [a for a in independent.axes if a.get_title()]
    assert [a.get_title()[:14] for a in errors] == ["(mean - truth)"] * 2


def arguments(folder, out, *more):
    known = ["sbc", "images", "--data", folder, "--out", out, "--size", "32", "--batch", "3"]
    return [str(a) for a in (*known, "--sigma-range", "0.1", "0.3", *more)]


def test_the_command_reports_both_posteriors(folder, tmp_path):
    more = ("--method", "marginal", "--stages", "1")
    first = CliRunner().invoke(app, arguments(folder, tmp_path, *more, "--runs", "3"))
    assert first.exit_code == 0, first.output
    assert "σ uniform on [0.1, 0.3], 32²" in first.output
    assert first.output.count("INCONCLUSIVE: 3 runs") == 2
    assert "bias of sigma" in first.output
    names = {f.name for f in tmp_path.iterdir()}
    stem = "images-marginal-32"
    assert names == {f"{stem}{e}" for e in (
        ".jsonl", ".txt", "-raw.png", "-model-error.png", "-box.png")}  # fmt: skip
    old = (tmp_path / f"{stem}.jsonl").read_text()
    other = CliRunner().invoke(
        app, arguments(folder, tmp_path, *more, "--runs", "3", "--seed", "1")
    )
    assert isinstance(other.exception, InputError)
    assert (tmp_path / f"{stem}.jsonl").read_text() == old


@pytest.mark.slow
@pytest.mark.parametrize("starts", ["marginal", "prior"])
def test_gibbs_finds_the_noise_of_crops(folder, starts):
    configuration = photographs_run(
        folder, 0, 4, method="gibbs", size=32, sigma=(0.2, 0.5), starts=starts,
        iterations=20, burn_in=10, calls=6,
    )  # fmt: skip
    raw, wide = halves(calibrate(configuration, 4))
    for a, b in zip(raw, wide, strict=True):
        assert a.mean[0] == pytest.approx(a.truth[0], rel=0.15)
        assert a.mean[1] == pytest.approx(a.truth[1], abs=0.4)
        assert a.rhat is not None
        assert a.sd != b.sd


def test_bad_input(folder, tmp_path):
    for known, words in (
        ({"data": str(tmp_path / "nowhere")}, "nowhere: no such folder"),
        ({"size": 8}, "size: 8 pixels; crops have 16 to 256"),
        ({"size": 300}, "size: 300 pixels"),
        ({"method": "magic"}, "method magic: gibbs or marginal"),
        ({"starts": "magic"}, "starts 'magic'"),
        ({"iterations": 5, "burn_in": 5}, "burn-in 5 must be shorter"),
        ({"device": "abacus"}, "device 'abacus': not available"),
        ({"model_digest": "0" * 16}, "not the same file on every machine"),
    ):
        with pytest.raises(InputError, match=words):
            photographs(**{"data": str(folder), **known})
