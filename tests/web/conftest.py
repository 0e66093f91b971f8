"""A real server, a client that speaks to it as the page does, and the browser."""

import http.client
import json
import os
import re
import shutil
import subprocess
import sys
import time
from contextlib import closing
from urllib.parse import quote, urlencode

import pytest

SMALL = ("--model", "natural-fast", "--megapixels", "0.05", "--megabytes", "2", "--waiting", "6")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
PATIENCE = 240  # seconds until a test gives up, on a machine however busy


class Client:
    """One tab of the page."""

    def __init__(self, port, pid):
        self.port, self.pid = port, pid
        status, answer = self.ask("POST", "/api/tab")
        assert status == 200, answer
        self.choices, self.tab = answer, answer["tab"]

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}/"

    def raw(self, method, path, body=None, **headers):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        known = {"X-Gibbsdiff-Tab": self.tab} if hasattr(self, "tab") else {}
        with closing(connection):
            connection.request(method, path, body, known | headers)
            answer = connection.getresponse()
            return answer, answer.read()

    def ask(self, method, path, body=None, **headers):
        answer, content = self.raw(method, path, body, **headers)
        return answer.status, json.loads(content)

    def send(self, name, content, **wishes):
        return self.ask("POST", f"/api/pictures?{urlencode({'name': name, **wishes})}", content)

    def jobs(self):
        status, answer = self.ask("GET", "/api/state")
        assert status == 200, answer
        return {job["id"]: job for job in answer["jobs"]}

    def wait(self, job, *states):
        """The job, when it has come to one of these states."""
        end = time.monotonic() + PATIENCE
        while (found := self.jobs()[job])["state"] not in (states or ("done", "failed")):
            assert time.monotonic() < end, found
            time.sleep(0.05)
        return found

    def file(self, job, part, name):
        answer, content = self.raw("GET", f"/jobs/{job}/{part}/{quote(name)}")
        assert answer.status == 200, content
        return answer, content


def started(*options, folder):
    """`gibbsdiff serve` as a process, and its port."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "TMPDIR": str(folder)}
    process = subprocess.Popen(
        [sys.executable, "-m", "gibbsdiff.cli", "serve", "--port", "0", *options],
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )
    line = process.stderr.readline()
    found = re.search(r"http://[^:/]+:(\d+)/", line)
    assert found, line + process.stderr.read()
    return process, int(found[1])


@pytest.fixture(autouse=True)
def as_the_worker(as_other_processes):
    """The page's worker is another process."""


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """(port, process id, folder of temporary files) of a server with small limits."""
    folder = tmp_path_factory.mktemp("server")
    process, port = started(*SMALL, folder=folder)
    yield port, process.pid, folder
    process.terminate()
    process.wait(20)
    process.stderr.close()
    assert list(folder.iterdir()) == []  # at exit nothing is left


@pytest.fixture
def own_server(tmp_path):
    """The process of a server that may be ended, its files in `tmp_path`, and a tab."""
    process, port = started(*SMALL, folder=tmp_path)
    yield process, Client(port, process.pid)
    process.terminate()
    process.wait(20)
    process.stderr.close()


@pytest.fixture
def client(server):
    port, pid, _ = server
    return Client(port, pid)


@pytest.fixture(scope="module")
def chromium():
    sync_api = pytest.importorskip("playwright.sync_api")
    if CHROMIUM is None:
        pytest.skip("no Chromium: apt-get install chromium")
    with sync_api.sync_playwright() as playwright:
        sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=sandbox)
        yield browser
        browser.close()


@pytest.fixture
def opened(chromium):
    """open(url): a page of its own user, which asks no other host and complains of nothing."""
    contexts, trouble = [], []

    def open_(url, **options):
        own = re.match(r"http://[^/]+/|file://", url)[0]
        context = chromium.new_context(**options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(1000 * PATIENCE)

        def asked(request):
            if not request.url.startswith((own, "data:", "blob:")):
                trouble.append(f"asks {request.url}")

        def said(message):
            # The browser itself logs answers such as 422, which the page tells in its own words.
            refused = "Failed to load resource" in message.text
            if message.type in ("error", "warning") and not refused:
                trouble.append(message.text)

        page.on("request", asked)
        page.on("console", said)
        page.on("pageerror", lambda error: trouble.append(str(error)))
        page.goto(url)
        return page

    yield open_
    for context in contexts:
        context.close()
    assert trouble == []
