"""From what quiet places tell to the noise of the whole picture, which may have more of it."""

from __future__ import annotations

from torch import Tensor

from gibbsdiff.inference.jpeg_raise import jpeg_raise
from gibbsdiff.inference.quiet_powers import Quiet
from gibbsdiff.inference.quiet_start import RAISED, processed
from gibbsdiff.io.file_format import JpegSteps

COARSE = 0.05  # of log power that a JPEG's rounding took from chroma in flat places


def of_the_whole(
    quiet: Quiet,
    y: Tensor,
    shaped: bool = True,
    clipped: bool = True,
    steps: JpegSteps | None = None,
    full: float = 1.0,
) -> tuple[Quiet, tuple[float, float]]:
    """Quiet places of y (1, C, H, W), less their texture and raised by what the file's rounding
    took from them; and mean and sd of what else the picture has more, in log power.

    Arguments:
        shaped: The noise has a spectrum of many parameters, for which scatter tells texture.
        clipped: y was integers, on [0, full], and may be from a camera.
        steps: Those of a JPEG file.
    """
    if steps is not None and (told := _by_steps(quiet, y, shaped, steps, full)) is not None:
        return told, (0.0, 0.0)
    camera = clipped and processed(quiet)
    # A camera's own noise reduction scatters from place to place, as texture does.
    if shaped and not camera and quiet.by_scatter().believed:
        quiet = quiet.by_scatter()
    return quiet, RAISED if camera else (0.0, 0.0)


def _by_steps(quiet: Quiet, y: Tensor, shaped: bool, steps: JpegSteps, full: float) -> Quiet | None:
    """Quiet places of a JPEG, less the texture in luma; None if a camera has processed the noise,
    as neither texture nor the file's rounding explains that it is gone at small scales.
    """
    own = jpeg_raise(quiet, y, steps, full)
    if own is None:
        return None
    # Rounding that takes noise away scatters in chroma as texture does.
    coarse = len(own[0]) > 1 and bool((own[0][1:] > COARSE).any())
    for believed in (quiet.by_scatter(luma_alone=coarse), quiet) if shaped else (quiet,):
        more = own if believed is quiet else jpeg_raise(believed, y, steps, full)
        if more is None:
            return None
        louder = believed.louder(*more)
        if (believed is quiet or believed.believed) and not processed(louder):
            return louder
    return None
