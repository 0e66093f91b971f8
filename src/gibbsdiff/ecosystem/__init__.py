"""Fits other packages: arrays as scikit-image has them, NDData, xarray, deepinv, napari."""
