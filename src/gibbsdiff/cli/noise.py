"""`gibbsdiff noise`."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.console import Console

from gibbsdiff.cli import denoise_options as option
from gibbsdiff.cli.app import app, complain, say
from gibbsdiff.cli.denoise_options import Boundary, Noise
from gibbsdiff.cli.parts import Model
from gibbsdiff.errors import InputError

PROFILE, SPECTRUM = ".noise.json", ".noise-spectrum.png"


@app.command()
def noise(
    pictures: option.Pictures,
    output: option.Output = None,
    family: Annotated[
        Noise, typer.Option("--noise", help="Family of the noise. auto: photo.")
    ] = Noise.auto,
    prior: option.NoisePrior = None,
    no_level_map: option.NoLevelMap = False,
    check: option.Check = True,
    boundary: option.Beyond = Boundary.open,
    tile: option.Tile = None,
    model: Model = None,
    device: option.Device = "cpu",
    figure: Annotated[bool, typer.Option(help="Draw the spectrum.")] = True,
    clobber: option.Clobber = True,
    seed: option.Seed = 0,
) -> None:
    """Find the noise of pictures alone: print it, keep it as a profile, and draw its spectrum."""
    from gibbsdiff.cli.interrupts import gentle_interrupts
    from gibbsdiff.cli.pictures import find
    from gibbsdiff.diffusion.boundary import on_device
    from gibbsdiff.pretrained import load_for_pictures

    files, failed = find(pictures)
    if not files:
        raise typer.Exit(2)
    if output is not None and output.suffix and not output.is_dir():
        raise InputError(f"{output}: profiles and figures need a folder, not a file")
    options: dict[str, Any] = {
        "noise": None if prior is not None else family.value,
        "noise_prior": prior,
        "level_map": False if no_level_map else None,
        "model": on_device(load_for_pictures(model or "natural"), device),
        "boundary": boundary.value,
        "method": "marginal",
        "check": check,
        "tile": tile,
        "seed": seed,
    }
    console = Console(highlight=False, markup=False, soft_wrap=True)
    with gentle_interrupts() as interrupts:
        for number, file in enumerate(files, 1):
            label = f"{number} of {len(files)}, {file.name}: " if len(files) > 1 else ""
            folder = file.parent if output is None else output
            places = [folder / f"{file.stem}{PROFILE}", folder / f"{file.stem}{SPECTRUM}"]
            places = places if figure else places[:1]
            there = [place for place in places if place.exists()]
            try:
                if there and not clobber:
                    say(f"{file}: skipped, {there[0]} exists already")
                else:
                    _one(file, places, options, label, interrupts, console)
            except (InputError, OSError) as trouble:
                complain(trouble)
                failed += 1
            if interrupts.asked:
                raise KeyboardInterrupt
    if failed:
        raise typer.Exit(2)


def _one(
    file: Any, places: list[Any], options: dict[str, Any], label: str, interrupts: Any, console: Any
) -> None:
    from gibbsdiff.cli.progress import stages
    from gibbsdiff.inference.files import Denoised, denoise_picture
    from gibbsdiff.inference.profile import NoiseProfile, found_on
    from gibbsdiff.inference.setting import depth_of, family_of
    from gibbsdiff.io.picture import read_picture
    from gibbsdiff.plots.noise_page import noise_page

    picture = read_picture(file)
    with stages(label) as show:
        found = denoise_picture(picture, progress=interrupts.heeded_by(show), **options)
        interrupts.check()
    done = Denoised(picture, found, [])
    console.print(str(file), style="bold")
    console.print(done.summary)
    if found.returned:
        return
    model = None
    if found.family:
        kind = depth_of("float32" if found.encoding is None else found.encoding.dtype)
        model = family_of(found.family, len(found.observed), kind)
    else:
        say(f"{file}: no profile of noise whose level goes with a map; --no-level-map has one")
    with interrupts.waiting():
        if model is not None:
            NoiseProfile.of(found, **found_on(picture)).save(places[0])
        if len(places) > 1:
            noise_page(found, places[1], model, title=file.name)
    places = places if model is not None else places[1:]
    for place in places:
        console.print(f"  {place}")
