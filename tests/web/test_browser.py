"""The page in Chromium: what a user does, sees, and is told."""

import contextlib
import io
import json
import os
import re
import signal
import time

import numpy as np
import psutil
import pytest
from PIL import Image
from skimage import data

import gibbsdiff
from gibbsdiff.inference.posterior import Posterior
from gibbsdiff.web.report import html

pytestmark = pytest.mark.web
PICTURE = np.clip(
    data.astronaut()[:64, 160:240] + np.random.default_rng(0).normal(0, 20, (64, 80, 3)), 0, 255
).astype(np.uint8)
# What the browser does when files are dropped on the page.
DROP = """files => {
  const dataTransfer = new DataTransfer();
  for (const [name, bytes] of files)
    dataTransfer.items.add(new File([new Uint8Array(bytes)], name));
  document.getElementById("drop").dispatchEvent(new DragEvent("drop", { dataTransfer }));
}"""


def png(array=PICTURE):
    buffer = io.BytesIO()
    Image.fromarray(array).save(buffer, format="PNG")
    return buffer.getvalue()


@pytest.fixture
def page(opened, server):
    return ready(opened(f"http://127.0.0.1:{server[0]}/"))


def ready(page):
    page.wait_for_selector("body[data-ready]")
    page.select_option("#noise", "white")
    return page


def drop(page, name, content):
    page.set_input_files("#files", {"name": name, "mimeType": "image/png", "buffer": content})


def card(page, name, state):
    return page.wait_for_selector(f'.job[data-state="{state}"]:has(h2:text-is("{name}"))')


def drag(page, start, y, end):
    """With the mouse, along a row of the screen."""
    page.mouse.move(start, y)
    page.mouse.down()
    page.mouse.move(end, y, steps=4)
    page.mouse.up()


def cut_of(node):
    """Where the divider cuts the picture, in %."""
    style = node.query_selector(".side:nth-child(2)").evaluate("e => e.style.clipPath")
    return float(re.search(r"([\d.]+)%\)?$", style)[1])


def test_upload_slider_zoom_and_download(page, tmp_path):
    began = time.monotonic()
    drop(page, "a.png", png())
    text = page.wait_for_selector(".stage-text:not(:empty)").inner_text()
    assert time.monotonic() - began < 3
    assert re.search(r"about \d+ (s|min)", text), text
    node = card(page, "a.png", "done")
    stage, handle = node.query_selector(".stage"), node.query_selector(".divider")
    assert cut_of(node) == pytest.approx(50, abs=1)
    # By the mouse.
    box, grip = stage.bounding_box(), handle.bounding_box()
    drag(page, grip["x"] + grip["width"] / 2, box["y"] + 20, box["x"] + 0.25 * box["width"])
    assert cut_of(node) == pytest.approx(25, abs=1)
    # By the keyboard.
    handle.focus()
    page.keyboard.press("ArrowRight")
    assert cut_of(node) == pytest.approx(27, abs=1)
    assert handle.get_attribute("aria-valuenow") == "27"
    page.keyboard.press("Home")
    assert cut_of(node) == 0
    # Zoom, and move: the divider stands still on the screen, not in the picture.
    node.query_selector('[aria-label="Zoom in"]').click()
    assert float(stage.get_attribute("data-zoom")) == 1.5
    assert cut_of(node) == pytest.approx(100 / 6, abs=0.5)
    stage.scroll_into_view_if_needed()
    box = stage.bounding_box()
    drag(page, box["x"] + 0.5 * box["width"], box["y"] + 50, box["x"] + 0.4 * box["width"])
    assert cut_of(node) == pytest.approx(100 / 6 + 10 / 1.5, abs=0.5)
    page.mouse.wheel(0, -200)
    page.wait_for_function("e => e.dataset.zoom > 2", arg=stage)
    page.keyboard.press("0")
    assert float(stage.get_attribute("data-zoom")) == 1
    # The uncertainty over it.
    node.query_selector("input.opacity").fill("60")
    assert node.query_selector(".cover").evaluate("e => e.style.opacity") == "0.6"
    # Both sides are shown as they are, pixel by pixel.
    sizes = node.eval_on_selector_all(
        "img", "all => all.map(e => [e.complete, e.naturalWidth > 0])"
    )
    assert sizes == [[True, True]] * 4
    # Words and verdict.
    assert "noise: " in node.query_selector(".words").inner_text()
    assert "noise model" in node.query_selector(".verdict").inner_text()
    # Downloads equal what the API gives.
    with page.expect_download() as download:
        node.query_selector('a:text-is("picture")').click()
    download.value.save_as(tmp_path / "got.png")
    assert download.value.suggested_filename == "a.denoised.png"
    (tmp_path / "a.png").write_bytes(png())
    own = gibbsdiff.denoise(tmp_path / "a.png", noise="white", model="natural-fast")
    assert np.array_equal(np.asarray(Image.open(tmp_path / "got.png")), own.image)
    with page.expect_download() as download:
        node.query_selector('a:text-is("posterior")').click()
    download.value.save_as(tmp_path / "got.nc")
    assert np.array_equal(Posterior.load(tmp_path / "got.nc").phi, own.phi)


def test_a_broken_file_gives_its_one_line(page):
    drop(page, "<img src=x onerror=alert(1)>.png", png()[:200])
    node = page.wait_for_selector('.job[data-state="failed"]')
    line = node.query_selector(".line").inner_text()
    assert line.startswith("<img src=x onerror=alert(1)>.png: cannot be read")
    assert "\n" not in line
    assert node.query_selector("img") is None


