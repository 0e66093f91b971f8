"""What a user would pick instead: BM3D, DnCNN, non-local means; and guided diffusion, DPS and ΠGDM.

The first three map an image y (C, H, W) and the noise's covariance, or None, to an estimate
(C, H, W); each says what it is told. The last two draw x | y, φ and fit into the Gibbs sampler.
"""

from gibbsdiff.evidence.baselines.anscombe import anscombe_bm3d
from gibbsdiff.evidence.baselines.bm3d import bm3d_as_used, bm3d_with_spectrum
from gibbsdiff.evidence.baselines.dncnn import DnCNN, load_dncnn
from gibbsdiff.evidence.baselines.guidance import dps, pigdm
from gibbsdiff.evidence.baselines.interface import Baseline
from gibbsdiff.evidence.baselines.nlm import non_local_means

__all__ = [
    "Baseline",
    "DnCNN",
    "anscombe_bm3d",
    "bm3d_as_used",
    "bm3d_with_spectrum",
    "dps",
    "load_dncnn",
    "non_local_means",
    "pigdm",
]
