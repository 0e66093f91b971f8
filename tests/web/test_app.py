"""The server as the page sees it: results of the API, the command's words, and its limits."""

import io
import os
import signal
import time
from contextlib import suppress
from urllib.parse import urlencode

import numpy as np
import psutil
import pytest
from PIL import Image
from skimage import data

import gibbsdiff
from bad_input import BAD
from gibbsdiff.inference.posterior import Posterior

pytestmark = pytest.mark.web
QUICK = {"noise": "white"}
PICTURE = np.clip(
    data.astronaut()[:64, 160:240] + np.random.default_rng(0).normal(0, 20, (64, 80, 3)), 0, 255
).astype(np.uint8)


def png(array=PICTURE):
    buffer = io.BytesIO()
    Image.fromarray(array).save(buffer, format="PNG")
    return buffer.getvalue()


def worker_of(client):
    """The process that computes: the one with the network in its memory."""
    children = psutil.Process(client.pid).children()
    return max(children, key=lambda child: child.memory_info().rss)


def test_downloads_are_what_the_api_gives(client, tmp_path):
    began = time.monotonic()
    _, answer = client.send("my cat & <b>.png", png(), keep="0.25", **QUICK)
    first = client.jobs()[answer["job"]]
    assert time.monotonic() - began < 2
    assert 0 < first["left"] < 3600
    assert first["stage"]
    done = client.wait(answer["job"])
    assert done["state"] == "done", done
    files = {file["kind"]: file["name"] for file in done["files"]}
    assert files["picture"] == "my cat & <b>.denoised.png"
    assert set(files) == {"picture", "uncertainty", "posterior", "report", "report with a slider"}

    path = tmp_path / "my cat & <b>.png"
    path.write_bytes(png())
    options = {"noise": "white", "keep": 0.25, "model": "natural-fast"}
    gibbsdiff.denoise_file(path, html=True, **options)
    for kind, name in files.items():
        head, content = client.file(answer["job"], "files", name)
        assert "attachment" in head.headers["content-disposition"]
        assert head.headers["content-type"] == "application/octet-stream"
        (tmp_path / "got").write_bytes(content)
        if kind == "posterior":
            ours, theirs = Posterior.load(tmp_path / "got"), Posterior.load(tmp_path / name)
            assert np.array_equal(ours.phi, theirs.phi)
            assert np.array_equal(ours.mean, theirs.mean)
            assert np.array_equal(ours.sd, theirs.sd)
        elif kind in ("picture", "uncertainty"):
            assert content == (tmp_path / name).read_bytes()
    # Both sides of the slider are those files, pixel by pixel.
    for side, expected in (
        ("noisy", png()),
        ("denoised", (tmp_path / files["picture"]).read_bytes()),
    ):
        _, content = client.file(answer["job"], "views", f"{side}.png")
        shown, true = (np.asarray(Image.open(io.BytesIO(c))) for c in (content, expected))
        assert np.array_equal(shown, true)
    assert done["facts"]["command"] == (
        "gibbsdiff denoise 'my cat & <b>.png' --noise white --keep 0.25"
    )


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_has_the_commands_own_line(client, command, tmp_path, monkeypatch, name):
    make, words = BAD[name]
    make(tmp_path / name)
    content = (tmp_path / name).read_bytes()
    _, answer = client.send(name, content, **QUICK)
    line = client.wait(answer["job"])["line"]
    assert words in line
    monkeypatch.chdir(tmp_path)
    assert command("denoise", name, "--sigma", 0.1, "--phi", 0).refusal() == f"gibbsdiff: {line}"
    assert not (tmp_path / "it ran").exists()


def test_a_crop_is_what_the_api_gives_of_the_crop(client):
    _, answer = client.send("a.png", png(), crop="8,4,40,32", **QUICK)
    done = client.wait(answer["job"])
    assert done["facts"]["size"] == [40, 32]
    own = gibbsdiff.denoise(PICTURE[4:36, 8:48], noise="white", model="natural-fast")
    _, content = client.file(answer["job"], "files", "a.crop.denoised.png")
    assert np.array_equal(np.asarray(Image.open(io.BytesIO(content))), own.image)


