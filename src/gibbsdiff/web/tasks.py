"""What the worker can do: denoise a picture in a file, and take a mock sky apart."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from gibbsdiff.cosmo.command import mock_with_model, truth_table
from gibbsdiff.cosmo.infer import infer
from gibbsdiff.cosmo.report import report as sky_report
from gibbsdiff.evidence.demo import observe
from gibbsdiff.inference.counts import kind_of
from gibbsdiff.inference.encoding import read
from gibbsdiff.inference.files import Results, denoise_picture, results_for, target, write_results
from gibbsdiff.inference.problem import Options
from gibbsdiff.inference.progress import Progress
from gibbsdiff.inference.simpler import AUTO
from gibbsdiff.io.picture import read_picture
from gibbsdiff.noise.cmb import CMBNoise
from gibbsdiff.web.crop import crop_picture
from gibbsdiff.web.limits import EXAMPLES, Wishes
from gibbsdiff.web.together import together
from gibbsdiff.web.views import Views, picture_views, views

KINDS = ("picture", "uncertainty", "posterior", "report", "report with a slider")
Told = dict[str, Any]
Show = Callable[[Told], None]


def picture(task: Told, denoiser: Any, report: Progress, show: Show) -> Told:
    """Denoise the file of a task: what the browser is shown, then all files of the command."""
    folder, wishes = Path(task["folder"]), Wishes(**task["wishes"])
    path = folder / task["name"]
    report("reading the picture", 0, None)
    if task.get("example"):
        write_example(task["example"], path)
    given = read_picture(path)
    if wishes.crop:
        given = crop_picture(given, wishes.crop, folder)
    report("looking at the picture", 0, None)
    if task.get("peers"):
        given, posterior = together(path, task["peers"], wishes.options, denoiser, report)
    else:
        options = wishes.options
        if options["noise"] == AUTO and denoiser.camera:
            # What "auto" begins with: a simpler noise beside it would double the wait.
            options |= {"noise": kind_of(read(given))}
        posterior = denoise_picture(given, model=denoiser, progress=report, **options)
    results = outputs(given, folder)
    report("drawing the pictures", 0, None)
    seen = views(posterior, given.path.name, given.profile)
    names = [Path(peer).name for peer in task.get("peers") or [given.path]]
    facts = {**_placed(seen, folder), "command": wishes.command(*names)}
    show(facts)
    report("writing the files", 0, None)
    written = write_results(given, posterior, results)
    kinds = dict(zip(results, KINDS, strict=True))
    files = [
        {"kind": kinds[file], "name": file.name, "size": file.stat().st_size} for file in written
    ]
    return {"facts": facts, "files": files}


def outputs(given: Any, folder: Path) -> Results:
    """All files of a picture, in the folder "files" beside it."""
    out = folder / "files"
    out.mkdir(exist_ok=True)
    return results_for(given, target(given.path, out, many=True), html=True)


def write_example(name: str, path: Path) -> None:
    """A photograph with noise, as a PNG of 8 bits."""
    photograph, sigma, phi, size = EXAMPLES[name]
    _, y = observe(photograph, sigma, phi, size, seed=0)
    levels = (255 * y).round().clamp(0, 255).byte().permute(1, 2, 0).numpy()
    Image.fromarray(np.ascontiguousarray(levels)).save(path, format="PNG")


def sky(task: Told, denoiser: Any, report: Progress, show: Show) -> Told:
    """Dust of the package under a CMB of the task's (H0, ω_b, σ), and both found again."""
    folder = Path(task["folder"])
    report("drawing a sky", 0, None)
    mixture, found = mock_with_model(tuple(task["truth"]), seed=task["seed"])
    options = Options("marginal", samples=0, seed=task["seed"])
    posterior = infer(mixture, found, CMBNoise(), options, report)
    report("drawing the pictures", 0, None)
    assert mixture.dust is not None
    sides = (("true dust", mixture.dust), ("dust found", posterior.mean))
    seen = picture_views(*sides, posterior.sd, mixture.unit)
    height, width = mixture.shape
    facts = {
        **_placed(seen, folder),
        "title": "dust and CMB",
        "size": [width, height],
        "outcome": posterior.outcome,
        "good": posterior.good,
        "fits": None,
        "verdict": f"Maps in µK; {mixture.source}.",
        "tables": [truth_table(posterior)],
        "summary": posterior.summary(),
        "figure": "sky.png",
    }
    sky_report(folder / "views" / "sky.png", mixture, posterior, CMBNoise(), mixture.source)
    facts["views"] = [*facts["views"], "sky.png"]
    show(facts)
    return {"facts": facts, "files": []}


def _placed(seen: Views, folder: Path) -> dict[str, Any]:
    """Write what the browser will ask for; the facts, with the names of these files."""
    place = folder / "views"
    place.mkdir(exist_ok=True)
    for name, content in seen.files.items():
        (place / name).write_bytes(content)
    return {**seen.facts, "views": sorted(seen.files)}
