"""The page under load: `python benchmarks/page_load.py [--side 512] [--model natural]`.

Time from the upload of one picture to its first answer; memory of server and worker before and
60 s after pictures in a row and four at once; files that are left; a worker killed on the way.
It needs the extras web and web-test.
"""

import argparse
import http.client
import io
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from urllib.parse import urlencode

import numpy as np
import psutil
from PIL import Image
from skimage import data


class Page:
    """One tab."""

    def __init__(self, port):
        self.port, self.tab = port, ""
        self.tab = self.ask("POST", "/api/tab")["tab"]

    def ask(self, method, path, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request(method, path, body, {"X-Gibbsdiff-Tab": self.tab})
        answer = json.loads(connection.getresponse().read())
        connection.close()
        return answer

    def send(self, content, **wishes):
        query = urlencode({"name": "a.png", **wishes})
        return self.ask("POST", f"/api/pictures?{query}", content)["job"]

    def jobs(self):
        return {job["id"]: job for job in self.ask("GET", "/api/state")["jobs"]}

    def wait(self, job, enough):
        while not enough(found := self.jobs()[job]):
            time.sleep(0.1)
        return found


def over(job):
    return job["state"] in ("done", "failed", "cancelled")


def picture(side):
    x = np.tile(data.astronaut(), (1 + side // 512, 1 + side // 512, 1))[:side, :side]
    y = x + np.random.default_rng(0).normal(0, 20, x.shape)
    buffer = io.BytesIO()
    Image.fromarray(np.clip(y, 0, 255).astype(np.uint8)).save(buffer, format="PNG")
    return buffer.getvalue()


def memory(pid):
    """Megabytes of the server and its processes."""
    family = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
    return sum(process.memory_info().rss for process in family) / 1e6


def busy(pid):
    """Seconds of a processor that the server's processes have taken."""
    return sum(sum(process.cpu_times()[:2]) for process in psutil.Process(pid).children())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--side", type=int, default=512)
    parser.add_argument("--small", type=int, default=128)
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--model", default="natural")
    parser.add_argument("--noise", default="white")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "gibbsdiff.cli", "serve", "--port", "0"]
        server = subprocess.Popen(
            [*command, "--model", given.model],
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"TMPDIR": folder},
        )
        try:
            measure(server, given, Path(folder))
        finally:
            server.terminate()
            server.wait(20)
        print("left at exit:", [p.name for p in Path(folder).iterdir()])


def measure(server, given, folder):
    port = int(re.search(r":(\d+)/", server.stderr.readline())[1])
    page = Page(port)
    time.sleep(5)  # the server is up
    if given.side:
        began = time.monotonic()
        job = page.send(picture(given.side))
        first = page.jobs()[job]
        told = time.monotonic() - began
        print(f"{given.side}²: told in {told:.2f} s: {first['stage']}, {first['left']} s left")
        page.wait(job, lambda found: found["facts"] or over(found))
        print(f"first answer after {time.monotonic() - began:.1f} s (with the worker's start)")
        page.wait(job, over)
        print(f"all files after {time.monotonic() - began:.1f} s", flush=True)
        began, taken = time.monotonic(), busy(server.pid)
        job = page.send(picture(given.side))
        page.wait(job, lambda found: found["facts"] or over(found))
        seconds, taken = time.monotonic() - began, busy(server.pid) - taken
        print(f"again: first answer after {seconds:.1f} s, {taken:.1f} s of processors", flush=True)
        page.wait(job, over)
    small = picture(given.small)
    page.wait(page.send(small, noise=given.noise), over)
    time.sleep(2)
    before = memory(server.pid)
    states = [page.wait(page.send(small, noise=given.noise), over) for _ in range(given.count)]
    pages = [Page(port) for _ in range(4)]
    sent = [(one, one.send(small, noise=given.noise)) for one in pages]
    running = [sum(j["state"] == "running" for p in pages for j in p.jobs().values())]
    print("places of four at once:", [one.jobs()[job]["place"] for one, job in sent], running)
    states += [one.wait(job, over) for one, job in sent]
    print("states:", {state["state"] for state in states}, len(states))
    time.sleep(60)
    print(f"memory before {before:.0f} MB, 60 s after {memory(server.pid):.0f} MB", flush=True)
    job = page.send(small, method="gibbs")
    page.wait(job, lambda found: found["step"] or over(found))
    children = psutil.Process(server.pid).children()
    os.kill(max(children, key=lambda child: child.memory_info().rss).pid, signal.SIGKILL)
    print("killed:", page.wait(job, over)["line"])
    print("the next:", page.wait(page.send(small, noise=given.noise), over)["state"])


if __name__ == "__main__":
    main()
