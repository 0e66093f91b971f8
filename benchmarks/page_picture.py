"""The picture of the page in the README: `python benchmarks/page_picture.py docs/images/page.jpg`.

It needs the extras web and web-test, and Chromium; it serves the page, clicks an example, and
writes what Chromium shows.
"""

import io
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
MOST = 300_000  # bytes


def main(path):
    command = [sys.executable, "-m", "gibbsdiff.cli", "serve", "--port", "0"]
    server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        url = re.search(r"http://\S+", server.stderr.readline())[0]
        with sync_playwright() as playwright:
            sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=sandbox)
            page = browser.new_page(viewport={"width": 1000, "height": 700})
            page.set_default_timeout(600_000)
            page.goto(url)
            page.get_by_role("button", name="coffee, white noise").click()
            page.wait_for_selector('.job[data-state="done"]')
            page.wait_for_timeout(500)
            shot = page.screenshot(full_page=True)
            browser.close()
    finally:
        server.terminate()
        server.wait(20)
    picture = Image.open(io.BytesIO(shot)).convert("RGB")
    for quality in (90, 80, 70):
        picture.save(path, quality=quality, optimize=True)
        if Path(path).stat().st_size < MOST:
            break
    print(f"{path}: {picture.size[0]} × {picture.size[1]}, {Path(path).stat().st_size} bytes")


if __name__ == "__main__":
    main(sys.argv[1])
