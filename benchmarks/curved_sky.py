"""What a flat, periodic patch costs: spectra and inferred (σ, H0, ω_b) on other skies.

    python benchmarks/curved_sky.py spectra
    python benchmarks/curved_sky.py infer --dust maps.npz --records runs/curved.jsonl

Skies: flat and periodic, as the likelihood has it; cut out of a flat sky three times as wide, which
is not periodic; curved, a plate carrée around the equator of a sphere, without waves finer than the
pixels; the same with these waves, which the pixels then alias. `spectra` needs no network. It
prints the mean power over the likelihood's N in rings of |k|, and what bias this makes to first
order if dust were Gaussian, F⁻¹ E[∂ log p], in units of the sd F^(-½):

    E[∂ log p] = ½ Σ_k w (N/T)² ∂ log N (P/N - 1),   T = S_x + N.

`infer` runs the marginal method on dust of the test block under the CMB of each sky, and prints the
mean of (mean - truth)/sd, its standard error and its sd from patch to patch.
"""

import argparse
from itertools import pairwise

import torch

from gibbsdiff.cosmo.gaussian import fisher
from gibbsdiff.cosmo.infer import dust_model, infer
from gibbsdiff.cosmo.mock import held_out, mock
from gibbsdiff.cosmo.skies import SKIES, curved_patch, draw_cmb
from gibbsdiff.fourier import half_plane, power
from gibbsdiff.inference.problem import Options
from gibbsdiff.io.digest import file_digest
from gibbsdiff.noise.cmb import CMBNoise
from gibbsdiff.streams import Streams
from records import Records

TRUTH = (0.5, 70.0, 0.032)
BANDS = (5, 30, 100, 300, 600, 900, 1200, 1350, 1600, 1910)  # edges in ℓ
SEED = 0


def drawn(sky, noise, shape, phi, key):
    rng = Streams(SEED, [(7, key)])
    if sky == "aliased":
        return curved_patch(noise, shape, phi, rng, aliased=True)
    return draw_cmb(noise, shape, phi, rng, sky).double()


def spectra(side, patches):
    """Ratios in rings, and the bias to first order, for every sky."""
    noise, signal = CMBNoise(), dust_model(side).signal
    phi, shape = torch.tensor([TRUTH], dtype=torch.float64), (side, side)
    groups, modes = noise.grouping(shape), half_plane(shape)
    band = torch.bucketize(noise.multipole(modes), torch.tensor(BANDS).double()) - 1
    member = torch.nn.functional.one_hot(band, len(BANDS) - 1).double() * modes.weight[:, None]
    member[0] = 0  # the mean of a patch is not used
    N = torch.exp(noise.log_power(groups.k, phi))[0]
    slopes = torch.autograd.functional.jacobian(lambda p: noise.log_power(groups.k, p), phi[0])
    S_x = groups.sum(signal.power(shape)[:, 0])[0] / groups.k.weight
    F = fisher(phi[0], signal, noise, shape)
    expected = torch.exp(noise.log_power(modes, phi))[0] @ member
    names = [f"ℓ {a}-{b}" for a, b in pairwise(BANDS)]
    print(f"mean ± standard error of {patches} patches of {side}², {noise.pixel:g}′ pixels")
    print("| sky | " + " | ".join(names) + " | σ | H0 | ω_b |")
    print("| --- |" + " --- |" * (len(names) + 3))
    for sky in (*SKIES, "aliased"):
        ratios, biases = [], []
        for i in range(patches):
            P = power(drawn(sky, noise, shape, phi, i))[:, 0]
            ratios.append(P.flatten() @ member / expected)
            score = 0.5 * (groups.k.weight * (N / (S_x + N)) ** 2) * (
                groups.sum(P)[0] / groups.k.weight / N - 1
            )  # fmt: skip
            biases.append(torch.linalg.solve(F, slopes.T @ score))
        sd = torch.linalg.inv(F).diagonal().sqrt()
        cells = [f"{m:.3f} ± {e:.3f}" for m, e in pairs(torch.stack(ratios))]
        cells += [f"{m:+.1f} ± {e:.1f}" for m, e in pairs(torch.stack(biases) / sd)]
        print(f"| {sky} | " + " | ".join(cells) + " |", flush=True)


def pairs(rows):
    """Mean and standard error of each column."""
    return zip(rows.mean(0).tolist(), (rows.std(0) / len(rows) ** 0.5).tolist(), strict=True)


def inferred(side, patches, dust, path):
    """The marginal method on each sky, the same dust and seed for all of them."""
    noise, found = CMBNoise(), dust_model(side)
    maps, names = held_out(dust, side, found.card)
    configuration = {"benchmark": "curved sky", "side": side, "dust": file_digest(dust)}
    records = Records(path, configuration)
    for i in range(patches):
        for sky in SKIES:
            if (sky, i) in records:
                continue
            mixture = mock(TRUTH, maps[i % len(maps)], noise, i, sky=sky)
            options = Options("marginal", 1, 400, 1, samples=0, seed=i)
            wide = infer(mixture, found, noise, options)
            rows = wide.rows
            records.add(
                (sky, i),
                dust=names[i % len(maps)],
                mean=[r.mean for r in rows],
                sd=[r.sd for r in rows],
                total_sd=[r.total_sd for r in rows],
                ended=wide.ended,
                calls=wide.calls,
                seconds=wide.seconds,
            )
            print(sky, i, records[sky, i]["mean"], f"{wide.seconds:.0f} s", flush=True)
    print(f"(mean - truth)/sd, with the network's own error; {patches} patches of {side}²")
    print("| sky | σ | H0 | ω_b | sd of each | sd given the network |")
    print("| --- | --- | --- | --- | --- | --- |")
    for sky in SKIES:
        some = [records[sky, i] for i in range(patches) if (sky, i) in records]
        mean, sd, raw = (
            torch.tensor([r[key] for r in some], dtype=torch.float64)
            for key in ("mean", "total_sd", "sd")
        )
        error = mean - torch.tensor(TRUTH, dtype=torch.float64)
        cells = [f"{m:+.2f} ± {e:.2f}" for m, e in pairs(error / sd)]
        cells.append(", ".join(f"{v:.2f}" for v in (error / sd).std(0)))
        cells.append(", ".join(f"{v:+.1f}" for v in (error / raw).mean(0)))
        print(f"| {sky} ({len(some)}) | " + " | ".join(cells) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("spectra", "infer"))
    parser.add_argument("--size", type=int, default=256)
    parser.add_argument("--patches", type=int, help="by default 100 spectra, 20 to infer")
    parser.add_argument("--dust", help="maps that the model was trained on, .npz")
    parser.add_argument("--records", default="runs/curved.jsonl")
    given = parser.parse_args()
    torch.set_num_threads(1)
    if given.what == "spectra":
        spectra(given.size, given.patches or 100)
    elif given.dust is None:
        parser.error("infer needs --dust")
    else:
        inferred(given.size, given.patches or 20, given.dust, given.records)


if __name__ == "__main__":
    main()
