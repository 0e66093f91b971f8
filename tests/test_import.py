"""`import gibbsdiff; gibbsdiff.denoise` loads torch and little else; benchmarks/import_time.py has
the time.
"""

import subprocess
import sys

import pytest

LATER = {
    "arviz",
    "astropy",
    "h5py",
    "matplotlib",
    "pandas",
    "rich",
    "scipy.interpolate",
    "scipy.stats",
    "skimage",
    "tifffile",
    "xarray",
}


ROOMS = "data.images data.maps data.dust io.picture pretrained training.loop training.release"


@pytest.mark.parametrize(
    "code",
    [
        "import gibbsdiff; gibbsdiff.denoise",
        "; ".join(f"import gibbsdiff.{module}" for module in ROOMS.split()),
    ],
    ids=["denoise", "rooms"],
)
def test_what_is_needed_later_is_imported_later(code):
    listing = [sys.executable, "-c", f"{code}; import sys; print(*sys.modules)"]
    done = subprocess.run(listing, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert LATER & set(done.stdout.split()) == set()
