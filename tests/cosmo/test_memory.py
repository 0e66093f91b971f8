"""The search for copies against brute force, and what draws of a known spread show."""

from itertools import product

import numpy as np
import pytest
import torch

from gibbsdiff.cosmo import memory
from gibbsdiff.cosmo.infer import dust_model, infer
from gibbsdiff.cosmo.memory import Hidden, Memory, chosen, measure_memory, training_maps
from gibbsdiff.cosmo.memory_white import error_of, matched_sigma, white_noise_of
from gibbsdiff.cosmo.nearest import SYMMETRIES, Library, Match, rms, unturned
from gibbsdiff.data.images import turned
from gibbsdiff.data.maps import halve
from gibbsdiff.errors import InputError
from gibbsdiff.inference.problem import Options
from gibbsdiff.noise.cmb import CMBNoise
from gibbsdiff.pretrained import load_spectral, read_card, save_model
from gibbsdiff.streams import Streams


def noise_maps(count, side, seed=0):
    return Streams(seed, [(i,) for i in range(count)]).normal(1, side, side).float()


@pytest.mark.parametrize("symmetry", range(SYMMETRIES))
def test_a_shifted_and_turned_copy_is_found(symmetry):
    maps = noise_maps(70, 24)
    for index, shift in ((0, (0, 0)), (69, (23, 5))):
        copy = turned(maps[index].roll(shift, (-2, -1)), symmetry)
        assert torch.equal(turned(unturned(copy, symmetry), symmetry), copy)
        found = Library(maps).nearest(copy)
        assert found == Match(0.0, index, shift, symmetry)


def test_the_distance_is_that_of_brute_force():
    maps, x = noise_maps(3, 6), noise_maps(1, 6, seed=1)[0]
    every = {
        (i, s, g): rms(x - turned(maps[i].roll(s, (-2, -1)), g))
        for i, s, g in product(range(3), product(range(6), repeat=2), range(SYMMETRIES))
    }
    found = Library(maps).nearest(x)
    assert found.distance == pytest.approx(min(every.values()), rel=1e-6)
    assert every[found.which, found.shift, found.symmetry] == found.distance


def test_shifts_by_half_a_pixel_are_found():
    finest = noise_maps(2, 32)
    library = Library.of_all_phases(finest, 1)
    assert len(library.maps) == 8
    copy = halve(turned(finest[1].roll((7, 12), (-2, -1)), 6)[None])[0]
    assert library.nearest(copy).distance < 1e-6
    assert Library(halve(finest)).nearest(copy).distance > 0.1


def hidden(near, spread):
    match = Match(1.0, 0, (0, 0), 0)
    return Hidden([match._replace(distance=d) for d in near], match, [0.5], 1.0, spread, 0.4, 0.4)


def test_the_verdict_names_copies_and_collapse():
    fine = Memory(1.2, [hidden([0.95, 1.1], 0.4)], [0.9, 1.3], 96)
    assert fine.verdict.startswith("no copies found: the nearest of 2 draws is 0.950")
    assert fine.paired == pytest.approx((0.95 + 1.1) / 2)
    assert "no collapse found" in fine.verdict
    copied = Memory(1.2, [hidden([0.3, 1.1], 0.4)], [0.9, 1.3], 96)
    assert copied.verdict.startswith("MEMORISED: 1 of 2 draws")
    alike = Memory(1.2, [hidden([0.95, 1.1], 0.1)], [0.9, 1.3], 96)
    assert "COLLAPSED: draws of 1 of 1 maps" in alike.verdict
    assert fine.table().count("\n| 0 |") == 1


def maps_file(folder, name="maps.npz", slabs=2):
    x = np.random.default_rng(0).standard_normal((3, slabs, 64, 64)).astype("f4")
    np.savez(folder / name, maps=x + 1)
    return folder / name


def test_samples_are_those_of_inference(model, tmp_path, monkeypatch):
    found, path, seen = dust_model(32, model), maps_file(tmp_path), []

    def spy(mixture, *rest, **named):
        seen.append((mixture, infer(mixture, *rest, **named)))
        return seen[-1][1]

    monkeypatch.setattr(memory, "infer", spy)
    ticks = []
    options = Options("marginal", chains=2, draws=10, calls=3, samples=3, seed=2)
    result = measure_memory(found, path, options, 2, watch=ticks.append)
    assert ticks == [1, 2]
    assert len(result.held_out) == 4
    test = training_maps(found, path)[0].test
    for which, h, (mixture, posterior) in zip(chosen(4, 2, 2), result.hidden, seen, strict=True):
        again = infer(mixture, found, CMBNoise(), options)
        assert torch.equal(posterior.samples, again.samples)
        assert h.to_truth == [rms(x - test[which]) for x in again.samples]
        assert h.error == rms(again.mean - test[which])
    with pytest.raises(InputError, match=r"other\.npz: not the maps"):
        measure_memory(found, maps_file(tmp_path, "other.npz", 1), options)


def test_one_call_has_the_spread_that_the_model_says(model, tmp_path):
    found, options = dust_model(32, model), Options("marginal", 2, 50, calls=1, samples=12)
    result = measure_memory(found, maps_file(tmp_path), options, 2)
    for h in result.hidden:
        assert h.spread == pytest.approx(h.sd, rel=0.25)
        assert np.mean(np.square(h.to_truth)) == pytest.approx(h.spread**2 + h.error**2, rel=0.25)


@pytest.fixture
def white(model, tmp_path):
    """The same network, as a file that says it was trained under white noise."""
    card = read_card(model)
    card["config"]["noise"] |= {"family": "white", "level": [0.003, 20.0]}
    save_model(load_spectral(model), tmp_path / "white.safetensors", card)
    return tmp_path / "white.safetensors"


def test_white_noise_is_matched_by_the_error_of_the_mean(model, white, tmp_path):
    found, other, path = dust_model(32, model), dust_model(32, white), maps_file(tmp_path)
    sigma = matched_sigma(found, 1.2, other, path)
    noise, cmb = white_noise_of(other, white), CMBNoise()
    test = training_maps(found, path)[0].test
    phi = (1.2, *cmb.emulator.fiducial.tolist())
    wanted = error_of(found, test, cmb, phi, 0)
    assert error_of(other, test, noise, (sigma,), 0) == pytest.approx(wanted, rel=0.01)
    with pytest.raises(InputError, match="not trained under white noise"):
        white_noise_of(found, model)


def test_the_command_compares_with_white_noise(command, model, white, tmp_path):
    path, out = maps_file(tmp_path), tmp_path / "table.md"
    common = ["cmb", "memory", "--dust", path, "--size", 32, "--model", model, "--maps", 1]
    common += ["--draws", 2, "--calls", 2, "--out", out]
    command(*common, "--against", white)
    text = out.read_text()
    assert text.count("## ") == 2
    assert text.count("| 0 |") == 2
    assert "under white noise" in command(*common, "--against", model).refusal()