def test_pictures_dropped_together_have_one_noise_as_in_the_command(client, command, tmp_path):
    pictures = {"a.png": png(PICTURE[:40, :48]), "b.png": png(PICTURE[20:, 30:])}
    jobs = {n: client.send(n, c, group="g", **QUICK)[1]["job"] for n, c in pictures.items()}
    broken = client.send("c.png", b"words", group="g", **QUICK)[1]["job"]
    time.sleep(0.5)
    assert {job["state"] for job in client.jobs().values()} == {"waiting"}
    assert client.ask("POST", "/api/groups?group=g")[0] == 200
    for name, content in pictures.items():
        (tmp_path / name).write_bytes(content)
        assert client.wait(jobs[name])["state"] == "done"
    files = [tmp_path / name for name in pictures]
    options = ("--same-noise", "--noise", "white", "--model", "natural-fast", "--no-figure")
    assert command("denoise", *files, *options).code == 0
    for name, job in jobs.items():
        for kind in ("denoised.png", "uncertainty.tiff"):
            _, content = client.file(job, "files", f"{name[0]}.{kind}")
            assert content == (tmp_path / f"{name[0]}.{kind}").read_bytes()
    assert "--same-noise" in client.jobs()[jobs["a.png"]]["facts"]["command"]
    assert client.wait(broken)["line"].startswith("c.png: not a PNG picture")