def test_a_picture_over_the_limit_is_refused_with_an_offer_to_crop(page):
    large = np.tile(PICTURE, (5, 4, 1))
    drop(page, "large.png", png(large))
    offer = page.wait_for_selector("fieldset.crop")
    line = page.query_selector(".job .line").inner_text()
    assert line.startswith("large.png: 0.1 megapixels; the page denoises at most 0.05.")
    for name, value in {"left": "16", "top": "0", "width": "32", "height": "24"}.items():
        offer.query_selector(f'input[name="{name}"]').fill(value)
    offer.query_selector("button").click()
    node = card(page, "large.png", "done")
    assert "32 × 24 pixels" in node.inner_text()


def test_pictures_that_are_dropped_together_have_one_noise(page):
    content = {"p.png": png(PICTURE[:, :40].copy()), "q.png": png(PICTURE[:, 40:].copy())}
    page.evaluate(DROP, [[name, list(data)] for name, data in content.items()])
    words = {card(page, name, "done").query_selector(".words").inner_text() for name in content}
    assert len(words) == 1
    assert "p.png q.png --same-noise" in page.inner_text(".job code >> nth=0")


def test_a_preview_is_of_the_middle(page):
    page.check("#preview")
    page.fill("#side", "32")
    drop(page, "a.png", png())
    assert "32 × 32 pixels" in card(page, "a.png", "done").inner_text()


def test_cancel_stops_the_work(page, server):
    page.select_option("#method", "gibbs")
    drop(page, "slow.png", png())
    page.wait_for_selector(".stage-text:has-text('step')")
    worker = max(psutil.Process(server[1]).children(), key=lambda c: c.memory_info().rss)
    began = time.monotonic()
    page.get_by_label("Cancel slow.png").click()
    card(page, "slow.png", "cancelled")
    time.sleep(max(0, began + 2 - time.monotonic()))
    # It heeded, and its time stands still; or it was killed, and another is started.
    with contextlib.suppress(psutil.NoSuchProcess):
        before = sum(worker.cpu_times()[:2])
        time.sleep(1)
        assert sum(worker.cpu_times()[:2]) - before < 0.1


def test_two_users_at_once(opened, server):
    url = f"http://127.0.0.1:{server[0]}/"
    first, second = ready(opened(url)), ready(opened(url))
    drop(first, "first.png", png())
    first.wait_for_selector(".job")
    drop(second, "second.png", png(PICTURE[:, ::-1].copy()))
    assert (
        "number 1 in the queue" in second.wait_for_selector(".stage-text:not(:empty)").inner_text()
    )
    card(first, "first.png", "done")
    card(second, "second.png", "done")
    for page, other in ((first, "second.png"), (second, "first.png")):
        assert other not in page.inner_text("main")


def test_a_worker_that_is_killed_is_told_and_the_next_picture_works(page, server):
    page.select_option("#method", "gibbs")
    drop(page, "lost.png", png())
    page.wait_for_selector(".stage-text:has-text('step')")
    children = psutil.Process(server[1]).children()
    os.kill(max(children, key=lambda c: c.memory_info().rss).pid, signal.SIGKILL)
    node = card(page, "lost.png", "failed")
    assert "the worker process ended by signal 9" in node.inner_text()
    notice = page.wait_for_selector("#notice:not([hidden])").inner_text()
    assert notice == "The worker process ended by signal 9 and was started again."
    page.select_option("#method", "auto")
    drop(page, "next.png", png())
    card(page, "next.png", "done")


def test_dust_and_cmb_beside_the_truth(page):
    page.get_by_role("tab", name="Dust and CMB").click()
    page.get_by_label("H0").evaluate("e => { e.value = 64; e.dispatchEvent(new Event('input')); }")
    page.click("#hide")
    node = page.wait_for_selector('#skies .job[data-state="done"]')
    table = node.query_selector("pre.table").inner_text()
    assert re.search(r"H0 +64\.0000", table)
    assert node.query_selector(".stage") is not None


NAMELESS = """() => [...document.querySelectorAll("button, input, select, [role=slider]")]
  .filter(e => !(e.getAttribute("aria-label") || (e.labels && e.labels.length) ||
    e.textContent.trim())).map(e => e.outerHTML)"""
UNNAMED_IMAGES = "() => [...document.images].filter(e => !e.alt).length"
WIDE = "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"


def test_every_control_has_a_label_and_a_narrow_screen_needs_no_scrolling(opened, server):
    page = ready(opened(f"http://127.0.0.1:{server[0]}/", viewport={"width": 400, "height": 800}))
    drop(page, "a" * 50 + ".png", png())
    page.wait_for_selector('.job[data-state="done"]')
    assert page.evaluate(WIDE) <= 0
    assert page.evaluate(NAMELESS) == []
    assert page.evaluate(UNNAMED_IMAGES) == 0
    page.get_by_role("tab", name="Dust and CMB").click()
    assert page.evaluate(WIDE) <= 0
    assert page.evaluate(NAMELESS) == []


def test_the_html_report_has_the_same_slider_and_asks_for_nothing(opened, tmp_path):
    posterior = gibbsdiff.denoise(
        PICTURE, noise="white", known={"sigma": 0.08}, model="natural-fast"
    )
    html(posterior, tmp_path / "a.html", title="<b>a</b>")
    page = opened(f"file://{tmp_path}/a.html")
    page.wait_for_selector(".stage")
    assert page.inner_text("h1") == "<b>a</b>"
    page.focus(".divider")
    page.keyboard.press("End")
    assert cut_of(page) == 100
    assert page.eval_on_selector_all("img", "all => all.every(e => e.naturalWidth > 0)")
    facts = json.loads(page.inner_text("#facts") or page.text_content("#facts"))
    assert facts["size"] == [80, 64]
