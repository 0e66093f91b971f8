"""A file as a task: plain data in, plain data out, trouble as a line."""

import pickle

import numpy as np

from gibbsdiff.inference.file_tasks import FileTask, denoise_task

KNOWN = (("noise", "white"), ("known", {"sigma": 0.1}))


def test_a_task_and_what_it_gives_travel(tmp_path):
    noisy = 0.5 + 0.1 * np.random.default_rng(0).standard_normal((6, 24, 24))
    np.save(tmp_path / "stack.npy", noisy.astype(np.float32))
    np.save(tmp_path / "one.npy", noisy[0].astype(np.float32))
    for name, count in (("stack", 6), ("one", 1)):
        task = FileTask(
            tmp_path / f"{name}.npy",
            tmp_path / f"{name}.out.npy",
            "natural-fast",
            figure=False,
            posterior=False,
            options=KNOWN,
        )
        done = pickle.loads(pickle.dumps(denoise_task(pickle.loads(pickle.dumps(task)))))
        assert done.trouble == ""
        clean = np.load(done.files[0]).reshape(count, 24, 24)
        assert clean.std() < 0.03
        assert done.processor > 0
        assert done.memory > 1e8
        again = denoise_task(task._replace(clobber=False))
        assert "exists already" in again.trouble
        assert again.files == ()


def test_trouble_of_any_kind_is_a_line(tmp_path):
    task = FileTask(tmp_path / "no.png", tmp_path / "out.png", "natural-fast")
    assert denoise_task(task).trouble == f"{tmp_path}/no.png: no such file"
    np.save(tmp_path / "a.npy", np.random.default_rng(0).random((24, 24)))
    odd = FileTask(
        tmp_path / "a.npy", tmp_path / "b.npy", "natural-fast", options=(("seed", None),)
    )
    trouble = denoise_task(odd).trouble
    assert trouble.startswith(f"{tmp_path}/a.npy: ")
    assert "\n" not in trouble
