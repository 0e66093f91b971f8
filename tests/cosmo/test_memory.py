"""The search for copies against brute force, and what draws of a known spread show."""

import math
from itertools import product

import numpy as np
import pytest
import torch

from gibbsdiff.cosmo.infer import dust_model
from gibbsdiff.cosmo.memory import Hidden, Memory, measure_memory
from gibbsdiff.cosmo.nearest import SYMMETRIES, Library, Match, rms, unturned
from gibbsdiff.data.images import turned
from gibbsdiff.data.maps import halve
from gibbsdiff.errors import InputError
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


def test_draws_by_one_call_have_the_spread_that_the_model_says(model, tmp_path):
    x = np.random.default_rng(0).standard_normal((3, 2, 64, 64)).astype("f4")
    np.savez(tmp_path / "maps.npz", maps=x + 1)
    found = dust_model(32, model)
    ticks = []
    result = measure_memory(found, tmp_path / "maps.npz", 2, 12, calls=1, watch=ticks.append)
    assert ticks == [1, 2]
    assert len(result.held_out) == 4
    for h in result.hidden:
        # One call draws D plus a field of the error's power.
        assert h.spread == pytest.approx(h.sd, rel=0.15)
        assert np.mean(np.square(h.to_truth)) == pytest.approx(h.spread**2 + h.error**2, rel=0.15)
        assert math.isfinite(h.own.distance)
    np.savez(tmp_path / "other.npz", maps=x[:, :1])
    with pytest.raises(InputError, match=r"other\.npz: not the maps"):
        measure_memory(found, tmp_path / "other.npz")
