"""Tasks here and on a cluster: the same results, whatever happens to the workers."""

import multiprocessing
import os
import signal
import sys
from importlib.util import find_spec

import pytest
import torch
from PIL import Image
from skimage import data

from gibbsdiff.errors import InputError
from gibbsdiff.evidence import cluster
from gibbsdiff.evidence.benchmark.images import benchmark, files_for_tests, tasks
from gibbsdiff.evidence.benchmark.methods import Setup
from gibbsdiff.evidence.calibration import CalibrationRun, calibrate
from gibbsdiff.inference.summary import load_arviz


@pytest.fixture
def patient():
    """Dask waits for its own processes as long as a busy machine makes it wait."""
    dask = pytest.importorskip("dask")
    pytest.importorskip("distributed")
    waits = {"comm.timeouts.connect": "1h", "comm.timeouts.tcp": "1h", "scheduler.worker-ttl": None}
    with dask.config.set({f"distributed.{name}": wait for name, wait in waits.items()}):
        yield


@pytest.fixture
def like_a_worker():
    """ArviZ as in a new process: its last digits depend on numba, which tests switch off."""
    switch = load_arviz().Numba
    if find_spec("numba") is not None:
        switch.enable_numba()
    yield
    switch.disable_numba()


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_two_processes_do_what_one_does(patient):
    def power_of_two(i):
        return 2**i, torch.get_num_threads()

    with cluster.mapper("local:2") as work:
        assert sorted(work(power_of_two, range(6))) == [(2**i, 1) for i in range(6)]


def test_here_every_task_runs_on_one_thread_and_in_order():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with cluster.mapper(None) as work:
            seen = list(work(lambda i: (i, torch.get_num_threads()), range(3)))
        assert seen == [(0, 1), (1, 1), (2, 1)]
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("address", ["local", "local:", "local:0", "local:-1", "local:two"])
def test_a_local_cluster_needs_a_number(address):
    pytest.importorskip("distributed")
    with pytest.raises(InputError, match="write local:N"), cluster.mapper(address):
        pass


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("tcp://127.0.0.1:9", "cluster tcp://127.0.0.1:9: no scheduler answers"),
        ("nonsense", "cluster nonsense: no scheduler answers"),
        ("smoke://signals:1", "no scheduler answers"),
    ],
)
def test_an_unreachable_scheduler_is_one_line(address, words, monkeypatch):
    pytest.importorskip("distributed")
    assert cluster.TIMEOUT <= 15
    monkeypatch.setattr(cluster, "TIMEOUT", 1.0)
    with pytest.raises(InputError, match=words) as trouble, cluster.mapper(address):
        pass
    assert "\n" not in str(trouble.value)


def test_an_absent_package_is_named_with_its_cure(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with (
        pytest.raises(InputError, match=r"pip install 'gibbsdiff\[cluster\]'"),
        cluster.mapper("local:2"),
    ):
        pass


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_killed_worker_loses_nothing(tmp_path, patient, like_a_worker):
    """Two processes, one killed in the middle of a benchmark; then calibration on what is left."""
    for name, picture in (("a", data.astronaut()), ("b", data.coffee())):
        Image.fromarray(picture[80:176:2, 160:256:2]).save(tmp_path / f"{name}.png")
    setup = Setup(calls=3).with_digests()
    files = files_for_tests(tmp_path)
    wanted = tasks(files, "set", ["marginal"], setup, cells=[(0.1, 0.0)], side=48)
    wanted += tasks(files, "set", ["known-noise"], setup, side=48)
    here = benchmark(wanted, tmp_path / "here")
    arguments = {"method": "gibbs", "size": 8, "noise": "white", "iterations": 8, "burn_in": 2}
    configuration = CalibrationRun("gaussian", arguments, seed=3, batch=2)
    killed = []

    def kill_one(done, of):
        if done >= 1 and not killed:
            killed.append(min(child.pid for child in multiprocessing.active_children()))
            os.kill(killed[0], signal.SIGKILL)

    with cluster.mapper("local:2") as work:
        there = benchmark(wanted, tmp_path / "there", mapper=work, watch=kill_one)
        runs = calibrate(configuration, 6, mapper=work)
    assert killed
    assert runs == calibrate(configuration, 6)

    def plain(records):
        rows = [
            (r["index"], r["sigma"], r["phi"], r["row"], r["psnr"], r["ssim"], r["calls"],
             tuple(r["found"] or ()))
            for r in records
        ]  # fmt: skip
        return sorted(rows)

    assert plain(there) == plain(here)
    assert len(there) == 2 + 2 * 9
