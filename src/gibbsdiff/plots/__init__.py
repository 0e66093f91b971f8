"""Figures of a posterior, on matplotlib's objects: no display, no global state is touched."""

from gibbsdiff.plots.arithmetic import block_mean, mass_levels, radial_power
from gibbsdiff.plots.pages import figure, images, report, save
from gibbsdiff.plots.parameters import corner, corner_axes, corner_key, traces
from gibbsdiff.plots.pictures import picture, residual, uncertainty
from gibbsdiff.plots.spectrum import residual_spectrum

__all__ = [
    "block_mean",
    "corner",
    "corner_axes",
    "corner_key",
    "figure",
    "images",
    "mass_levels",
    "picture",
    "radial_power",
    "report",
    "residual",
    "residual_spectrum",
    "save",
    "traces",
    "uncertainty",
]