def test_too_large_a_picture_is_refused_with_an_offer(client):
    large = np.zeros((300, 400), np.uint8)
    status, answer = client.send("large.png", png(large))
    assert status == 422
    assert answer["line"].startswith("large.png: 0.1 megapixels; the page denoises at most 0.05.")
    left, top, width, height = answer["offer"]
    assert answer["size"] == [400, 300]
    assert width * height <= 50_000
    assert (left, top) == ((400 - width) // 2, (300 - height) // 2)
    status, answer = client.send("large.png", png(large), crop="350,0,100,100")
    assert status == 422
    assert answer["line"] == "large.png: the crop is not inside of 400 × 300 pixels"
    status, answer = client.send("long.png", b"x" * 2_000_001)
    assert status == 413
    assert answer["line"] == "long.png: more than 2 megabytes; the page takes no longer files"
    assert client.jobs() == {}


def test_bytes_are_counted_while_they_come(client):
    """A body without a length, of 256 MB: the server hangs up long before."""
    sent = 0

    def chunks():
        nonlocal sent
        for _ in range(4096):
            sent += 65536
            yield b"x" * 65536

    with suppress(ConnectionError):
        client.raw("POST", "/api/pictures?name=a.png", chunks())
    assert sent < 64_000_000
    assert client.jobs() == {}


@pytest.mark.parametrize(
    ("query", "line"),
    [
        ({"noise": "brown"}, "noise: there are auto, photo"),
        ({"method": "magic"}, "method: there are auto"),
        ({"keep": "2"}, "keep: a number from 0 to 1"),
        ({"keep": "nan"}, "keep: a number from 0 to 1"),
        ({"crop": "1,2"}, "crop: left, top, width and height"),
        ({"crop": "a"}, "crop: left, top, width and height"),
    ],
    ids=str,
)
def test_bad_wishes_are_one_line(client, query, line):
    status, answer = client.send("a.png", png(), **query)
    assert status == 422
    assert answer["line"].startswith(line)


def test_no_file_is_given_that_was_not_offered(client, server):
    _, answer = client.send("a.png", png(), **QUICK)
    client.wait(answer["job"])
    job = answer["job"]
    for path in (
        f"/jobs/{job}/files/a.png",
        f"/jobs/{job}/views/..%2fa.png",
        f"/jobs/{job}/files/..%2f..%2f..%2fetc%2fpasswd",
        f"/jobs/{job}/../../static/index.html",
        "/jobs/none/views/noisy.png",
        "/static/../app.py",
    ):
        head, content = client.raw("GET", path)
        assert head.status == 404, path
        assert b"import" not in content
    status, _ = client.ask("GET", "/api/state", **{"X-Gibbsdiff-Tab": "guessed"})
    assert status == 410
    # Another tab cannot stop it.
    other = type(client)(client.port, client.pid)
    assert other.ask("POST", f"/api/jobs/{job}/cancel")[0] == 404


def test_one_at_a_time_the_others_see_their_place_and_cancel_ends_the_work(client):
    """Gibbs chains take minutes: cancelled within 2 s, the worker's time stands still."""
    sent = [client.send(f"{i}.png", png(), method="gibbs")[1]["job"] for i in range(4)]
    client.wait(sent[0], "running")
    time.sleep(1)
    jobs = client.jobs()
    assert [jobs[job]["state"] for job in sent] == ["running", "waiting", "waiting", "waiting"]
    assert [jobs[job]["place"] for job in sent] == [0, 1, 2, 3]
    lefts = [jobs[job]["left"] for job in sent]
    assert lefts == sorted(lefts)
    for job in reversed(sent[1:]):
        assert client.ask("POST", f"/api/jobs/{job}/cancel")[0] == 200
    began = time.monotonic()
    client.ask("POST", f"/api/jobs/{sent[0]}/cancel")
    client.wait(sent[0], "cancelled")
    assert time.monotonic() - began < 2.5
    assert {job["state"] for job in client.jobs().values()} == {"cancelled"}
    # Whether it heeded or was started anew: it comes to rest.
    _, answer = client.send("next.png", png(PICTURE[:32, :32]), **QUICK)
    assert client.wait(answer["job"])["state"] == "done"
    worker = worker_of(client)
    before = sum(worker.cpu_times()[:2])
    time.sleep(0.5)
    assert sum(worker.cpu_times()[:2]) - before < 0.1


def test_a_full_queue_says_so(client):
    sent = [client.send("a.png", png(), method="gibbs")]
    client.wait(sent[0][1]["job"], "running")
    sent += [client.send("a.png", png(), method="gibbs") for _ in range(7)]
    assert [status for status, _ in sent] == [200] * 7 + [422]  # one runs, six wait
    assert sent[-1][1]["line"].startswith("the queue is full: 6 wait")
    for _, answer in sent[:-1]:
        client.ask("POST", f"/api/jobs/{answer['job']}/cancel")
    client.wait(sent[0][1]["job"], "cancelled")


def test_a_worker_that_is_killed_is_started_again_and_the_page_told(client):
    _, answer = client.send("a.png", png(), method="gibbs")
    end = time.monotonic() + 60
    while client.jobs()[answer["job"]]["stage"] in ("waiting", "starting the worker"):
        assert time.monotonic() < end
        time.sleep(0.05)
    os.kill(worker_of(client).pid, signal.SIGKILL)
    failed = client.wait(answer["job"])
    assert failed["line"].startswith("a.png: the worker process ended by signal 9; it is started")
    _, state = client.ask("GET", "/api/state")
    assert state["note"] == "The worker process ended by signal 9 and was started again."
    assert state["deaths"] == 1
    _, answer = client.send("b.png", png(), **QUICK)
    assert client.wait(answer["job"])["state"] == "done"


def test_examples_and_skies(client):
    example = client.choices["examples"][0]
    query = urlencode({"noise": "white", "example": example})
    status, answer = client.ask("POST", f"/api/examples?{query}")
    assert status == 200
    assert client.wait(answer["job"])["facts"]["size"] == [160, 160]
    assert client.ask("POST", "/api/examples?example=none")[0] == 422
    status, answer = client.ask("POST", "/api/skies?H0=65&omega_b=0.03&sigma=0.5&seed=3")
    assert status == 200
    done = client.wait(answer["job"])
    assert done["state"] == "done", done
    table = done["facts"]["tables"][0].splitlines()
    truth = {line.split()[0]: line.split()[1:] for line in table[1:]}
    assert float(truth["H0"][0]) == 65
    assert abs(float(truth["H0"][-1])) < 4  # sd between truth and mean
    assert client.ask("POST", "/api/skies?H0=20&omega_b=0.03&sigma=0.5")[0] == 422


def test_a_closed_terminal_leaves_nothing(own_server, tmp_path):
    process, client = own_server
    client.send("a.png", png(), method="gibbs")
    assert list(tmp_path.glob("gibbsdiff-web-*/*/*/a.png"))
    process.send_signal(signal.SIGHUP)
    assert "Traceback" not in process.stderr.read()
    assert process.wait(20) == 0
    assert list(tmp_path.iterdir()) == []


def test_the_folder_of_uploads_holds_no_more_than_what_is_kept(client, server):
    _, answer = client.send("broken.png", b"words", **QUICK)
    client.wait(answer["job"])
    (place,) = server[2].glob(f"gibbsdiff-web-*/{client.tab}")
    assert list(place.iterdir()) == []
    assert place.stat().st_mode & 0o077 == 0
