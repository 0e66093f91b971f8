"""What a random symmetry of the square at each call is worth in Gibbs chains, and what it costs.

    python benchmarks/turned.py

Three crops of 128² under power-law noise, two seeds each, by `natural-fast`, 2 chains of 16 draws:
PSNR of the mean, of the plain average of draws and of one draw, and φ̂ with its sd. About ten
minutes of a core.
"""

import time

import torch
from skimage import data

from gibbsdiff import Options, PowerLawNoise, Streams, infer
from gibbsdiff.diffusion.boundary import on_device
from gibbsdiff.inference.setting import picture_problem
from gibbsdiff.metrics import psnr
from gibbsdiff.pretrained import load_for_pictures

SIDE = 128
CELLS = (
    ("astronaut", (20, 40), (0.1, -0.5)),
    ("chelsea", (20, 60), (0.15, 0.0)),
    ("coffee", (50, 100), (0.2, 0.5)),
)
SEEDS = (0, 1)


def crop(name, top, left):
    x = torch.from_numpy(getattr(data, name)()[::2, ::2].copy()).permute(2, 0, 1).float() / 255
    return x[:, top : top + SIDE, left : left + SIDE]


def main():
    torch.set_num_threads(1)
    denoiser = on_device(load_for_pictures("natural-fast"), "cpu")
    for name, place, phi in CELLS:
        x = crop(name, *place)
        # Of a larger field, so that it does not continue at the other border.
        field = PowerLawNoise().draw((2 * SIDE, 2 * SIDE), phi, Streams.batch(5, 1), 3)
        y = x + field[0, :, :SIDE, :SIDE].float()
        for seed in SEEDS:
            for turned in (False, True):
                problem, _ = picture_problem(y, PowerLawNoise(), {}, denoiser, on_unit_range=True)
                how = {"check": False, "stop_when_converged": False, "turned": turned}
                begun = time.process_time()
                (p,) = infer(problem, Options("gibbs", 2, 16, burn_in=4, seed=seed, **how))
                seconds = time.process_time() - begun
                scores = [float(psnr(part, x)) for part in (p.mean, p.average, p.samples[0])]
                draws = p.phi.flatten(0, 1)
                found = zip(p.names, draws.mean(0).tolist(), draws.std(0).tolist(), strict=True)
                print(
                    f"{name} {phi} seed {seed} {'turned ' if turned else 'upright'}"
                    f" PSNR {scores[0]:.2f} {scores[1]:.2f} {scores[2]:.2f} dB,",
                    ", ".join(f"{n} = {m:.4f} ± {s:.4f}" for n, m, s in found),
                    f"({p.calls} calls, {seconds:.0f} s)",
                    flush=True,
                )


if __name__ == "__main__":
    main()
