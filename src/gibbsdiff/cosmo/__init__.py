"""Cosmology around the CMB noise: spectra from CAMB, and their emulator."""
