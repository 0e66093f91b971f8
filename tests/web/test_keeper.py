"""What the keeper does without its worker: places, times, and what is forgotten when."""

import pytest

from gibbsdiff.errors import InputError
from gibbsdiff.web.jobs import Job
from gibbsdiff.web.keeper import Keeper
from gibbsdiff.web.limits import Limits
from gibbsdiff.web.pace import Pace


@pytest.fixture
def keeper(tmp_path):
    """With a queue, and nobody who works on it."""
    return Keeper(tmp_path / "uploads", "natural-fast", Limits(waiting=3, kept=2, gone=600))


def waiting(keeper, tab, name="a.png"):
    job = Job(name, tab.new_folder(), pixels=10_000)
    (job.folder / name).write_bytes(b"pixels")
    keeper.add(tab, job)
    return job


def test_a_tab_that_is_gone_for_ten_minutes_leaves_nothing(keeper):
    gone, here = keeper.open_tab(), keeper.open_tab()
    lost, kept = waiting(keeper, gone), waiting(keeper, here)
    gone.heard -= 599
    keeper._forget_the_gone()
    assert lost.folder.exists()
    gone.heard -= 2
    keeper._forget_the_gone()
    assert not gone.folder.exists()
    assert lost.state == "cancelled"
    assert keeper.tab(gone.id) is None
    assert keeper.job(lost.id) is None
    assert (kept.folder / "a.png").exists()
    assert keeper.state_of(here)["jobs"][0]["place"] == 1


def test_places_and_times_add_up_over_all_tabs(keeper):
    one, two = keeper.open_tab(), keeper.open_tab()
    waiting(keeper, one), waiting(keeper, two), waiting(keeper, one)
    (mine,) = keeper.state_of(two)["jobs"]
    assert mine["place"] == 2
    first, last = keeper.state_of(one)["jobs"]
    assert mine["left"] == pytest.approx(2 * first["left"], abs=0.1)
    assert last["left"] == pytest.approx(3 * first["left"], abs=0.1)
    with pytest.raises(InputError, match="the queue is full: 3 wait"):
        waiting(keeper, two)


def test_pictures_that_wait_for_their_group_count_too(keeper):
    tab = keeper.open_tab()
    for i in range(3):
        keeper.add(tab, Job(f"{i}.png", tab.new_folder(), group="g"))
    with pytest.raises(InputError, match="the queue is full: 3 wait"):
        keeper.check_room()
    keeper.begin(tab, "g")
    assert [job["place"] for job in keeper.state_of(tab)["jobs"]] == [1, 2, 3]


def test_what_is_cancelled_in_the_queue_goes_at_once_and_the_oldest_results_go(keeper):
    tab = keeper.open_tab()
    jobs = []
    for i in range(4):
        jobs.append(waiting(keeper, tab, f"{i}.png"))
        keeper.cancel(jobs[-1])
        assert jobs[-1].state == "cancelled"
        assert not jobs[-1].folder.exists()
    assert [job["name"] for job in keeper.state_of(tab)["jobs"]] == ["2.png", "3.png"]
    assert keeper.state_of(tab)["jobs"][0]["left"] == 0


def test_at_the_end_all_uploads_are_deleted(keeper, tmp_path):
    waiting(keeper, keeper.open_tab())
    keeper._thread.start()
    keeper._ending.set()
    keeper.stop()
    assert not (tmp_path / "uploads").exists()


def test_the_pace_is_learnt_and_always_finite():
    pace = Pace()
    expected = pace.expected("auto", 250_000)
    pace.learn("auto", 250_000, 3 * expected)
    assert pace.expected("auto", 250_000) == pytest.approx(3 * expected)
    assert pace.expected("auto", 1_000_000) > pace.expected("auto", 250_000)
    pace.learn("auto", 250_000, expected)
    assert pace.expected("auto", 250_000) == pytest.approx(2 * expected)
    assert pace.left("auto", 250_000, expected) == pytest.approx(expected)
    assert 0 < pace.left("auto", 250_000, 1e5) < 1e5
